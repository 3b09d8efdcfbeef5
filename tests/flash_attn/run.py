"""Runs flash-attn's own tests on a random sample of their parameters.

    python tests/flash_attn/run.py FOLDER [--count N] [--part I/P] [--seed S] [--only NAME]
        [--jobs J]

FOLDER contains tests_on_cpu.py, made by prepare.py. The tests have half a million sets of
parameters; N different ones are drawn, the same ones for the same seed. --part 1/10 is the
first of ten runs that share the N sets. A set that a test skips itself is replaced by another.
The reference computes score matrices in plain torch, so sets whose matrices have more than
LARGEST elements are drawn only 1 time in RARE, and tests that repeat one problem 50 or 250
times get a small share.
"""

import argparse
import collections
import contextlib
import importlib
import io
import itertools
import math
import multiprocessing
import os
import pathlib
import random
import re
import sys
import time
import traceback

LARGEST, RARE = 60_000, 100
VERDICTS = ("passed", "one unit", "failed")
#: After this many draws of known sets a function counts as exhausted.
ATTEMPTS = 2_000
#: Share of each test function among the draws; 10 where it is not listed.
SHARES = {
    "test_flash_attn_race_condition": 0.02,
    "test_flash_attn_deterministic": 0.5,
    "test_flash_attn_varlen_deterministic": 0.5,
    "test_flash_attn_bwd_overflow": 1,
    "test_flash_attn_bwd_transpose": 1,
    "test_flash_attn_bwd_varlen_overflow": 0.3,
    "test_flash_attn_kvcache": 20,
}
#: Tests that repeat one problem many times, so that a set costs more.
REPEATED = {
    "test_flash_attn_race_condition": 250,
    "test_flash_attn_deterministic": 3,
    "test_flash_attn_varlen_deterministic": 3,
}


def load(folder):
    package = pathlib.Path(__file__).resolve().parents[2] / "python"
    shim = package / "anyflash" / "shim" / "tree"  # what `anyflash shim install` installs
    sys.path[:0] = [str(folder), str(shim), str(package)]
    module = importlib.import_module("tests_on_cpu")
    return {name: f for name, f in vars(module).items() if name.startswith("test_")}


def draw(function, chance):
    """Draws one value for each parameter."""
    values = {}
    for mark in function.pytestmark:
        names, choices = mark.args[:2]
        names = [name.strip() for name in names.split(",")]
        chosen = chance.choice(choices)
        values.update(zip(names, chosen if len(names) > 1 else (chosen,)))
    return values


def is_one_unit(name, values, failure):
    """Whether dv differs by one unit in the last place, where the test's bound is smaller.

    With one key, out is v and dv is the sum of dout. Both references of the test add it up in
    the same order, so that the error they measure is 0 and the bound 2e-4, while one unit of
    such sums, up to 64, is 2**-5 in float16. Any other order of float32 additions may differ
    by one unit.
    """
    one_key = values.get("seqlen_q" if values.get("swap_sq_sk") else "seqlen_k") == 1
    if name != "test_flash_attn_splitkv" or not one_key or "(dv - dv_ref)" not in failure:
        return False
    unit = 2.0 ** (-5 if "float16" in str(values["dtype"]).split(".") else -2)
    return float(re.search("^dV max diff: (.*)$", failure, re.M)[1]) <= unit


def elements(name, values):
    q, k = (values.get(n, values.get("seqlen", 128)) for n in ("seqlen_q", "seqlen_k"))
    return q * k * REPEATED.get(name, 1)


def is_affordable(name, values, chance):
    size = elements(name, values)
    if size <= LARGEST:
        return True
    return (name not in REPEATED or size <= 20 * LARGEST) and chance.randrange(RARE) == 0


def sample(functions, count, seed):
    """2 * `count` different pairs (name, parameters): enough to replace skipped ones. Fewer if
    the functions have no more sets."""
    chance = random.Random(seed)
    names = list(functions)
    shares = [SHARES.get(name, 10) for name in names]
    order = names + chance.choices(names, shares, k=max(0, 2 * count - len(names)))
    seen = set()
    for name in order:
        for _ in range(ATTEMPTS):
            values = draw(functions[name], chance)
            is_new = (name, str(values)) not in seen
            if is_new and is_affordable(name, values, chance):
                seen.add((name, str(values)))
                yield name, values
                break


def part_of(text):
    """(I, P) of "I/P"."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def run_one(job):
    """(name, parameters, "passed" | "skipped" | "one unit" | text of the failure, seconds)."""
    import pytest

    name, values = job
    started, said = time.monotonic(), io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            FUNCTIONS[name](**values)
        verdict = "passed"
    except pytest.skip.Exception:
        verdict = "skipped"
    except Exception:
        verdict = traceback.format_exc(limit=-2) + said.getvalue()
        if is_one_unit(name, values, verdict):
            verdict = "one unit"
    return name, values, verdict, time.monotonic() - started


def start(folder, threads):
    global FUNCTIONS
    FUNCTIONS = load(folder)
    import torch

    torch.set_num_threads(threads)


def report(counts, slowest, seconds):
    print(f"{'test':42} " + " ".join(VERDICTS))
    for name, found in sorted(counts.items()):
        print(f"{name:42} " + " ".join(f"{found[v]:{len(v)}}" for v in VERDICTS))
    passed, unit, failed = (sum(c[v] for c in counts.values()) for v in VERDICTS)
    print(
        f"{passed + unit + failed} sets in {seconds:.0f} s: {passed} passed, {failed} failed, "
        f"{unit} one unit in the last place off where their bound leaves none"
    )
    print(f"slowest: {slowest[0]:.1f} s, {slowest[1]}")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--part", type=part_of, default=(1, 1), metavar="I/P")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="test functions whose name contains this")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2))
    options = parser.parse_args()
    folder = options.folder.resolve()
    functions = {n: f for n, f in load(folder).items() if options.only in n}
    part, parts = options.part
    jobs = itertools.islice(
        sample(functions, options.count, options.seed), part - 1, None, parts
    )
    count = options.count * part // parts - options.count * (part - 1) // parts
    counts = collections.defaultdict(collections.Counter)
    started, done, slowest = time.monotonic(), 0, (0.0, "")
    threads = max(1, math.ceil(len(os.sched_getaffinity(0)) / options.jobs))
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, start, (folder, threads)) as pool:
        for name, values, verdict, seconds in pool.imap_unordered(run_one, jobs):
            if verdict == "skipped":
                continue
            done += 1
            counts[name][verdict if verdict in VERDICTS else "failed"] += 1
            slowest = max(slowest, (seconds, f"{name} {values}"))
            if verdict not in VERDICTS:
                print(f"failed: {name} {values}\n{verdict}", flush=True)
            if done % 100 == 0:
                print(f"{done} sets, {time.monotonic() - started:.0f} s", flush=True)
            if done >= count:
                break
        pool.terminate()
    return report(counts, slowest, time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())
