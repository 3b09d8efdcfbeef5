"""Attention by its formula in torch operations: every device, option and derivative.

The scores are held in float32 (float64 for such tensors), for as many queries at a time as fit
into MOST_SCORES.
"""

import torch
from torch.utils.checkpoint import checkpoint

from . import compose
from .call import LSE, PROBABILITIES, needs_gradient, transformed
from .checks import check

name = "plain"

#: Scores held at a time; 1 GiB of float32.
MOST_SCORES = 1 << 28


def declines(call):
    return None


def _spread(x, heads):
    """[B, S, G, D] as [B, H, S, D]."""
    x = x.transpose(1, 2)
    group = heads // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, 1)


def _softmax(scores, sinks):
    """(probabilities, logsumexp); zero and +inf for a row that sees no key."""
    if scores.shape[-1] == 0:  # amax() of an empty dimension fails
        scores = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)
        weights, lse = _softmax(scores, sinks)
        return weights[..., :0], lse
    top = scores.detach().amax(-1, keepdim=True)
    if sinks is not None:
        sinks = sinks.to(scores.dtype)[None, :, None, None]
        top = torch.maximum(top, sinks.detach())
    top = torch.where(torch.isfinite(top), top, 0.0)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + torch.exp(sinks - top)
    empty = total == 0
    lse = torch.where(empty, torch.inf, torch.log(total) + top).squeeze(-1)
    return weights / torch.where(empty, 1.0, total), lse


def _rows(q, k, v, mask, distance, slopes, sinks, options):
    """Of some queries: (out [B, H, rows, D], lse, probabilities, dropped ones negative)."""
    scale, softcap, dropout = options
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    if slopes is not None:
        scores = scores - slopes * distance.abs()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights, lse = _softmax(scores, sinks)
    if dropout == 0:
        return torch.matmul(weights, v), lse, weights
    kept = torch.rand_like(weights) >= dropout
    out = torch.matmul(weights * kept / (1.0 - dropout), v)
    return out, lse, torch.where(kept, weights, -weights)


def _part(x, start, stop):
    """Rows start to stop of x, which broadcasts to [B, 1, Sq, Sk]; None stays None."""
    return x if x is None or x.shape[-2] == 1 else x[..., start:stop, :]


def _attend(dense):
    call = dense.call
    exact = torch.float64 if call.q.dtype == torch.float64 else torch.float32
    heads, rows = call.q.shape[2], call.q.shape[1]
    q = call.q.transpose(1, 2).to(exact)
    k, v = _spread(call.k, heads).to(exact), _spread(call.v, heads).to(exact)
    mask, distance = compose.visible(dense)
    slopes = None if call.alibi_slopes is None else compose.slopes(call.alibi_slopes)
    options = call.softmax_scale, call.softcap, call.dropout
    step = rows
    if not torch.compiler.is_compiling() and not transformed():
        step = max(MOST_SCORES // max(k.shape[0] * heads * k.shape[2], 1), 1)
    parts = []
    for start in range(0, max(rows, 1), max(step, 1)):
        stop = start + step
        given = (
            q[:, :, start:stop],
            k,
            v,
            _part(mask, start, stop),
            _part(distance, start, stop),
            slopes,
            call.sinks,
            options,
        )
        if needs_gradient(call) and step < rows:
            parts.append(checkpoint(_rows, *given, use_reentrant=False))
        else:
            parts.append(_rows(*given))
    if len(parts) == 1:
        return parts[0]
    return tuple(torch.cat(part, 2) for part in zip(*parts))


def forward(call):
    """(out, lse, probabilities); the last two are None unless call.want asks for them."""
    check(call)
    with compose.without_autocast(call.q.device.type):
        dense = compose.Dense(call)
        out, lse, weights = _attend(dense)
        out = dense.out(out.to(call.q.dtype).transpose(1, 2))
    if not call.q.is_contiguous() or not out.is_contiguous():
        out = out.contiguous()
    if call.want < LSE:
        return out, None, None
    lse = dense.lse(lse.detach().float())
    if call.want < PROBABILITIES or call.dropout == 0:
        return out, lse, None
    weights = weights.detach()
    top = weights.abs().amax(-1, keepdim=True)  # scaled as in flash-attn
    return out, lse, (weights / torch.where(top == 0, 1.0, top)).to(call.q.dtype)
