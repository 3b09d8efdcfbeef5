"""Downloads a few files of vLLM's wheel by byte ranges: 0.3 MB of 340 MB.

    python fetch_vllm.py FOLDER
pip finds the wheel's URL. FOLDER/vllm/... gets the files that define vLLM's interface.
"""

import io
import json
import pathlib
import subprocess
import sys
import urllib.request
import zipfile

VERSION = "0.33.0"
FILES = (
    "vllm/model_executor/layers/attention/attention.py",
    "vllm/platforms/cpu.py",
    "vllm/plugins/__init__.py",
    "vllm/v1/attention/backend.py",
    "vllm/v1/attention/backends/cpu_attn.py",
    "vllm/v1/attention/backends/flash_attn.py",
    "vllm/v1/attention/backends/registry.py",
    "vllm/vllm_flash_attn/flash_attn_interface.py",
)


class Ranges(io.RawIOBase):
    """A file at a URL, read by byte ranges."""

    def __init__(self, address):
        self.address, self.at = address, 0
        request = urllib.request.Request(address, method="HEAD")
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.length = int(answer.headers["Content-Length"])

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = (0, self.at, self.length)[whence] + offset
        return self.at

    def readinto(self, buffer):
        count = min(len(buffer), self.length - self.at)
        if count <= 0:
            return 0
        span = f"bytes={self.at}-{self.at + count - 1}"
        request = urllib.request.Request(self.address, headers={"Range": span})
        with urllib.request.urlopen(request, timeout=60) as answer:
            if answer.status != 206:
                raise OSError("this index does not answer by ranges")
            data = answer.read(count)
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def address_of_wheel():
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
    command += ["--ignore-installed", "--only-binary", ":all:", "--report", "-"]
    answer = subprocess.run(
        [*command, f"vllm=={VERSION}"], check=True, capture_output=True, text=True
    )
    return json.loads(answer.stdout)["install"][0]["download_info"]["url"]


def main(folder):
    folder = pathlib.Path(folder)
    if all((folder / name).exists() for name in FILES):
        return
    with zipfile.ZipFile(io.BufferedReader(Ranges(address_of_wheel()), 1 << 17)) as wheel:
        for name in FILES:
            wheel.extract(name, folder)


if __name__ == "__main__":
    main(sys.argv[1])
