#!/usr/bin/env bash
# Installs the Debian packages in new, minimal Debian systems and uses them: the program, the
# manual, completion in bash, `anyflash package install`, the library and its example; then
# removes them. `tests/deb.sh [RELEASE ...]` (12 and 13), after packaging/deb.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/debian_roots.sh

# What is run there; /opt has the packages.
try='export DEBIAN_FRONTEND=noninteractive
quietly() { "$@" >/opt/log 2>&1 || { tail -n 20 /opt/log; exit 1; }; }
fail() { echo "error: $*"; exit 1; }
quietly apt-get update
# Images without manuals leave out what the test looks at.
rm -f /etc/dpkg/dpkg.cfg.d/docker /etc/dpkg/dpkg.cfg.d/excludes
quietly apt-get install -y --no-install-recommends \
    bash-completion gcc libc6-dev man-db pkg-config python3-venv
quietly apt-get install -y --no-install-recommends /opt/*.deb

anyflash --version
anyflash plan --json >/opt/plan.json || test $? -eq 1
man anyflash | grep -q "flash-attn" || fail "no manual"
bash -c ". /usr/share/bash-completion/bash_completion; _completion_loader anyflash
    COMP_WORDS=(anyflash pla); COMP_CWORD=1; COMP_LINE=\"anyflash pla\"; COMP_POINT=12
    \$(complete -p anyflash | sed \"s/.*-F \([^ ]*\).*/\1/\") anyflash pla anyflash
    test \"\${COMPREPLY[*]}\" = plan" || fail "no completion"
anyflash bench --quick --filter "forward f32 S512" >/opt/log || fail "no benchmark"

python3 -m venv /opt/venv
quietly anyflash package install --python /opt/venv
PYTHONDONTWRITEBYTECODE=1 /opt/venv/bin/python -c "import anyflash; anyflash.set_threads(1)"
PYTHONPATH=/usr/libexec/anyflash/python python3 -B -c "import anyflash; anyflash.set_threads(1)"

example=/usr/share/doc/libanyflash-dev/examples/attend.c
cc "$example" $(pkg-config --cflags --libs anyflash) -o /opt/shared
cc "$example" -l:libanyflash.a -lm -lpthread -o /opt/static
/opt/shared >/opt/log && /opt/static >>/opt/log || fail "the example does not run"
quietly dpkg --verify anyflash libanyflash0 libanyflash-dev
quietly apt-get purge -y anyflash libanyflash0 libanyflash-dev
for left in /usr/bin/anyflash /usr/libexec/anyflash /usr/include/anyflash; do
    test ! -e "$left" || fail "left behind: $left"
done'

failed=0
[ $# -gt 0 ] || set -- 12 13
for release in "$@"; do
    name=$(codename "$release") work=$roots/deb.$release
    rm -rf --one-file-system "$work"
    make_base "$name" "$roots/deb.log" || exit 1
    cp -a --reflink=auto "$roots/$name.base/." "$work"
    cp build/deb/*.deb "$work/opt/"
    echo "== $name"
    inside "$work" "$try" || { echo "$name: failed"; failed=1; }
    rm -rf --one-file-system "$work"
done
exit $failed
