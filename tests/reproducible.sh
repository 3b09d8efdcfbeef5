#!/usr/bin/env bash
# Builds the release of the last commit twice and compares the bytes of dist/: in folders of
# different names, with another time, time zone, locale, umask and home, and, as root, by
# another user. Called by `tests/run reproducible [COMMAND]`; COMMAND fills dist/.
set -euo pipefail
cd "$(dirname "$0")/.."

command=${*:-make release}
commit=$(git rev-parse HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
# A cache would give the second build the files of the first.
export CCACHE_DISABLE=1
unset SOURCE_DATE_EPOCH

# build FOLDER [VARIABLE=VALUE ...]: a clone in FOLDER, built by the command.
build() {
    local folder=$1
    mkdir -p "$folder/home" "$folder/tmp"
    git clone -q . "$folder/source"
    git -C "$folder/source" checkout -q "$commit"
    [ ${#as_user[@]} = 0 ] || chown -R nobody "$folder"
    (cd "$folder/source" && env HOME="$folder/home" TMPDIR="$folder/tmp" "${@:2}" "${as_user[@]}" \
        bash -c "$command") >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
}

echo "== first build: $command"
as_user=()
(umask 022; build "$work/a" TZ=UTC LC_ALL=C)
echo "== second build"
[ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
(umask 077; build "$work/another-folder" TZ=Asia/Kathmandu LC_ALL=C.UTF-8 LANGUAGE=de USER=other)

first=$work/a/source/dist second=$work/another-folder/source/dist
(cd "$first" && find . -type f ! -name '*.log' | sort) >"$work/names"
test -s "$work/names" || { echo "error: the command left nothing in dist/" >&2; exit 1; }
different=0
while read -r name; do
    cmp -s "$first/$name" "$second/$name" && continue
    different=1
    echo "error: the two builds of '$name' differ" >&2
    ! command -v diffoscope >/dev/null ||
        diffoscope --max-text-report-size 20000 "$first/$name" "$second/$name" >&2 || true
done <"$work/names"
[ $different = 0 ] || exit 1
echo "the same bytes: $(wc -l <"$work/names") files"
