"""Runs flash-attn's own tests on a random sample of their parameters.

    python tests/flash_attn/run.py FOLDER [--count N] [--seed S] [--only NAME] [--jobs J]

FOLDER holds tests_on_cpu.py of prepare.py. All their parameters together are half a million
sets; N of them are drawn, the same ones for the same seed. A draw that a test skips itself
is replaced. The reference makes score matrices in plain torch, so sets whose matrices have
more than LARGEST elements are drawn only 1 time in RARE, and tests that repeat one problem
50 or 250 times get a small share.
"""

import argparse
import collections
import contextlib
import importlib
import io
import math
import multiprocessing
import os
import pathlib
import random
import sys
import time
import traceback

LARGEST, RARE = 60_000, 100
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
#: Repetitions of one problem inside a test make its sets cost more.
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
    """One value for each parameter."""
    values = {}
    for mark in function.pytestmark:
        names, choices = mark.args[:2]
        names = [name.strip() for name in names.split(",")]
        chosen = chance.choice(choices)
        values.update(zip(names, chosen if len(names) > 1 else (chosen,)))
    return values


def is_exact(name, values):
    """Over one key the reference's own error is 0, and their bound, 2e-4, is less than one
    unit in the last place of dv, which another order of adding up may cost: not drawn."""
    one_key = values.get("seqlen_q" if values.get("swap_sq_sk") else "seqlen_k") == 1
    return name == "test_flash_attn_splitkv" and one_key


def elements(name, values):
    q, k = (values.get(n, values.get("seqlen", 128)) for n in ("seqlen_q", "seqlen_k"))
    return q * k * REPEATED.get(name, 1)


def is_affordable(name, values, chance):
    size = elements(name, values)
    if size <= LARGEST:
        return True
    return (name not in REPEATED or size <= 20 * LARGEST) and chance.randrange(RARE) == 0


def sample(functions, count, seed):
    """`count` pairs (name, parameters) without an end of their own: skips are replaced."""
    chance = random.Random(seed)
    names = list(functions)
    shares = [SHARES.get(name, 10) for name in names]
    order = names + chance.choices(names, shares, k=max(0, 2 * count - len(names)))
    for name in order:
        values = draw(functions[name], chance)
        while is_exact(name, values) or not is_affordable(name, values, chance):
            values = draw(functions[name], chance)
        yield name, values


def run_one(job):
    """(name, parameters, "passed" | "skipped" | text of the failure, seconds)."""
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
    return name, values, verdict, time.monotonic() - started


def start(folder, threads):
    global FUNCTIONS
    FUNCTIONS = load(folder)
    import torch

    torch.set_num_threads(threads)


def report(counts, slowest, seconds):
    print(f"{'test':42} passed failed")
    for name, found in sorted(counts.items()):
        print(f"{name:42} {found['passed']:6} {found['failed']:6}")
    passed = sum(c["passed"] for c in counts.values())
    failed = sum(c["failed"] for c in counts.values())
    print(f"{passed + failed} sets in {seconds:.0f} s: {passed} passed, {failed} failed")
    print(f"slowest: {slowest[0]:.1f} s, {slowest[1]}")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="test functions whose name contains this")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2))
    options = parser.parse_args()
    folder = options.folder.resolve()
    functions = {n: f for n, f in load(folder).items() if options.only in n}
    jobs = sample(functions, options.count, options.seed)
    counts = collections.defaultdict(collections.Counter)
    started, done, slowest = time.monotonic(), 0, (0.0, "")
    threads = max(1, math.ceil(len(os.sched_getaffinity(0)) / options.jobs))
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, start, (folder, threads)) as pool:
        for name, values, verdict, seconds in pool.imap_unordered(run_one, jobs):
            if verdict == "skipped":
                continue
            done += 1
            counts[name]["passed" if verdict == "passed" else "failed"] += 1
            slowest = max(slowest, (seconds, f"{name} {values}"))
            if verdict != "passed":
                print(f"failed: {name} {values}\n{verdict}", flush=True)
            if done % 100 == 0:
                print(f"{done} sets, {time.monotonic() - started:.0f} s", flush=True)
            if done >= options.count:
                break
        pool.terminate()
    return report(counts, slowest, time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())
