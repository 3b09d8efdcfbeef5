#!/bin/sh
# Fills dist/ with everything that is published, on Debian 12: `make release`. Each line makes
# one artefact; the scripts say what they need.
set -eu
cd "$(dirname "$0")/.."

packaging/tools.sh
packaging/libraries.sh
packaging/program.sh x86_64
packaging/program.sh aarch64
packaging/wheel.sh x86_64
packaging/wheel.sh aarch64
