"""Times and memory of the wheel beside textbook attention and torch's own backends."""

import functools
import itertools
import statistics
import timeit

import flash_attn_2_cuda
import torch
from flash_attn import flash_attn_func
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

ROWS, HEADS, DIM, ROUNDS = 16384, 16, 128, 9


def textbook(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) * DIM**-0.5
    future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
    weights = torch.softmax(scores.masked_fill(future, float("-inf")).float(), -1)
    return (weights.to(v.dtype) @ v).transpose(1, 2)


def backend(which, *tensors):
    with sdpa_kernel(which):
        return sdpa(*(x.transpose(1, 2) for x in tensors), is_causal=True).transpose(1, 2)


SIDES = {"textbook": textbook, "wheel": functools.partial(flash_attn_func, causal=True)}
SIDES |= {name: functools.partial(backend, getattr(SDPBackend, name))
          for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")}


def turn(side, tensors, back):
    """Milliseconds by the GPU's own clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    out = side(*tensors)
    if back:
        torch.autograd.grad(out, tensors, tensors[0])
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def compare(length, back, page):
    """Adds a row to the table: medians of rounds in which each side takes one turn."""
    tensors = [torch.randn(ROWS // length, length, HEADS, DIM, device="cuda",
                           dtype=torch.bfloat16, requires_grad=back) for _ in "qkv"]
    took, peaks = {}, {}
    for name, side in SIDES.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        try:
            turn(side, tensors, back)
            took[name], peaks[name] = [], torch.cuda.max_memory_allocated() - before
        except RuntimeError as error:
            print(f"{name}: {str(error)[:200]}", flush=True)
    for name in list(took) * ROUNDS:
        took[name].append(turn(SIDES[name], tensors, back))
    cells = [f"{statistics.median(took[x]):.3f} ms, {peaks[x] >> 20} MiB" if x in took else "-"
             for x in SIDES]
    with page.open("a") as file:
        file.write(f"| {length} | {'both' if back else 'forward'} | {' | '.join(cells)} |\n")
    return "wheel" in took, "; ".join(map(": ".join, zip(SIDES, cells)))


def overhead(run):
    """Microseconds of a call, without waiting for the GPU."""
    took = [x * 1e4 for x in timeit.repeat(run, torch.cuda.synchronize, number=100, repeat=15)]
    return True, f"{statistics.median(took):.1f} us ({min(took):.1f} to {max(took):.1f})"


def part(check):
    q = torch.randn(1, 64, 4, 64, device="cuda", dtype=torch.bfloat16)
    tail = (None, None, 0.0, 0.1, False, -1, -1, 0.0, False, None)
    check("call of the extension", overhead, lambda: flash_attn_2_cuda.fwd(q, q, q, *tail))
    for function in (flash_attn_func, sdpa):
        check(f"call of {function.__name__}", overhead, lambda: function(q, q, q))
    page = check.out / "times.md"
    page.write_text(f"Causal, bf16, D {DIM}, {HEADS} heads, {ROWS} rows in all: medians of "
                    f"{ROUNDS} rounds by turns, and peak memory.\n\n| N | pass | "
                    f"{' | '.join(SIDES)} |\n|---|---{'|---' * len(SIDES)}|\n")
    for length, back in itertools.product((512, 1024, 2048, 4096, 8192, 16384), (False, True)):
        check(f"N {length}{', both passes' * back}", compare, length, back, page)
