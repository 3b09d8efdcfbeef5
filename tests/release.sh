#!/usr/bin/env bash
# Tries the files of dist/ in new Debian systems: `tests/release.sh [RELEASE ...]`, by default
# Debian 11 (glibc 2.31), 12, 13, and 12 for arm64, which QEMU runs (package qemu-user-static
# and the kernel's binfmt_misc). release_inside.sh says what must work there. Ends 1 when something
# failed. RELEASE_WHEEL is a wheel with CUDA code for `inspect`; without it, our own is inspected.
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

# get_torch NAME: torch for the Python of a release without a recent python3-torch, in
# build/release-torch/NAME. UV_TORCH_BACKEND=cpu takes PyTorch's builds without CUDA, which are
# much smaller; for arm64 there are no others.
get_torch() {
    local python=3.11 torch=2.9.1 platform=x86_64
    case $1 in
    trixie* | forky*) return 0 ;;
    bullseye*) python=3.9 torch=2.4.1 ;;
    esac
    case $1 in
    *-arm64) platform=aarch64 ;;
    esac
    [ ! -d "$torches/$1" ] || return 0
    rm -rf "$torches/$1.new"
    uv pip install -q --target "$torches/$1.new" --only-binary :all: --python-version $python \
        --python-platform $platform-manylinux_2_28 torch==$torch numpy &&
        mv "$torches/$1.new" "$torches/$1"
}

# try_release RELEASE[-arm64]: a copy of the base with dist/, one line of summary.
try_release() {
    local work=$roots/$1.release log=$roots/$1.release.log
    : >"$log"
    rm -rf --one-file-system "$work"
    make_base "$1" "$log" || return 1
    cp -a --reflink=auto "$roots/$1.base" "$work"
    mkdir "$work/opt/dist"
    cp dist/*.whl dist/*.tar.gz ${RELEASE_WHEEL:+"$RELEASE_WHEEL"} "$work/opt/dist/"
    cp tests/release_inside.sh tests/release_torch.py "$work/opt/"
    get_torch "$1" >>"$log" 2>&1 || { echo "$1: no torch, see $log"; return 1; }
    [ ! -d "$torches/$1" ] || cp -al "$torches/$1" "$work/opt/torch"
    if ! inside "$work" "sh /opt/release_inside.sh ${RELEASE_WHEEL##*/}" >>"$log" 2>&1 </dev/null
    then
        echo "$1: failed, see $log"
        tail -n 15 "$log" | sed 's/^/    /'
        return 1
    fi
    echo "$1: $(tail -n 1 "$log")"
    rm -rf --one-file-system "$work"
}

torches=build/release-torch
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
