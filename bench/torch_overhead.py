#!/usr/bin/env python3
"""Times a call of torch's attention with anyflash.torch.enable() and with torch alone.

    PYTHONPATH=python ANYFLASH_LIBRARY=build/release/libanyflash.so python FILE

The tensors have the shape 1 x 1 x 1 x 64, so nearly all of the time is overhead. Each row is
the minimum over repeats in microseconds; the two sides take turns, so that a busy machine slows
both.
"""

import platform
import time

import torch

import anyflash.torch

sdpa = torch.nn.functional.scaled_dot_product_attention
CALLS, REPEATS = 100, 400  # short, to fit between the turns of a busy machine


def timed(call):
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def sides(call):
    """(stock, ours, switched off again): minimum of each."""
    best = [float("inf")] * 2
    for _ in range(REPEATS):
        anyflash.torch.disable()
        best[0] = min(best[0], timed(call))
        anyflash.torch.enable()
        best[1] = min(best[1], timed(call))
    return best


def main():
    torch.set_num_threads(2)
    x = torch.randn(1, 1, 1, 64)
    g = x.clone().requires_grad_()
    wide = torch.randn(1, 1, 1, 64, dtype=torch.float64)
    mask = torch.ones(1, 1, dtype=torch.bool)

    def backward():
        torch.autograd.grad(sdpa(g, g, g), g, x)

    calls = (
        ("sdpa, no gradient", lambda: sdpa(x, x, x)),
        ("sdpa, gradient recorded", lambda: sdpa(g, g, g)),
        ("sdpa and its backward", backward),
        ("sdpa with a bool mask", lambda: sdpa(x, x, x, attn_mask=mask)),
        ("sdpa in float64, which goes on to torch", lambda: sdpa(wide, wide, wide)),
    )
    print(f"torch {torch.__version__}, {platform.machine()}, us per call")
    print("| call | never enabled | disabled | enabled |\n|---|---|---|---|")
    never = [min(timed(call) for _ in range(REPEATS // 2)) for _, call in calls]
    anyflash.torch.enable()  # from here on the kernels are registered
    for (name, call), first in zip(calls, never):
        off, on = sides(call)
        print(f"| {name} | {first:.2f} | {off:.2f} | {on:.2f} |", flush=True)


if __name__ == "__main__":
    main()
