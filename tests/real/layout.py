#!/usr/bin/env python3
"""Tests whether the check `layout` is right, with builds of layoutprobe.cpp in real
environments.

A build that can be imported may still read members at wrong offsets. Every build of the probe
(builds.py) is imported in each environment and asked about tensors. If all its answers agree
with torch's, inspect must not say no; if one is wrong or the build crashes, inspect must not
say yes. Prints what each build did; exit code 0 if there is no disagreement.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import prove
import wheels

HERE = pathlib.Path(__file__).resolve().parent


def tried(environment, files):
    """The result for each path."""
    python = pathlib.Path(environment) / "bin" / "python"
    answer = subprocess.run([str(python), str(HERE / "try_layout.py"), *files],
                            capture_output=True, text=True, check=True)
    return {row["path"]: row["end"] for row in map(json.loads, answer.stdout.splitlines())}


def compare(anyflash, environment):
    files = sorted(map(str, wheels.CACHE.glob("built/*/layoutprobe.so")))
    proved, ends = prove.proofs(anyflash, environment, files), tried(environment, files)
    wrong = 0
    for file in files:
        loads, right = proved[file]["loads"], ends[file] == "right"
        bad = loads in ("yes", "no") and (loads == "yes") != right
        wrong += bad
        print(f"  {'WRONG' if bad else 'ok':5} layoutprobe for torch "
              f"{pathlib.Path(file).parent.name}: loads {loads}; {ends[file]}")
    print(f"{environment}: {len(files)} builds of the probe, {wrong} disagreements", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anyflash", default="build/release/anyflash")
    parser.add_argument("--against", action="append", required=True, help="an environment")
    options = parser.parse_args()
    return min(1, sum(compare(options.anyflash, environment)
                      for environment in options.against))


if __name__ == "__main__":
    sys.exit(main())
