#!/bin/sh
# make_page.sh MODULE FOLDER: puts the web page together: the files of page/ and the
# WebAssembly module. A digest of them all is the page's release, so that browsers
# that have kept an older one fetch the new one.
set -eu
module=$1 folder=$2
source=$(dirname "$0")/../page
rm -rf "$folder"
mkdir -p "$folder"
cp "$source/index.html" "$source/style.css" "$source/page.js" "$source/icon.svg" "$folder"
cp "$module" "$folder/anyflash.wasm"
chmod 644 "$folder"/*
release=$(cat "$folder"/* | sha256sum | cut -c 1-16)
sed -i "s/^const RELEASE = \"development\";.*/const RELEASE = \"$release\";/" "$folder/page.js"
grep -q "\"$release\"" "$folder/page.js"
