#!/usr/bin/env python3
"""Assembles every kernel of a pack, as a driver would: assemble.py PACK [--targets 80,90,120].

For each target it prints how many kernels were assembled, how long ptxas took, and the
registers and spills; --table FILE keeps a line for each kernel and goes on where it stopped.
Exits 1 if a kernel does not assemble.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import pack_file

USED = re.compile(r"Used (\d+) registers")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("--targets", default="80,90,120", metavar="SM,...")
    parser.add_argument("--ptxas", default="ptxas", metavar="PATH")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="only every Nth kernel")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE")
    return parser.parse_args()


def assemble(ptxas, target, name, module):
    """A row of the table; without numbers if ptxas fails, which is printed."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "kernel.ptx")
        source.write_text(module)
        start = time.monotonic()
        done = subprocess.run([ptxas, "-v", f"-arch=sm_{target}", source, "-o",
                               source.with_suffix(".cubin")], capture_output=True, text=True,
                              check=False)
        seconds = time.monotonic() - start
    if done.returncode != 0:
        print(f"sm_{target}: {name}: {done.stderr.strip()}", file=sys.stderr)
        return (target, name, f"{seconds:.3f}", "", "", "")
    spills = SPILLS.search(done.stderr)
    return (target, name, f"{seconds:.3f}", USED.search(done.stderr)[1],
            *(spills.groups() if spills else ("0", "0")))


def rows(given):
    """Assembles the kernels that are not in the table yet; yields their rows."""
    pack = pack_file.Pack(given.pack)
    # In the order of families, which are decompressed once.
    names = sorted(pack.kernels, key=lambda name: pack.kernels[name][0])[::given.every]
    done = set()
    if given.table and given.table.exists():
        done = {tuple(line.split("\t")[:2]) for line in given.table.read_text().splitlines()}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        waiting = []
        for name in names:
            for target in given.targets.split(","):
                if (target, name) not in done:
                    waiting.append(pool.submit(assemble, given.ptxas, target, name,
                                               pack.module(name)))
            while len(waiting) > 100:
                yield waiting.pop(0).result()
        for one in waiting:
            yield one.result()


def summary(table):
    """Prints a line for each target; whether all kernels were assembled."""
    by_target = {}
    for row in table:
        by_target.setdefault(row[0], []).append(row)
    for target, found in by_target.items():
        good = [row for row in found if row[3]]
        seconds = sorted(float(row[2]) for row in found)
        spilling = sum(row[4] != "0" for row in good)
        most = max(good, key=lambda row: int(row[4]), default=None)
        print(f"sm_{target}: {len(good)} of {len(found)} assembled; "
              f"{statistics.median(seconds):.2f} s, 90 % below "
              f"{seconds[int(0.9 * (len(seconds) - 1))]:.2f} s, longest {seconds[-1]:.2f} s; "
              f"{spilling} spill" + (f", most {most[4]} bytes: {most[1]}" if spilling else ""))
    return all(row[3] for row in table)


def main():
    given = arguments()
    found = []
    for row in rows(given):
        found.append(row)
        if given.table:
            with open(given.table, "a", encoding="utf-8") as file:
                file.write("\t".join(row) + "\n")
    if given.table:
        found = [line.split("\t") for line in given.table.read_text().splitlines()]
    sys.exit(0 if summary(found) else 1)


if __name__ == "__main__":
    main()
