"""`anyflash providers`: who can compute attention on this machine, as a table.

Works without torch: NumPy arrays are then what the engine computes.
"""

import importlib.util
import os
import sys

USAGE = """usage: anyflash providers

Which of the providers of flash_attn's functions work here, the best first, and why the
others do not. ANYFLASH_PROVIDER=NAME lets one of them compute everything.
"""


def _engine_kernel():
    """The engine's kernel for a large bfloat16 problem."""
    from anyflash import _lib

    values = _lib.values()
    for member, value in (("batch", (1, 16, 16, 512, 512, 128, 128)), ("causal", (1,))):
        at = _lib.AT[member]
        values[at : at + len(value)] = value
    for place, member in enumerate("qkvo", 1):  # apart, and never read
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
    from . import trial

    if torch.version.hip:
        return False, "not asked under ROCm, where torch's kernels align otherwise"
    works, lacks = [], []
    for kernel, dtype in (("flash", torch.bfloat16), ("efficient", torch.float32)):
        reason = trial.failure(kernel, device, dtype)
        (works if reason is None else lacks).append(reason or f"{kernel} ({dtype})")
    return bool(works), "; ".join(works + lacks)


def _rows():
    """(name, whether it computes here, what it says)."""
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
    yield ("sdpa", True, "torch's own choice of a kernel, on every device")
    yield ("plain", True, "everything else, by the formula")


def _has_gpu():
    import torch

    return torch.cuda.is_available()


def _heading():
    if importlib.util.find_spec("torch") is None:
        return "no torch"
    import torch

    found = [f"torch {torch.__version__}"]
    if _has_gpu():
        found.append(torch.cuda.get_device_name())
    forced = os.environ.get("ANYFLASH_PROVIDER")
    return ", ".join(found + ([f"ANYFLASH_PROVIDER={forced}"] if forced else []))


def main(arguments):
    """Prints the table; 0, or 2 for arguments that are wrong."""
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if arguments:
        print(f"error: unexpected argument '{arguments[0]}'\n{USAGE}", end="", file=sys.stderr)
        return 2
    print(_heading())
    for name, works, text in _rows():
        print(f"  {'yes' if works else 'no ':3}  {name:10}  {text}")
    return 0
