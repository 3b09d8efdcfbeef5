"""torch's own attention operators, with the same arguments for every torch.

flash() calls aten::_flash_attention_forward and _backward, FlashAttention-2 of torch's
wheels; efficient() calls aten::_efficient_attention_forward. Both take q [B, Sq, H, D] or
packed [total, H, D], and return (out, lse), lse [B, H, Sq] or [H, total].
"""

import torch

#: Differences between the operators of torch releases: the first and the last release that was
#: read, the name of the random state, whether they take pages, and the logsumexp of packed
#: sequences: [H, total], or padded to [B, H, longest]. The arguments of the operators of the
#: torch that runs are read from their own schemas.
SCHEMAS = (
    ("2.4", "2.6", "philox_seed", False, "padded"),
    ("2.8", "2.11", "rng_state", False, "packed"),
    ("2.14", "2.15", "rng_state", True, "packed"),
)

_ops = torch.ops.aten
_INF = float("inf")


_schema = _ops._flash_attention_forward.default._schema
#: Arguments and results of the operators of this torch.
TAKES_PAGES = any(argument.name == "block_table" for argument in _schema.arguments)
RANDOM_STATE = _schema.returns[2].name
#: Whether a compiled graph can contain them; torch 2.4 has no Meta kernels for them.
TRACED = torch._C._dispatch_has_kernel_for_dispatch_key(_schema.name, "Meta")

#: Mask types of the efficient kernel: none, and causal from the bottom right corner.
_NO_MASK, _BOTTOM_RIGHT = 0, 2


class _Deterministic:
    """Enables torch's deterministic kernels for a block: there is no argument for it."""

    def __init__(self, wanted):
        self.wanted = wanted and not torch.are_deterministic_algorithms_enabled()

    def __enter__(self):
        if self.wanted:
            torch.use_deterministic_algorithms(True)

    def __exit__(self, *error):
        if self.wanted:
            torch.use_deterministic_algorithms(False)


def _by_row(lse, cu_q, total):
    """lse [B, H, S], [H, total] or padded [B, H, longest] as [.., rows, H], like out."""
    if cu_q is None or lse.dim() == 2:
        return lse.transpose(-1, -2)
    position = torch.arange(total, device=lse.device)
    starts = cu_q.to(position.dtype)
    batch = torch.searchsorted(starts, position, right=True) - 1
    return lse[batch, :, position - starts[batch]]


def _with_sinks(out, lse, sinks, cu_q):
    """(out, lse) with a sink for each head: a key that takes weight and has no value."""
    lse = torch.where(lse == _INF, -_INF, lse)
    wider = torch.logaddexp(lse, sinks.float()[:, None])
    part = _by_row(torch.exp(lse - wider), cu_q, out.shape[0])
    return (out * part.unsqueeze(-1)).to(out.dtype), wider


class _Flash(torch.autograd.Function):
    """The forward kernel and its gradients, including those of sinks.

    With sinks, out and lse are those of all weights, so that the backward kernel forms the
    right weights from lse and the right row sums from out.
    """

    @staticmethod
    def forward(ctx, q, k, v, sinks, cu_q, cu_k, most, dropout, scale, mask, deterministic):
        out, lse, seed, offset = _forward(q, k, v, cu_q, cu_k, most, dropout, scale, mask)
        if sinks is not None:
            out, lse = _with_sinks(out, lse, sinks, cu_q)
        ctx.save_for_backward(q, k, v, sinks, cu_q, cu_k, out, lse, seed, offset)
        ctx.options = most, dropout, scale, mask, deterministic
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, sinks, cu_q, cu_k, out, lse, seed, offset = ctx.saved_tensors
        most, dropout, scale, (causal, left, right), deterministic = ctx.options
        dout = dout.contiguous()
        with _Deterministic(deterministic):
            tensors = (dout, q, k, v, out, lse, cu_q, cu_k)
            window = {"window_size_left": left, "window_size_right": right}
            options = (*most, dropout, causal, seed, offset)
            dq, dk, dv = _ops._flash_attention_backward(
                *tensors, *options, scale=scale, **window
            )
        dsinks = None
        if sinks is not None:
            taken = _by_row(torch.exp(sinks.float()[:, None] - lse), cu_q, out.shape[0])
            rows = (dout.float() * out.float()).sum(-1) * taken
            dsinks = -rows.flatten(0, -2).sum(0).to(sinks.dtype)
        return (dq, dk, dv, dsinks, *[None] * 7)


def _forward(q, k, v, cu_q, cu_k, most, dropout, scale, mask, **more):
    """(out, lse, random state in two tensors)."""
    causal, left, right = mask
    options = {"window_size_left": left, "window_size_right": right, "scale": scale, **more}
    return _ops._flash_attention_forward(
        q, k, v, cu_q, cu_k, *most, dropout, causal, False, **options
    )[:4]


def flash(
    q,
    k,
    v,
    *,
    cu_q=None,
    cu_k=None,
    most=None,
    dropout=0.0,
    scale,
    causal=False,
    window=(-1, -1),
    sinks=None,
    deterministic=False,
    gradient=False,
    **more,
):
    """FlashAttention-2, aligned to the bottom right corner: (out, lse).

    cu_q and cu_k with most=(longest q, longest k): packed sequences. `more`: seqused_k,
    alibi_slopes, block_table; there is no gradient then. D must be a multiple of 8.
    """
    left, right = [None if side < 0 else side for side in window]
    mask = (causal, left, 0 if causal else right)
    most = most or (q.shape[1], k.shape[1])
    if gradient:
        given = (q, k, v, sinks, cu_q, cu_k, most, dropout, scale, mask, deterministic)
        out, lse = _Flash.apply(*given)
    else:
        out, lse, _, _ = _forward(q, k, v, cu_q, cu_k, most, dropout, scale, mask, **more)
        if sinks is not None:
            out, lse = _with_sinks(out, lse, sinks, cu_q)
    if cu_q is not None and lse.dim() == 3:
        lse = _by_row(lse, cu_q, q.shape[0]).transpose(0, 1)
    return out, lse


def efficient(q, k, v, *, cu_q=None, cu_k=None, most=None, dropout=0.0, scale, causal=False):
    """The memory efficient kernel: (out, lse). D and Dv must be multiples of 8.

    The lse of a row that sees no key is undefined.
    """
    group = q.shape[-2] // k.shape[-2]
    if group > 1:
        k, v = k.repeat_interleave(group, -2), v.repeat_interleave(group, -2)
    packed = cu_q is not None
    if packed:
        q, k, v = q[None], k[None], v[None]
    out, lse = _ops._efficient_attention_forward(
        q,
        k,
        v,
        None,
        cu_q,
        cu_k,
        most[0] if packed else None,
        most[1] if packed else None,
        dropout,
        _BOTTOM_RIGHT if causal else _NO_MASK,
        True,
        scale=scale,
    )[:2]
    if packed:
        return out[0], _by_row(lse, cu_q, q.shape[1]).transpose(0, 1)
    return out, lse[:, :, : q.shape[1]]
