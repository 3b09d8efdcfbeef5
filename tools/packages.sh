#!/bin/sh
# Makes sure that the Debian packages of the named sets (and of the base set) are installed:
# installs missing ones as root or by sudo, which may ask for a password if there is a terminal;
# otherwise prints the command to type and fails. On other systems it only prints what is needed.
set -eu

base="gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libzstd-dev"
base="$base liblz4-dev zlib1g-dev libsqlite3-dev"
test="curl openssl libcmocka-dev python3 python3-dev python3-pytest python3-venv"
test="$test python3-yaml python3-jsonschema man-db groff-base strace abigail-tools minisign zstd"
wasm="clang lld wasi-libc libclang-rt-dev-wasm32 nodejs dpkg-dev"
clang="clang libclang-rt-dev"
format="clang-format clang-tidy"
page="chromium chromium-driver fonts-dejavu-core python3-venv"
windows="wine wine64 python3-venv"
release="dpkg-dev tcl git make debhelper lintian diffoscope-minimal python3-venv xz-utils"
fresh="debootstrap"
kernels="zstd g++ python3-venv"
neon="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

wanted=$base
for set in "$@"; do
    case $set in
    test) wanted="$wanted $test" ;;
    wasm) wanted="$wanted $wasm" ;;
    clang) wanted="$wanted $clang" ;;
    format) wanted="$wanted $format" ;;
    page) wanted="$wanted $page" ;;
    fresh) wanted="$wanted $fresh" ;;
    neon) wanted="$wanted $neon" ;;
    windows) wanted="$wanted $windows" ;;
    release) wanted="$wanted $release" ;;
    kernels) wanted="$wanted $kernels" ;;
    *)
        echo "error: no package set '$set'; there are: test, wasm, clang, format, page, fresh," \
            "kernels, neon, release, windows" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "hint: this build needs the equivalents of these Debian packages: $wanted" >&2
    exit 0
fi

# What is installed, by its own name and by those that it provides (pkgconf: pkg-config).
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}, ${Provides}\n' |
    sed -n 's/^installed //p' | tr ',' '\n' | sed 's/ *(.*//; s/ //g')
missing=""
for package in $wanted; do
    printf '%s\n' "$installed" | grep -qx "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

# Package lists may be absent (fresh machine) or old: refresh them once.
update="apt-get update"
install="apt-get install -y --no-install-recommends$missing"
explain() {
    echo "error: packages are missing:$missing" >&2
    if command -v sudo >/dev/null 2>&1; then
        echo "hint: sudo $update && sudo $install" >&2
    else
        echo "hint: as root: $update && $install" >&2
    fi
    exit 3
}

sudo=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || explain
    sudo="sudo"
    if ! sudo -n true 2>/dev/null; then
        { [ -t 0 ] && [ -t 2 ]; } || explain
        echo "Debian packages are missing; sudo asks for your password to install them."
        sudo -v || explain
    fi
fi

echo "installing:$missing"
# shellcheck disable=SC2086
$sudo $update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null
