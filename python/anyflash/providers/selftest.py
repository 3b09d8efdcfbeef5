"""Self-test of torch's kernels on a device: a small known problem before their first use.

It finds what a build of torch leaves out (its CUDA wheels have no ALiBi) and what a GPU is too
old for before a user's tensors do. The result holds for the process.
"""

import torch

from . import aten, plain
from .call import LSE, Call

#: Largest error, as part of a result's largest value; more is wrong, not rounding.
_BOUND = 0.02

_known = {}


def _waves(shape, step, device, dtype):
    """Values made without the random generator, whose state belongs to the user."""
    count = torch.Size(shape).numel()
    values = torch.sin(torch.arange(count, dtype=torch.float32, device=device) * step)
    return values.reshape(shape).to(dtype)


def _problem(device, dtype, packed):
    shapes = ((38, 4, 64), (110, 2, 64), (110, 2, 64))
    if not packed:
        shapes = ((2, 38, 4, 64), (2, 110, 2, 64), (2, 110, 2, 64))
    return [
        _waves(shape, step, device, dtype).requires_grad_()
        for shape, step in zip(shapes, (0.7, 1.1, 1.3))
    ]


def _expected(q, k, v, cu_q, cu_k, slopes=None, causal=True, window=(20, 0)):
    call = Call(
        q.float(), k.float(), v.float(), 0.0, 0.125, causal, window, 0.0, slopes, False, LSE
    )
    if cu_q is not None:
        call.cu_q, call.cu_k, call.max_q, call.max_k = cu_q, cu_k, 33, 70
    return plain.forward(call)[:2]


def _run(kernel, device, dtype):
    """(found, wanted): outputs, logsumexps and gradients, as lists."""
    cu_q = torch.tensor([0, 5, 38], dtype=torch.int32, device=device)
    cu_k = torch.tensor([0, 70, 110], dtype=torch.int32, device=device)
    if kernel == "flash alibi":
        q, k, v = [x.detach() for x in _problem(device, dtype, False)]
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=device)
        options = {"scale": 0.125, "causal": True, "window": (20, 0)}
        found = aten.flash(q, k, v, alibi_slopes=slopes, **options)
        return found, _expected(q, k, v, None, None, slopes)
    q, k, v = _problem(device, dtype, True)
    options = {"scale": 0.125, "causal": True, "most": (33, 70)}
    if kernel == "flash":
        window = (20, 0)
        found = aten.flash(
            q, k, v, cu_q=cu_q, cu_k=cu_k, window=window, gradient=True, **options
        )
    else:
        window = (-1, -1)
        found = aten.efficient(q, k, v, cu_q=cu_q, cu_k=cu_k, **options)
    wanted = _expected(q, k, v, cu_q, cu_k, window=window)
    weight = _waves(found[0].shape, 0.3, device, dtype)
    return tuple(
        (*pair, *torch.autograd.grad(pair[0], (q, k, v), weight.to(pair[0].dtype)))
        for pair in (found, wanted)
    )


def _distance(have, want):
    have, want = have.detach().float(), want.detach().float()
    return float((have - want).abs().max() / want.abs().max())


def _failure(kernel, device, dtype):
    try:
        with torch.inference_mode(False), torch.enable_grad():
            found, wanted = _run(kernel, device, dtype)
            off = [_distance(*pair) for pair in zip(found, wanted)]
    except Exception as error:  # any error is a reason not to use the kernel
        return f"{kernel}: {str(error).splitlines()[0] if str(error) else repr(error)}"
    if all(x < _BOUND for x in off):
        return None
    return f"{kernel}: misses a known answer by {max(off):.0%}"


def _capturing(device):
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@torch.compiler.assume_constant_result
def failure(kernel, device, dtype):
    """None, or why `kernel` ("flash", "flash alibi", "efficient") cannot be used there."""
    key = (kernel, device, dtype)
    if key not in _known:
        if _capturing(device):
            return None
        _known[key] = _failure(kernel, device, dtype)
    return _known[key]
