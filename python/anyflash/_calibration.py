"""Calibration: whether torch's own attention on this CPU is faster than the engine.

    choice = choose(torch.get_num_threads())     # by anyflash.torch.enable()

bench/results compares the two on one kind of processor: see is_measured(). On any other, and
with a newer torch, both compute a small prefill, a small decode and a short call of each
element type when the engine is enabled. Where the engine is not faster, calls stay torch's,
forward and backward: those with more than 16 queries by the time of the prefill, others with
more than 128 keys by that of the decode, and the rest by that of the short call.
Kernels up to AVX2 compute them, too, because some processors run slower when they execute
AVX-512: if they take less time in total, the engine uses only these.

The choice holds for everything that computes on torch's threads, not only for
F.scaled_dot_product_attention.

Calls whose heads share keys follow the same times, which are measured without sharing. The
engine reads a shared key once for all its heads, so sharing saves it at least as large a part
of its time as it saves torch: where the engine is faster, it stays faster. Where torch is
faster, the outcome with sharing is not known, and torch keeps the call as in a tie.

This takes 20 to 40 milliseconds. Times that could be repeated are cached
(_result_cache.py) for processes with the same processor, number of threads and versions.
"""

import ctypes
import math
import platform
import re
import time
from typing import NamedTuple

import torch

from . import _lib, _result_cache
from ._version import __version__

_TYPES = {"float32": _lib.F32, "bfloat16": _lib.BF16, "float16": _lib.F16}
_ALL_TYPES = sum(1 << dtype for dtype in _TYPES.values())
_ALL, _AVX2 = 0, 3  # enum anyflash_cpu_level
_UP_TO_AVX2 = "anyflash up to AVX2"
#: Who can compute, as the arguments of anyflash_torch_choose().
_WAYS = {
    "torch": (_ALL, _ALL_TYPES, _ALL_TYPES, _ALL_TYPES),
    "anyflash": (_ALL, 0, 0, 0),
    _UP_TO_AVX2: (_AVX2, 0, 0, 0),
}
_KINDS = "prefill", "decode", "short"  # in the order of anyflash_torch_choose()
#: Types whose backward with up to 32 queries stays torch's: bench/results/torch.md.
_TORCH_FEW = 1 << _lib.F32
#: What is measured: "float32 prefill", ...
_PROBLEMS = [f"{dtype} {kind}" for dtype in _TYPES for kind in _KINDS]
#: Queries and keys.
_LENGTHS = {"prefill": (256, 256), "decode": (1, 1024), "short": (8, 32)}
#: For each thread.
_HEADS = {"prefill": 1, "decode": 1, "short": 8}
_SIZE = 128
#: Calls in a round: several, because the first one after a change is slower, and more of the
#: short ones, whose times vary more.
_CALLS = {"prefill": 2, "decode": 4, "short": 4}
#: Rounds; more than the least if other programs disturb the measurement.
_ROUNDS_LEAST, _ROUNDS_MOST = 3, 8
#: Extensions of the processor that torch or the engine has kernels for.
_EXTENSIONS = ("amx", "asimd", "avx", "bf16", "fphp", "i8mm", "sve")
#: Lines of /proc/cpuinfo that name the processor, on x86 and on ARM.
_NAMES = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "CPU implementer",
    "CPU variant",
    "CPU part",
)


class Choice(NamedTuple):
    cpu_level: int  # enum anyflash_cpu_level
    torch_prefill: int  # bits 1 << enum anyflash_dtype
    torch_decode: int
    torch_short: int
    torch_few: int
    text: str  # what was chosen and why, in lines

    def apply(self):
        _set(*self[:5])


def _set(cpu_level, *torch_masks):
    """Masks that are not given are 0."""
    function = _lib.bindings.anyflash_torch_choose
    function.restype = None
    function.argtypes = [ctypes.c_int32, *[ctypes.c_uint32] * (len(_KINDS) + 1)]
    function(cpu_level, *torch_masks, *[0] * (len(_KINDS) + 1 - len(torch_masks)))


def processor(path="/proc/cpuinfo"):
    """The facts that tell this kind of processor from others."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 14).split("\n\n")[0].splitlines()
    except OSError:  # not Linux
        return {"name": platform.processor(), "machine": platform.machine()}
    rows = (line.partition(":") for line in lines)
    found = {name.strip(): value.strip() for name, _, value in rows}
    flags = found.get("flags", found.get("Features", "")).split()
    facts = {name: found[name] for name in _NAMES if name in found}
    facts["extensions"] = " ".join(sorted(x for x in flags if x.startswith(_EXTENSIONS)))
    return facts


def is_measured(facts, torch_version):
    """Whether bench/results has the engine faster than this torch on this kind of processor:
    AMD's family 26 (Zen 5) with AVX-512, and torch up to 2.15."""
    version = tuple(int(part) for part in torch_version.split("+")[0].split(".")[:2])
    return (
        (facts.get("vendor_id"), facts.get("cpu family")) == ("AuthenticAMD", "26")
        and "avx512_bf16" in facts["extensions"].split()
        and version <= (2, 15)
    )


def _ways():
    """The names in _WAYS that compute differently on this processor."""
    ways = ["torch", "anyflash"]
    text = _lib.explain_kernel(_threads_of=_lib._Context(1))
    if re.search("^many rows: (?!not ).*(avx512|amx)", text, re.MULTILINE):
        ways.append(_UP_TO_AVX2)
    return ways


def _call(problem, threads):
    """A function without arguments that computes the problem once."""
    dtype, kind = problem.split()
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    queries, keys = _LENGTHS[kind]
    shape = 1, threads * _HEADS[kind], keys, _SIZE
    x = torch.full(shape, 0.5, dtype=getattr(torch, dtype), device="cpu")
    q = x[:, :, :queries]
    return lambda: attend(q, x, x)


def _milliseconds(way, problem, call):
    """How long call(), of this problem, takes; `way` names who computes it."""
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def _settled(samples):
    """Whether the two least of enough samples agree."""
    least = sorted(samples)[:2]
    return len(samples) >= _ROUNDS_LEAST and least[1] <= 1.1 * least[0]


def _measure(ways, threads):
    """({way: {problem: milliseconds}}, whether all of them settled)."""
    times, all_settled = {way: {} for way in ways}, True
    for problem in _PROBLEMS:
        call, count = _call(problem, threads), _CALLS[problem.split()[1]]
        samples = {way: [] for way in ways}
        for _ in range(_ROUNDS_MOST):
            for way in samples:
                _set(*_WAYS[way])
                calls = (_milliseconds(way, problem, call) for _ in range(count))
                samples[way].append(min(calls))
            settled = all(map(_settled, samples.values()))
            if settled:
                break
        all_settled = all_settled and settled
        for way in samples:
            times[way][problem] = min(samples[way])
    return times, all_settled


def _valid(times, ways):
    """Whether `times`, from a file, is what _measure(ways) returns."""
    if not isinstance(times, dict) or set(times) != set(ways):
        return False
    for row in times.values():
        if not isinstance(row, dict) or set(row) != set(_PROBLEMS):
            return False
        if not all(isinstance(t, float) and 0 < t < math.inf for t in row.values()):
            return False
    return True


def _times(facts, ways, threads):
    """The times from the cache or new ones, and in words where they come from."""
    found = _result_cache.get_times(facts)
    if _valid(found, ways):
        return found, "measured earlier"
    with torch.no_grad():
        found, settled = _measure(ways, threads)
    if not settled:
        return found, "measured in this process and not kept, because the times varied too much"
    _result_cache.put_times(facts, found)
    return found, "measured in this process"


def _fastest(times):
    """The engine's fastest way, and the time of each in total."""
    total = {way: sum(row.values()) for way, row in times.items() if way != "torch"}
    return min(total, key=total.__getitem__), total


def _about(problem, winner, times):
    """A line with all times of a problem, that of the winner first."""
    texts = {way: f"{way} {row[problem]:.3f} ms" for way, row in times.items()}
    return f"{problem}: {texts.pop(winner)} ({', '.join(texts.values())})"


def _decide(times, how):
    """The Choice for these times; `how` says how they were measured."""
    engine, total = _fastest(times)
    kept, lines = dict.fromkeys(_KINDS, 0), []
    for problem in _PROBLEMS:
        dtype, kind = problem.split()
        winner = engine if times[engine][problem] < times["torch"][problem] else "torch"
        if winner == "torch":
            kept[kind] |= 1 << _TYPES[dtype]
        lines.append(_about(problem, winner, times))
    if engine == _UP_TO_AVX2:
        pair = f"{total[engine]:.3f} ms in total, all kernels {total['anyflash']:.3f} ms"
        lines.append(f"{engine}: {pair}")
    text = "\n".join([*lines, how])
    return Choice(_WAYS[engine][0], *kept.values(), _TORCH_FEW, text)


def choose(threads):
    """The Choice for this number of threads, cached or measured. The engine must be enabled."""
    facts = processor()
    if is_measured(facts, torch.__version__):
        reason = "not calibrated on the kind of processor of anyflash's benchmarks"
        text = f"anyflash computes all calls that it supports: {reason}"
        return Choice(*_WAYS["anyflash"], _TORCH_FEW, text)
    facts.update(threads=threads, torch=torch.__version__, anyflash=__version__)
    try:
        times, how = _times(facts, _ways(), threads)
    except Exception as error:  # whatever it is, nothing is known about the times
        reason = f"anyflash could not be measured ({error})"
        text = f"torch computes more than 16 queries: {reason}"
        return Choice(_ALL, _ALL_TYPES, 0, 0, _TORCH_FEW, text)
    return _decide(
        times,
        f"{how}: head size {_SIZE}; threads: {threads}\n"
        "prefill: 256 queries and keys; decode: 1 query and 1024 keys, for calls with up to "
        "16 queries\n"
        "short: 8 heads, 8 queries and 32 keys, for those of them with up to 128 keys",
    )


#: The Choice without calibration.
UNMEASURED = Choice(
    *_WAYS["anyflash"], 0, "anyflash computes all calls that it supports: not calibrated"
)
