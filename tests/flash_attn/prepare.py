"""Gets flash-attn's own tests ready for run.py; `tests/run flash-attn`, bench/gpu_providers.py.

    python tests/flash_attn/prepare.py FOLDER [--from CHECKOUT] [--device cpu|cuda]

They come from a checkout of flash-attention (or its unpacked sdist), else from the sdist on
PyPI, which is downloaded once; they are under the BSD licence of flash-attn. FOLDER gets
tests_on_cpu.py, in which the device is "cpu" and queries for a GPU's generation and memory are
answered like an A100 with enough memory, or tests_on_cuda.py, in which nothing is changed. The
download needs pip, and setuptools, wheel, packaging, psutil and torch, which the sdist's
setup.py imports.
"""

import argparse
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


def text_of(checkout, folder):
    """(flash-attn's test file, the name of what it is from)."""
    if checkout is not None:
        path = checkout / "tests" / "test_flash_attn.py"
        return path.read_text(), checkout.resolve().name
    name = f"flash_attn-{RELEASE}/tests/test_flash_attn.py"
    with tarfile.open(fetch(folder)) as sdist:
        return sdist.extractfile(name).read().decode(), f"flash-attn {RELEASE}"


def prepare(folder, checkout=None, device="cpu"):
    """Writes the tests for the device into the folder; returns a sentence about them."""
    folder.mkdir(parents=True, exist_ok=True)
    given, origin = text_of(checkout, folder)
    text = given
    for pattern, replacement in CHANGES if device == "cpu" else ():
        text = re.sub(pattern, replacement, text)
    changed = sum(a != b for a, b in zip(given.splitlines(), text.splitlines()))
    (folder / f"tests_on_{device}.py").write_text(text)
    return f"{origin}: {changed} lines of its tests changed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--from", type=pathlib.Path, dest="checkout", metavar="CHECKOUT")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    given = parser.parse_args()
    print(prepare(given.folder, given.checkout, given.device))


if __name__ == "__main__":
    main()
