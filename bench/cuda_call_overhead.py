"""What a call of flash_attn_2_cuda costs before its kernels, beside flash-attn's own extension.

    tests/run launches                                        compiles both for the CPU
    build/torch/2.9.1/bin/python bench/cuda_call_overhead.py [FOLDER]

No kernel runs: under flash-attn's extension functions keep their parameters, under ours a
stand-in for NVIDIA's driver does. CPU time of the thread: medians of 25 turns, with the fastest
and the slowest, in microseconds.
"""

import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "launches"))
import test_launches as launches # noqa: E402

import torch # noqa: E402

CALLS, TURNS, ROUNDS = 10, 25, 50


def cases():
    q = torch.zeros(2, 64, 8, 64).half()
    lse = torch.zeros(2, 8, 64)
    one, cache = torch.zeros(1, 1, 32, 128).half(), torch.zeros(1, 256, 32, 128).half()
    lengths = torch.zeros(1, dtype=torch.int32)
    manner = (0.1, True, -1, -1, 0.0, False)
    yield "fwd", (q, q, q, None, None, 0.0, *manner, None)
    yield "bwd", (q, q, q, q, q, lse, q, q, q, None, 0.0, *manner, None, None)
    yield "fwd_kvcache", (one, cache, cache, one, one, lengths, *[None] * 7, *manner, 0)


def microseconds(side, name, arguments):
    function, took = getattr(side.module, name), 0
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(CALLS):
            function(*arguments)
        took += time.thread_time() - start
        side.launches()
    return took / CALLS / ROUNDS * 1e6


def main():
    folder = sys.argv[1] if sys.argv[1:] else str(ROOT / "build" / "launches")
    sides = dict(zip(("ours", "flash-attn's"), launches.open_sides(folder)))
    torch.set_num_threads(1)
    for name, arguments in cases():
        times = {side: [] for side in sides}
        for _ in range(TURNS):
            for side, what in sides.items():
                times[side].append(microseconds(what, name, arguments))
        for side, row in times.items():
            print(f"{name:12} {side:13} {statistics.median(row):6.1f}"
                  f"  ({min(row):.1f} to {max(row):.1f})")


if __name__ == "__main__":
    main()
