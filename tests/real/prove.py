#!/usr/bin/env python3
"""Compares what `anyflash inspect` proves with what happens when Python loads the file.

For every environment (--against) it proves every shared library in the given folders, then
loads it with that environment's torch in a child process. Prints each disagreement: proved to
load but does not, or proved not to load but does. "unknown" agrees with both; their number is
printed. Exit code: 0 no disagreement, 1 some.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def libraries(folders):
    """Every shared library below the folders, once."""
    found = []
    for folder in map(pathlib.Path, folders):
        files = [folder] if folder.is_file() else sorted(folder.rglob("*.so*"))
        found += [str(file.resolve()) for file in files if file.is_file()]
    return sorted(set(found))


def proofs(anyflash, environment, files):
    """The JSON object of each extension, by path."""
    proved = {}
    for file in files:
        answer = subprocess.run([anyflash, "inspect", file, "--against", environment, "--json"],
                                capture_output=True, text=True, check=False)
        if answer.returncode not in (0, 1):
            sys.exit(f"inspect {file}: {answer.stderr}")
        proved[file] = json.loads(answer.stdout)["extensions"][0]
    return proved


def reality(environment, files):
    """The answers of try_load.py, by path."""
    python = pathlib.Path(environment) / "bin" / "python"
    answer = subprocess.run([str(python), str(HERE / "try_load.py"), *files],
                            capture_output=True, text=True, check=True)
    return {row["path"]: row for row in map(json.loads, answer.stdout.splitlines())}


def why(proof):
    """The checks whose answer is not yes, in one line."""
    return "; ".join(f"{check['id']} {check['answer']}: {check['evidence']}"
                     for check in proof["checks"] if check["answer"] != "yes")


def examine(anyflash, environment, files):
    """(path, proof, what happened) of each file."""
    proved, real = proofs(anyflash, environment, files), reality(environment, files)
    return [(file, proved[file], real[file]) for file in files]


def report(environment, results, verbose):
    """Prints the disagreements in one environment; their number."""
    wrong = unknown = unsafe = 0
    for file, proof, real in results:
        imports = proof.get("imports", "no")
        bad = imports in ("yes", "no") and (imports == "yes") != real["loads"]
        wrong += bad
        unknown += imports == "unknown"
        unsafe += imports == "yes" and proof["loads"] == "no"
        if bad or verbose:
            print(f"  {'WRONG' if bad else 'ok':5} {file}\n        proof: imports {imports}, "
                  f"loads {proof.get('loads')}, for {proof.get('built_for')}\n"
                  f"        {why(proof)}\n        real: {real['error'] or 'loads'}")
    print(f"{environment}: {len(results)} files, {wrong} disagreements, {unknown} unknown, "
          f"{unsafe} that load but must not be used", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anyflash", required=True, help="the built program")
    parser.add_argument("--against", action="append", required=True, help="an environment")
    parser.add_argument("--verbose", action="store_true", help="print every file")
    parser.add_argument("paths", nargs="+", help="shared libraries, or folders that hold some")
    options = parser.parse_args()
    files = libraries(options.paths)
    return min(1, sum(report(environment, examine(options.anyflash, environment, files),
                             options.verbose) for environment in options.against))


if __name__ == "__main__":
    sys.exit(main())
