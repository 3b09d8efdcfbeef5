#!/bin/sh
# build/release-tools: a virtual environment with the tools of packaging/requirements.txt.
# zig is one of them: cmake/zig.cmake finds it there.
set -eu
cd "$(dirname "$0")/.."
tools=build/release-tools

cmp -s packaging/requirements.txt $tools/requirements.txt && exit 0
rm -rf $tools
"${PYTHON:-python3}" -m venv $tools
$tools/bin/pip install -q --require-hashes --only-binary :all: -r packaging/requirements.txt
cp packaging/requirements.txt $tools/
