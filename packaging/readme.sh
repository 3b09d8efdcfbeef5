#!/bin/sh
# Prints README.md. With URL, the project's address, it has the links and commands that need one:
# those in its comments, the page's address, and `git clone`.
#
#   URL=https://github.com/OWNER/NAME packaging/readme.sh
set -eu
cd "$(dirname "$0")/.."
url=${URL:-}
if [ -z "$url" ] || ! grep -q '<!--@URL@$' README.md; then
    cat README.md
    exit
fi
version=$(python3 -B packaging/version.py)
page=$(echo "$url" | sed 's|^https://github.com/\([^/]*\)/|https://\1.github.io/|')
sed -e '/^<!--@URL@$/d; /^-->$/d' -e "s|([^()]*)<!--@PAGE@-->|($page)|" \
    -e "/^make run /i git clone $url && cd $(basename "$url")" \
    -e "s|@URL@|$url|g; s|@VERSION@|$version|g" README.md
