"""FlashAttention-2 of torch's own CUDA and ROCm libraries: no other package is needed.

What the operator lacks is computed around it: appending with rotary embedding, pages where it
does not support them, head sizes that are not multiples of 8, a value size of its own, sinks.
Under ROCm it supports neither cache lengths (the unused keys become sequences without queries)
nor ALiBi, and before torch 2.11 it aligns causal masks differently, which the trial finds.
"""

import torch

from . import aten, compose, trial
from .call import LSE, needs_gradient, transformed
from .checks import check
from .features import HALVES, Limits, features, outside, too_old_or_new

name = "torch_flash"

#: Device types whose tensors are computed; tests without a GPU add "cpu".
DEVICES = ("cuda",)

_LACKS = (
    "softcap",
    "probabilities",
    ("gradient", "ALiBi"),
    ("gradient", "pages"),
)
#: torch up to 2.6 has no kernels for GPUs newer than compute capability 9.0.
_NEWEST = (12, 1) if aten.RANDOM_STATE == "rng_state" else (9, 0)
LIMITS = Limits(HALVES, 256, ((8, 0), _NEWEST), _LACKS)
#: Under ROCm a GPU has a name, not a compute capability, and the trial finds what it lacks.
ROCM_LIMITS = Limits(HALVES, 256, None, (*_LACKS, "ALiBi"))

_MOST_BLOCKS = 65535  # along one axis of a launch grid
#: The operator supports pages whose size is a multiple of this.
_PAGE_ROWS = 256

_capabilities = {}


@torch.compiler.assume_constant_result
def capability(device):
    """The GPU's compute capability."""
    if device not in _capabilities:
        _capabilities[device] = torch.cuda.get_device_capability(device)
    return _capabilities[device]


def unusable(call, kernel, devices):
    """Text that says what no kernel of torch's libraries can do, else None."""
    q = call.q
    if q.device.type not in devices:
        return f"computes on CUDA devices, but q is on {q.device}"
    if transformed():
        return "does not support torch.func transforms"
    if not aten.TRACED and torch.compiler.is_compiling():
        return "cannot be compiled with this torch"
    if max(q.shape[-2], q.shape[0] if call.cu_q is None else 0) > _MOST_BLOCKS:
        return f"takes at most {_MOST_BLOCKS} heads or sequences"
    return aten.missing(kernel)


def _on_this_gpu(call, asked):
    gpu, size = capability(call.q.device), max(call.q.shape[-1], call.v.shape[-1])
    small = gpu[0] == 12 or gpu in ((8, 6), (8, 7), (8, 9))
    if "gradient" in asked and small and size > 192 and (size <= 224 or call.dropout > 0):
        return f"has no gradient of head size {size} on this GPU"
    return too_old_or_new(gpu, LIMITS)


def declines(call):
    asked = features(call)
    reason = unusable(call, "flash", DEVICES)
    reason = reason or outside(call, ROCM_LIMITS if torch.version.hip else LIMITS, asked)
    if reason is None and not torch.version.hip:
        reason = _on_this_gpu(call, asked)
    if reason is None and "deterministic gradient" in asked and torch.compiler.is_compiling():
        reason = "is not deterministic in a compiled graph"
    return reason or trial.failure(name, call, asked)


def _native_pages(call):
    return aten.TAKES_PAGES and call.k.shape[1] % _PAGE_ROWS == 0 and call.q.shape[-1] % 8 == 0


def _with_lengths(call):
    """A call with seqused_k in the form that the operator needs, and the options for it."""
    if call.block_table is not None:
        more = {"seqused_k": call.seqused_k, "block_table": call.block_table}
        longest = call.block_table.shape[1] * call.k.shape[1]
        if call.cu_q is None:
            batch, rows = call.q.shape[:2]
            cu_q = compose.every(batch, rows, call.q.device)
            call = call.but(q=call.q.flatten(0, 1), cu_q=cu_q, max_q=rows)
        return call.but(cu_k=compose.starts(call.seqused_k), max_k=longest), more
    call = compose.packed(call, holes=bool(torch.version.hip))
    return call, ({} if call.seqused_k is None else {"seqused_k": call.seqused_k})


def options(call):
    """Options of aten.attend() for every kernel."""
    given = {"dropout": call.dropout, "scale": call.softmax_scale, "causal": call.causal}
    given.update(sinks=call.sinks, gradient=needs_gradient(call))
    if call.cu_q is not None:
        given.update(cu_q=call.cu_q, cu_k=call.cu_k, most=(call.max_q, call.max_k))
    return given


def _attend(call):
    if call.block_table is None or not _native_pages(call):
        call = compose.gather(call)
    if call.block_table is None:
        call = compose.widened(call, one_size=True)
    more, before = {}, call
    if call.seqused_k is not None:
        call, more = _with_lengths(call)
    if call.alibi_slopes is not None:
        more["alibi_slopes"] = call.alibi_slopes.float().contiguous()
    given = {**options(call), "window": call.window, "deterministic": call.deterministic}
    if torch.version.hip:
        given["seen"] = compose.seen(call)
    out, lse = aten.attend("flash", call.q, call.k, call.v, **given, **more)
    return compose.unpacked(out, lse, before)


def finished(call, out, lse):
    """(out, lse, None) as forward() returns it: without padding of the head size."""
    if out.shape[-1] != call.v.shape[-1]:
        out = out[..., : call.v.shape[-1]]
    return out, (lse.detach() if call.want >= LSE else None), None


def forward(call):
    """(out, lse, None); lse is None unless call.want asks for it."""
    check(call)
    with compose.without_autocast(call.q.device.type):
        out, lse = _attend(compose.append(call))
    return finished(call, out, lse)
