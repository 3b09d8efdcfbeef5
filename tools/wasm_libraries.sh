#!/bin/sh
# The sources of the libraries that the WebAssembly module is compiled with, from
# Debian's source packages: tools/wasm_libraries.sh FOLDER leaves FOLDER/jansson and
# FOLDER/libzstd. Does nothing if they exist already. apt checks signatures
# and hashes.
set -eu
folder=$1
packages="jansson libzstd"

missing=""
for package in $packages; do
    [ -d "$folder/$package" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "hint: unpack the sources of$missing into $folder for the WebAssembly module" >&2
    exit 0
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
    (cd "$apt" && apt-get -qq -o Dir::Etc::SourceList=/dev/null \
        -o Dir::Etc::SourceParts="$apt/parts" -o Dir::State::Lists="$apt/lists" \
        -o APT::Sandbox::User="$(id -un)" "$@")
}
run update
for package in $missing; do
    run source --download-only "$package"
    rm -rf "$folder/$package.new"
    mkdir "$folder/$package.new"
    tar -xf "$apt/$package"_*.orig.tar.*z -C "$folder/$package.new" --strip-components=1
    mv "$folder/$package.new" "$folder/$package"
done
