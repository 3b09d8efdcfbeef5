"""Shared by the peers: the inputs of a case, timing, and the numbers that are compared. The
inputs are those of bench/inputs.c; tensors are [1, H, S, D].
"""
import time

import numpy as np

Q, K, V, DOUT = 0, 1, 2, 4
RUNS_MAX = 40


class Decline(Exception):
    """The library does not support the case."""


def hash32(numbers):
    """The 32-bit hash of bench/inputs.c, in place."""
    numbers ^= numbers >> 16
    numbers *= np.uint32(0x7feb352d)
    numbers ^= numbers >> 15
    numbers *= np.uint32(0x846ca68b)
    numbers ^= numbers >> 16
    return numbers


def fill(tensor, heads, rows, dim):
    """The tensor's numbers as float32 [1, H, S, D]; they are exact in bf16 and f16."""
    seed = hash32(np.array([tensor + 1], dtype=np.uint32))[0]
    numbers = hash32(np.arange(heads * rows * dim, dtype=np.uint32) ^ seed) >> 24
    values = (numbers.astype(np.float32) - 128) / (32 if tensor == Q else 128)
    return values.reshape(1, heads, rows, dim)


def inputs(case):
    q = fill(Q, case["heads"], case["q_len"], case["head_dim"])
    k = fill(K, case["kv_heads"], case["k_len"], case["head_dim"])
    v = fill(V, case["kv_heads"], case["k_len"], case["head_dim"])
    return q, k, v


def probe(case, array):
    """The numbers at the positions of af_bench_probe()."""
    flat = np.asarray(array, dtype=np.float32).reshape(-1)
    places = (np.arange(case["probes"], dtype=np.uint64) * 2654435761 % 2**32) % flat.size
    return [float(number) for number in flat[places]]


def measure(case, run):
    """Times run() for about case["seconds"], after two runs to warm up."""
    run()
    start = time.perf_counter()
    run()
    repeats = max(1, int(5e-4 / (time.perf_counter() - start + 1e-7)))
    times = []
    end = time.perf_counter() + case["seconds"]
    while len(times) < 3 or (len(times) < RUNS_MAX and time.perf_counter() < end):
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        times.append((time.perf_counter() - start) * 1e3 / repeats)
    return times


def bf16_bits(array):
    return (array.view(np.uint32) >> 16).astype(np.uint16)


def of_bf16_bits(array):
    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def folded(case):
    """q, k, v as [G, rows, D]: query heads that share a key head are its rows (S = 1)."""
    shape = (case["kv_heads"], -1, case["head_dim"])
    return tuple(array.reshape(shape) for array in inputs(case))


def block_rows(heads, rows, keys):
    """Rows of a block whose f32 scores stay in the caches: 8 MiB, at least 64 rows."""
    return min(rows, max(64, (2 << 20) // (heads * keys)))
