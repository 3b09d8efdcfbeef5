#!/bin/sh
# Makes sure that the Debian packages of the named sets (and of the base set) are installed:
# installs missing ones as root or by sudo without a password; otherwise prints the command to
# type and fails. On other systems it only prints what is needed.
set -eu

base="gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libzstd-dev"
base="$base liblz4-dev zlib1g-dev libsqlite3-dev"
test="curl openssl libcmocka-dev python3 python3-dev python3-pytest python3-venv"
test="$test python3-yaml python3-jsonschema man-db groff-base strace abigail-tools minisign"
wasm="clang lld wasi-libc libclang-rt-dev-wasm32 nodejs dpkg-dev"
clang="clang libclang-rt-dev"
format="clang-format clang-tidy"
page="chromium chromium-driver fonts-dejavu-core python3-venv"
windows="wine wine64 python3-venv"
release="dpkg-dev tcl git make debhelper lintian diffoscope-minimal python3-venv xz-utils"
neon="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

wanted=$base
for set in "$@"; do
    case $set in
    test) wanted="$wanted $test" ;;
    wasm) wanted="$wanted $wasm" ;;
    clang) wanted="$wanted $clang" ;;
    format) wanted="$wanted $format" ;;
    page) wanted="$wanted $page" ;;
    neon) wanted="$wanted $neon" ;;
    windows) wanted="$wanted $windows" ;;
    release) wanted="$wanted $release" ;;
    *)
        echo "error: no package set '$set'; there are: test, wasm, clang, format, page, neon," \
            "release, windows" >&2
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

line="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then
    run=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    run="sudo"
else
    echo "error: packages are missing:$missing" >&2
    echo "hint: sudo $line" >&2
    exit 3
fi

echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# Package lists may be absent (fresh machine) or old: refresh them once.
$run apt-get update -qq
# shellcheck disable=SC2086
$run env DEBIAN_FRONTEND=noninteractive $line -qq >/dev/null
