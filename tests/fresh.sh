#!/usr/bin/env bash
# Runs the README's two commands in new, minimal Debian systems: `tests/fresh.sh [RELEASE ...]`.
# For each release (bookworm, trixie and forky; 12 and 13 are understood) debootstrap makes a
# minbase root with make, git and ca-certificates; a copy of it gets a clone of HEAD and runs
# `make run` and `make test` by chroot. Ends 1 when one failed, with what failed and the log.
# tests/debian_roots.sh says what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."

. tests/debian_roots.sh

# What failed, from the end of a log: ctest's list, else the last lines.
explain_failure() {
    if grep -q '^The following tests FAILED' "$1"; then
        sed -n '/^The following tests FAILED/,/^Errors while/p' "$1"
    else
        tail -n 15 "$1"
    fi | sed 's/^/    /'
}

# try_release RELEASE: a copy of the base, both commands, one line of summary.
try_release() {
    local work=$roots/$1.work log=$roots/$1.log command begin
    local summary="$1:"
    : >"$log"
    rm -rf --one-file-system "$work"
    make_base "$1" "$log" || { echo "$1: no base root, see $log"; tail -n 5 "$log"; return 1; }
    cp -a --reflink=auto "$roots/$1.base" "$work"
    git bundle create -q "$work/opt/head.bundle" HEAD
    inside "$work" 'git clone -q /opt/head.bundle /opt/anyflash' >>"$log" 2>&1
    for command in "make run" "make test"; do
        begin=$SECONDS
        echo "== $command" >>"$log"
        if ! inside "$work" "cd /opt/anyflash; $command" >>"$log" 2>&1 </dev/null; then
            echo "$summary $command failed after $((SECONDS - begin)) s, see $log"
            explain_failure "$log"
            return 1
        fi
        summary="$summary $command passed in $((SECONDS - begin)) s,"
    done
    echo "${summary%,}"
    rm -rf --one-file-system "$work"
}

[ -z "$(git status --porcelain)" ] || echo "note: what is not committed is not tested"
failed=0
[ $# -gt 0 ] || set -- bookworm trixie forky
for release in "$@"; do
    try_release "$(codename "$release")" || failed=1
done
exit $failed
