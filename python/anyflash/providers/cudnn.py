"""cuDNN's attention, called through torch: the fastest kernels on Hopper and data-centre
Blackwell GPUs that come with torch itself.

It supports dense calls from torch 2.5 on and packed ones from 2.14 on, and causal masks only if
queries and keys have the same lengths. All other calls go to the next provider, including
caches and single queries, at which FlashAttention-2 is faster. The limits are those that
torch's own varlen_attn checks.
"""

import torch

from . import aten, compose, trial
from .call import unit
from .checks import check
from .features import HALVES, Limits, features, outside, too_old_or_new
from .flash import capability, finished, options, unusable

name = "torch_cudnn"

#: Device types whose tensors are computed; tests without a GPU add "cpu".
DEVICES = ("cuda",)

LIMITS = Limits(
    HALVES,
    128,
    ((9, 0), (10, 3)),
    (
        "window",
        "cache",
        "pages",
        "dropout",
        "softcap",
        "ALiBi",
        "deterministic gradient",
        "probabilities",
    ),
)
#: The oldest supported cuDNN, and the oldest for packed sequences of up to 128 queries.
_OLDEST, _OLDEST_SHORT = 91800, 92400
#: From this cuDNN on gradients are finite for every number of keys.
_FINITE = 92600


@torch.compiler.assume_constant_result
def version():
    """cuDNN's version as a number, 9.18.1 as 91801; 0 if there is none."""
    return torch.backends.cudnn.version() or 0


def _text(number):
    return f"{number // 10000}.{number // 100 % 100}"


def _of_version(call, asked):
    found = version()
    if found < _OLDEST:
        have = f"this torch has {_text(found)}" if found else "this torch has none"
        return f"requires cuDNN {_text(_OLDEST)}, but {have}"
    if call.cu_q is not None and call.max_q <= 128 and found < _OLDEST_SHORT:
        return f"requires cuDNN {_text(_OLDEST_SHORT)} for sequences of up to 128 queries"
    keys = call.k.shape[1] if call.cu_k is None else call.max_k
    risky = "gradient" in asked and "causal" not in asked and found < _FINITE
    if risky and (keys % 128 == 64 or call.cu_k is not None):
        return f"requires cuDNN {_text(_FINITE)} for the gradient of this number of keys"
    return None


def _of_mask(call, asked):
    if call.cu_q is not None:
        if not aten.PACKED_CUDNN:
            return "takes packed sequences only from torch 2.14 on"
        if torch.compiler.is_compiling():
            return "takes no packed sequences in a compiled graph"
        same, single = call.cu_q is call.cu_k, call.max_q == 1
    else:
        same, single = call.q.shape[1] == call.k.shape[1], call.q.shape[1] == 1
    if single:
        return "is not used for single queries"
    if "causal" in asked and not same:
        return "is causal only where queries and keys have the same lengths"
    return None


def declines(call):
    asked = features(call)
    kernel = "cudnn" if call.cu_q is None else "cudnn packed"
    reason = "is not available under ROCm" if torch.version.hip else None
    reason = reason or unusable(call, kernel, DEVICES) or outside(call, LIMITS, asked)
    if reason is None:
        reason = too_old_or_new(capability(call.q.device), LIMITS)
    reason = reason or _of_version(call, asked) or _of_mask(call, asked)
    return reason or trial.failure(name, call, asked)


def _aligned(x):
    """x in a layout that cuDNN accepts: contiguous rows, each aligned to 16 bytes."""
    x = unit(x)
    ready = all(step > 0 and step % 8 == 0 for step in x.stride()[:-1])
    return x if ready and x.storage_offset() % 8 == 0 else x.contiguous()


def forward(call):
    """(out, lse, None); lse is None unless call.want asks for it."""
    check(call)
    size = call.v.shape[-1]
    with compose.without_autocast(call.q.device.type):
        call = compose.widened(call, one_size=False)
        q, k, v = (_aligned(x) for x in (call.q, call.k, call.v))
        seen = None if call.cu_q is None else compose.seen(call)
        given = {**options(call), "causal": call.limits[1] == 0, "seen": seen}
        out, lse = aten.attend("cudnn", q, k, v, **given)
    return finished(call, out[..., :size], lse)
