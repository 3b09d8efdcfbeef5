# Debian systems in folders, for scripts that try something in a new one. Sourced by bash; sets
# `roots`, the folder of the systems. Needs root, debootstrap and a Debian mirror: DEBIAN_MIRROR,
# else that of this machine's apt. Base systems stay in build/fresh; remove one to make it anew.
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
# network.
make_base() {
    local base=$roots/$1.base
    [ ! -d "$base" ] || return 0
    rm -rf --one-file-system "$base.new"
    # Every release since bookworm is made by the script of sid; debootstrap may not know all.
    case $1 in
    *-*) set -- "${1%-*}" "$2" --arch="${1##*-}" ;;
    esac
    # What it mounts ends with it, also if it is killed.
    unshare --mount debootstrap --variant=minbase --include=make,git,ca-certificates "${@:3}" \
        "$1" "$base.new" ${mirror:+"$mirror" /usr/share/debootstrap/scripts/sid} \
        >>"$2" 2>&1 || return 1
    apt-config dump | grep -E '^Acquire::(Check-|https?::)' \
        >"$base.new/etc/apt/apt.conf.d/99machine" || true
    cp /etc/resolv.conf /etc/hosts "$base.new/etc/"
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$base.new/usr/local/share/ca-certificates/"
        chroot "$base.new" update-ca-certificates >>"$2" 2>&1
    fi
    mv "$base.new" "$base"
}

# inside ROOT COMMAND: runs it as root of ROOT. The mounts end with the command.
inside() {
    # shellcheck disable=SC2016
    unshare --mount sh -euc 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
        shift; exec chroot "$@"' sh "$1" "$1" env -i HOME=/opt PATH="$system_path" \
        TERM=dumb ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} sh -euc "$2"
}

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "error: new Debian systems are made by root with debootstrap" >&2
    exit 3
fi
mkdir -p "$roots"
