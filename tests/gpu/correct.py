"""The functions of flash_attn against attention's formula in float64, on the same tensors.

As in flash-attn's own tests, the largest error may be twice that of the formula in the tensors'
own type; the root of the mean square, which notices small errors of all elements, 1.5 times.
"""

import functools
import importlib
import itertools
import os

import torch

DIMS, TYPES = (32, 64, 96, 128, 192, 256), (torch.bfloat16, torch.float16)
SHAPES = (2, 113, 203, 6, 2), (1, 256, 256, 4, 4), (1, 203, 113, 4, 2)
DENSE = {"plain": {}, "causal": {"causal": True}, "window": {"window_size": (60, 10)},
         "causal, deterministic": {"causal": True, "deterministic": True},
         "softcap": {"softcap": 20.0}, "ALiBi": {"causal": True, "alibi_slopes": True},
         "scale 0": {"softmax_scale": 0.0}}
CACHE = ("plain", "causal append", "splits", "pages", "causal pages append", "index")
#: GPU_SESSION_SPOIL=0.01 makes results 1 % too large, to see that the checks notice it.
FACTOR = 1 + float(os.environ.get("GPU_SESSION_SPOIL", "0"))
integers = functools.partial(torch.tensor, dtype=torch.int32)


def tensor(*shape, dtype=torch.bfloat16, grad=True):
    return torch.randn(shape).to(dtype).requires_grad_(grad)


def formula(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
            softmax_scale=None, lengths=None, factors=None, dtype=torch.float64):
    """(out, logsumexp) of q [B, Sq, H, D] and k, v [B, Sk, G, D], computed in `dtype`.

    Masks are aligned to the bottom right. lengths [B]: how many keys each sequence has;
    factors [B, H, Sq, Sk]: dropout's factor of each weight.
    """
    rows, keys, heads = q.shape[1], k.shape[1], q.shape[2]
    k, v = (x.to(dtype).repeat_interleave(heads // x.shape[2], 2) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    scores = torch.einsum("bqhd,bkhd->bhqk", q.to(dtype) * scale, k)
    scores = torch.tanh(scores / softcap) * softcap if softcap else scores
    ends = torch.full(q.shape[:1], keys) if lengths is None else lengths.long()
    key, ends = torch.arange(keys), ends.view(-1, 1, 1)
    ahead = key - torch.arange(rows)[:, None] - ends + rows  # [B, Sq, Sk]
    left, right = (window_size[0], 0) if causal else window_size
    hidden = (key >= ends) | (ahead > (right if right >= 0 else keys + rows))
    hidden = hidden | (ahead < (-left if left >= 0 else -keys - rows))
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[:, :, None, None] * ahead[:, None].abs()
    scores = scores.masked_fill(hidden[:, None], -torch.inf)
    blind = hidden.all(-1)[:, None]  # rows that see no key
    weights = torch.softmax(scores, -1).masked_fill(blind[..., None], 0)
    weights = weights if factors is None else weights * factors
    lse = torch.logsumexp(scores.double(), -1).masked_fill(blind, torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", weights.to(dtype), v), lse


def judge(outs, leaves=()):
    """(right, text) of an output and its gradients; outs: (found, exact, in the own type)."""
    right, texts, weight = True, [], torch.randn_like(outs[0])
    gradients = [torch.autograd.grad(x, leaves, weight.to(x.dtype)) for x in outs if leaves]
    for name, (found, exact, plain) in zip(("out", "dq", "dk", "dv"), [outs, *zip(*gradients)]):
        errors = [(x.double() - exact.double()).detach() for x in (found * FACTOR, plain)]
        most, limit = (x.abs().max().item() for x in errors)
        mean, mean_limit = (x.square().mean().sqrt().item() for x in errors)
        right &= most <= 2 * limit + 1e-4 and mean <= 1.5 * mean_limit + 1e-5
        texts.append(f"{name} {most:.1e}/{limit:.1e}, mean {mean:.1e}/{mean_limit:.1e}")
    return right, "; ".join(texts)


def dense(flash, dim, dtype, name, shape):
    batch, rows, keys, heads, groups = shape
    q = tensor(batch, rows, heads, dim, dtype=dtype)
    k, v = (tensor(batch, keys, groups, dim, dtype=dtype) for _ in "kv")
    options = dict(DENSE[name])
    if "alibi_slopes" in options:
        options["alibi_slopes"] = torch.rand(batch, heads) * 0.3
    out, lse, _ = flash.flash_attn_func(q, k, v, return_attn_probs=True, **options)
    options.pop("deterministic", None)
    exact, exact_lse = formula(q, k, v, **options)
    right, text = judge((out, exact, formula(q, k, v, dtype=dtype, **options)[0]), (q, k, v))
    bound = 5e-2 if "softcap" in options else 1e-3  # kernels approximate tanh
    near = torch.allclose(lse.double(), exact_lse, atol=bound, rtol=1e-4)
    return right and near, text + "; logsumexp WRONG" * (not near)


def packed(flash, dim, dtype, options):
    rows, keys, heads, groups = (5, 0, 130, 64, 1), (70, 33, 130, 0, 300), 6, 2
    q = tensor(sum(rows), heads, dim, dtype=dtype)
    k, v = (tensor(sum(keys), groups, dim, dtype=dtype) for _ in "kv")
    starts = (integers([0, *itertools.accumulate(lengths)]) for lengths in (rows, keys))
    causal = {"causal": options == "causal"}
    out = flash.flash_attn_varlen_func(q, k, v, *starts, max(rows), max(keys), **causal)
    each = list(zip(q[None].split(rows, 1), k[None].split(keys, 1), v[None].split(keys, 1)))
    others = (torch.cat([formula(*x, **causal, dtype=kind)[0][0] for x in each])
              for kind in (torch.float64, dtype))
    return judge((out, *others), (q, k, v))


def cache(flash, dim, dtype, options, rows):
    batch, keys, heads, groups, page = 3, 512, 8, 2, 256
    make = functools.partial(tensor, dtype=dtype, grad=False)
    q, stored = make(batch, rows, heads, dim), [make(batch, keys, groups, dim) for _ in "kv"]
    seen, lengths = [x.clone() for x in stored], integers([200, 500 - rows, 300])
    given = {"cache_seqlens": lengths.clone(), "causal": "causal" in options}
    if "append" in options:
        given |= {name: make(batch, rows, groups, dim) for name in "kv"}
        for (name, x), b in itertools.product(zip("kv", seen), range(batch)):
            x[b, lengths[b]:lengths[b] + rows] = given[name][b]
        lengths = lengths + rows
    order = torch.randperm(batch * keys // page)
    if "pages" in options:
        given["block_table"] = order.int().view(batch, -1)
        stored = [x.view(-1, page, groups, dim)[order.argsort()] for x in stored]
    elif "index" in options:
        stored, given["cache_batch_idx"] = [x[[1, 2, 0]] for x in stored], integers([2, 0, 1])
    given["num_splits"] = 3 if "splits" in options else 0
    out = flash.flash_attn_with_kvcache(q, *stored, **given)
    right, text = judge((out, *(formula(q, *seen, causal=given["causal"], lengths=lengths,
                                        dtype=kind)[0] for kind in (torch.float64, dtype))))
    if "pages" in options:
        stored = [x[order].view(batch, keys, groups, dim) for x in stored]
    kept = "index" in options or all(map(torch.equal, stored, seen))
    return right and kept, text + "; the cache's contents are WRONG" * (not kept)


def part(check):
    """Every kind of call for every head size and type; on a CPU for two of these."""
    torch.set_default_device("cpu" if check.dry else "cuda")
    flash = importlib.import_module("anyflash.flash_attn" if check.dry else "flash_attn")
    kinds = zip((64, 128), TYPES) if check.dry else itertools.product(DIMS, TYPES)
    cases = [*itertools.product([dense], DENSE, SHAPES), (packed, "plain"), (packed, "causal"),
             *itertools.product([cache], CACHE, (1, 4))]
    for (function, *case), (dim, dtype) in itertools.product(cases, kinds):
        torch.manual_seed(1)
        check(f"{function.__name__} {case} {dim} {dtype}", function, flash, dim, dtype, *case)
