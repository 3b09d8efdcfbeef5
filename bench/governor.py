"""Compares the governor with the best possible schedule of 200 synthetic compilers.

    GOVERN_TRY=... GOVERN_COMPILER=... python bench/governor.py [--jobs 200] [--seed 1]

Each compiler uses the memory and time that its name says (N MiB for T s). They run in a control
group of version 1 whose limit is lowered while they run, and some are killed at random. The
first comparison is with a bound that no schedule can beat, computed from the limit that the
kernel had at each time:

    the time until the limit's integral is the sum of all jobs' MiB x s, or
    the sum of their seconds / slots, or the longest job,
    or the sum of the seconds of those that take more than half of the limit,

whichever is largest. The bound ignores the reserve and work lost to kills. The
second comparison is with the best schedule found offline: it knows all jobs exactly, tries a
dozen orders, and starts each job as early as it fits. It loses nothing to kills either. The
throughput is given relative to this schedule.

Compilers take longer than their names say: the kernel provides about 2 GiB/s of memory per
core, and 200 compilers request 86 GiB. So both are computed a second time with the time that
each compiler really took, from its first line of output to its last, and with the work that the
random kills destroyed, which no schedule could have kept.
"""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "govern"))
from govern_project import COMPILER, Group, Project, processes_of, result_of  # noqa: E402


def make_jobs(count, seed):
    """(MiB, seconds) of jobs like real compilers: a few large and long, many small."""
    pick = random.Random(seed)
    jobs = []
    for _ in range(count):
        kind = pick.random()
        if kind < 0.1:
            jobs.append((pick.randint(900, 1400), pick.uniform(3, 6)))
        elif kind < 0.5:
            jobs.append((pick.randint(300, 800), pick.uniform(1, 4)))
        else:
            jobs.append((pick.randint(40, 250), pick.uniform(0.5, 2)))
    return [(mib, round(seconds, 2)) for mib, seconds in jobs]


def limit_at(steps, when):
    return [mib for start, mib in steps if start <= when][-1]


def bound(jobs, slots, steps):
    area = sum(mib * seconds for mib, seconds in jobs)
    done, when = 0.0, 0.0
    while done < area:
        done += limit_at(steps, when) * 0.01
        when += 0.01
    most = max(mib for _, mib in steps)
    large = sum(seconds for mib, seconds in jobs if mib > most / 2)
    return {
        "memory": when,
        "slots": sum(seconds for _, seconds in jobs) / slots,
        "longest": max(seconds for _, seconds in jobs),
        "large ones": large,
    }


def place(order, slots, steps):
    """When the last job ends if each, in this order, starts as soon as it fits to its end."""
    placed = []
    for mib, seconds in order:
        for start in sorted({0.0, *(end for _, end, _ in placed)}):
            end = start + seconds
            beside = [p for p in placed if p[0] < end and p[1] > start]
            times = {start, *(p[0] for p in beside if p[0] > start)}
            times |= {when for when, _ in steps if start < when < end}
            if all(
                sum(p[2] for p in beside if p[0] <= t < p[1]) + mib <= limit_at(steps, t)
                and sum(p[0] <= t < p[1] for p in beside) < slots
                for t in times
            ):
                placed.append((start, end, mib))
                break
    return max(end for _, end, _ in placed)


def best_found(jobs, slots, steps, tries=10):
    pick = random.Random(7)
    by_time = sorted(jobs, key=lambda job: -job[1])
    orders = [by_time, sorted(jobs, key=lambda job: -job[0] * job[1])]
    for _ in range(tries):
        orders.append(sorted(by_time, key=lambda job: -job[1] * pick.uniform(0.7, 1.3)))
    return min(place(order, slots, steps) for order in orders)


def age_of(pid):
    """Seconds since it started: proc(5), /proc/PID/stat, field 22."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


class Killer(threading.Thread):
    """Kills compilers at random times and records the work that was lost."""

    def __init__(self, folder, count, seconds):
        super().__init__(daemon=True)
        pick = random.Random(3)
        self.folder, self.pick = folder, pick
        self.times = sorted(pick.uniform(2, seconds) for _ in range(count))
        self.lost = []  # (MiB, seconds) of work that no schedule could have kept

    def run(self):
        start = time.monotonic()
        for when in self.times:
            time.sleep(max(0, start + when - time.monotonic()))
            found = [f for f in processes_of(self.folder) if f[1].startswith(COMPILER)]
            try:
                pid, command = self.pick.choice(found)
                lost = int(re.search(r"/m(\d+)-s", command)[1]), age_of(pid)
                os.kill(pid, 9)
                self.lost.append(lost)
            except (IndexError, OSError):
                pass


def really(project, jobs):
    """The jobs with the seconds that their compilers really took, from first line to last."""
    times = {}
    for line in pathlib.Path(f"{project.log}.times").read_text().splitlines():
        name, seconds = line.rsplit(" ", 1)
        times[name] = float(seconds)
    return [(job[0], times[f"{name}.o"]) for name, job in zip(project.files, jobs)]


def compare(jobs, options, steps):
    bounds = bound(jobs, options.slots, steps)
    which, least = max(bounds.items(), key=lambda item: item[1])
    return least, which, best_found(jobs, options.slots, steps)


def measure(jobs, options, lowered, kills):
    """Seconds, two comparisons (by names, by real times), kills (ours, the kernel's), steps."""
    with tempfile.TemporaryDirectory() as folder, Group(options.mib) as group:
        folder = pathlib.Path(folder)
        files = [f"m{mib}-s{seconds}-{i}" for i, (mib, seconds) in enumerate(jobs)]
        project = Project(folder, files)
        steps = [(0.0, options.mib)]
        guess = max(bound(jobs, options.slots, steps).values())
        start = time.monotonic()
        killer = Killer(folder, kills, guess)
        build = subprocess.Popen(
            project.command(0, options.slots),
            env=project.environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=group.enter,
        )
        killer.start()
        if lowered:
            time.sleep(guess * 0.4)
            group.lower(lowered)
            steps.append((time.monotonic() - start, lowered))
        lines = build.stdout.read().splitlines()
        code = build.wait()
        seconds = time.monotonic() - start
        assert code == 0, [line for line in lines if not line.startswith(("started", "ended"))]
        project.check_complete()  # every object exactly once
        killed = result_of(lines)["killed"]  # by the kernel, for memory
        assert killed == 0 or lowered
        was = really(project, jobs) + killer.lost
        both = [compare(each, options, steps) for each in (jobs, was)]
        return seconds, both, (len(killer.lost), killed), steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--mib", type=int, default=5120)
    parser.add_argument("--lowered", type=int, default=3072)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    jobs = make_jobs(options.jobs, options.seed)
    print("| what | s | times | bound, s (which) | best found offline, s | throughput of it |")
    print("|---|---|---|---|---|---|")
    for what, lowered, kills in (
        (f"{options.mib} MiB", 0, 0),
        (f"lowered to {options.lowered} MiB, and kills", options.lowered, options.kills),
    ):
        seconds, both, killed, steps = measure(jobs, options, lowered, kills)
        where = f", at {steps[1][0]:.0f} s" if lowered else ""
        what += where + (" ({}; {} by the kernel)".format(*killed) if kills else "")
        for times, (least, which, found) in zip(("as named", "as they were"), both):
            row = f"{seconds:.1f} | {times} | {least:.1f} ({which}) | {found:.1f}"
            share = 100 * found / seconds
            print(f"| {options.jobs} jobs, {what} | {row} | {share:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
