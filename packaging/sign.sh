#!/bin/sh
# Signs the files of a release: FOLDER/SHA256SUMS and its signature SHA256SUMS.minisig.
#
#   MINISIGN_KEY=FILE packaging/sign.sh FOLDER      the secret key, never in the repository
#   MINISIGN_PUBLIC=FILE ...                        also checks the signature with this key
#
# Without MINISIGN_KEY it writes the sums alone.
set -eu
folder=${1:?"names no folder: packaging/sign.sh FOLDER"}
cd "$folder"
rm -f SHA256SUMS SHA256SUMS.minisig
LC_ALL=C
export LC_ALL
sums=$(find . -type f | sed 's|^\./||' | sort | tr '\n' '\0' | xargs -0 sha256sum)
printf '%s\n' "$sums" >SHA256SUMS
[ -n "${MINISIGN_KEY:-}" ] || exit 0
minisign -S -s "$MINISIGN_KEY" -m SHA256SUMS -t "SHA256SUMS of anyflash" >/dev/null
[ -z "${MINISIGN_PUBLIC:-}" ] || minisign -V -q -p "$MINISIGN_PUBLIC" -m SHA256SUMS
