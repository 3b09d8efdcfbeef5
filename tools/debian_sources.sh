#!/bin/sh
# Debian's source packages, patched as Debian builds them: tools/debian_sources.sh FOLDER
# PACKAGE ... leaves FOLDER/PACKAGE, of the newest version that the system's apt offers and has:
# a mirror may list the sources of a security update before it has them. With --pinned
# first it is the version of packaging/sources.tsv, whose .dsc must have the SHA-256 given there.
# A folder that is complete already is left alone. apt checks the signatures, and the hashes
# in the .dsc.
set -eu
pins=$(dirname "$0")/../packaging/sources.tsv
pinned=false
[ "$1" != --pinned ] || { pinned=true && shift; }
folder=$1
shift

# pin PACKAGE FIELD: the version (2) or the SHA-256 (3) of its pin.
pin() { awk -F '\t' -v package="$1" -v field="$2" '$1 == package {print $field}' "$pins"; }

# versions PACKAGE: that of its pin, or all that apt offers, the newest first.
versions() {
    if $pinned; then
        pin "$1" 2
    else
        run apt-cache showsrc --only-source "$1" | sed -n 's/^Version: //p' | sort -ruV
    fi
}

missing=""
for package in "$@"; do
    [ -d "$folder/$package" ] &&
        { ! $pinned || [ "$(cat "$folder/$package.pin" 2>/dev/null)" = "$(pin "$package" 3)" ]; } ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "hint: unpack the sources of$missing into $folder" >&2
    ! $pinned
    exit
fi

# The system's package lists name binary packages only, as a rule: ours name the sources.
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$folder" "$apt/parts" "$apt/lists/partial"
chmod 755 "$apt"
for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$apt/parts/${file##*/}"
done
[ ! -f /etc/apt/sources.list ] ||
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$apt/parts/list.list"

run() {
    program=$1
    shift
    (cd "$apt" && "$program" -qq -o Dir::Etc::SourceList=/dev/null \
        -o Dir::Etc::SourceParts="$apt/parts" -o Dir::State::Lists="$apt/lists" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Sandbox::User="$(id -un)" "$@")
}
run apt-get update
for package in $missing; do
    found=false
    for version in $(versions "$package"); do
        ! run apt-get source --download-only "$package=$version" || { found=true && break; }
    done
    $found || { echo "error: no sources of $package could be downloaded" >&2 && exit 1; }
    dsc=$(echo "$apt/$package"_*.dsc)
    if $pinned && ! echo "$(pin "$package" 3)  $dsc" | sha256sum --check --status; then
        echo "error: '${dsc##*/}' does not have the SHA-256 of packaging/sources.tsv" >&2
        exit 1
    fi
    rm -rf "$folder/$package"
    dpkg-source --no-check -x "$dsc" "$apt/$package" >/dev/null
    mv "$apt/$package" "$folder/$package"
    ! $pinned || pin "$package" 3 >"$folder/$package.pin"
done
