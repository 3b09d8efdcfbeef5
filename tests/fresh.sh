#!/usr/bin/env bash
# Runs the README's two commands in new, minimal Debian systems: `tests/fresh.sh [RELEASE ...]`.
# For each release (bookworm, trixie and forky; 12 and 13 are understood) debootstrap makes a
# minbase root with make, git and ca-certificates; a copy of it gets a clone of HEAD and runs
# `make run` and `make test` by chroot. Ends 1 when one failed, with what failed and the log.
#
# Needs root, debootstrap and a Debian mirror: DEBIAN_MIRROR, else that of this machine's apt.
# The base roots stay in build/fresh; remove one to make it anew.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/build/fresh
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' \
    'Created-By: Packages' 2>/dev/null | awk '$1 == "Debian" {print $2; exit}')}

codename() {
    case $1 in
    12) echo bookworm ;;
    13) echo trixie ;;
    *) echo "$1" ;;
    esac
}

# make_base RELEASE LOG: build/fresh/RELEASE.base, with this machine's ways to the network.
make_base() {
    local base=$folder/$1.base
    [ ! -d "$base" ] || return 0
    rm -rf "$base.new"
    # Every release since bookworm is made by the script of sid; debootstrap may not know all.
    debootstrap --variant=minbase --include=make,git,ca-certificates "$1" "$base.new" \
        ${mirror:+"$mirror" /usr/share/debootstrap/scripts/sid} >>"$2" 2>&1 || return 1
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
system_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# What failed, from the end of a log: ctest's list, else the last lines.
explain_failure() {
    if grep -q '^The following tests FAILED' "$1"; then
        sed -n '/^The following tests FAILED/,/^Errors while/p' "$1"
    else
        tail -n 15 "$1"
    fi | sed 's/^/    /'
}

# try_release RELEASE: a copy of the base, both commands, one line of summary.
try_release() {
    local work=$folder/$1.work log=$folder/$1.log command begin
    local summary="$1:"
    : >"$log"
    rm -rf --one-file-system "$work"
    make_base "$1" "$log" || { echo "$1: no base root, see $log"; tail -n 5 "$log"; return 1; }
    cp -a --reflink=auto "$folder/$1.base" "$work"
    git bundle create -q "$work/opt/head.bundle" HEAD
    inside "$work" 'git clone -q /opt/head.bundle /opt/anyflash' >>"$log" 2>&1
    for command in "make run" "make test"; do
        begin=$SECONDS
        echo "== $command" >>"$log"
        if ! inside "$work" "cd /opt/anyflash; $command" >>"$log" 2>&1 </dev/null; then
            echo "$summary $command failed after $((SECONDS - begin)) s, see $log"
            explain_failure "$log"
            return 1
        fi
        summary="$summary $command passed in $((SECONDS - begin)) s,"
    done
    echo "${summary%,}"
    rm -rf --one-file-system "$work"
}

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "error: new Debian systems are made by root with debootstrap" >&2
    exit 3
fi
[ -z "$(git status --porcelain)" ] || echo "note: what is not committed is not tested"
mkdir -p "$folder"
failed=0
[ $# -gt 0 ] || set -- bookworm trixie forky
for release in "$@"; do
    try_release "$(codename "$release")" || failed=1
done
exit $failed
