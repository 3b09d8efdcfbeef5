"""Short runs of the engine's own threads, alone and beside a busy core: do they share a core?

    ANYFLASH_LIBRARY=build/release/libanyflash.so PYTHONPATH=python python3 bench/short_runs.py

Four ways to run f32 attention of 16 heads, 512 tokens, D 64, each 200 times: at once or after a
pause of 5 ms, in which the threads fall asleep; with the same threads or with new ones each
time. Then the same while another process computes on the last core all the time. Prints for
each the milliseconds (p90: 90 % of the runs took at most that long), and how many runs ended
with all threads on one core (the engine itself moves a worker there at the end if another
program keeps it from running). Linux; needs NumPy and two cores.

A run is called slow if one thread, pinned to the first core, would have been 10 % faster: its
time is the lower quartile of as many runs. "Undisturbed" are the slow runs during which no
program took the core of the calling thread.

Other programs disturb the measurement; `--weight` gives this session all but their share of the
cores (as root, in a session of its own: `setsid python3 bench/short_runs.py --weight`).
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import time

import numpy

import anyflash
from anyflash import _lib

_SPIN = "import os, sys; os.sched_setaffinity(0, [int(sys.argv[1])])\nwhile True: pass"


def cores():
    """The core on which each thread of this process ran last."""
    found = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        found.append(int((task / "stat").read_text().rpartition(")")[2].split()[36]))
    return found


def preemptions():
    """How many times Linux has taken the core from this thread while it computed."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def runs(count, pause=0.0, new_threads=False):
    """For each run (milliseconds, whether all threads ended on one core, preemptions)."""
    rows, q = [], numpy.random.rand(1, 512, 16, 64).astype("f4")
    out = numpy.empty_like(q)
    for _ in range(count):
        if new_threads:
            anyflash.set_threads(_lib.threads())
        time.sleep(pause)
        before, begin = preemptions(), time.perf_counter()
        anyflash.attend(q, q, q, out=out)
        ms = (time.perf_counter() - begin) * 1e3
        rows.append((ms, len(set(cores())) == 1, preemptions() - before))
    return rows


def one_thread(count, allowed):
    """Milliseconds of one thread on the first core: the lower quartile."""
    threads = _lib.threads()
    anyflash.set_threads(1)
    os.sched_setaffinity(0, allowed[:1])
    ms = sorted(row[0] for row in runs(count))
    os.sched_setaffinity(0, allowed)
    anyflash.set_threads(threads)
    return ms[count // 4]


def report(count, beside, allowed):
    alone = one_thread(count, allowed)
    print(f"{beside}: one thread {alone:.2f} ms")
    for pause in (0.0, 0.005):
        for new_threads in (False, True):
            rows = runs(count, pause, new_threads)
            ms = sorted(row[0] for row in rows)
            slow = [row for row in rows if row[0] > 1.1 * alone]
            undisturbed = sum(row[2] == 0 for row in slow)
            together = sum(row[1] for row in rows)
            when = "after 5 ms" if pause else "at once"
            threads = "new threads" if new_threads else "same threads"
            least, median, most = ms[0], ms[count // 2], ms[count * 9 // 10]
            print(
                f"{beside:10} {when:10} {threads:12} min {least:6.2f}  median {median:6.2f}  "
                f"p90 {most:6.2f}  slow {len(slow):3}, undisturbed {undisturbed:3}  "
                f"ended on one core {together:3}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--weight", action="store_true")
    options = parser.parse_args()
    if options.weight:
        pathlib.Path("/proc/self/autogroup").write_text("-20")
    allowed = sorted(os.sched_getaffinity(0))
    print(f"load {os.getloadavg()[0]:.1f}, {len(allowed)} cores")
    report(options.runs, "alone", allowed)
    spinning = subprocess.Popen([sys.executable, "-c", _SPIN, str(allowed[-1])])
    try:
        report(options.runs, "busy core", allowed)
    finally:
        spinning.kill()


main()
