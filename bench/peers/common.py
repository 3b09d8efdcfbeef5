"""Shared by the peers: the inputs of a case, timing, and the numbers that are compared. The
inputs are those of bench/inputs.c; tensors are [1, H, S, D].

A peer is a module peer_NAME with two functions. version_NAME() returns the library's version.
attend_NAME(case) returns the type that the library computes in ("f32"), a function that
computes the case once, and one that returns the results: [o], or [dq, dk, dv].
"""
import time

import numpy as np

Q, K, V, DOUT = 0, 1, 2, 4
# As in bench/measure.c: a turn takes at least TURN_SECONDS, and a run of LONG_SECONDS needs no
# warm-up.
TURN_SECONDS = 5e-3
LONG_SECONDS = 50e-3

np.seterr(over="ignore")  # hash32() wraps around


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


class Turns:
    """Runs a case repeatedly, in turns of at least 5 ms."""

    def __init__(self, run):
        self.run = run
        self.seconds = self.timed(1)
        if self.seconds < LONG_SECONDS:
            self.seconds = self.timed(1)

    def timed(self, repeats):
        """Seconds of one run."""
        start = time.perf_counter()
        for _ in range(repeats):
            self.run()
        return (time.perf_counter() - start) / repeats

    def take(self):
        """Milliseconds of one run. Short ones are repeated without being timed first, so that
        other libraries' turns have left no trace in the caches."""
        repeats = max(1, int(TURN_SECONDS / (self.seconds + 1e-7)))
        if self.seconds < LONG_SECONDS:
            self.timed(repeats)
        self.seconds = self.timed(repeats)
        return self.seconds * 1e3


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
