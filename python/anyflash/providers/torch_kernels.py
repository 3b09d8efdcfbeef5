"""The attention kernels inside torch's own CUDA libraries: no other package is needed.

FlashAttention-2 for float16 and bfloat16 from compute capability 8.0 on, the memory
efficient kernel for float32 and older GPUs. Features that they lack are computed around them
(appending with rotary embedding, pages where the operators take none, head sizes between
multiples of 8, a value size of its own, sinks), or declined: softcap, and what selftest.py
found not to work.
"""

import torch
from torch.nn.functional import pad

from . import aten, compose, selftest
from .call import LSE, PROBABILITIES, needs_gradient, transformed, unit
from .checks import check

name = "torch"

#: Device types whose tensors are computed; tests without a GPU add "cpu".
DEVICES = ("cuda",)

_HALVES = (torch.float16, torch.bfloat16)
_MOST_BLOCKS = 65535  # along one axis of a launch grid
#: FlashAttention-2 takes pages whose size is a multiple of this.
_PAGE_ROWS = 256
#: torch up to 2.6 has no kernels for GPUs newer than compute capability 9.0.
_NEWEST = (12, 1) if aten.RANDOM_STATE == "rng_state" else (9, 0)


_capabilities = {}


@torch.compiler.assume_constant_result
def _capability(device):
    if device not in _capabilities:
        _capabilities[device] = torch.cuda.get_device_capability(device)
    return _capabilities[device]


def _flash_declines(call, capability, gradient):
    q = call.q
    size = max(q.shape[-1], call.v.shape[-1])
    if q.dtype not in _HALVES:
        return f"flash: takes float16 and bfloat16, but q is {q.dtype}"
    if not (8, 0) <= capability <= _NEWEST:
        return f"flash: requires compute capability 8.0 to {_NEWEST[0]}.{_NEWEST[1]}"
    if size > 256:
        return f"flash: takes head sizes up to 256, but this is {size}"
    small = capability[0] == 12 or capability in ((8, 6), (8, 7), (8, 9))
    if gradient and small and size > 192 and (size <= 224 or call.dropout > 0):
        return f"flash: no gradient of head size {size} on this GPU"
    if call.alibi_slopes is not None and gradient:
        return "flash: no gradient with ALiBi"
    if call.deterministic and gradient and torch.compiler.is_compiling():
        return "flash: not deterministic in a compiled graph"
    return None


def _efficient_declines(call, capability, gradient):
    q = call.q
    if q.dtype != torch.float32 and q.dtype not in _HALVES:
        return f"efficient: does not take {q.dtype}"
    if capability < (5, 0):
        return "efficient: requires compute capability 5.0"
    if call.alibi_slopes is not None:
        return "efficient: no ALiBi"
    if call.limits not in ((-1, -1), (-1, 0)):
        return "efficient: no window"
    if call.sinks is not None:
        return "efficient: no sinks"
    if call.cache or call.block_table is not None:
        return "efficient: no cache"
    if call.deterministic and gradient:
        return "efficient: its gradients are not deterministic"
    if call.limits == (-1, 0):
        if call.cu_q is not None and call.cu_q is not call.cu_k:
            return "efficient: causal requires that cu_seqlens_q is cu_seqlens_k"
        if call.cu_q is None and q.shape[1] > call.k.shape[1]:
            return "efficient: causal requires as many keys as queries"
    return None


def _kernel(call):
    """("flash" or "efficient", None), or (None, why neither can be used)."""
    device, dtype = call.q.device, call.q.dtype
    if torch.version.hip:
        return None, "are not used under ROCm, where they align masks differently"
    capability, gradient, reasons = _capability(device), needs_gradient(call), []
    for kernel, declines in (("flash", _flash_declines), ("efficient", _efficient_declines)):
        reason = declines(call, capability, gradient)
        if reason is None:
            reason = selftest.failure(kernel, device, dtype)
        if reason is None and call.alibi_slopes is not None:
            reason = selftest.failure(kernel + " alibi", device, dtype)
        if reason is None:
            return kernel, None
        reasons.append(reason)
    return None, "; ".join(reasons)


def declines(call):
    q = call.q
    if q.device.type not in DEVICES:
        return f"are CUDA kernels, but q is on {q.device}"
    if transformed():
        return "do not support torch.func transforms"
    if not aten.TRACED and torch.compiler.is_compiling():
        return "cannot be compiled with this torch"
    if call.softcap > 0:
        return "have no softcap"
    if call.want == PROBABILITIES and call.dropout > 0:
        return "do not return the probabilities"
    if call.block_table is not None and needs_gradient(call):
        return "have no gradient through pages"
    if q.numel() == 0 or call.k.numel() == 0:
        return "do not take empty tensors"
    if max(q.shape[-2], q.shape[0] if call.cu_q is None else 0) > _MOST_BLOCKS:
        return f"take at most {_MOST_BLOCKS} heads or sequences"
    return _kernel(call)[1]


def _widened(call):
    """The call with one head size for q, k and v, a multiple of 8, padded with zeros."""
    size = max(call.q.shape[-1], call.v.shape[-1])
    size += -size % 8
    q, k, v = (
        x if x.shape[-1] == size else pad(x, (0, size - x.shape[-1]))
        for x in (unit(call.q), unit(call.k), unit(call.v))
    )
    return call.but(q=q, k=k, v=v, scale=call.softmax_scale)


def _starts(lengths):
    """int32 [B + 1]: cu_seqlens of these lengths."""
    return pad(lengths.cumsum(0), (1, 0)).to(torch.int32)


def _every(count, step, device):
    """cu_seqlens of `count` sequences of `step` rows."""
    return torch.arange(0, (count + 1) * step, max(step, 1), dtype=torch.int32, device=device)


def _options(call):
    """Options of both flash() and efficient()."""
    options = {"dropout": call.dropout, "scale": call.softmax_scale, "causal": call.causal}
    if call.cu_q is not None:
        options.update(cu_q=call.cu_q, cu_k=call.cu_k, most=(call.max_q, call.max_k))
    return options


def _takes_pages(call):
    return aten.TAKES_PAGES and call.k.shape[1] % _PAGE_ROWS == 0


def _used(call):
    """(the call as packed sequences whose first seqused_k keys count, rows of q in each or
    None if q was packed, more options for flash()), of a call over a cache or pages."""
    batch, device = call.seqused_k.shape[0], call.q.device
    rows = None if call.cu_q is not None else call.q.shape[1]
    if rows is not None:
        call = call.but(q=call.q.flatten(0, 1), cu_q=_every(batch, rows, device), max_q=rows)
    more = {"seqused_k": call.seqused_k.to(torch.int32)}
    if call.block_table is None:
        length = call.k.shape[1]
        k, v = call.k.flatten(0, 1), call.v.flatten(0, 1)
        call = call.but(k=k, v=v, cu_k=_every(batch, length, device), max_k=length)
    else:
        more["block_table"] = call.block_table
        longest = call.block_table.shape[1] * call.k.shape[1]
        call = call.but(cu_k=_starts(call.seqused_k), max_k=longest)
    return call, rows, more


def _flash(call):
    """(out, lse) of a call without keys to append."""
    if call.block_table is None or not _takes_pages(call):
        call = compose.gather(call)
    if call.block_table is None:
        call = _widened(call)
    more, rows, batch = {}, None, call.q.shape[0]
    if call.seqused_k is not None:
        call, rows, more = _used(call)
    if call.alibi_slopes is not None:
        more["alibi_slopes"] = call.alibi_slopes.float().contiguous()
    out, lse = aten.flash(
        call.q,
        call.k,
        call.v,
        window=call.window,
        sinks=call.sinks,
        deterministic=call.deterministic,
        gradient=needs_gradient(call),
        **_options(call),
        **more,
    )
    if rows is not None:
        out = out.unflatten(0, (batch, rows))
        lse = lse.unflatten(1, (batch, rows)).transpose(0, 1)
    return out, lse


def _efficient(call):
    call = _widened(call)
    return aten.efficient(call.q, call.k, call.v, **_options(call))


def forward(call):
    """(out, lse, None); lse is None unless call.want asks for it."""
    check(call)
    kernel, _ = _kernel(call)
    with compose.without_autocast(call.q.device.type):
        if kernel == "flash":
            out, lse = _flash(compose.append(call))
        else:
            out, lse = _efficient(call)
    if out.shape[-1] != call.v.shape[-1]:
        out = out[..., : call.v.shape[-1]]
    return out, (lse.detach() if call.want >= LSE else None), None
