"""torch operators anyflash::attend and anyflash::attend_backward on the CPU, by the engine.

They have fakes and autograd, so they work under torch.compile(fullgraph=True). In eager
mode without a gradient attend() calls the engine itself: an operator of torch.library
costs more than a small attention.
"""

import ctypes

import torch

from . import _attend, _lib
from .torch import libtorch_cpu

_OPTIONS = (
    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, "
    "Tensor? seqused_k, Tensor? leftpad_k, Tensor? block_table, Tensor? alibi_slopes, "
    "Tensor? sinks, float scale, bool causal, int window_left, int window_right, "
    "float softcap, float dropout, int seed"
)
#: Number of _OPTIONS.
_OPTION_COUNT = 16


class _TorchThreads:
    """The engine on torch's own threads: two pools in one process would fight."""

    def __init__(self):
        self.of = _lib._library.anyflash_torch_context
        self.of.restype, self.of.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        self.torch = libtorch_cpu()

    def get(self):
        return ctypes.c_void_p(self.of(self.torch._handle))


_threads = _TorchThreads()
_library = torch.library.Library("anyflash", "DEF")
_library.define(f"attend(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)")
_library.define(
    f"attend_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, "
    f"Tensor lse, {_OPTIONS}) -> (Tensor, Tensor, Tensor)"
)


def _named(
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    seqused_k,
    leftpad_k,
    block_table,
    alibi_slopes,
    sinks,
    scale,
    causal,
    window_left,
    window_right,
    softcap,
    dropout,
    seed,
):
    """The options as attend() of this package takes them."""
    return {
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "max_seqlen_q": max_seqlen_q,
        "max_seqlen_k": max_seqlen_k,
        "seqused_k": seqused_k,
        "leftpad_k": leftpad_k,
        "block_table": block_table,
        "alibi_slopes": alibi_slopes,
        "sinks": sinks,
        "scale": scale,
        "causal": causal,
        "window": (window_left, window_right),
        "softcap": softcap,
        "dropout": dropout,
        "philox": (seed, 0),
    }


def _lse_shape(q, packed):
    if packed:
        return (q.shape[1], q.shape[0])
    return (q.shape[0], q.shape[2], q.shape[1])


def _forward(q, k, v, *options):
    with torch.no_grad():
        return _attend.attend(
            q, k, v, return_lse=True, _threads_of=_threads, **_named(*options)
        )


def _backward(dout, q, k, v, out, lse, *options):
    with torch.no_grad():
        if dout.stride(-1) != 1:
            dout = dout.contiguous()
        return _attend.attend_backward(
            dout, q, k, v, out, lse, _threads_of=_threads, **_named(*options)
        )


def _forward_fake(q, k, v, *options):
    packed = options[0] is not None
    return (
        q.new_empty((*q.shape[:-1], v.shape[-1])),
        q.new_empty(_lse_shape(q, packed), dtype=torch.float32),
    )


def _backward_fake(dout, q, k, v, out, lse, *options):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx, inputs, output):
    tensors = [*inputs[:3], *output, *inputs[3:5], *inputs[7:12]]
    ctx.save_for_backward(*tensors)
    ctx.options = inputs[3:]
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx, dout, dlse):
    saved = ctx.saved_tensors
    q, k, v, out, lse = saved[:5]
    options = list(ctx.options)
    options[0:2], options[4:9] = saved[5:7], saved[7:12]
    if options[4] is not None or options[6] is not None:
        raise RuntimeError("there is no gradient through a KV cache")
    gradients = torch.ops.anyflash.attend_backward(dout, q, k, v, out, lse, *options)
    return (*gradients, *[None] * _OPTION_COUNT)


_library.impl("attend", _forward, "CPU")
_library.impl("attend_backward", _backward, "CPU")
torch.library.register_fake("anyflash::attend", _forward_fake, lib=_library)
torch.library.register_fake("anyflash::attend_backward", _backward_fake, lib=_library)
torch.library.register_autograd(
    "anyflash::attend", _gradients, setup_context=_keep, lib=_library
)


def attend(q, k, v, *options):
    """(out, lse) of CPU tensors; differentiable in q, k, v."""
    if torch.compiler.is_compiling() or (
        torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    ):
        return torch.ops.anyflash.attend(q, k, v, *options)
    return _attend.attend(q, k, v, return_lse=True, _threads_of=_threads, **_named(*options))
