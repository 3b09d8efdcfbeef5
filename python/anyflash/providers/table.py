"""`anyflash providers`: a table of the providers that work on this machine.

Works without torch, too: the engine then computes attention of NumPy arrays.
"""

import importlib.util
import json
import os

from .. import _command, _lib

USAGE = """\
usage: anyflash providers [OPTION...]

Lists the providers of flash_attn's functions, the best first, and for each
the element types that it computes on this machine with this Python, or why it
does not: installed packages, the kernels inside torch's libraries, anyflash's
engine, torch's own attention, the plain formula. The first that takes a call
computes it; anyflash.explain() says which one, and why the others do not.
Set ANYFLASH_PROVIDER=NAME to use only that one.

Exit code: 0.

Options:
      --json    print JSON, schema anyflash-providers/1
  -h, --help    print this help
"""


def _engine_kernel():
    """The engine's kernel for a large bfloat16 problem."""
    return _lib.explain_kernel().splitlines()[0].split()[-1]


def _reason(provider, device, dtype):
    """None, or why the provider does not compute plain attention there, as text."""
    import torch

    from .call import OUT, Call

    q = torch.zeros((1, 256, 2, 64), dtype=dtype, device=device)
    return provider.declines(Call(q, q, q, 0.0, None, True, (-1, -1), 0.0, None, False, OUT))


def _why_not_asked(device):
    """Why a provider of other devices is not asked for tensors of this one."""
    import torch

    if device.type != "cpu":
        return f"does not compute on torch's device {device.type}"
    version = torch.version
    if any(getattr(version, built_for, None) for built_for in ("cuda", "hip", "xpu")):
        return "needs a GPU; torch finds none here"
    return "needs a GPU; this torch is a build without GPU support"


def row(name, device):
    """(name, whether it works on the device, details)."""
    import torch

    from . import load, names_of

    if name not in names_of(device.type):
        return name, False, _why_not_asked(device)
    types, reasons = [], {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found, word = _reason(load(name), device, dtype), str(dtype).partition(".")[2]
        if found is None:
            types.append(word)
        else:
            reasons[word] = found
    if not types:
        return name, False, found
    text = ", ".join(types)
    for word, reason in reasons.items():
        if not reason.startswith("takes "):  # not one of its types at all
            text += f"; {word}: {reason}"
    if name == "engine":
        text += f"; bfloat16 by {_engine_kernel()}"
    return name, True, text


def _rows():
    """(name, whether it works here, details) of every provider."""
    from . import PROVIDERS

    if importlib.util.find_spec("torch") is None:
        for name, _ in PROVIDERS:
            if name == "engine" and not _lib.missing:
                yield name, True, f"float32, bfloat16, float16: {_engine_kernel()}"
            elif name == "engine":
                yield name, False, _lib.missing
            else:
                yield name, False, "torch is not installed"
        return
    import torch

    device = torch.device(_accelerator() or "cpu")
    for name, _ in PROVIDERS:
        yield row(name, torch.device("cpu") if name == "engine" else device)


def _accelerator():
    """"cuda", "xpu" or "mps" if torch can use one here, else None."""
    import torch

    if torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    if getattr(torch, "xpu", None) is not None and torch.xpu.is_available():
        return "xpu"
    return "mps" if torch.backends.mps.is_available() else None


def _torch_version():
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch.__version__


def _gpu():
    """Name of the current GPU with its architecture; None where there is none."""
    device = _accelerator() if _torch_version() is not None else None
    if device is None or not device.startswith("cuda"):
        return device
    import torch

    name = torch.cuda.get_device_name(device)
    if torch.version.hip:
        return f"{name} ({torch.cuda.get_device_properties(device).gcnArchName})"
    return "{} ({}.{})".format(name, *torch.cuda.get_device_capability(device))


def _answer():
    rows = [dict(zip(("name", "works", "text"), found)) for found in _rows()]
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
    names = [row["name"] for row in answer["providers"]]
    if forced:
        unknown = "" if forced in names else ", which is not a provider: every call fails"
        found += [f"ANYFLASH_PROVIDER={forced if not unknown else ascii(forced)}{unknown}"]
    print(_command.wrapped("", ", ".join(found)))
    for found in answer["providers"]:
        first = f"  {'yes' if found['works'] else 'no':3}  {found['name']:15}  "
        print(_command.wrapped(first, found["text"]))


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
