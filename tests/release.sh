#!/usr/bin/env bash
# Tries the files of dist/ in new Debian systems: `tests/release.sh [RELEASE ...]`, by default
# Debian 11 (glibc 2.31), 12, 13, and 12 for arm64, which QEMU runs (package qemu-user-static
# and the kernel's binfmt_misc). release_inside.sh says what must work there. Ends 1 when something
# failed. RELEASE_WHEEL is a wheel of flash-attn for `inspect`; without it, our own is inspected.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/debian_roots.sh

# The kernel starts programs for arm64 with QEMU, which it keeps open (F), until the script ends.
register_arm64() {
    local folder=/proc/sys/fs/binfmt_misc
    command -v qemu-aarch64-static >/dev/null ||
        { echo "error: arm64 needs the package qemu-user-static" >&2; exit 3; }
    # An ELF file of 64 bits for AArch64 (183).
    local magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    local mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    [ -e $folder/register ] || mount -t binfmt_misc none $folder
    [ ! -e $folder/qemu-aarch64 ] || return 0
    printf ':qemu-aarch64:M::%s:%s:%s:F' "$magic" "$mask" /usr/bin/qemu-aarch64-static \
        >$folder/register
    trap 'echo -1 >/proc/sys/fs/binfmt_misc/qemu-aarch64' EXIT
}

# try_release RELEASE[-arm64]: a copy of the base with dist/, one line of summary.
try_release() {
    local work=$roots/$1.release log=$roots/$1.release.log
    : >"$log"
    rm -rf --one-file-system "$work"
    make_base "$1" "$log" || { echo "$1: no base root, see $log"; tail -n 5 "$log"; return 1; }
    cp -a --reflink=auto "$roots/$1.base" "$work"
    mkdir "$work/opt/dist"
    cp dist/*.whl dist/*.tar.gz ${RELEASE_WHEEL:+"$RELEASE_WHEEL"} "$work/opt/dist/"
    cp tests/release_inside.sh "$work/opt/"
    if ! inside "$work" "sh /opt/release_inside.sh ${RELEASE_WHEEL##*/}" >>"$log" 2>&1 </dev/null
    then
        echo "$1: failed, see $log"
        tail -n 15 "$log" | sed 's/^/    /'
        return 1
    fi
    echo "$1: $(tail -n 1 "$log")"
    rm -rf --one-file-system "$work"
}

RELEASE_WHEEL=${RELEASE_WHEEL:-}
failed=0
[ $# -gt 0 ] || set -- 11 12 13 12-arm64
for release in "$@"; do
    case $release in
    *-arm64) register_arm64 ;;
    esac
    try_release "$(codename "$release")" || failed=1
done
exit $failed
