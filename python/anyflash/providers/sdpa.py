"""torch's F.scaled_dot_product_attention, with the kernel that it selects, on every device."""

import torch

from . import compose
from .checks import check

name = "sdpa"


def declines(call):
    if call.want:
        return "does not return the logsumexp"
    if call.q.numel() == 0 or call.k.numel() == 0:
        return "is not used for empty tensors"
    if call.softcap > 0:
        return "has no softcap"
    if call.sinks is not None:
        return "has no attention sinks"
    if call.alibi_slopes is not None and call.q.dtype in (torch.float16, torch.bfloat16):
        return f"would round the ALiBi bias to {call.q.dtype}"
    return None


def _mask(dense):
    """(attn_mask or None, is_causal, which rows see a key or None if all do)."""
    call = dense.call
    if dense.k_lengths is None and dense.q_lengths is None and call.alibi_slopes is None:
        if call.limits == (-1, -1):
            return None, False, None
        if call.limits == (-1, 0) and call.q.shape[1] == call.k.shape[1]:
            return None, True, None
    mask, distance = compose.visible(dense)
    # A row that sees no key gets all of them and is set to zero afterwards, because torch's
    # kernels differ in what they return for it.
    seen = None if mask is None else mask.any(-1, keepdim=True)
    if mask is not None:
        mask = mask | ~seen
    if call.alibi_slopes is not None:
        bias = -compose.slopes(call.alibi_slopes).to(call.q.dtype) * distance.abs()
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    return mask, False, seen


def forward(call):
    """(out, None, None)."""
    check(call)
    with compose.without_autocast(call.q.device.type):
        dense = compose.Dense(call)
        mask, causal, seen = _mask(dense)
        q, k, v = (x.transpose(1, 2) for x in (dense.call.q, dense.call.k, dense.call.v))
        group = q.shape[1] // k.shape[1]
        if group > 1:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, mask, call.dropout, causal, scale=call.softmax_scale
        )
        if seen is not None:
            out = torch.where(seen, out, 0.0)
        return dense.out(out.transpose(1, 2)).contiguous(), None, None
