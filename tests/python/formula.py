"""Attention computed directly from its formula, one sequence and one head at a time, in
float64. The flash_attn functions of every provider are compared with it."""

import torch


def rotate(x, position, cos, sin, interleaved):
    """x [D] rotated for one position."""
    half = cos.shape[1]
    c, s, out = cos[position].double(), sin[position].double(), x.double().clone()
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    out[first] = x[first] * c - x[second] * s
    out[second] = x[first] * s + x[second] * c
    return out


def attend(
    q, k, v, causal=False, window=(-1, -1), softcap=0.0, slopes=None, sinks=None, scale=None
):
    """(out [Sq, H, D], lse [H, Sq]) of q [Sq, H, D], k, v [Sk, G, D]; slopes, sinks [H]."""
    left, right = (window[0], 0) if causal else window
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    outs, sums = [], []
    for head in range(q.shape[1]):
        g = head * k.shape[1] // q.shape[1]
        scores = q[:, head].double() @ k[:, g].double().T * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        i = torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
        distance = torch.arange(k.shape[0]) - i
        if slopes is not None:
            scores = scores - slopes[head].double() * distance.abs()
        hidden = torch.zeros(scores.shape, dtype=torch.bool)
        if left >= 0:
            hidden |= distance < -left
        if right >= 0:
            hidden |= distance > right
        scores = scores.masked_fill(hidden, -torch.inf)
        if sinks is not None:
            column = sinks[head].double().expand(scores.shape[0], 1)
            scores = torch.cat((scores, column), 1)
        empty = (scores == -torch.inf).all(1, keepdim=True)
        weights = torch.where(empty, 0.0, scores).softmax(1)
        weights = torch.where(empty, 0.0, weights)[:, : k.shape[0]]
        outs.append(weights @ v[:, g].double())
        lse = torch.logsumexp(torch.where(empty, 0.0, scores), 1)
        sums.append(torch.where(empty[:, 0], torch.inf, lse))
    return torch.stack(outs, 1), torch.stack(sums)


def dense(q, k, v, slopes=None, **options):
    """(out [B, Sq, H, D], lse [B, H, Sq]); slopes [H] or [B, H]."""
    parts = []
    for b in range(q.shape[0]):
        row = slopes if slopes is None or slopes.dim() == 1 else slopes[b]
        parts.append(attend(q[b], k[b], v[b], slopes=row, **options))
    return torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts])


def packed(q, k, v, cu_q, cu_k, slopes=None, **options):
    """(out [total, H, D], lse [H, total])."""
    parts = []
    for b in range(len(cu_q) - 1):
        row = slopes if slopes is None or slopes.dim() == 1 else slopes[b]
        keys = slice(int(cu_k[b]), int(cu_k[b + 1]))
        rows = slice(int(cu_q[b]), int(cu_q[b + 1]))
        parts.append(attend(q[rows], k[keys], v[keys], slopes=row, **options))
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts], 1)


def by_formula(options):
    """Options of flash_attn's functions as those of this file."""
    names = {"window_size": "window", "alibi_slopes": "slopes", "softmax_scale": "scale"}
    return {names.get(name, name): value for name, value in options.items()}


def close(have, want, bound=0.02):
    """Asserts that the largest difference is within `bound` of the largest element or of 1."""
    assert have.shape == want.shape
    have, want = have.detach().double(), want.detach().double()
    infinite = torch.isinf(want)
    assert torch.equal(have[torch.isinf(have)], want[infinite])
    off = torch.where(infinite, 0.0, have - want).abs().max()
    assert off < bound * max(1.0, float(torch.where(infinite, 0.0, want).abs().max()))
