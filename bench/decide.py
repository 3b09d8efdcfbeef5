#!/usr/bin/env python3
"""Times `anyflash plan` and `anyflash find`, and `python -c "import torch"` for comparison.

Times the whole process of each command, with its output in a file. The commands take turns for
a few rounds, so that other load on the machine affects all of them. Prints the minimum, median
and maximum wall time, the peak memory, and the target of each command.

    python3 bench/decide.py --anyflash build/release/anyflash --python .venv/bin/python
"""
import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1024.0
TARGETS = {"plan": (30.0, 40.0), "find": (30.0, None)}  # wall ms (best), peak MiB


def run_once(argv, sink):
    """Wall milliseconds, peak RSS in MiB and the exit code of one process."""
    begin = time.perf_counter()
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    _, status, usage = os.wait4(child.pid, 0)
    wall_ms = (time.perf_counter() - begin) * 1000
    child.returncode = os.waitstatus_to_exitcode(status)
    return wall_ms, usage.ru_maxrss / MIB, child.returncode


def describe_machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def commands(options):
    program, python = options.anyflash, options.python
    here = ["--python", python] if python else []
    rows = [
        ("plan", [program, "plan", *here], options.rounds),
        ("find", [program, "find"], options.rounds),
        ("doctor", [program, "doctor", *here], options.rounds),
        ("machine", [program, "machine", *here], options.rounds),
    ]
    if python:
        rounds = max(2, options.rounds // 4)
        rows.append(("import torch", [python, "-c", "import torch"], rounds))
    return rows


def judge(name, best_ms, peak_mib):
    """The target of a command and whether it was met; "" if it has none."""
    if name not in TARGETS:
        return ""
    wall_target, peak_target = TARGETS[name]
    met = best_ms <= wall_target and (peak_target is None or peak_mib <= peak_target)
    target = f"{wall_target:.0f} ms" + (f", {peak_target:.0f} MiB" if peak_target else "")
    return f"{target}: {'met' if met else 'MISSED'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anyflash", default="build/release/anyflash")
    parser.add_argument("--python", help="interpreter of an environment with torch")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    print(describe_machine())
    print(f"{'command':14} {'min ms':>9} {'median':>9} {'max':>9} {'peak MiB':>9}  target")
    missed = False
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB
    with tempfile.TemporaryFile() as sink:
        for name, argv, rounds in commands(options):
            run_once(argv, sink)  # warm the file cache
            samples = [run_once(argv, sink) for _ in range(rounds)]
            if any(code not in (0, 1) for _, _, code in samples):
                sys.exit(f"error: {' '.join(argv)} failed")
            walls = [wall for wall, _, _ in samples]
            peak = max(rss for _, rss, _ in samples)
            verdict = judge(name, min(walls), peak)
            missed = missed or verdict.endswith("MISSED")
            median = statistics.median(walls)
            shown = f"{peak:.1f}" if peak > floor else f"<{floor:.1f}"
            print(f"{name:14} {min(walls):9.1f} {median:9.1f} {max(walls):9.1f} {shown:>9}  "
                  f"{verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
