"""This package as a kernel of Hugging Face's `kernels`, in a folder.

    python -m anyflash.hf_kernels FOLDER

Then kernels.get_local_kernel(Path(FOLDER)) returns flash_attn's functions, and with
LOCAL_KERNELS=org/name=FOLDER so does kernels.get_kernel("org/name", version=1), which
attn_implementation="org/name" of transformers calls. The folder contains no code of its own: it
imports this package, for every torch and every device.
"""

import argparse
import json
import os
import pathlib
from typing import Union

_NAME = "anyflash"
_FUNCTIONS = """\
\"\"\"flash_attn's functions from anyflash, for every torch and device.\"\"\"

from anyflash._sink_functions import (
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
)

__all__ = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"]
"""
_METADATA = {
    "name": _NAME,
    "id": "anyflash_1",
    "version": 1,
    "license": "BSD-3-Clause",
    "python-depends": [],
    "backend": {"type": "cpu"},
}


def write(folder: Union[str, "os.PathLike[str]"]) -> pathlib.Path:
    """Writes the kernel to `folder`/build/torch-universal and returns that path.

    >>> anyflash.hf_kernels.write("my-kernel")
    """
    target = pathlib.Path(folder) / "build" / "torch-universal"
    target.mkdir(parents=True, exist_ok=True)
    (target / "__init__.py").write_text(_FUNCTIONS)
    (target / "metadata.json").write_text(json.dumps(_METADATA, indent=2) + "\n")
    return target


def main():
    parser = argparse.ArgumentParser(prog="python -m anyflash.hf_kernels")
    parser.add_argument("folder", help="folder to write build/torch-universal to")
    print(write(parser.parse_args().folder))


if __name__ == "__main__":
    main()
