#!/usr/bin/env python3
"""Times the proof of a library or wheel, the first time and repeated.

Times the whole process. "read": without a state file, so every needed byte is read (file cache
warm). "first": with an empty state file, which is filled. "known": the state file has the
facts. Processor time is printed, too, because other load on the machine affects only wall time.
With --torch each wheel is also inspected over HTTP ranges from a server on the loopback
interface, and the downloaded bytes are counted.

    python3 bench/proof.py --anyflash build/release/anyflash --against .venv FILE ...
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from decide import describe_machine

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "net"))
from server import File, Server  # noqa: E402  pylint: disable=wrong-import-position


def run_once(argv, state):
    """Wall and processor milliseconds, and stdout; exits if the command gives no answer."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(argv, env=dict(os.environ, ANYFLASH_STATE=state), check=False,
                          capture_output=True)
    wall = (time.perf_counter() - begin) * 1000
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"error: {' '.join(argv)}: {done.stderr.decode()}")
    cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
    return wall, cpu, done.stdout


def print_row(name, kind, samples):
    walls = sorted(wall for wall, _, _ in samples)
    cpus = sorted(cpu for _, cpu, _ in samples)
    print(f"| {name} | {kind} | {walls[0]:.0f} | {statistics.median(walls):.0f} "
          f"| {walls[-1]:.0f} | {statistics.median(cpus):.0f} | {len(samples)} |")


def time_file(anyflash, against, path, rounds):
    argv = [anyflash, "inspect", path, "--against", against]
    name = f"{os.path.basename(path)[:44]} ({os.path.getsize(path) / 1e6:.0f} MB)"
    nothing = "/dev/null/none"
    run_once(argv, nothing)
    few = max(2, rounds // 5)
    print_row(name, "read", [run_once(argv, nothing) for _ in range(few)])
    with tempfile.TemporaryDirectory() as folder:
        firsts = []
        for number in range(few):
            state = os.path.join(folder, str(number))
            firsts.append(run_once(argv, state))
        print_row(name, "first", firsts)
        print_row(name, "known", [run_once(argv, state) for _ in range(rounds)])


def count_bytes(anyflash, torch, path):
    """A row about inspecting a remote wheel, the first time and again."""
    shares = []
    with tempfile.TemporaryDirectory() as state, Server() as server:
        named = os.path.basename(path)
        server.files[named] = File(pathlib.Path(path).read_bytes())
        argv = [anyflash, "inspect", server.url(named), "--allow-http", "--torch", torch,
                "--json"]
        for _ in range(2):
            wall, _, out = run_once(argv, state)
            said = json.loads(out)
            read, size = said["wheel"]["bytes_read"], said["wheel"]["size_bytes"]
            shares.append((said["verdict"], read, 100 * read / size, wall))
    (verdict, read, share, wall), (_, again, again_share, again_wall) = shares
    print(f"| {named[:44]} | {size / 1e6:.1f} | {torch} | {verdict} | {read / 1e6:.2f} "
          f"({share:.1f} %) | {wall:.0f} | {again / 1e6:.2f} ({again_share:.1f} %) "
          f"| {again_wall:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anyflash", default="build/release/anyflash")
    parser.add_argument("--against", required=True, help="interpreter of an environment")
    parser.add_argument("--torch", help="as 2.9.1+cu128: inspect wheels by ranges, too")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("files", nargs="+", help="libraries and wheels")
    options = parser.parse_args()
    print(describe_machine() + "\n")
    print("| what | | min ms | median | max | processor | rounds |\n"
          "|---|---|---|---|---|---|---|")
    for path in options.files:
        time_file(options.anyflash, options.against, path, options.rounds)
    wheels = [path for path in options.files if path.endswith(".whl")]
    if options.torch and wheels:
        print("\n| wheel | MB | torch | answer | fetched, MB | ms | again, MB | ms |\n"
              "|---|---|---|---|---|---|---|---|")
        for path in wheels:
            count_bytes(options.anyflash, options.torch, path)


if __name__ == "__main__":
    main()
