#!/bin/sh
# Fills dist/ with everything that is published, on Debian 12: `make release`. Each line makes
# one artefact; the scripts say what they need.
set -eu
cd "$(dirname "$0")/.."

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH PYTHONDONTWRITEBYTECODE=1
umask 022

rm -rf dist
mkdir dist
packaging/tools.sh
packaging/libraries.sh
packaging/program.sh x86_64
packaging/program.sh aarch64
packaging/wheel.sh x86_64
packaging/wheel.sh aarch64
packaging/engine_wheels.sh dist
packaging/python_wheel.py dist
packaging/sbom.py wheel dist/*.whl
packaging/sdist.sh dist
packaging/deb.sh dist
packaging/page.sh
[ -z "${URL:-}" ] || packaging/homebrew.sh dist
packaging/sign.sh dist
