"""torch operators of the namespace anyflash, on the CPU by the engine.

    out, lse = torch.ops.anyflash.attend(q, k, v, causal=True)

anyflash::attend is differentiable. anyflash::attend_forward is the same without a gradient and
with less overhead; its overloads have still less: `dense` has only two options, `only_out` also
returns no lse. All have fake kernels, so they work under torch.compile(fullgraph=True).
anyflash::attend_dropout draws its seed from torch's generator, which code in a compiled graph
cannot do. The kernels are in C if torch's C shim can register them (torch 2.7 and newer), else
in Python.
"""

import ctypes

import torch

from . import _attend, _lib
from ._libtorch import ATTEND, ATTEND_BACKWARD, ATTEND_DENSE, caller, libtorch_cpu

_OPTIONS = (
    "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, SymInt max_seqlen_q=0, "
    "SymInt max_seqlen_k=0, Tensor? seqused_k=None, Tensor? leftpad_k=None, "
    "Tensor? block_table=None, Tensor? alibi_slopes=None, Tensor? sinks=None, "
    f"float scale={_lib.DEFAULT_SCALE}, bool causal=False, "
    "int window_left=-1, int window_right=-1, float softcap=0.0, float dropout=0.0, int seed=0"
)
_DEFAULTS = (
    *(None, None, 0, 0, None, None, None, None, None),
    *(_lib.DEFAULT_SCALE, False, -1, -1, 0.0, 0.0, 0),
)
_NAMES = [option.split()[1].partition("=")[0] for option in _OPTIONS.split(", ")]
_OPTION_COUNT, _SINKS = len(_NAMES), _NAMES.index("sinks")


class _TorchThreads:
    """Contexts that run the engine on torch's threads: two thread pools would compete."""

    def __init__(self):
        self.of = _lib.bindings.anyflash_torch_context
        self.of.restype, self.of.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        self.torch = libtorch_cpu()

    def get(self):
        return ctypes.c_void_p(self.of(self.torch._handle))


_threads = _TorchThreads()
_library = torch.library.Library("anyflash", "DEF")
for _name in ("attend", "attend_forward"):
    _library.define(f"{_name}(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)")
for _name, _results in (("dense", "(Tensor, Tensor)"), ("only_out", "Tensor")):
    _library.define(
        f"attend_forward.{_name}(Tensor q, Tensor k, Tensor v, float scale, bool causal) "
        f"-> {_results}"
    )
_library.define(
    f"attend_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, "
    f"Tensor lse, {_OPTIONS}) -> (Tensor, Tensor, Tensor)"
)
_SEEDLESS = _OPTIONS[: _OPTIONS.rindex(", int seed")]
_library.define(
    f"attend_dropout(Tensor q, Tensor k, Tensor v, {_SEEDLESS}) -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.nondeterministic_seeded,),
)
_library.define(
    f"attend_dropout_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, "
    f"Tensor lse, Tensor seed, {_SEEDLESS}) -> (Tensor, Tensor, Tensor)"
)


def _named(*options, **named):
    """The options by the names of anyflash.attend()."""
    found = {**dict(zip(_NAMES, _DEFAULTS)), **dict(zip(_NAMES, options)), **named}
    found["window"] = found.pop("window_left"), found.pop("window_right")
    found["philox"] = found.pop("seed"), 0
    if found["scale"] == _lib.DEFAULT_SCALE:
        found["scale"] = None
    return found


def _lse_shape(q, packed):
    if packed:
        return (q.shape[1], q.shape[0])
    return (q.shape[0], q.shape[2], q.shape[1])


def _forward(q, k, v, *options, **named):
    with torch.no_grad():
        return _attend.attend(
            q, k, v, return_lse=True, _threads_of=_threads, **_named(*options, **named)
        )


def _backward(dout, q, k, v, out, lse, *options, **named):
    with torch.no_grad():
        if dout.stride(-1) != 1:
            dout = dout.contiguous()
        return _attend.attend_backward(
            dout, q, k, v, out, lse, _threads_of=_threads, **_named(*options, **named)
        )


def _forward_dropout(q, k, v, *options):
    seed = torch.empty((), dtype=torch.int64).random_()
    options += _DEFAULTS[len(options) : _OPTION_COUNT - 1]
    return (*torch.ops.anyflash.attend_forward(q, k, v, *options, int(seed)), seed)


def _backward_dropout(dout, q, k, v, out, lse, seed, *options):
    options += _DEFAULTS[len(options) : _OPTION_COUNT - 1]
    return torch.ops.anyflash.attend_backward(dout, q, k, v, out, lse, *options, int(seed))


def _forward_fake(q, k, v, cu_seqlens_q=None, *options, **named):
    packed = cu_seqlens_q is not None
    return (
        q.new_empty((*q.shape[:-1], v.shape[-1])),
        q.new_empty(_lse_shape(q, packed), dtype=torch.float32),
    )


def _forward_dense_fake(q, k, v, scale, causal):
    return _forward_fake(q, k, v)


def _forward_only_out_fake(q, k, v, scale, causal):
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


def _forward_dropout_fake(q, k, v, *options, **named):
    return (*_forward_fake(q, k, v, *options, **named), q.new_empty((), dtype=torch.int64))


def _backward_fake(dout, q, k, v, out, lse, *options, **named):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx, inputs, output):
    tensors = [*output, *inputs[:3], *inputs[3:5], *inputs[7:12]]
    ctx.save_for_backward(*tensors)
    ctx.options, ctx.outputs = inputs[3:], len(output)
    ctx.mark_non_differentiable(*output[1:])


def _sinks_gradient(dout, out, lse, sinks):
    """Gradient of sinks [H]: the share of each row's weight that a sink takes, times dout * out
    of that row."""
    share = torch.exp(sinks[:, None] - lse).transpose(-1, -2)
    lost = (dout.float() * out.float()).sum(-1)
    return -(share * lost).flatten(0, -2).sum(0)


def _gradients(ctx, dout, *of_others):
    (out, lse, *seed), saved = (
        ctx.saved_tensors[: ctx.outputs],
        ctx.saved_tensors[ctx.outputs :],
    )
    q, k, v = saved[:3]
    options = list(ctx.options)
    options[0:2], options[4:9] = saved[3:5], saved[5:10]
    if options[4] is not None or options[6] is not None:
        raise RuntimeError("there is no gradient through a KV cache")
    backward = torch.ops.anyflash.attend_backward
    if seed:
        backward = torch.ops.anyflash.attend_dropout_backward
    gradients = backward(dout, q, k, v, out, lse, *seed, *options)
    rest = [None] * (_OPTION_COUNT - len(seed))
    if ctx.needs_input_grad[3 + _SINKS :][:1] == (True,):  # defaults may be left out
        rest[_SINKS] = _sinks_gradient(dout, out, lse, options[_SINKS])
    return (*gradients, *rest)


def _callers():
    """Kernels in Python that call those in C, which return None for wrong arguments; _attend
    then raises the error that names the argument."""
    full, dense, backward = map(caller, (ATTEND, ATTEND_DENSE, ATTEND_BACKWARD))

    def in_python(q, k, v, *options):
        done = full(q, k, v, *options, *_DEFAULTS[len(options) :])
        return _forward(q, k, v, *options) if done is None else done

    def in_python_dense(q, k, v, scale, causal):
        done = dense(q, k, v, scale, causal)
        return _forward(q, k, v, scale=scale, causal=causal) if done is None else done

    def in_python_backward(dout, q, k, v, out, lse, *options):
        options += _DEFAULTS[len(options) :]
        done = backward(dout, q, k, v, out, lse, *options)
        return _backward(dout, q, k, v, out, lse, *options) if done is None else done

    def in_python_only_out(*given):
        return in_python_dense(*given)[0]

    return in_python, in_python_dense, in_python_only_out, in_python_backward


def _register_kernels():
    """Registers the kernels in C and returns None; if this torch's C shim cannot, or if there
    is no engine, registers them in Python and returns those of attend_forward and its
    overloads."""
    register = _lib.bindings.anyflash_torch_operators
    register.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    if not _lib.missing and register(libtorch_cpu()._handle, None) == 0:
        return None
    forward, dense, only_out, backward = _callers()
    for name in ("attend", "attend_forward"):
        _library.impl(name, forward, "CPU")
    _library.impl("attend_forward.dense", dense, "CPU")
    _library.impl("attend_forward.only_out", only_out, "CPU")
    _library.impl("attend_backward", backward, "CPU")
    return forward, dense, only_out


_in_python = _register_kernels()
#: Whether the operators' kernels are C.
IN_C = _in_python is None
_library.impl("attend_dropout", _forward_dropout, "CPU")
_library.impl("attend_dropout_backward", _backward_dropout, "CPU")
for _name, _fake in {
    "attend": _forward_fake,
    "attend_forward": _forward_fake,
    "attend_forward.dense": _forward_dense_fake,
    "attend_forward.only_out": _forward_only_out_fake,
    "attend_backward": _backward_fake,
    "attend_dropout": _forward_dropout_fake,
    "attend_dropout_backward": _backward_fake,
}.items():
    torch.library.register_fake(f"anyflash::{_name}", _fake, lib=_library)
for _name in ("anyflash::attend", "anyflash::attend_dropout"):
    torch.library.register_autograd(_name, _gradients, setup_context=_keep, lib=_library)
_differentiable = torch.ops.anyflash.attend.default
_dropped = torch.ops.anyflash.attend_dropout.default
_only_forward = torch.ops.anyflash.attend_forward.default
_dense = torch.ops.anyflash.attend_forward.dense
_only_out = torch.ops.anyflash.attend_forward.only_out
#: attend_forward and its overloads with the least overhead: a kernel that is in Python is
#: called directly, not as an operator.
quick_forward, quick_dense, quick_only_out = _in_python or (_only_forward, _dense, _only_out)


def _refuse(error, q, k, v, options):
    """Raises the exception class of the Python checks: an operator raises only RuntimeError."""
    if all(x.device.type == "cpu" for x in (q, k, v)):
        _forward(q, k, v, *options)
    raise error


class _Recorded(torch.autograd.Function):
    """anyflash::attend in eager mode, with a tenth of the operator's autograd overhead. No
    setup_context(): with it, torch binds the signature of forward() again in each call."""

    @staticmethod
    def forward(ctx, *inputs):
        output = _only_forward(*inputs)
        _keep(ctx, inputs, output)
        return output

    backward = staticmethod(_gradients)


def _eager(q, k, v, options):
    """Calls the overload with the fewest arguments, each of which costs 0.1 us."""
    cu_q, cu_k, _, _, used, pad, table, slopes, sinks = options[:9]
    scale, causal, left, right, softcap, dropout = options[9:15]
    if torch.is_grad_enabled() and (
        q.requires_grad
        or k.requires_grad
        or v.requires_grad
        or (sinks is not None and sinks.requires_grad)
    ):
        return _Recorded.apply(q, k, v, *options)
    plain = cu_q is cu_k is used is pad is table is slopes is sinks is None
    if plain and left == right == -1 and softcap == dropout == 0:
        return _dense(q, k, v, scale, causal)
    return _only_forward(q, k, v, *options)


def attend(q, k, v, *options):
    """(out, lse) of CPU tensors; differentiable in q, k, v and sinks."""
    if torch.compiler.is_compiling():
        return _differentiable(q, k, v, *options)
    try:
        return _eager(q, k, v, options)
    except RuntimeError as error:
        return _refuse(error, q, k, v, options)


def attend_dropped(q, k, v, *options):
    """attend() with dropout in a compiled graph, which draws the seed when it runs."""
    return _dropped(q, k, v, *options)[:2]
