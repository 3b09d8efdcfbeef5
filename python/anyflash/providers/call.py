"""The arguments of one attention, the same for all of flash_attn's seven functions.

Letters: B batch, H query heads, G key heads, Sq and Sk lengths, D head size.
"""

import torch

_peek = torch._C._functorch.peek_interpreter_stack

#: Values of Call.want: the output; also the logsumexp; also the probabilities.
OUT, LSE, PROBABILITIES = 0, 1, 2


#: Attributes that have defaults in the class Call.
_RARE = (
    "cu_q cu_k max_q max_k seqused_k block_table sinks cache k_new v_new rotary_cos rotary_sin "
    "interleaved batch_idx leftpad num_splits"
).split()


def _pair(window):
    """A window as numbers; flash-attn also takes a tensor of two, and its tests pass one."""
    return tuple(window.tolist()) if isinstance(window, torch.Tensor) else window


class Call:
    """The arguments of one attention; providers read them and never change them.

    q: [B, Sq, H, D], or [total, H, D] with cu_q; k, v: [B, Sk, G, D], [total, G, D] with
    cu_k, or pages [pages, page size, G, D] with block_table. window is (left, right), -1
    without a limit, aligned with causal to the bottom right corner. `cache`: k, v are a
    cache whose first seqused_k rows hold keys (None: all); k_new, v_new are written into it.
    There is no gradient then.
    """

    # Class attributes, so that a call without them costs nothing for them.
    cu_q = cu_k = block_table = seqused_k = sinks = None
    max_q = max_k = 0
    cache = False
    k_new = v_new = rotary_cos = rotary_sin = batch_idx = leftpad = None
    interleaved = True
    num_splits = 0

    def __init__(
        self, q, k, v, dropout, scale, causal, window, softcap,
        alibi_slopes, deterministic, want,
    ):
        self.q, self.k, self.v = q, k, v
        self.dropout, self.scale, self.causal = dropout, scale, causal
        self.window = window if type(window) is tuple else _pair(window)
        self.softcap, self.alibi_slopes = softcap, alibi_slopes
        self.deterministic, self.want = deterministic, want

    def but(self, **changes):
        """A copy with these attributes changed."""
        mask = (self.scale, self.causal, self.window, self.softcap, self.alibi_slopes)
        options = (self.dropout, *mask, self.deterministic, self.want)
        new = Call(self.q, self.k, self.v, *options)
        for name in _RARE:
            setattr(new, name, getattr(self, name))
        for name, value in changes.items():
            setattr(new, name, value)
        return new

    @property
    def limits(self):
        """(left, right) of the window with causal in it."""
        left, right = self.window
        return (left, 0) if self.causal else (left, right)

    @property
    def softmax_scale(self):
        return self.q.shape[-1] ** -0.5 if self.scale is None else self.scale


def needs_gradient(call):
    if call.cache or not torch.is_grad_enabled():
        return False
    sinks = call.sinks
    return (
        call.q.requires_grad
        or call.k.requires_grad
        or call.v.requires_grad
        or (sinks is not None and sinks.requires_grad)
    )


def transformed():
    """Whether a torch.func transform (vmap, grad, ...) is active."""
    return not torch.compiler.is_compiling() and _peek() is not None


def unit(tensor):
    """The tensor with a contiguous last dimension."""
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


def seed(dropout):
    """A seed for the engine's dropout, drawn from torch's generator, so that
    torch.manual_seed() determines it; 0 without dropout."""
    return int(torch.empty((), dtype=torch.int64).random_()) if dropout > 0 else 0
