"""The worker processes of test_distributed.py, which compare each case with the attention
computed by one process."""

import datetime
import functools
import itertools
import json
import multiprocessing
import pathlib
import sys
import time
import traceback

import torch
import torch.distributed as dist

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path[:0] = [str(PACKAGE), str(PACKAGE / "anyflash" / "shim" / "tree")]

import standins  # noqa: E402
from anyflash import _ring_math, _torch_ops  # noqa: E402  registers before the fork
from anyflash import distributed as ring  # noqa: E402
from anyflash.flash_attn import flash_attn_func, flash_attn_varlen_func  # noqa: E402
from flash_attn.ops.triton.cross_entropy import cross_entropy_loss  # noqa: E402
from flash_attn.utils.distributed import (  # noqa: E402
    all_gather,
    all_reduce,
    reduce_scatter,
)

#: The largest difference allowed, as a fraction of the largest value.
BOUNDS = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2.5e-3}
#: Failures of this case. They are not raised, or the other processes would wait forever.
problems = []


def tensors(dtype, *shapes):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]


def check(got, want, what, dtype=None):
    bound = BOUNDS[dtype or got.dtype] * max(1.0, want.abs().max().item())
    worst = (got.float() - want.float()).abs().max().item()
    if got.shape != want.shape or not worst <= bound:
        problems.append(f"{what} {got.dtype}: {worst:.2e} > {bound:.2e}")


def compare(ours, whole, inputs, dout, shard, lse_of=None):
    """Output and gradients of ours(shards), and the shards of those of whole(inputs)."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    want = whole(*leaves)
    gradients = torch.autograd.grad(want, leaves, dout)
    mine = [shard(x).clone().requires_grad_() for x in inputs]
    got = ours(*mine)
    check(got, shard(want.detach()), "out")
    for name, a, b in zip("qkv", torch.autograd.grad(got, mine, shard(dout)), gradients):
        check(a, shard(b), "d" + name)


def dense(dtype, causal, balanced, kv_heads=4, softcap=0.0, batch=2, rows=48, group=None):
    q, k, v, dout = tensors(
        dtype, (batch, rows, 4, 16), *[(batch, rows, kv_heads, 16)] * 2, (batch, rows, 4, 16)
    )
    options = {"causal": causal, "softcap": softcap}
    compare(
        lambda *x: ring.ring_attention(*x, balanced=balanced, group=group, **options),
        lambda *x: flash_attn_func(*x, **options), (q, k, v), dout,
        lambda x: ring.shard(x, balanced=balanced, group=group),
    )


def packed(dtype, causal, balanced, kv_heads=4):
    lengths = torch.tensor([24, 0, 48, 24])
    bounds = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    total = int(bounds[-1])
    q, k, v, dout = tensors(
        dtype, (total, 4, 16), *[(total, kv_heads, 16)] * 2, (total, 4, 16)
    )
    compare(
        lambda *x: ring.ring_attention_varlen(
            *x, bounds, 48, causal=causal, balanced=balanced
        ),
        lambda *x: flash_attn_varlen_func(*x, bounds, bounds, 48, 48, causal=causal),
        (q, k, v),
        dout,
        lambda x: ring.shard_varlen(x, bounds, balanced=balanced),
    )


def rich(dtype, causal, balanced, window=(-1, -1), slopes=None, sinks=False, lengths=None):
    """Every feature that depends on positions in the whole sequence, with fewer key heads than
    query heads; dense, or packed sequences of `lengths`. The gradient of the sinks is summed
    over the processes."""
    rows = sum(lengths) if lengths else 48
    start = () if lengths else (2,)
    q, k, v, dout = tensors(
        dtype, (*start, rows, 4, 16), *[(*start, rows, 2, 16)] * 2, (*start, rows, 4, 16)
    )
    slopes = None if slopes is None else torch.rand(slopes) * 0.5
    logits = torch.linspace(-1, 2, 4) if sinks else None
    cu = None
    if lengths:
        cu = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
    longest = max(lengths) if lengths else 0

    def whole(q, k, v, logits):
        options = (cu, cu, longest, longest, None, None, None, slopes, logits, 0.25)
        return _torch_ops.attend(q, k, v, *options, causal, *window, 3.0, 0.0, 0)[0]

    def ours(q, k, v, logits):
        attend = ring.ring_attention
        if lengths:
            attend = functools.partial(
                ring.ring_attention_varlen, cu_seqlens=cu, max_seqlen=longest
            )
        return attend(
            q, k, v,
            causal=causal, window_size=window, softcap=3.0, alibi_slopes=slopes, sinks=logits,
            balanced=balanced,
        )

    def shard(x):
        if lengths:
            return ring.shard_varlen(x, cu, balanced=balanced)
        return ring.shard(x, balanced=balanced)

    what = f"{causal=} {balanced=} {window=} {sinks=} {lengths=}"
    inputs = [q, k, v] + ([logits] if sinks else [])
    leaves = [x.clone().requires_grad_() for x in inputs]
    want = whole(*leaves) if sinks else whole(*leaves, None)
    wanted = torch.autograd.grad(want, leaves, dout)
    mine = [x.requires_grad_() for x in (shard(q), shard(k), shard(v))]
    mine += [logits.clone().requires_grad_()] if sinks else []
    got = ours(*mine) if sinks else ours(*mine, None)
    gradients = torch.autograd.grad(got, mine, shard(dout))
    check(got, shard(want.detach()), f"{what} out")
    for name, a, b in zip("qkv", gradients, wanted):
        check(a, shard(b), f"{what} d{name}")
    if sinks:
        dist.all_reduce(gradients[3])
        check(gradients[3], wanted[3], f"{what} dsinks", dtype)


def case_windows():
    """Windows shorter than a part, over several parts, one-sided, of one key, unlimited."""
    windows = ((3, 0), (17, -1), (-1, 5), (7, 20), (0, 0), (100, 100), (-1, 0))
    for window, balanced in itertools.product(windows, (False, True)):
        rich(torch.float32, window[1] == 0, balanced, window)
    rich(torch.float32, True, True, (9, 4))
    rich(torch.bfloat16, True, True, (11, 0))


def case_alibi():
    for causal, balanced in itertools.product((False, True), repeat=2):
        rich(torch.float32, causal, balanced, slopes=(4,))
        rich(torch.float32, causal, balanced, (5, 9), slopes=(2, 4))


def case_sinks():
    for causal, balanced in itertools.product((False, True), repeat=2):
        rich(torch.float32, causal, balanced, sinks=True)
    rich(torch.bfloat16, True, True, (8, 0), sinks=True)


def case_everything_in_packed_sequences():
    for causal, balanced in itertools.product((False, True), repeat=2):
        options = {"slopes": (4,), "sinks": True, "lengths": [24, 0, 48, 24]}
        rich(torch.float32, causal, balanced, (9, 2), **options)
        rich(torch.float32, causal, balanced, (30, -1), **options)


def case_dense():
    for causal, balanced in itertools.product((False, True), repeat=2):
        for dtype in (torch.float32, torch.bfloat16):
            dense(dtype, causal, balanced)


def case_grouped_heads_and_softcap():
    dense(torch.float32, True, True, kv_heads=2)
    dense(torch.float32, True, True, kv_heads=1, softcap=2.0)
    dense(torch.float16, True, True, kv_heads=2)


def case_packed_sequences():
    for causal, balanced in itertools.product((False, True), repeat=2):
        packed(torch.float32, causal, balanced)
    packed(torch.bfloat16, True, True, kv_heads=2)


def case_logsumexp():
    q, k, v = tensors(torch.float32, *[(2, 48, 4, 16)] * 3)
    _, want, _ = flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    mine = [ring.shard(x) for x in (q, k, v)]
    out, lse = ring.ring_attention(*mine, causal=True, return_lse=True)
    assert not lse.requires_grad
    check(lse, ring.shard(want, dim=2), "lse")


def case_shards_are_inverse():
    x = torch.arange(48 * 3).view(1, 48, 3)
    bounds = torch.tensor([0, 24, 48], dtype=torch.int32)
    for balanced in (False, True):
        part = ring.shard(x, balanced=balanced)
        assert ring.unshard(part, balanced=balanced).equal(x)
        assert part[0, :, 0].equal(3 * ring.positions(48, balanced=balanced))
        part = ring.shard_varlen(x[0], bounds, balanced=balanced)
        assert ring.unshard_varlen(part, bounds, balanced=balanced).equal(x[0])
    leaf = x.float().requires_grad_()
    ring.shard(leaf).sum().backward()
    assert leaf.grad.sum().item() == 3 * 48 / dist.get_world_size()


def case_the_same_bits_again():
    def once():
        leaves = [ring.shard(x) for x in tensors(torch.bfloat16, *[(2, 48, 4, 16)] * 3)]
        leaves = [x.requires_grad_() for x in leaves]
        out = ring.ring_attention(*leaves, causal=True)
        return [out, *torch.autograd.grad(out.sum(), leaves)]

    first = once()
    for _ in range(3):
        if not all(a.equal(b) for a, b in zip(first, once())):
            problems.append("other bits")


def case_a_group_of_some_processes():
    world, rank = dist.get_world_size(), dist.get_rank()
    if world == 1:
        return
    groups = [dist.new_group([0]), dist.new_group(list(range(1, world)))]
    size = 1 if rank == 0 else world - 1
    dense(torch.float32, True, True, rows=8 * size, group=groups[0 if rank == 0 else 1])


def case_two_layers_in_flight():
    """The second layer's gradient is passed around before the first layer's."""
    q, k, v = tensors(torch.float32, *[(1, 48, 2, 16)] * 3)

    def net(attend, q, k, v):
        return attend(attend(q, k, v), k, v * 2)

    compare(
        lambda *x: net(lambda *y: ring.ring_attention(*y, causal=True), *x),
        lambda *x: net(lambda *y: flash_attn_func(*y, causal=True), *x), (q, k, v),
        torch.ones_like(q), ring.shard,
    )


def case_by_torchs_operators():
    """Replaces a GPU's operators with the engine."""
    returns = torch.ops.aten._flash_attention_forward.default._schema.returns
    if returns[2].name != "rng_state":
        return
    is_engines, _ring_math.is_engines = _ring_math.is_engines, lambda q: False
    try:
        with standins.flash_by_engine():
            dense(torch.bfloat16, True, True, kv_heads=2)
            packed(torch.float16, True, True)
    finally:
        _ring_math.is_engines = is_engines


def case_wrong_arguments():
    world = dist.get_world_size()
    x = torch.randn(1, 6, 2, 16)
    wrong = [
        lambda: ring.shard(torch.randn(1, 2 * world + 1, 2, 16)),
        lambda: ring.ring_attention(x[:, :5], x[:, :5], x[:, :5], causal=True),
        lambda: ring.ring_attention(x, x[:, :4], x[:, :4]),
        lambda: ring.ring_attention(x, x.bfloat16(), x),
        lambda: ring.ring_attention(x[0], x[0], x[0]),
        lambda: ring.ring_attention_varlen(
            x[0], x[0], x[0], torch.tensor([0, 7], dtype=torch.int32), 7
        ),
    ]
    half = torch.ones(2, dtype=torch.float16)
    wrong += [
        lambda: ring.ring_attention(x, x, x, window_size=(1,)),
        lambda: ring.ring_attention(x, x, x, alibi_slopes=torch.ones(3)),
        lambda: ring.ring_attention(x, x, x, alibi_slopes=half),
        lambda: ring.ring_attention(x, x, x, sinks=torch.ones(1, 2)),
        lambda: ring.ring_attention(x[:, :5], x[:, :5], x[:, :5], window_size=(1, 1)),
    ]
    for number, call in enumerate(wrong):
        try:
            call()
        except ValueError:
            continue
        raise AssertionError(f"no ValueError: {number}")


def case_dropout_is_refused():
    x = torch.randn(1, 6, 2, 16)
    try:
        ring.ring_attention(x, x, x, dropout_p=0.1)
    except NotImplementedError as error:
        assert "dropout_p" in str(error)
        return
    raise AssertionError("no NotImplementedError")


def case_the_collectives_of_flash_attn_and_their_gradients():
    rank, world = dist.get_rank(), dist.get_world_size()
    (whole,) = tensors(torch.float32, (world, 2 * world, 3))
    weight = torch.linspace(-1, 1, 6 * world).view(2 * world, 3)

    def gradient_of(collective, weights):
        x = whole[rank].clone().requires_grad_()
        out = collective(x, dist.group.WORLD)
        return out.detach(), torch.autograd.grad((out * weights).sum(), x)[0]

    rows = weight.repeat(world, 1)
    out, gradient = gradient_of(all_gather, rows * (1 + rank))
    check(out, whole.flatten(0, 1), "all_gather")
    check(gradient, weight * sum(range(1, world + 1)), "its gradient")
    own = slice(2 * rank, 2 * rank + 2)
    out, gradient = gradient_of(reduce_scatter, weight[own])
    check(out, whole.sum(0)[own], "reduce_scatter")
    check(gradient, weight, "its gradient")
    out, gradient = gradient_of(all_reduce, weight)
    check(out, whole.sum(0), "all_reduce")
    check(gradient, weight, "its gradient")


def case_cross_entropy_of_classes_that_are_split():
    rank, world = dist.get_rank(), dist.get_world_size()
    (logits,) = tensors(torch.float32, (7, 5 * world))
    labels = torch.arange(7) % (5 * world)
    labels[3] = -100
    options = {"label_smoothing": 0.1, "lse_square_scale": 0.01, "logit_scale": 2.0}
    here = slice(5 * rank, 5 * rank + 5)
    whole = logits.clone().requires_grad_()
    want = cross_entropy_loss(whole, labels, **options)[0]
    mine = logits[:, here].clone().requires_grad_()
    got = cross_entropy_loss(mine, labels, process_group=dist.group.WORLD, **options)[0]
    check(got.detach(), want.detach(), "loss")
    weight = torch.linspace(-1, 1, 7)
    (gradient,) = torch.autograd.grad((want * weight).sum(), whole)
    check(torch.autograd.grad((got * weight).sum(), mine)[0], gradient[:, here], "gradient")


CASES = {name: value for name, value in globals().items() if name.startswith("case_")}


def work(rank, world, folder):
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=200)
    meeting = f"file://{folder}/meeting{world}"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=world, timeout=limit)
    failed = {}
    for name, case in CASES.items():
        problems.clear()
        try:
            case()
        except Exception:
            problems.append(traceback.format_exc())
        if problems:
            failed[name] = "\n".join(problems)
        dist.barrier()
    pathlib.Path(folder, f"{world}-{rank}.json").write_text(json.dumps(failed))
    dist.destroy_process_group()


def main(folder, worlds, seconds=500):
    """Runs one world after the other. Processes are forked, so that torch is imported once;
    all have ended when this returns."""
    context = multiprocessing.get_context("fork")
    deadline = time.monotonic() + seconds
    for world in worlds:
        processes = [
            context.Process(target=work, args=(rank, world, folder)) for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(max(0.1, deadline - time.monotonic()))
        for process in processes:
            process.kill()
            process.join()


if __name__ == "__main__":
    main(sys.argv[1], [int(world) for world in sys.argv[2:]])
