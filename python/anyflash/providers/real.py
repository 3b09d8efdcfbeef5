"""The flash-attn package that is installed in this environment, if it works.

Whether it works is tested once for each version of its files: a child process imports it and
computes a known answer on the GPU, because an extension that does not fit can crash the
process that loads it. The result is cached (result_cache.py) by the files' SHA-256, torch and
GPU. Nothing is imported or tested before the first CUDA tensor.
"""

import functools
import importlib
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys

import torch

from . import result_cache
from .call import OUT, needs_gradient, transformed

name = "flash_attn"

#: Device types whose tensors are computed; tests without a GPU add "cpu".
DEVICES = ("cuda",)

#: Time limit of the child process, which imports and computes a known answer.
SECONDS = 180

_HALVES = (torch.float16, torch.bfloat16)
#: Attribute of a flash_attn that `anyflash shim install` generated.
_MARK = "__anyflash__"


def _package():
    """(path of flash_attn's __init__.py, of its extension), or why there is none, as text."""
    try:
        found = importlib.util.find_spec("flash_attn")
    except (ImportError, ValueError) as error:
        return f"cannot be found: {error}"
    if found is None or not found.origin:
        return "is not installed"
    try:
        text = pathlib.Path(found.origin).read_text(errors="replace")
    except OSError as error:
        return f"cannot be read: {error}"
    if _MARK in text:
        return "is the one that anyflash generated"
    extension = importlib.util.find_spec("flash_attn_2_cuda")
    if extension is None or not extension.origin:
        return "lacks its extension flash_attn_2_cuda"
    return found.origin, extension.origin


def _cause(code, text):
    """Why the child process failed, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if code < 0:
        return f"crashes the process that uses it (signal {-code})"
    return lines[-1][:300] if lines else f"ends the process that uses it (exit code {code})"


def _known_answer(device_type, index):
    """None, or why the installed package does not work there, from a child process."""
    # As text: the folder of a file would be first in the child's sys.path.
    program = pathlib.Path(__file__).with_name("known_answer.py").read_text()
    command = [sys.executable, "-c", program, device_type, str(index or 0)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {SECONDS} s"
    except OSError as error:
        return f"cannot be tested in a child process: {error}"
    if done.returncode == 0 and done.stdout.strip().endswith("right"):
        return None
    return _cause(done.returncode, done.stderr)


def _gpu(device):
    if device.type != "cuda":
        return device.type
    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} sm_{major}{minor}"


@torch.compiler.assume_constant_result
def failure(device):
    """None, or why flash_attn cannot be used on the device."""
    return _failure(device)


@functools.lru_cache(maxsize=None)
def _failure(device):
    found = _package()
    if isinstance(found, str):
        return found
    facts = {
        "extension": result_cache.sha256(found[1]),
        "package": result_cache.sha256(found[0]),
        "torch": torch.__version__,
        "gpu": _gpu(device),
    }
    reason = result_cache.get(facts)
    if reason is None:
        reason = _known_answer(device.type, device.index) or ""
        result_cache.put(facts, reason)
    return reason or _import_failure()


#: By name: (function, names of its parameters), once the package has been imported.
_functions = {}
_NAMES = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")


def _import_failure():
    try:
        package = importlib.import_module("flash_attn")
    except Exception as error:
        return f"fails at import: {error}"
    if hasattr(package, _MARK):
        return "is the one that anyflash generated"
    for function in _NAMES:
        found = getattr(package, function, None)
        if found is not None:
            _functions[function] = found, frozenset(inspect.signature(found).parameters)
    return None


def _kind(call):
    if call.cache:
        return "flash_attn_with_kvcache"
    return "flash_attn_func" if call.cu_q is None else "flash_attn_varlen_func"


def _arguments(call):
    """The keyword arguments for the package's function, without those that have their
    defaults: an older release may not have them."""
    given = {}
    if call.cu_q is not None:
        lengths = call.cu_k
        if lengths is None:
            lengths = torch.nn.functional.pad(call.seqused_k.cumsum(0), (1, 0)).int()
        given = {"cu_seqlens_q": call.cu_q, "cu_seqlens_k": lengths}
        given.update(max_seqlen_q=call.max_q, max_seqlen_k=call.max_k)
    optional = {
        "dropout_p": (call.dropout, 0.0),
        "softmax_scale": (call.scale, None),
        "causal": (call.causal, False),
        "window_size": (tuple(call.window), (-1, -1)),
        "softcap": (call.softcap, 0.0),
        "alibi_slopes": (call.alibi_slopes, None),
        "deterministic": (call.deterministic, False),
        "block_table": (call.block_table, None),
        "k": (call.k_new, None),
        "v": (call.v_new, None),
        "rotary_cos": (call.rotary_cos, None),
        "rotary_sin": (call.rotary_sin, None),
        "cache_batch_idx": (call.batch_idx, None),
        "cache_leftpad": (call.leftpad, None),
        "rotary_interleaved": (call.interleaved, True),
        "num_splits": (call.num_splits, 0),
    }
    for parameter, (value, usual) in optional.items():
        if value is not usual and (isinstance(value, torch.Tensor) or value != usual):
            given[parameter] = value
    if call.cache:
        given["cache_seqlens"] = call.seqused_k
        if call.want != OUT:
            given["return_softmax_lse"] = True
    elif call.want != OUT:
        given["return_attn_probs"] = True
    return given


def _lacks(call):
    """What no release of flash-attn can compute."""
    q, size = call.q, call.q.shape[-1]
    if q.dtype not in _HALVES:
        return f"takes float16 and bfloat16, but q is {q.dtype}"
    if size > 256:
        return f"takes head sizes up to 256, but this is {size}"
    if call.v.shape[-1] != size:
        return "requires the same head size for q, k and v"
    if call.sinks is not None:
        return "has no attention sinks"
    if call.softcap > 0 and call.dropout > 0:
        return "has no softcap with dropout"
    if call.block_table is not None and call.k.shape[1] % 256:
        return "requires a page size that is a multiple of 256"
    if call.block_table is not None and needs_gradient(call):
        return "has no gradient through pages"
    if q.numel() == 0 or call.k.numel() == 0:
        return "is not used for empty tensors"
    cos = call.rotary_cos
    if cos is not None and (cos.shape[1] % 8 or cos.dtype != q.dtype):
        return "requires rotary tables of q's type for a multiple of 16 dimensions"
    return None


def declines(call):
    device = call.q.device
    if device.type not in DEVICES:
        return f"computes on CUDA devices, but q is on {device}"
    if transformed():
        return "does not support torch.func transforms"
    reason = _lacks(call) or failure(device)
    if reason is not None:
        return reason
    if _kind(call) not in _functions:
        return f"has no {_kind(call)} in this release"
    missing = set(_arguments(call)) - _functions[_kind(call)][1]
    return f"has no {', '.join(sorted(missing))} in this release" if missing else None


def _unpadded(lse, call):
    """lse [B, H, longest] of releases before 2.6 as [H, total]."""
    position = torch.arange(call.q.shape[0], device=lse.device)
    starts = call.cu_q.to(position.dtype)
    batch = torch.searchsorted(starts, position, right=True) - 1
    return lse[batch, :, position - starts[batch]].transpose(0, 1)


def forward(call):
    """(out, lse, probabilities); the last two are None unless call.want asks for them."""
    found = _functions[_kind(call)][0](call.q, call.k, call.v, **_arguments(call))
    if call.want == OUT:
        return found, None, None
    out, lse, *probabilities = found
    if call.cu_q is not None and lse.dim() == 3:
        lse = _unpadded(lse, call)
    return out, lse, probabilities[0] if probabilities and call.dropout > 0 else None


