"""torch's own attention operators, with the same arguments for every kernel and every torch.

attend("flash" | "efficient" | "cudnn", q, k, v, ...) takes q [B, Sq, H, D] or packed [total, H,
D] and returns (out, lse), lse [B, H, Sq] or [H, total], +inf for a row that sees no key.
missing(kernel) compares the operators of the running torch with the schemas in this file, and
says which one is absent or has a different signature.
"""

import inspect
import logging

import torch
import torch._meta_registrations
from torch.nn.functional import pad

#: How the operators differ between torch releases: the first and the last release that was
#: examined, the name of flash's random state, whether flash supports pages, and the shape of
#: its logsumexp for packed sequences: [H, total], or padded to [B, H, longest].
SCHEMAS = (
    ("2.4", "2.6", "philox_seed", False, "padded"),
    ("2.7", "2.11", "rng_state", False, "packed"),
    ("2.12", "2.15", "rng_state", True, "packed"),
)
#: The arguments that every known release has, in this order; "|": those after it are optional.
_KNOWN = {
    "_flash_attention_forward": (
        "query key value cum_seq_q cum_seq_k max_q max_k dropout_p is_causal "
        "return_debug_mask | scale window_size_left window_size_right seqused_k alibi_slopes"
    ),
    "_flash_attention_backward": (
        "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p "
        "is_causal * * | scale window_size_left window_size_right"
    ),
    "_efficient_attention_forward": (
        "query key value bias cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k dropout_p "
        "custom_mask_type | compute_log_sumexp scale seqlen_k window_size"
    ),
    "_efficient_attention_backward": (
        "grad_out_ query key value bias out cu_seqlens_q cu_seqlens_k max_seqlen_q "
        "max_seqlen_k logsumexp dropout_p philox_seed philox_offset custom_mask_type "
        "bias_requires_grad | scale num_splits_key window_size"
    ),
    "_scaled_dot_product_cudnn_attention": (
        "query key value attn_bias compute_log_sumexp | dropout_p is_causal "
        "return_debug_mask scale"
    ),
    "_scaled_dot_product_cudnn_attention_backward": (
        "grad_out query key value out logsumexp philox_seed philox_offset attn_bias cum_seq_q "
        "cum_seq_k max_q max_k dropout_p is_causal | scale"
    ),
    "_cudnn_attention_forward": (
        "query key value attn_bias cum_seq_q cum_seq_k max_q max_k compute_log_sumexp | "
        "dropout_p is_causal return_debug_mask scale"
    ),
    "_cudnn_attention_backward": (
        "grad_out query key value out logsumexp philox_seed philox_offset attn_bias cum_seq_q "
        "cum_seq_k max_q max_k dropout_p is_causal | scale"
    ),
}
#: The operators of each kernel.
_OPERATORS = {
    "flash": ("_flash_attention_forward", "_flash_attention_backward"),
    "efficient": ("_efficient_attention_forward", "_efficient_attention_backward"),
    "cudnn": (
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_cudnn_attention_backward",
    ),
    "cudnn packed": ("_cudnn_attention_forward", "_cudnn_attention_backward"),
}

_log = logging.getLogger("anyflash")
_ops = torch.ops.aten
_INF = float("inf")


def _schema(operator):
    packet = getattr(_ops, operator, None)
    return None if packet is None else packet.default._schema


def differs(schema, known):
    """How a schema's arguments differ from a row of _KNOWN, as text; None if they agree."""
    required, _, optional = known.partition("|")
    wanted = required.split() + optional.split()
    have = list(schema.arguments)
    for place, name in enumerate(wanted):
        if place >= len(have):
            return f"has no {name}"
        if name not in ("*", have[place].name):
            return f"has {have[place].name} where {name} is expected"
    for argument in have[len(wanted) :]:
        if not argument.has_default_value():
            return f"requires {argument.name}, which is unknown"
    return None


_found = {}


@torch.compiler.assume_constant_result
def missing(kernel):
    """Which of the kernel's operators is missing or unknown, as text; None if none is."""
    if kernel not in _found:
        _found[kernel] = reason = _missing(kernel)
        if reason is not None:
            _log.info("torch's %s kernel is not used: %s", kernel, reason)
    return _found[kernel]


def _missing(kernel):
    for operator in _OPERATORS[kernel]:
        schema = _schema(operator)
        if schema is None:
            return f"torch {torch.__version__} has no {operator}"
        difference = differs(schema, _KNOWN[operator])
        if difference is not None:
            return f"the {operator} of torch {torch.__version__} {difference}"
    return None


def _has(operator, argument):
    schema = _schema(operator)
    return schema is not None and any(x.name == argument for x in schema.arguments)


_flash_schema = _schema("_flash_attention_forward")
#: Whether flash supports a block table (never under ROCm).
TAKES_PAGES = _has("_flash_attention_forward", "block_table") and not torch.version.hip
#: Whether torch accepts packed sequences for cuDNN: since 2.14.
PACKED_CUDNN = _has("_cudnn_attention_forward", "seqused_k")
RANDOM_STATE = _flash_schema.returns[2].name if _flash_schema else None
#: Whether a compiled graph can contain flash and efficient; torch 2.4 has no Meta kernels.
TRACED = _flash_schema is not None and torch._C._dispatch_has_kernel_for_dispatch_key(
    _flash_schema.name, "Meta"
)
#: Whether a compiled graph can contain the efficient kernel's gradient. The Meta kernel of
#: torch 2.4 to 2.11 lacks arguments that the operator has.
TRACED_EFFICIENT_GRADIENT = TRACED and "out" in inspect.signature(
    getattr(torch._meta_registrations, "meta__efficient_attention_backward", len)
).parameters
_RELEASE = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
#: Whether the efficient kernel supports fewer key heads than query heads.
EFFICIENT_GROUPS = _RELEASE >= (2, 14) and not torch.version.hip

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


def by_row(lse, cu_q, total):
    """lse [B, H, S], [H, total] or padded [B, H, longest] as [.., rows, H], like out."""
    if cu_q is None:
        return lse.transpose(-1, -2)[:, :total]
    if lse.dim() == 2:
        return lse.transpose(0, 1)
    position = torch.arange(total, device=lse.device)
    starts = cu_q.to(position.dtype)
    batch = torch.searchsorted(starts, position, right=True) - 1
    return lse[batch, :, position - starts[batch]]


def _with_sinks(out, lse, sinks, cu_q):
    """(out, lse) with one sink per head: an extra key that takes weight but adds no value."""
    lse = torch.where(lse == _INF, -_INF, lse)
    wider = torch.logaddexp(lse, sinks.float()[:, None])
    part = by_row(torch.exp(lse - wider), cu_q, _rows(out, cu_q))
    return (out * part.unsqueeze(-1)).to(out.dtype), wider


def _rows(out, cu_q):
    """How many query rows out has: in all if sequences are packed, else per sequence."""
    return out.shape[0 if cu_q is not None else 1]


def _flash_forward(q, k, v, cu_q, cu_k, most, dropout, scale, mask, **more):
    causal, left, right = mask
    options = {"window_size_left": left, "window_size_right": right, "scale": scale, **more}
    return _ops._flash_attention_forward(
        q, k, v, cu_q, cu_k, *most, dropout, causal, False, **options
    )[:4]


def _flash_backward(tensors, cu_q, cu_k, most, dropout, scale, mask, random, bias):
    causal, left, right = mask
    window = {"window_size_left": left, "window_size_right": right}
    given = (*tensors, cu_q, cu_k, *most, dropout, causal, *random)
    return _ops._flash_attention_backward(*given, scale=scale, **window)


def _efficient_mask(mask):
    """(custom_mask_type, window_size): left + 1 keys up to the diagonal."""
    causal, left, _ = mask
    return (_BOTTOM_RIGHT if causal else _NO_MASK), (None if left is None else left + 1)


def _one_batch(cu_q, tensors):
    """Packed tensors as a batch of one, which the efficient kernel requires."""
    return tensors if cu_q is None else [x[None] for x in tensors]


def _efficient_forward(q, k, v, cu_q, cu_k, most, dropout, scale, mask, bias=None, used=None):
    kind, window = _efficient_mask(mask)
    longest = most if cu_q is not None else (None, None)
    out, lse, seed, offset = _ops._efficient_attention_forward(
        *_one_batch(cu_q, (q, k, v)),
        bias,
        cu_q,
        cu_k,
        *longest,
        dropout,
        kind,
        True,
        scale=scale,
        seqlen_k=used,
        window_size=window,
    )[:4]
    return (out if cu_q is None else out[0]), lse, seed, offset


def _efficient_backward(tensors, cu_q, cu_k, most, dropout, scale, mask, random, bias):
    kind, window = _efficient_mask(mask)
    *rows, lse = tensors
    dout, q, k, v, out = _one_batch(cu_q, rows)
    given = (dout, q, k, v, bias, out, cu_q, cu_k, *most, lse, dropout, *random, kind, False)
    found = _ops._efficient_attention_backward(*given, scale=scale, window_size=window)[:3]
    return found if cu_q is None else [x[0] for x in found]


def _cudnn_forward(q, k, v, cu_q, cu_k, most, dropout, scale, mask):
    causal = mask[0]
    if cu_q is not None:
        given = (q, k, v, None, cu_q, cu_k, *most, True, 0.0, causal, False)
        found = _ops._cudnn_attention_forward(*given, scale=scale)
        return found[0], found[1], found[6], found[7]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    found = _ops._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, causal, False, scale=scale
    )
    return found[0].transpose(1, 2), found[1].squeeze(-1), found[6], found[7]


def _cudnn_backward(tensors, cu_q, cu_k, most, dropout, scale, mask, random, bias):
    *rows, lse = tensors
    rest = (*random, None, cu_q, cu_k, *most, 0.0, mask[0])
    if cu_q is not None:
        return _ops._cudnn_attention_backward(*rows, lse, *rest, scale=scale)
    rows = [x.transpose(1, 2) for x in rows]
    backward = _ops._scaled_dot_product_cudnn_attention_backward
    found = backward(*rows, lse.unsqueeze(-1), *rest, scale=scale)
    return [x.transpose(1, 2) for x in found]


_KERNELS = {
    "flash": (_flash_forward, _flash_backward),
    "efficient": (_efficient_forward, _efficient_backward),
    "cudnn": (_cudnn_forward, _cudnn_backward),
}


def _forward(kernel, q, k, v, sinks, seen, cu_q, cu_k, options, **more):
    """(out, lse, random state in two tensors), lse in the kernel's own layout."""
    out, lse, seed, offset = _KERNELS[kernel][0](q, k, v, cu_q, cu_k, *options, **more)
    if seen is not None:
        # Kernels return different values for a row that sees no key; its weights must be 0.
        row = by_row(seen[:, None], cu_q, _rows(out, cu_q))
        if lse.dim() == 3:
            seen = pad(seen, (0, lse.shape[-1] - seen.shape[-1]))[:, None]
        else:
            seen = row[:, 0]
        lse = torch.where(seen, lse, _INF)
        out = torch.where(row.unsqueeze(-1), out, 0.0)
    if sinks is not None:
        out, wider = _with_sinks(out, lse, sinks, cu_q)
        if kernel == "efficient":
            # The padding rows up to a multiple of 32 stay +inf, because the gradient relies on
            # that.
            lse = torch.where(_is_row(lse, cu_q, options[0][0]), wider, lse)
        else:
            lse = wider
    return out, lse, seed, offset


def _is_row(lse, cu_q, longest):
    """Which columns of lse [B, H, padded] belong to a query, broadcast to it."""
    column = torch.arange(lse.shape[-1], device=lse.device)
    return column < (longest if cu_q is None else (cu_q[1:] - cu_q[:-1])[:, None, None])


class _Attend(torch.autograd.Function):
    """A forward kernel and its gradients, including those of sinks.

    With sinks, out and lse are those of all weights, so that the backward kernel forms the
    right weights from lse and the right row sums from out.
    """

    @staticmethod
    def forward(
        ctx, kernel, q, k, v, sinks, seen, bias, cu_q, cu_k, most, dropout, scale, mask, exact
    ):
        options = most, dropout, scale, mask
        more = {} if bias is None else {"bias": bias}
        given = (q, k, v, sinks, seen, cu_q, cu_k, options)
        out, lse, seed, offset = _forward(kernel, *given, **more)
        ctx.save_for_backward(q, k, v, sinks, bias, cu_q, cu_k, out, lse, seed, offset)
        ctx.options = kernel, options, exact
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        q, k, v, sinks, bias, cu_q, cu_k, out, lse, seed, offset = ctx.saved_tensors
        kernel, options, exact = ctx.options
        dout = dout.contiguous()
        with _Deterministic(exact):
            tensors = (dout, q, k, v, out, lse)
            dq, dk, dv = _KERNELS[kernel][1](
                tensors, cu_q, cu_k, *options, (seed, offset), bias
            )
        dsinks = None
        if sinks is not None:
            taken = torch.exp(sinks.float()[:, None] - lse)
            taken = by_row(taken, cu_q, _rows(out, cu_q))
            rows = (dout.float() * out.float()).sum(-1) * taken
            dsinks = -rows.flatten(0, -2).sum(0).to(sinks.dtype)
        return (None, dq, dk, dv, dsinks, *[None] * 9)


def attend(
    kernel, q, k, v, *, cu_q=None, cu_k=None, most=None,
    dropout=0.0, scale, causal=False, window=(-1, -1),
    sinks=None, seen=None, bias=None, deterministic=False, gradient=False, **more,
):
    """Attention aligned to the bottom right corner, by one kernel: (out, lse).

    cu_q and cu_k with most=(longest q, longest k): packed sequences. seen: bool [1 or B,
    longest q], which rows see a key, for kernels whose result is undefined in the other rows.
    bias [B, H, Sq, Sk] (efficient). `more`: options of the operator without a gradient:
    seqused_k, alibi_slopes, block_table (flash), used (efficient). D must be a multiple of 8.
    """
    left, right = [None if side < 0 else side for side in window]
    mask = (causal, left, 0 if causal else right)
    most = most or (q.shape[1], k.shape[1])
    if gradient:
        given = (kernel, q, k, v, sinks, seen, bias, cu_q, cu_k)
        out, lse = _Attend.apply(*given, most, dropout, scale, mask, deterministic)
    else:
        if bias is not None:
            more["bias"] = bias
        options = most, dropout, scale, mask
        out, lse, _, _ = _forward(kernel, q, k, v, sinks, seen, cu_q, cu_k, options, **more)
    if cu_q is None:
        return out, lse[:, :, : q.shape[1]]
    if lse.dim() == 3:
        lse = by_row(lse, cu_q, q.shape[0]).transpose(0, 1)
    return out, lse
