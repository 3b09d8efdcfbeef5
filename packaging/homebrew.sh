#!/bin/sh
# Writes FOLDER/anyflash.rb, the Homebrew formula of the source distribution in FOLDER.
#
#   URL=https://... packaging/homebrew.sh FOLDER        the project's address
set -eu
cd "$(dirname "$0")/.."
folder=${1:?"names no folder: packaging/homebrew.sh FOLDER"}
url=${URL:?"is not set: the address of the project, under which its releases are"}
version=$(python3 -B packaging/version.py)
sum=$(sha256sum "$folder/anyflash-$version.tar.gz" | cut -d ' ' -f 1)
sed "s|@URL@|$url|g; s|@VERSION@|$version|g; s|@SHA256@|$sum|" packaging/homebrew.rb.in \
    >"$folder/anyflash.rb"
