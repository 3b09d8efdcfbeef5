"""Textbook attention, as torch computes it, beside what replaces it: time and peak memory by
length.

    python bench/textbook.py [--train] [--json]                   on the CPU
    python bench/textbook.py --device cuda [--train] [--json]     on a GPU

Textbook attention is torch's math path (SDPBackend.MATH): it writes all N x N scores of each
head to memory, and for training keeps their softmax until the backward. Beside it run all
providers of flash_attn's functions that work on the device, in turns. --train times a forward
and its backward. 1 sequence of 8 heads, not causal: f32 and D 64 on the CPU, as `anyflash bench
--textbook` has it; bf16 and D 128 on a GPU.

Prints a Markdown table, row by row: milliseconds (median of the turns) and MiB, which are the
tensors and what was allocated beyond them; ratio: the math path's time divided by the fastest
provider's. What does not fit four fifths of the free memory, or SECONDS, is left out with the
reason. `ANYFLASH_LIBRARY` names the engine's library if the package does not bring it.
"""

import argparse
import functools
import gc
import json
import os
import pathlib
import resource
import statistics
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python")]

import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import table  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
HEADS = 8
#: The whole command takes about SECONDS; a length takes TURNS turns, or fewer after PER_LENGTH.
SECONDS, TURNS, PER_LENGTH = 60, 20, 3.0
MIB = 1 << 20


def number_in(path, label=""):
    """The first number after `label` in a file, or None."""
    try:
        words = pathlib.Path(path).read_text().partition(label)[2].split()
        return int(words[0]) if words else None
    except (OSError, ValueError):
        return None


def usable_bytes():
    """Four fifths of the free memory of the system and of the control group."""
    free = [1024 * (number_in("/proc/meminfo", "MemAvailable:") or 0) or sys.maxsize]
    for limit, used in (("memory.max", "memory.current"),
                        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        most = number_in(f"/sys/fs/cgroup/{limit}")
        free += [most - (number_in(f"/sys/fs/cgroup/{used}") or 0)] if most else []
    return min(free) * 4 // 5


class Cpu:
    dtype, dim = torch.float32, 64

    def __init__(self):
        self.name = next((line.partition(": ")[2].strip() for line in open("/proc/cpuinfo")
                          if line.startswith("model name")), "unknown")
        size = 1024 * number_in("/proc/self/status", "VmSize:")
        most = size + usable_bytes()  # beyond it torch raises RuntimeError
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))

    def wait(self):
        pass

    def peak_of(self, run):
        """How many bytes `run` allocates at once."""
        before = number_in("/proc/self/status", "VmRSS:")
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        run()
        return 1024 * max(0, number_in("/proc/self/status", "VmHWM:") - before)


class Gpu:
    dtype, dim = torch.bfloat16, 128

    def __init__(self):
        self.name = torch.cuda.get_device_name()
        self.wait = torch.cuda.synchronize

    def peak_of(self, run):
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        self.wait()
        return torch.cuda.max_memory_allocated() - before


def math_path(q, k, v):
    """torch's textbook attention on flash_attn's layout."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def call(name, tensors, train):
    """One call of a provider or of the math path."""
    q, k, v, weight = tensors
    providers.force(None if name == "math" else name)
    try:
        with torch.set_grad_enabled(train):
            out = (math_path if name == "math" else anyflash.flash_attn_func)(q, k, v)
            return torch.autograd.grad(out, (q, k, v), weight) if train else out
    finally:
        providers.force(None)


def seconds_of(run, device):
    device.wait()
    begin = time.perf_counter()
    run()
    device.wait()
    return time.perf_counter() - begin


def reason_of(error):
    text = (str(error).strip().splitlines() or [repr(error)])[0]
    lacks = "alloc" in text.lower() or "out of memory" in text.lower()
    return "does not fit" if isinstance(error, MemoryError) or lacks else text


def measure(length, names, device, train, end, last):
    """{name: {"ms": [...], "peak_bytes": ...} or {"decline": reason}} of one length; `last` is
    that of half the length."""
    shape = (1, length, HEADS, device.dim)
    torch.manual_seed(0)
    tensors = [torch.randn(shape).to(device.kind, device.dtype).requires_grad_(train)
               for _ in range(3)]
    tensors.append(torch.ones_like(tensors[0]))
    sizes = (4 + 3 * train) * tensors[0].nbytes
    found, runs = {}, {}
    for name in names:
        before = last.get(name, {"ms": [0]})
        if "decline" in before or time.monotonic() + 8e-3 * min(before["ms"]) > end:
            found[name] = {"decline": before.get("decline", "not run: the time is used up")}
            continue
        run = functools.partial(call, name, tensors, train)
        gc.collect()
        try:
            begin = time.perf_counter()
            peak = device.peak_of(run)
            took = time.perf_counter() - begin
        except (RuntimeError, MemoryError, NotImplementedError) as error:
            found[name] = {"decline": reason_of(error)}
            continue
        runs[name] = run
        # The first run is a warm-up, except of long runs.
        found[name] = {"ms": [took * 1e3] if took > 1 else [], "peak_bytes": peak + sizes}
    stop = min(end, time.monotonic() + PER_LENGTH)
    for turn in range(TURNS if runs else 0):
        if turn and time.monotonic() > stop:
            break
        for name, run in runs.items():
            if turn or not found[name]["ms"]:
                found[name]["ms"].append(seconds_of(run, device) * 1e3)
    return found


def cells(length, found):
    """A row of the table."""
    medians = {name: statistics.median(one["ms"]) for name, one in found.items() if "ms" in one}
    others = [ms for name, ms in medians.items() if name != "math"]
    yield str(length)
    for name, one in found.items():
        yield f"{medians[name]:.2f}" if name in medians else one["decline"]
        yield f"{one['peak_bytes'] / MIB:.0f}" if name in medians else "-"
    yield f"{medians['math'] / min(others):.1f}" if others and "math" in medians else "-"


def report_of(one):
    if "decline" in one:
        return one
    ms = one["ms"]
    low, middle, high = statistics.quantiles(ms, n=4) if len(ms) > 1 else ms * 3
    return {"median_ms": middle, "spread": (high - low) / middle, "samples": len(ms),
            "peak_bytes": one["peak_bytes"]}


def main(words=None):
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split("\n\n")[0].split()))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--train", action="store_true", help="time forward and backward")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, metavar="N")
    parser.add_argument("--seconds", type=float, default=SECONDS,
                        help="limit for the whole command")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: torch finds no GPU\nhint: without --device the CPU is measured")
    device = Cpu() if given.device == "cpu" else Gpu()
    device.kind = given.device
    usable = [name for name in providers.names_of(given.device) if name != "plain"
              and table.row(name, torch.device(given.device))[1]]
    names = ["math", *usable]
    head = {"device": device.name, "threads": torch.get_num_threads(),
            "torch": torch.__version__, "load": os.getloadavg()[0],
            "dtype": str(device.dtype).partition(".")[2], "heads": HEADS,
            "head_dim": device.dim, "train": given.train}
    if not given.json:
        columns = [text for name in names for text in (f"{name}, ms", "MiB")]
        print(", ".join(f"{key} {value}" for key, value in head.items()) + "\n")
        print("| " + " | ".join(["N", *columns, "ratio"]) + " |")
        print("|---" * (len(columns) + 2) + "|")
    measure(64, names, device, given.train, sys.maxsize, {})  # loads what the first call loads
    end, last, results = time.monotonic() + given.seconds, {}, []
    for length in given.lengths:
        last = measure(length, names, device, given.train, end, last)
        results.append({"length": length, **{n: report_of(one) for n, one in last.items()}})
        if not given.json:
            print("| " + " | ".join(cells(length, last)) + " |", flush=True)
    if given.json:
        print(json.dumps({**head, "results": results}, indent=1))


if __name__ == "__main__":
    main()
