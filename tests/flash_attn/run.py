"""Runs flash-attn's own tests on a random sample of their parameters.

    python tests/flash_attn/run.py FOLDER [--device cpu|cuda] [--count N] [--part I/P]
        [--seed S] [--only NAME] [--jobs J] [--seconds LIMIT] [--json FILE]

FOLDER contains tests_on_cpu.py or tests_on_cuda.py, made by prepare.py. The tests have half a
million sets of parameters; N different ones are drawn, the same ones for the same seed. --part
1/10 is the first of ten runs that share the N sets. A set that a test skips itself is replaced
by another, and so is one that the provider in $ANYFLASH_PROVIDER declines. The last lines are
the seed and a line for each set that failed. The reference
computes score matrices in plain torch, so sets whose matrices have more than LARGEST elements
are drawn only 1 time in RARE, and tests that repeat one problem 50 or 250 times get a small
share. FILE gets the number of sets of each verdict.
"""

import argparse
import collections
import contextlib
import importlib
import io
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import random
import re
import sys
import time
import traceback

LARGEST, RARE = {"cpu": 60_000, "cuda": 4_200_000}, 100
VERDICTS = ("passed", "one unit", "failed")
#: A provider that is forced may decline many sets before N are computed.
FORCED = os.environ.get("ANYFLASH_PROVIDER") or None
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


def load(folder, device):
    package = pathlib.Path(__file__).resolve().parents[2] / "python"
    shim = package / "anyflash" / "shim" / "tree"  # what `anyflash shim install` installs
    sys.path[:0] = [str(folder), str(shim), str(package)]
    module = importlib.import_module(f"tests_on_{device}")
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


def is_affordable(name, values, chance, largest):
    size = elements(name, values)
    if size <= largest:
        return True
    return (name not in REPEATED or size <= 20 * largest) and chance.randrange(RARE) == 0


def sample(functions, count, seed, largest):
    """2 * `count` different pairs (name, parameters), 40 * `count` for a forced provider:
    enough to replace those that are skipped or declined. Fewer if there are no more."""
    chance = random.Random(seed)
    names = list(functions)
    shares = [SHARES.get(name, 10) for name in names]
    most = (40 if FORCED else 2) * count
    order = names + chance.choices(names, shares, k=max(0, most - len(names)))
    seen, exhausted = set(), set()
    for name in order:
        for _ in range(0 if name in exhausted else ATTEMPTS):
            values = draw(functions[name], chance)
            is_new = (name, str(values)) not in seen
            if is_new and is_affordable(name, values, chance, largest):
                seen.add((name, str(values)))
                yield name, values
                break
        else:
            exhausted.add(name)


def part_of(text):
    """(I, P) of "I/P"."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def run_one(job):
    """(name, parameters, "passed" | "skipped" | "declined" | "one unit" | text of the failure,
    seconds)."""
    import pytest

    name, values = job
    started, said = time.monotonic(), io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            FUNCTIONS[name](**values)
        verdict = "passed"
    except pytest.skip.Exception:
        verdict = "skipped"
    except Exception as error:
        verdict = traceback.format_exc(limit=-2) + said.getvalue()
        if is_one_unit(name, values, verdict):
            verdict = "one unit"
        elif FORCED and type(error).__name__ == "NoProvider":
            verdict = "declined"
    return name, values, verdict, time.monotonic() - started


def start(folder, device, threads):
    global FUNCTIONS
    FUNCTIONS = load(folder, device)
    import torch

    torch.set_num_threads(threads)


def short(name, values):
    """A set of parameters on one line, as pytest would name it."""
    return f"{name}[{','.join(f'{key}={value}' for key, value in values.items())}]"


def report(counts, declined, slowest, seconds, file, seed, wrong):
    print(f"{'test':42} " + " ".join(VERDICTS))
    for name, found in sorted(counts.items()):
        print(f"{name:42} " + " ".join(f"{found[v]:{len(v)}}" for v in VERDICTS))
    passed, unit, failed = (sum(c[v] for c in counts.values()) for v in VERDICTS)
    print(
        f"{passed + unit + failed} sets in {seconds:.0f} s: {passed} passed, {failed} failed, "
        f"{unit} one unit in the last place off where their bound leaves none"
    )
    if FORCED:
        print(f"{declined} other sets are declined by '{FORCED}'")
    print(f"slowest: {slowest[0]:.1f} s, {slowest[1]}")
    print(f"seed: {seed}")
    for line in wrong:
        print(f"failed: {line}")
    if file is not None:
        totals = dict(zip(VERDICTS, (passed, unit, failed)), declined=declined)
        file.write_text(json.dumps(totals))
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=sorted(LARGEST))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--part", type=part_of, default=(1, 1), metavar="I/P")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="test functions whose name contains this")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2))
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends after that long")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    folder = options.folder.resolve()
    functions = {n: f for n, f in load(folder, options.device).items() if options.only in n}
    part, parts = options.part
    jobs = itertools.islice(
        sample(functions, options.count, options.seed, LARGEST[options.device]),
        part - 1,
        None,
        parts,
    )
    count = options.count * part // parts - options.count * (part - 1) // parts
    counts = collections.defaultdict(collections.Counter)
    started, done, declined, slowest, wrong = time.monotonic(), 0, 0, (0.0, ""), []
    print(f"seed: {options.seed}", flush=True)
    threads = max(1, math.ceil(len(os.sched_getaffinity(0)) / options.jobs))
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, start, (folder, options.device, threads)) as pool:
        for name, values, verdict, seconds in pool.imap_unordered(run_one, jobs):
            if time.monotonic() - started > options.seconds:
                break
            declined += verdict == "declined"
            if verdict in ("skipped", "declined"):
                continue
            done += 1
            counts[name][verdict if verdict in VERDICTS else "failed"] += 1
            slowest = max(slowest, (seconds, short(name, values)))
            if verdict not in VERDICTS:
                wrong.append(short(name, values))
                print(f"failed: {wrong[-1]}\n{verdict}", flush=True)
            if done % 100 == 0:
                print(f"{done} sets, {time.monotonic() - started:.0f} s", flush=True)
            if done >= count:
                break
        pool.terminate()
    seconds = time.monotonic() - started
    return report(counts, declined, slowest, seconds, options.json, options.seed, wrong)


if __name__ == "__main__":
    sys.exit(main())
