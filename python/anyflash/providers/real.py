"""The flash-attn package of this environment, if it is there, is the real one and works.

Whether it works is found out once for each file of it: a child process imports it and
computes a known answer on the GPU, because an extension that does not fit can end the
process that loads it. The answer is kept (kept.py) by the extension's SHA-256, torch and
GPU. Nothing is looked for before the first CUDA tensor.
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

from . import kept
from .call import OUT, needs_gradient, transformed

name = "flash_attn"

#: Device types of which tensors are taken; a test without a GPU adds "cpu".
DEVICES = ("cuda",)

#: Seconds that import and known answer may take in the child.
SECONDS = 180

_HALVES = (torch.float16, torch.bfloat16)
#: What marks a flash_attn that this package has put there.
_MARK = "__anyflash__"


def _package():
    """(__init__.py of flash_attn, its extension), or the reason why not, as text."""
    try:
        found = importlib.util.find_spec("flash_attn")
    except (ImportError, ValueError) as error:
        return f"cannot be looked for: {error}"
    if found is None or not found.origin:
        return "is not installed"
    try:
        text = pathlib.Path(found.origin).read_text(errors="replace")
    except OSError as error:
        return f"cannot be read: {error}"
    if _MARK in text:
        return "is this package's own"
    extension = importlib.util.find_spec("flash_attn_2_cuda")
    if extension is None or not extension.origin:
        return "lacks its extension flash_attn_2_cuda"
    return found.origin, extension.origin


def _cause(code, text):
    """What a child that failed says, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if code < 0:
        return f"ends the process that uses it (signal {-code})"
    return lines[-1][:300] if lines else f"ends the process that uses it (exit code {code})"


def _known_answer(device_type, index):
    """None, or why the installed package does not work there; computed by a child."""
    # As text: a file's folder would stand first on the child's path.
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
        return f"gives no answer in {SECONDS} s"
    except OSError as error:
        return f"cannot be tried in a child process: {error}"
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
    """None, or why flash_attn is of no use on the device."""
    return _failure(device)


@functools.lru_cache(maxsize=None)
def _failure(device):
    found = _package()
    if isinstance(found, str):
        return found
    facts = {
        "extension": kept.sha256(found[1]),
        "package": kept.sha256(found[0]),
        "torch": torch.__version__,
        "gpu": _gpu(device),
    }
    reason = kept.get(facts)
    if reason is None:
        reason = _known_answer(device.type, device.index) or ""
        kept.put(facts, reason)
    return reason or _import_failure()


#: (function, names of its parameters) by name, of the package once it has been imported.
_functions = {}
_NAMES = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")


def _import_failure():
    try:
        package = importlib.import_module("flash_attn")
    except Exception as error:
        return f"fails at import: {error}"
    if hasattr(package, _MARK):
        return "is this package's own"
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
    """The keyword arguments for the real function; those with their defaults are left out,
    so that a release that lacks them is asked only for what it has."""
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
    """What flash-attn has not, whatever release."""
    q, size = call.q, call.q.shape[-1]
    if q.dtype not in _HALVES:
        return f"takes float16 and bfloat16, q is {q.dtype}"
    if size > 256:
        return f"takes head sizes up to 256, here it is {size}"
    if call.v.shape[-1] != size:
        return "takes one head size for q, k and v"
    if call.sinks is not None:
        return "has no attention sinks"
    if call.softcap > 0 and call.dropout > 0:
        return "has no softcap with dropout"
    if call.block_table is not None and call.k.shape[1] % 256:
        return "takes pages of multiples of 256 rows"
    if call.block_table is not None and needs_gradient(call):
        return "has no gradient through pages"
    if q.numel() == 0 or call.k.numel() == 0:
        return "is not asked for empty tensors"
    cos = call.rotary_cos
    if cos is not None and (cos.shape[1] % 8 or cos.dtype != q.dtype):
        return "takes rotary tables of q's type with a multiple of 16 dimensions"
    return None


def declines(call):
    device = call.q.device
    if device.type not in DEVICES:
        return f"computes on CUDA devices, q is on {device}"
    if transformed():
        return "is not transformed by torch.func"
    reason = _lacks(call) or failure(device)
    if reason is not None:
        return reason
    if _kind(call) not in _functions:
        return f"of this release has no {_kind(call)}"
    missing = set(_arguments(call)) - _functions[_kind(call)][1]
    return f"of this release has no {', '.join(sorted(missing))}" if missing else None


def _unpadded(lse, call):
    """lse [B, H, longest] of releases before 2.6 as [H, total]."""
    position = torch.arange(call.q.shape[0], device=lse.device)
    starts = call.cu_q.to(position.dtype)
    batch = torch.searchsorted(starts, position, right=True) - 1
    return lse[batch, :, position - starts[batch]].transpose(0, 1)


def forward(call):
    """(out, lse, probabilities), the last two None where call.want does not ask."""
    found = _functions[_kind(call)][0](call.q, call.k, call.v, **_arguments(call))
    if call.want == OUT:
        return found, None, None
    out, lse, *probabilities = found
    if call.cu_q is not None and lse.dim() == 3:
        lse = _unpadded(lse, call)
    return out, lse, probabilities[0] if probabilities and call.dropout > 0 else None


