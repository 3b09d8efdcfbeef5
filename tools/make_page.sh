#!/bin/sh
# URL=PROJECT make_page.sh MODULE FOLDER: puts the web page together: the files of page/, with the parts
# of its script joined to page.js, and the WebAssembly module. A digest of all of them is the
# page's release, by which browsers notice that the copy they have kept is old. FOLDER.html is
# the same page in one file, which needs no web server. The page links to the project at URL and
# its release of this version, and has no links without it.
set -eu
module=$1 folder=$2
source=$(dirname "$0")/../page
rm -rf "$folder"
mkdir -p "$folder"
cp "$source/index.html" "$source/style.css" "$source/icon.svg" "$folder"
if [ -n "${URL:-}" ]; then
    version=$(sed -n 's/^#define ANYFLASH_VERSION_[MP][A-Z]* //p' "$source/../include/anyflash/anyflash.h" | paste -s -d .)
    sed -i "s|@URL@|$URL|g; s|@VERSION@|$version|g" "$folder/index.html"
else
    sed -i '/^<ul class="links">$/,/^<\/ul>$/d' "$folder/index.html"
fi
for part in workers request answer choices paste start; do
    cat "$source/script/$part.js"
done >"$folder/page.js"
cp "$module" "$folder/anyflash.wasm"
chmod 644 "$folder"/*
release=$(cat "$folder"/* | sha256sum | cut -c 1-16)
sed -i "s/^const RELEASE = \"development\";.*/const RELEASE = \"$release\";/" "$folder/page.js"
grep -q "\"$release\"" "$folder/page.js"

# The page in one file: its policy allows no request, and no script but the one whose hash it has.
hash=$(sha256sum "$folder/page.js" | cut -c 1-64 | perl -ne 'chomp; print pack "H*", $_' | base64)
{
    sed -e '/^<link rel=/d; /^<script /d; /^<\/head>/,$d' \
        -e "s|script-src 'self'|script-src 'sha256-$hash'|" \
        -e "s|style-src 'self'|style-src 'unsafe-inline'|; s|connect-src 'self'|connect-src data:|" \
        -e "s|worker-src 'self'|worker-src blob:|; s|img-src 'self'; ||" "$folder/index.html"
    echo "<style>"
    cat "$folder/style.css"
    echo "</style>"
    sed -n '/^<\/head>/,/^<p id="said"/p' "$folder/index.html"
    printf '<script type="application/octet-stream" id="module">'
    base64 "$module" | tr -d '\n'
    printf '</script>\n<script>'
    cat "$folder/page.js"
    printf '</script>\n</body>\n</html>\n'
} >"$folder.html"
