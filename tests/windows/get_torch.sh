#!/bin/sh
# get_torch.sh RELEASE FOLDER: the DLLs of torch RELEASE for Windows, and those of Microsoft's
# C++ runtime, in FOLDER; does nothing if they are there. Needs build/release-tools and PyPI.
set -eu
release=$1
folder=$2
[ ! -e "$folder/torch_cpu.dll" ] || exit 0

rm -rf "$folder.new"
build/release-tools/bin/pip download -q --no-deps --only-binary :all: --platform win_amd64 \
    --python-version 3.12 -d "$folder.new/wheels" "torch==$release" msvc-runtime==14.51.36231
python3 - "$folder.new" <<'PYTHON'
import pathlib
import sys
import zipfile

folder = pathlib.Path(sys.argv[1])
for wheel in (folder / "wheels").iterdir():
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("torch/lib/") or "/Scripts/" in name:
                if name.endswith(".dll"):
                    (folder / pathlib.PurePath(name).name).write_bytes(archive.read(name))
    wheel.unlink()
PYTHON
mv "$folder.new" "$folder"
