#!/usr/bin/env python3
"""Makes logs by really running commands that fail, and commands that do not.

    make_logs.py [--kind KIND] FOLDER [PATTERN ...]

Each scenario of failures_*.py and healthy_*.py writes FOLDER/KIND/NAME.log;
FOLDER/scenarios.json says how each was made and what `anyflash doctor` must say about it.
Existing logs are kept. With a PATTERN only logs whose NAME or KIND/NAME matches are made, even
if they exist. Needs root (mounts, control groups), uv, g++ and the package index; some
scenarios need nvcc, an older Python or another tool. Exits 1 if a log could not be made.
"""

import argparse
import fnmatch
import json
import pathlib
import sys
import time
import traceback

import failures_resolve  # noqa: F401
import failures_install  # noqa: F401
import failures_import  # noqa: F401
import failures_libraries  # noqa: F401
import failures_build  # noqa: F401
import failures_memory  # noqa: F401
import healthy_builds  # noqa: F401
import healthy_installs  # noqa: F401
import healthy_others  # noqa: F401
import world


def wanted(scenario, folder, patterns):
    if patterns:
        return any(
            fnmatch.fnmatch(f"{scenario.kind}/{scenario.name}", pattern)
            or fnmatch.fnmatch(scenario.name, pattern)
            for pattern in patterns
        )
    return not (folder / scenario.kind / f"{scenario.name}.log").exists()


def make(scenario, folder):
    """Runs one scenario. True: its log was written."""
    path = folder / scenario.kind / f"{scenario.name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    started = time.monotonic()
    with open(part, "wb") as log:
        scene = world.Scene(folder, scenario.kind, scenario.name, log)
        try:
            scenario.make(scene)
        except Exception:
            traceback.print_exc()
            print(f"  {scenario.kind} {scenario.name}: could not be made", flush=True)
            return False
        finally:
            scene.close()
    part.rename(path)
    print(
        f"  {scenario.kind} {scenario.name}: {path.stat().st_size} bytes, "
        f"{time.monotonic() - started:.0f} s",
        flush=True,
    )
    return True


def write_list(folder):
    """What the doctor must say about each log that exists."""
    rows = {}
    for scenario in world.SCENARIOS.values():
        if (folder / scenario.kind / f"{scenario.name}.log").exists():
            rows[f"{scenario.kind}/{scenario.name}"] = {
                "how": scenario.how,
                "causes": list(scenario.causes),
                "least": scenario.least,
                "given": list(scenario.given),
            }
    (folder / "scenarios.json").write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kind", choices=("failures", "healthy"), default="")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    options = parser.parse_args()
    folder = options.folder.resolve()
    chosen = [
        one
        for one in world.SCENARIOS.values()
        if one.kind.startswith(options.kind) and wanted(one, folder, options.patterns)
    ]
    missing = [one.name for one in chosen if not make(one, folder)]
    rows = write_list(folder)
    failures = sum(name.startswith("failures/") for name in rows)
    print(
        f"{failures} logs of failures and {len(rows) - failures} healthy ones"
        + (f"; could not be made: {' '.join(missing)}" if missing else "")
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
