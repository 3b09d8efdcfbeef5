#!/bin/sh
# Makes sure that the Debian packages of the named sets are there (always the
# base set): installs what is missing as root or by sudo without a password,
# else prints the one line to type and fails. On other systems it only says
# what is needed.
set -eu

base="gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libelf-dev libzstd-dev"
base="$base liblz4-dev zlib1g-dev nettle-dev libsqlite3-dev"
test="libcurl4 openssl libcmocka-dev python3 python3-pytest python3-venv python3-yaml python3-jsonschema"
test="$test man-db groff-base"
clang="clang libclang-rt-14-dev clang-format"
neon="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

wanted=$base
for set in "$@"; do
    case $set in
    test) wanted="$wanted $test" ;;
    clang) wanted="$wanted $clang" ;;
    neon) wanted="$wanted $neon" ;;
    *) echo "error: no package set '$set'; there are: test, clang, neon" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "hint: this build needs the equivalents of these Debian packages: $wanted" >&2
    exit 0
fi

missing=""
for package in $wanted; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    case $status in
    *" installed") ;;
    *) missing="$missing $package" ;;
    esac
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
