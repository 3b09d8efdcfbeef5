#!/usr/bin/env bash
# Runs the README's commands in new, minimal Debian systems: `tests/fresh.sh [RELEASE ...]
# [user] [root]`, by default bookworm, trixie and forky (12 and 13 are understood), first as a
# user with umask 002 who may use sudo, then as root. A system has make, git, ca-certificates and
# sudo, and a clone of HEAD with the path of this one. There it runs what tests/readme.py prints,
# `make run` and `make test` first, none of which may leave a file that git does not ignore;
# PRESET is passed on. Ends 1 when one failed, with what failed and the log. A system that passed
# is removed; with --keep-build its build folders replace those of the same names in build/.
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

# make_clone ROOT ACCOUNT UMASK: a clone of HEAD, in folders that the account may enter.
make_clone() {
    local folder=$PWD
    (umask "$3" && git clone -q "file://$PWD" "$1$PWD")
    chroot "$1" chown -R "$2:" "$PWD"
    until folder=$(dirname "$folder") && [ "$folder" = / ]; do chmod a+rx "$1$folder"; done
}

# keep_build ROOT: its build folders, without copying them.
keep_build() {
    local folder
    for folder in "$1$PWD"/build/*/; do
        rm -rf "build/$(basename "$folder")"
        mv "$folder" build/
    done
}

# try_system RELEASE ACCOUNT: a copy of the base, each command, one line of summary.
try_system() {
    local name=$1-$2 command begin
    local work=$roots/$name.work log=$roots/$name.log summary="$1, $2:" umask=022
    [ "$2" = root ] || umask=002
    : >"$log"
    rm -rf --one-file-system "$work"
    make_base "$1" "$log" || return 1
    cp -a --reflink=auto "$roots/$1.base" "$work"
    make_clone "$work" "$2" $umask >>"$log" 2>&1 || { explain_failure "$log"; return 1; }
    for command in "${commands[@]}"; do
        begin=$SECONDS
        echo "== $command" >>"$log"
        if ! inside "$work" "umask $umask; cd '$PWD'; ${PRESET:+export PRESET=$PRESET;} $command" \
            "$2" "$roots/$1.packages" >>"$log" 2>&1 </dev/null; then
            echo "$summary ${command%%  *} failed after $((SECONDS - begin)) s, see $log"
            explain_failure "$log"
            return 1
        fi
        summary="$summary ${command%%  *} passed in $((SECONDS - begin)) s,"
    done
    if [ -n "$(git -C "$work$PWD" -c safe.directory='*' status --porcelain)" ]; then
        echo "$summary but files are left that git does not ignore:"
        git -C "$work$PWD" -c safe.directory='*' status --porcelain
        return 1
    fi
    echo "${summary%,}"
    ! $keep || keep_build "$work"
    rm -rf --one-file-system "$work"
}

keep=false failed=0 releases=() accounts=()
mapfile -t commands < <(python3 -B tests/readme.py)
for word in "$@"; do
    case $word in
    --keep-build) keep=true ;;
    user | root) accounts+=("$word") ;;
    *) releases+=("$(codename "$word")") ;;
    esac
done
[ ${#releases[@]} -gt 0 ] || releases=(bookworm trixie forky)
[ ${#accounts[@]} -gt 0 ] || accounts=(user root)
[ -z "$(git status --porcelain)" ] || echo "note: what is not committed is not tested"
for release in "${releases[@]}"; do
    for account in "${accounts[@]}"; do
        try_system "$release" "$account" || failed=1
    done
done
exit $failed
