"""The engine's AMX kernels: whether this process can run them, and whether they are right.

    if is_available() and is_right():
        ...                                 # time them

Nobody has run these kernels on a processor with AMX yet (docs/design/amx.md), so calibration
compares their results with the formula before it times them, in bfloat16 and in float16.

They run in this process, not in a child. An illegal instruction is possible only where the
processor or the system lacks AMX, and there is_available() is false: the engine reads what the
processor reports and whether the system saves the tiles, and asks for permission, as oneDNN
does in torch. Accesses beyond a tensor are what the engine's tests look for, which run these
kernels next to guard pages. A forked child of a process with threads may wait forever for a
lock that one of them held, and a new interpreter would take longer than the whole calibration.
"""

import itertools
import math

import torch

from . import _attend, _lib

CPU_LEVEL = 6  # enum anyflash_cpu_level

#: Queries, keys, head size, and whether causal: parts of tiles, which have 32 rows and columns,
#: and more than one block of keys.
_CASES = ((33, 47, 40, False), (70, 131, 72, True), (101, 163, 128, True))

#: The types that they compute, and how much a rounding to each may change a number.
_UNITS = {torch.bfloat16: 2**-8, torch.float16: 2**-11}


def _context():
    """A context of one thread: the choice of the process stays as it is."""
    return _lib._Context(1, CPU_LEVEL)


def is_available():
    """Whether the engine has these kernels and this process may run them. Asks the system."""
    text = _lib.explain_kernel(_threads_of=_context())
    return all(f"{what}_bf16__amx" in text for what in (": af_fwd", ": af_bwd"))


def _formula(q, k, v, dout, causal, dtype):
    """Attention and its gradients in float64, the result of every step rounded to dtype."""

    def rounded(x):
        return x.to(dtype).double()

    q, k, v, dout = q.double(), k.double(), v.double(), dout.double()
    scale = q.shape[-1] ** -0.5
    scores = rounded(q @ k.mT * scale)
    if causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cpu")
        scores = scores.masked_fill(ones.triu(1 + k.shape[-2] - q.shape[-2]), -math.inf)
    weights = rounded(scores.softmax(-1))
    out = rounded(weights @ v)
    change = rounded(dout @ v.mT) - (dout * out).sum(-1, keepdim=True)
    dscores = rounded(weights * change)
    dq, dk = rounded(dscores @ k * scale), rounded(dscores.mT @ q * scale)
    return out, dq, dk, rounded(weights.mT @ dout)


def _kernels(q, k, v, dout, causal):
    """The same by the engine's kernels for AMX."""
    options = {"layout": "bhsd", "causal": causal, "_threads_of": _context()}
    out, lse = _attend.attend(q, k, v, return_lse=True, **options)
    return (out, *_attend.attend_backward(dout, q, k, v, out, lse, **options))


def _is_near(have, want, plain):
    """Whether the error is at most twice that of the plain formula in the type of `have`, plus
    a rounding of the largest number: the bound that the engine's tests use."""
    bound = 2 * (plain - want).abs().max() + _UNITS[have.dtype] * want.abs().max()
    return bool((have.double() - want).abs().max() <= bound)  # not if it is nan


def is_right():
    """Whether the kernels compute some small problems correctly, forward and backward."""
    random = torch.Generator("cpu").manual_seed(1)
    for dtype, (queries, keys, size, causal) in itertools.product(_UNITS, _CASES):
        shapes = ((1, 1, rows, size) for rows in (queries, keys, keys, queries))
        options = {"generator": random, "dtype": torch.float32, "device": "cpu"}
        inputs = [torch.randn(shape, **options).to(dtype) for shape in shapes]
        have = _kernels(*inputs, causal)
        want = _formula(*inputs, causal, torch.float64)
        plain = _formula(*inputs, causal, dtype)
        if not all(map(_is_near, have, want, plain)):
            return False
    return True
