"""`anyflash providers`: a table of the providers that work on this machine.

Works without torch, too: the engine then computes attention of NumPy arrays.
"""

import importlib.util
import json
import os

from .. import _command

USAGE = """\
usage: anyflash providers [OPTION...]

Lists the providers of flash_attn's functions, the best first, and for each
whether it works on this machine with this Python, or why not: the installed
flash_attn, the kernels inside torch's CUDA libraries, anyflash's engine,
torch's own attention, the plain formula. The first that supports a call
computes it. Set ANYFLASH_PROVIDER=NAME to use only that one.

Exit code: 0.

Options:
      --json    print JSON, schema anyflash-providers/1
  -h, --help    print this help
"""


def _engine_kernel():
    """The engine's kernel for a large bfloat16 problem."""
    from anyflash import _lib

    values = _lib.values()
    for member, value in (("batch", (1, 16, 16, 512, 512, 128, 128)), ("causal", (1,))):
        at = _lib.AT[member]
        values[at : at + len(value)] = value
    for place, member in enumerate("qkvo", 1):  # distinct addresses, which are never read
        at = _lib.AT[member]
        values[at : at + 6] = (place << 40, _lib.BF16, 0, 512 * 16 * 128, 128, 16 * 128)
    return _lib.explain_kernel(values).splitlines()[0].split()[-1]


def _real(device):
    from . import real

    reason = real.failure(device) if device is not None else None
    if device is None:
        found = real._package()
        installed = found if isinstance(found, str) else "is installed"
        return False, f"{installed}; there is no CUDA device"
    return reason is None, reason or "float16 and bfloat16 on CUDA"


def _torch_kernels(device):
    import torch

    if device is None:
        return False, "there is no CUDA device"
    from . import selftest

    if torch.version.hip:
        return False, "not used under ROCm, where torch's kernels align masks differently"
    works, lacks = [], []
    for kernel, dtype in (("flash", torch.bfloat16), ("efficient", torch.float32)):
        reason = selftest.failure(kernel, device, dtype)
        (works if reason is None else lacks).append(reason or f"{kernel} ({dtype})")
    return bool(works), "; ".join(works + lacks)


def _rows():
    """(name, whether it works here, details)."""
    engine = (True, f"float32, bfloat16, float16 on the CPU: {_engine_kernel()}")
    if importlib.util.find_spec("torch") is None:
        for name in ("flash_attn", "torch"):
            yield (name, False, "torch is not installed")
        yield ("engine", *engine)
        for name in ("sdpa", "plain"):
            yield (name, False, "torch is not installed")
        return
    import torch

    device = torch.device("cuda", torch.cuda.current_device()) if _has_gpu() else None
    yield ("flash_attn", *_real(device))
    yield ("torch", *_torch_kernels(device))
    yield ("engine", *engine)
    yield ("sdpa", True, "the kernel that torch selects, on every device")
    yield ("plain", True, "everything else, by the formula")


def _has_gpu():
    import torch

    return torch.cuda.is_available()


def _torch_version():
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch.__version__


def _gpu():
    """Name of the current GPU; None where there is none."""
    if _torch_version() is None or not _has_gpu():
        return None
    import torch

    return torch.cuda.get_device_name()


def _answer():
    rows = [dict(zip(("name", "works", "text"), row)) for row in _rows()]
    forced = os.environ.get("ANYFLASH_PROVIDER") or None
    return {
        "schema": "anyflash-providers/1",
        "torch": _torch_version(),
        "gpu": _gpu(),
        "forced": forced,
        "providers": rows,
    }


def _say(answer):
    torch, gpu, forced = answer["torch"], answer["gpu"], answer["forced"]
    found = [f"torch {torch}" if torch else "no torch"]
    found += [gpu] if gpu else []
    found += [f"ANYFLASH_PROVIDER={forced}"] if forced else []
    print(", ".join(found))
    for row in answer["providers"]:
        first = f"  {'yes' if row['works'] else 'no':3}  {row['name']:10}  "
        print(_command.wrapped(first, row["text"]))


def main(words):
    """`anyflash providers WORDS`: prints the table or JSON; returns the exit code."""
    given, rest = _command.parse(words, {"--json": None, "--help": None, "-h": "--help"})
    if "--help" in given:
        print(USAGE, end="")
        return 0
    if rest:
        raise _command.Usage(
            f"`anyflash providers` takes no arguments, but got {ascii(rest[0])}",
            "`anyflash providers --help` lists its options",
        )
    answer = _answer()
    if "--json" in given:
        print(json.dumps(answer, indent=1))
    else:
        _say(answer)
    return 0
