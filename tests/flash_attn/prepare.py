"""Downloads flash-attn's own tests and changes them to run on a CPU; `tests/run flash-attn`.

    python tests/flash_attn/prepare.py FOLDER

They are in the sdist on PyPI, under the BSD licence of flash-attn.
FOLDER gets tests_on_cpu.py, in which the device is "cpu" and queries for a GPU's generation and
memory are answered like an A100 with enough memory. Nothing else is changed. Needs pip, and
setuptools, wheel, packaging, psutil and torch, which the sdist's setup.py imports.
"""

import os
import pathlib
import re
import subprocess
import sys
import tarfile

RELEASE = "2.8.3.post2"
CHANGES = (
    (r'torch\.cuda\.get_device_capability\("cuda"\)', "(8, 0)"),
    (r'torch\.cuda\.get_device_properties\("cuda"\)\.total_memory', "2**40"),
    (r'"cuda"', '"cpu"'),
)


def fetch(folder):
    """The sdist in `folder`, downloaded once."""
    found = list(folder.glob("flash_attn-*.tar.gz"))
    if not found:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        pip += ["--no-binary", ":all:", "--no-build-isolation", "-d", str(folder)]
        environment = {**os.environ, "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"}
        subprocess.run([*pip, f"flash-attn=={RELEASE}"], check=True, env=environment)
        found = list(folder.glob("flash_attn-*.tar.gz"))
    return found[0]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    name = f"flash_attn-{RELEASE}/tests/test_flash_attn.py"
    with tarfile.open(fetch(folder)) as sdist:
        given = sdist.extractfile(name).read().decode()
    text = given
    for pattern, replacement in CHANGES:
        text = re.sub(pattern, replacement, text)
    changed = sum(a != b for a, b in zip(given.splitlines(), text.splitlines()))
    (folder / "tests_on_cpu.py").write_text(text)
    print(f"flash-attn {RELEASE}: {changed} lines of its tests changed")


if __name__ == "__main__":
    main()
