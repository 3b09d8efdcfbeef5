"""Times two builds of the engine in turns, in one process: forward, backward and decoding.

    python bench/two_engines.py FIRST SECOND [--seconds 20] [--threads 1]

FIRST and SECOND are two libanyflash.so, each with its libanyflash_python.so next to it. Needs
NumPy. For each shape: the median time with FIRST, and the ratio of SECOND's time to it. Each
call of SECOND is compared with the calls of FIRST just before and after it; the median of these
ratios is printed, with the quartiles as its spread.
"""

import argparse
import importlib
import os
import pathlib
import statistics
import sys
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

#: Operation, heads, query length, key length, head size.
SHAPES = (
    ("forward", 16, 1024, 1024, 64),
    ("forward", 16, 1024, 1024, 128),
    ("backward", 8, 1024, 1024, 64),
    ("decode", 16, 1, 16384, 128),
)


def engine(library, threads):
    """The package's _lib with this library: a module of its own for each call."""
    os.environ["ANYFLASH_LIBRARY"] = str(pathlib.Path(library).resolve())
    for name in [name for name in sys.modules if name.partition(".")[0] == "anyflash"]:
        del sys.modules[name]
    lib = importlib.import_module("anyflash._lib")
    lib.set_threads(threads)
    return lib


class Problem:
    """Tensors of one shape, and the calls of an engine on them."""

    def __init__(self, kind, heads, q_len, k_len, dim, is_bf16):
        self.name = f"{kind} {'bf16' if is_bf16 else 'f32'} H{heads} S{k_len} D{dim}"
        self.is_backward, self.is_bf16 = kind == "backward", is_bf16
        self.sizes = (1, heads, heads, q_len, k_len, dim, dim)
        self.row = heads * dim
        random = numpy.random.default_rng(1)
        self.arrays = {}
        for name in ("q", "o", "dout", "dq", "k", "v", "dk", "dv"):
            length = k_len if name in ("k", "v", "dk", "dv") else q_len
            values = random.standard_normal((length, self.row), dtype=numpy.float32)
            bits = (values.view(numpy.uint32) >> 16).astype(numpy.uint16)
            self.arrays[name] = bits if is_bf16 else values
        self.lse = numpy.empty(heads * q_len, numpy.float32)
        self.is_causal = q_len == k_len

    def tensor(self, lib, name):
        array, dim = self.arrays[name], self.sizes[-1]
        dtype = lib.BF16 if self.is_bf16 else lib.F32
        return (array.ctypes.data, dtype, 0, array.size, dim, self.row)

    def call(self, lib):
        """Returns a function that computes the problem once with `lib`."""
        packed, at = lib.values(), lib.AT
        packed[at["batch"] : at["batch"] + 7] = self.sizes
        packed[at["causal"]] = int(self.is_causal)
        for name in "qkvo":
            packed[at[name] : at[name] + 6] = self.tensor(lib, name)
        lengths = self.sizes[3], self.lse.size
        packed[at["lse"] : at["lse"] + 3] = self.lse.ctypes.data, lengths[1], lengths[0]
        lib.attend(packed)
        if not self.is_backward:
            return lambda: lib.attend(packed)
        gradients = [self.tensor(lib, name) for name in ("dout", "dq", "dk", "dv")]
        return lambda: lib.attend_backward(packed, *gradients, (0,) * 6, 0, 0)


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(first, second, seconds):
    """(median time of `first`, the ratios of `second` to it), by turns for `seconds`."""
    for call in (first, second):
        call()
    firsts, ratios = [timed(first)], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ratios) < 5:
        between = timed(second)
        firsts.append(timed(first))
        ratios.append(2 * between / (firsts[-2] + firsts[-1]))
    return statistics.median(firsts), ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs=2, metavar="LIBRARY")
    parser.add_argument("--seconds", type=float, default=20, help="for all shapes together")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    engines = [engine(library, options.threads) for library in options.libraries]
    problems = [Problem(*shape, is_bf16) for shape in SHAPES for is_bf16 in (False, True)]
    print("| shape | first, ms | second / first | spread | calls |\n|---|---|---|---|---|")
    for problem in problems:
        first, second = (problem.call(lib) for lib in engines)
        median, ratios = compare(first, second, options.seconds / len(problems))
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"| {problem.name} | {median * 1e3:.2f} | {middle:.3f} | {low:.3f} to {high:.3f} "
            f"| {len(ratios)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
