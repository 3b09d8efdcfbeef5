#!/usr/bin/env python3
"""Builds real wheels of flash-attn with `anyflash build`, without the system's CUDA toolkit.

    python3 make_wheels.py --anyflash ANYFLASH --folder FOLDER [STEP...]

Sources and the compiler come from PyPI; the system's toolkit is hidden (hide_toolkit.sh). Each
wheel is built once and tried with every torch. Steps (default: all):

    small       head size 128 without features: built and inspected; for each torch installed by
                uv and by pip, imported, called for features that it lacks
    full        the same with dropout, ALiBi, softcap and window
    grow        head size 64 added to the small one: only new files are compiled
    interrupt   SIGINT and SIGKILL to the builder, SIGKILL to a compiler, then completed
    arch        what `plan` offers for a machine with an RTX 4090: --arch 89 makes sm_80 code

Prints a table of estimated and actual values; exit code 1 if something was not as promised. Two
cores take about an hour. The results stay in FOLDER; remove it to start again.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
HIDE = str(HERE / "hide_toolkit.sh")
MACHINE = HERE.parents[1] / "examples" / "machines" / "rtx4090-torch2.15.json"
DONE = re.compile(r"^  (\S+\.(?:cu|cpp)) +\d+ s +[\d.]+ GiB +done$", re.M)
FEATURES = ("window", "softcap", "alibi", "dropout")
HELD = {"flash_fwd", "flash_fwd_split", "flash_combine", "flash_bwd", "flash_bwd_help"}


class Wrong(Exception):
    """Something was not as promised."""


def check(true, *words):
    if not true:
        raise Wrong(" ".join(map(str, words)))


def run(*words, **options):
    """The output of a command that must succeed."""
    options.setdefault("stdout", subprocess.PIPE)
    words = [str(word) for word in words]
    return subprocess.run(words, check=True, text=True, **options).stdout


class Place:
    """The folder for all results, and the program under test."""

    def __init__(self, folder, anyflash, python):
        self.folder = folder
        self.anyflash = anyflash
        self.python = python
        self.rows = []
        self.variables = {
            **os.environ,
            "ANYFLASH_CACHE": str(folder / "cache"),
            "ANYFLASH_STATE": str(folder / "state"),
        }
        folder.mkdir(parents=True, exist_ok=True)

    def environment(self, torch, name=""):
        """An environment with this torch, created once."""
        folder = self.folder / f"torch-{torch}{name}"
        python = folder / "bin" / "python"
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            run("uv", "venv", "-q", "--python", self.python, folder)
            packages = (f"torch=={torch}", "numpy", "einops", "pip")
            run("uv", "pip", "install", "-q", "--python", python, *packages)
            (folder / "ready").touch()
        return folder

    def start(self, *options):
        """A running `anyflash build` in its own process group."""
        words = [HIDE, self.anyflash, "build", "--json", *options]
        return subprocess.Popen(
            [str(word) for word in words],
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=open(self.folder / "progress", "w"),
            text=True,
            start_new_session=True,
        )

    def end(self, build):
        """(exit code, answer or None, names of the compiled files)"""
        out = build.communicate()[0]
        answer = json.loads(out) if out.startswith("{") else None
        return build.returncode, answer, DONE.findall((self.folder / "progress").read_text())

    def build(self, title, *options):
        """A build that must succeed: (answer, compiled)."""
        code, answer, compiled = self.end(self.start(*options))
        log = self.folder / "progress"
        check(code == 0 and answer["wheel"], f"{title}: exit code {code}: see {log}")
        row = (title, answer["estimated_seconds"], answer["seconds"], len(compiled),
               os.path.getsize(answer["wheel"]))
        self.rows.append(row)
        print(f"  {title}: {answer['estimated_seconds']:.0f} s estimated,",
              f"{answer['seconds']:.0f} s, {len(compiled)} files", flush=True)
        return answer, compiled


def check_kernels(place, environment, wheel, head_dims, features, sm, promised):
    """Checks that the wheel contains what its name promises, for a GPU of this capability."""
    words = ("inspect", wheel, "--json", "--against", environment, "--arch", f"{sm / 10}")
    done = subprocess.run([place.anyflash, *words], stdout=subprocess.PIPE, check=False)
    answer = json.loads(done.stdout)
    target = f"sm_{80 if sm < 90 else sm}"
    check(answer["verdict"] == "yes", "inspect:", answer["verdict"])
    code = answer["extensions"][0]["gpu_code"]
    check([row["target"] for row in code["targets"]] == [target], code["targets"])
    kernels = code["flash_kernels"]
    check({row["head_dim"] for row in kernels} == head_dims, kernels)
    check({row["dtype"] for row in kernels} == {"bf16"}, kernels)
    check({row["operation"] for row in kernels} <= HELD, kernels)
    named = {word for row in kernels for word in row["features"]}
    check(named & set(FEATURES) == set(features), named)
    counts = collections.Counter()
    for row in kernels:
        counts[row["operation"]] += row["kernels"]
    main = sum(counts[name] for name in ("flash_fwd", "flash_fwd_split", "flash_bwd"))
    check(main == promised, main, "main kernels; promised:", promised)
    return dict(counts)


def install(environment, wheel):
    """Installs it with pip, then with uv over it; nothing else may be installed."""
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--no-index", wheel)
    run("uv", "pip", "uninstall", "-q", "--python", python, "flash-attn")
    run("uv", "pip", "install", "-q", "--offline", "--python", python, wheel)
    run("uv", "pip", "check", "-q", "--python", python)
    run(HIDE, python, "-c", "import flash_attn, flash_attn.modules.mha, flash_attn_2_cuda")


def check_missing(environment, head_dims, features, passes):
    """Calls an installed wheel for what it lacks and checks the errors; number of calls."""
    out = run(environment / "bin" / "python", HERE / "call_missing.py",
              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, stderr=subprocess.DEVNULL)
    count = collections.Counter()
    for case in map(json.loads, out.splitlines()):
        held = (case["head_dim"] in head_dims and case["dtype"] == "bfloat16"
                and case["pass"] in passes)
        error = case["error"] or ""
        if case["feature"] in FEATURES and case["feature"] not in features:
            check("build does not support" in error, case)
            check(f"with --features {case['feature']}" in error, case)
            count["features refused"] += 1
        elif held:
            check(error.startswith("CUDA: "), case)  # the kernel would have been launched
            count[f"{case['pass']} found"] += 1
        else:
            dtype = {"bfloat16": "bf16", "float16": "fp16"}[case["dtype"]]
            kernel = f"{case['pass']}, head size {case['head_dim']}, {dtype}"
            check(f"no kernel for: {kernel}" in error, case)
            check("Add it: anyflash build --head-dim" in error, case)
            count[f"{case['pass']} refused"] += 1
    return dict(count)


def try_wheel(place, title, torches, features, options, sm=90, head_dims=frozenset([128])):
    answer, compiled = place.build(title, "--dtype", "bf16", "--arch", sm, *options)
    passes = ("forward",) if "--inference" in options else ("forward", "backward")
    wheel = answer["wheel"]
    print("   ", check_kernels(place, place.environment(torches[0]), wheel, head_dims, features,
                               sm, answer["kernels"]))
    for torch in torches:
        environment = place.environment(torch)
        install(environment, wheel)
        print(f"    torch {torch}:", check_missing(environment, head_dims, features, passes))
        run(environment / "bin" / "python", HERE / "use_wheel.py", max(head_dims),
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    return compiled


def small(place, torches):
    try_wheel(place, "small", torches, (), ("--head-dim", 128, "--features", "none"))


def full(place, torches):
    try_wheel(place, "full", torches, FEATURES, ("--head-dim", 128, "--features", "all"))


def grow(place, torches):
    options = ("--head-dim", "64,128", "--features", "none")
    compiled = try_wheel(place, "grow", torches, (), options, head_dims={64, 128})
    new = [name for name in compiled if "hdim64" in name]
    check(compiled and new == compiled, "compiled again:", compiled)


def arch(place, torches):
    plan = json.loads(run(place.anyflash, "plan", "--json", "--machine", MACHINE))
    line = plan["builds"][0]["argv"]
    print("  plan:", " ".join(line), flush=True)
    check(line[4:] == ["--head-dim", "128", "--dtype", "bf16", "--arch", "89"], line)
    try_wheel(place, "arch", torches[-1:], FEATURES, line[4:6], sm=89)


def processes(text, start=""):
    """(id, command) of running processes whose command or working folder contains the text."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            command = b" ".join([*words, os.readlink(entry / "cwd").encode()]).decode()
        except (OSError, ValueError):
            continue
        if text in command and os.path.basename(command.split(" ")[0]).startswith(start):
            found.append((int(entry.name), command))
    return found


def strike(place, options, victim, number):
    """Starts a build and kills one of its processes: a running compiler, or another one when
    a file is done; (whether the wheel was built, the files that were finished)."""
    build = place.start(*options)
    cache = str(place.folder / "cache")
    found = []
    while build.poll() is None and not found:
        time.sleep(1)
        one_done = DONE.search((place.folder / "progress").read_text())
        if processes(cache, "cicc") and (one_done or victim == "cicc"):
            time.sleep(3)
            found = processes(cache, victim) if victim else [(build.pid, "")]
    check(build.poll() is None, "the build ended before it was struck")
    os.kill(found[0][0], number)
    code, answer, compiled = place.end(build)
    time.sleep(2)
    check(not processes(cache), "left over:", processes(cache))
    left = list((place.folder / "cache" / "build").glob("*/temporary/*"))
    by_surprise = number == signal.SIGKILL and not victim  # the next build removes them
    check(by_surprise or not left, "left over:", left)
    name = f"{signal.Signals(number).name} to {victim or 'the builder'}"
    print(f"  {name}: exit code {code}, {compiled}", flush=True)
    return answer is not None and answer["wheel"] is not None, compiled


def interrupt(place, _torches):
    # One at a time, so that a compiler is running whenever another has ended.
    options = ("--head-dim", "32,96,192,256", "--dtype", "bf16", "--features", "none",
               "--arch", 90, "--inference", "--jobs", 1)
    all_compiled = []
    for victim, number in (("", signal.SIGINT), ("", signal.SIGKILL), ("cicc", signal.SIGKILL)):
        ended, compiled = strike(place, options, victim, number)
        check(ended == (victim == "cicc"), "the build ended" if ended else "it did not end")
        all_compiled += compiled
    _, compiled = place.build("interrupt", *options)
    check(not compiled, "compiled again:", compiled)
    check(len(all_compiled) == len(set(all_compiled)), "compiled twice:", all_compiled)


STEPS = {step.__name__: step for step in (small, full, grow, interrupt, arch)}


def main():
    parser = argparse.ArgumentParser(description="Makes wheels of flash-attn for real.")
    parser.add_argument("--anyflash", required=True, type=pathlib.Path)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable, help="for the environments")
    parser.add_argument("--torch", action="append", help="default: 2.6.0, 2.11.0 and 2.15.0")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    options = parser.parse_args()
    place = Place(options.folder.resolve(), options.anyflash.resolve(), options.python)
    bad = 0
    for name in options.steps or STEPS:
        print(f"== {name}", flush=True)
        try:
            STEPS[name](place, options.torch or ["2.6.0", "2.11.0", "2.15.0"])
        except (Wrong, subprocess.CalledProcessError) as error:
            print(f"  WRONG: {error}", flush=True)
            bad += 1
    print("\n| build | estimated s | seconds | files compiled | wheel MB |")
    print("|---|---|---|---|---|")
    for title, estimate, seconds, count, size in place.rows:
        print(f"| {title} | {estimate:.0f} | {seconds:.0f} | {count} | {size / 1e6:.1f} |")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
