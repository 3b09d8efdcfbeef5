# Debian systems in folders, for scripts that try something in a new one. Sourced by bash; sets
# `roots`, the folder of the systems. Needs root, debootstrap and a Debian mirror: DEBIAN_MIRROR,
# else that of this machine's apt. Base systems and packages stay in build/fresh; remove a base
# to make it anew.
roots=$PWD/build/fresh
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' \
    'Created-By: Packages' 2>/dev/null | awk '$1 == "Debian" {print $2; exit}')}
system_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

codename() {
    case $1 in
    11*) echo "bullseye${1#11}" ;;
    12*) echo "bookworm${1#12}" ;;
    13*) echo "trixie${1#13}" ;;
    *) echo "$1" ;;
    esac
}

# make_base RELEASE[-ARCHITECTURE] LOG: build/fresh/....base, with this machine's ways to the
# network, and build/fresh/....packages, the packages downloaded for it. `user` may use sudo
# without a password there.
make_base() {
    local base=$roots/$1.base packages=$roots/$1.packages
    [ ! -d "$base/home/user" ] || return 0
    rm -rf --one-file-system "$base.new" "$base"
    mkdir -p "$packages/partial"
    # Every release since bookworm is made by the script of sid; debootstrap may not know all.
    case $1 in
    *-*) set -- "${1%-*}" "$2" --arch="${1##*-}" ;;
    esac
    # What it mounts ends with it, also if it is killed.
    if ! unshare --mount debootstrap --variant=minbase --cache-dir="$packages" \
        --include=make,git,ca-certificates,sudo "${@:3}" \
        "$1" "$base.new" ${mirror:+"$mirror" /usr/share/debootstrap/scripts/sid} >>"$2" 2>&1; then
        echo "error: debootstrap could not make a Debian $1 from ${mirror:-its usual mirror}:" >&2
        tail -n 5 "$2" >&2
        return 1
    fi
    apt-config dump | grep -E '^Acquire::(Check-|https?::)' \
        >"$base.new/etc/apt/apt.conf.d/99machine" || true
    cp /etc/resolv.conf /etc/hosts "$base.new/etc/"
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$base.new/usr/local/share/ca-certificates/"
        chroot "$base.new" update-ca-certificates >>"$2" 2>&1
    fi
    printf '%s\n' 'Defaults env_keep += "http_proxy https_proxy no_proxy PRESET"' \
        'user ALL=(ALL) NOPASSWD: ALL' >"$base.new/etc/sudoers.d/user"
    chroot "$base.new" useradd --shell /bin/bash --create-home user
    mv "$base.new" "$base"
}

# inside ROOT COMMAND [USER [PACKAGES]]: runs it as root of ROOT, or as USER, with PACKAGES as
# the folder of downloaded packages. The mounts end with the command. After chroot alone the
# kernel would allow no user namespace.
inside() {
    # shellcheck disable=SC2016
    unshare --mount sh -euc 'mount --bind "$1" "$1"
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"; mount --rbind /sys "$1/sys"
        [ -z "$2" ] || mount --bind "$2" "$1/var/cache/apt/archives"
        cd "$1"; shift 2; pivot_root . mnt; umount -l /mnt; exec chroot "$@"' \
        sh "$1" "${4:-}" --userspec="${3:-root}" / env -i \
        HOME="$([ "${3:-root}" = root ] && echo /opt || echo "/home/$3")" PATH="$system_path" \
        TERM=dumb ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} sh -euc "$2"
}

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "error: new Debian systems are made by root with debootstrap" >&2
    echo "hint: apt-get install debootstrap" >&2
    exit 3
fi
mkdir -p "$roots"
