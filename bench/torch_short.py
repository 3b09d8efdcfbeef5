"""Calls with few queries: torch's attention beside the engine's, by turns in one process.

    ANYFLASH_LIBRARY=... PYTHONPATH=python \\
        python bench/torch_short.py [--threads 1] [--backward]

For each element type and shape: the time of torch divided by that of the engine, for 1 to 32
queries. Figures are minima over short repeats, which alternate between both sides. Prints a
table for bench/results/torch.md.
"""

import argparse
import time

import torch

import anyflash.torch
from anyflash import _calibration

QUERIES = 1, 2, 4, 8, 12, 15, 16, 17, 20, 24, 32
#: Batch, heads, head size, keys; 0: as many as queries.
SHAPES = (8, 8, 64, 0), (1, 8, 64, 0), (4, 8, 64, 64), (4, 8, 64, 512), (4, 8, 128, 128)
DTYPES = torch.float32, torch.bfloat16, torch.float16
ROUNDS, SECONDS = 25, 2e-3
sdpa = torch.nn.functional.scaled_dot_product_attention


def seconds(call, count):
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def choose(way):
    few = 0 if way == "torch" else _calibration._TORCH_FEW
    _calibration._set(*_calibration._WAYS[way], few)


def compare(call):
    """Seconds of a call, by who computes it."""
    best = {"torch": float("inf"), "anyflash": float("inf")}
    for way in best:
        choose(way)
        call()
    count = max(1, int(SECONDS / max(seconds(call, 2), 1e-6)))
    for _ in range(ROUNDS):
        for way in best:
            choose(way)
            call()
            best[way] = min(best[way], seconds(call, count))
    return best


def problem(shape, queries, dtype, backward):
    """A function without arguments that computes it once."""
    batch, heads, size, keys = shape
    q = torch.randn(batch, heads, queries, size, dtype=dtype, requires_grad=backward)
    k, v = (torch.randn(batch, heads, keys or queries, size, dtype=dtype,
                        requires_grad=backward) for _ in range(2))
    out = torch.randn(batch, heads, queries, size, dtype=dtype)

    def forward():
        with torch.no_grad():
            sdpa(q, k, v)

    def train():
        sdpa(q, k, v).backward(out)
        q.grad = k.grad = v.grad = None

    return train if backward else forward


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backward", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    anyflash.torch.enable(calibrate=False)
    print("| type, B, H, D, keys |", " | ".join(map(str, QUERIES)), "|")
    print("|---" * (len(QUERIES) + 1) + "|")
    for dtype in DTYPES:
        for shape in SHAPES:
            cells = []
            for queries in QUERIES:
                best = compare(problem(shape, queries, dtype, given.backward))
                cells.append(f"{best['torch'] / best['anyflash']:.2f}")
            name = f"{str(dtype)[6:]}, {', '.join(map(str, shape[:3]))}"
            print(f"| {name}, {shape[3] or 'as queries'} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
