#!/usr/bin/env python3
"""Times how anyflash and NVIDIA's cuobjdump list GPU code, and writes a Markdown table.

Both list every image of the file, in turn, and the whole process is timed. One round that is
not counted loads the file into the page cache. cuobjdump is slow, so it gets fewer rounds.

    python3 bench/fatbin.py --print build/release/tests/print_gpu_code --cuobjdump PATH \\
        FILE ... > bench/results/fatbin.md
"""
import argparse
import os
import statistics
import subprocess
import sys

from decide import describe_machine, run_once


def time_rows(argv, rounds):
    """(wall seconds, peak MiB) of each counted round; None when the program failed."""
    rows = []
    with open(os.devnull, "w", encoding="utf-8") as sink:
        for number in range(rounds + 1):
            wall_ms, peak, code = run_once(argv, sink)
            if code != 0:
                return None
            if number > 0:
                rows.append((wall_ms / 1000, peak))
    return rows


def row_text(rows):
    if rows is None:
        return "failed | |"
    walls = sorted(wall for wall, _ in rows)
    peak = max(peak for _, peak in rows)
    return (f"{statistics.median(walls):.3f} ({walls[0]:.3f} to {walls[-1]:.3f}) "
            f"| {peak:.0f} | {len(rows)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", required=True, dest="program", help="print_gpu_code")
    parser.add_argument("--cuobjdump", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--cuobjdump-rounds", type=int, default=2)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    version = subprocess.run([options.cuobjdump, "--version"], text=True, capture_output=True,
                             check=False).stdout.strip().splitlines()
    print("# Listing GPU code\n")
    print("Written by `bench/fatbin.py`. Seconds for the whole process: median (fastest to\n"
          "slowest), with the file in the page cache. `kernels` also reads the names of all\n"
          "kernels, from one image for each translation unit.\n")
    release = version[-2] if len(version) > 1 else "?"
    print(f"Machine: {describe_machine()}. cuobjdump: {release}\n")
    print("| file | MB | program | s | peak MiB | rounds |\n|---|---|---|---|---|---|")
    for path in options.files:
        name, size = os.path.basename(path), os.path.getsize(path) / 1e6
        for program, argv, rounds in (
                ("anyflash", [options.program, path], options.rounds),
                ("anyflash, kernels", [options.program, "--kernels", path], options.rounds),
                ("cuobjdump -lelf", [options.cuobjdump, "-lelf", path],
                 options.cuobjdump_rounds)):
            print(f"| {name} | {size:.0f} | {program} | {row_text(time_rows(argv, rounds))} |",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
