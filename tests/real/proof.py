#!/usr/bin/env python3
"""Compares what anyflash says about real extensions with what happened when they were imported.

proof_cases.jsonl lists 160 shared libraries (of 37 wheels on PyPI, and of flash-attn,
causal-conv1d and a probe compiled against 16 torch releases) and what happened when each was
imported with each of 12 torch releases: 2568 lines. proof_cases_aarch64.jsonl has 880 lines in
the same form: 176 libraries of 29 wheels for aarch64 with 5 CPU builds of torch, imported under
QEMU (record.py). This program downloads the wheels, uses what builds.py compiled, runs
`anyflash inspect --torch` for each pair with the shipped table of torch's symbols, and compares
verdict and missing names. Nothing is imported; imports.py does that.

Each line is in one of these classes; only the last two are mistakes:
  same        verdict and missing names agree with what happened
  refused     it was imported, but anyflash refuses it by a rule that an import cannot show:
              two CUDA runtimes in a process, or another memory layout of torch's objects
  unknown     anyflash cannot tell, and says why
  explained   needs another library of its wheel imported first (KNOWN below)
  names       the verdict is right, the missing names are not
  different   the verdict is wrong

Exit code: 0 no mistakes, 1 some, 3 nothing could be compared.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import wheels

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = ("same", "refused", "unknown", "explained", "names", "different")
# Cannot be known from one file: what happened, and what it needs.
KNOWN = {"vllm-0.6.2-cp38-abi3-manylinux1_x86_64/_moe_C.abi3.so":
         "registers operators that _C.abi3.so of the same wheel must define first"}
SYSTEM = {line.split()[0] for line in subprocess.run(
    ["/sbin/ldconfig", "-p"], text=True, capture_output=True, check=False).stdout.splitlines()
          if " => " in line}
RULES = ("cuda-runtime", "layout")
TORCH = re.compile(r"_Z\w*?(2at|3c10|5torch|6caffe2)")


def read_cases():
    """{binary: {(torch, system): row}} with what happened."""
    cases = {}
    lines = [line for name in ("proof_cases.jsonl", "proof_cases_aarch64.jsonl")
             for line in (HERE / name).read_text().splitlines()]
    for line in lines:
        case = json.loads(line)
        rows = {}
        for torch, system, real, *rest in case["rows"]:
            libraries, count, names, *end = rest or [[], 0, []]
            rows[torch, system] = {"real": real, "libraries": set(libraries),
                                   "count": count, "cut": count > len(names),
                                   "names": {case["names"][i] for i in names},
                                   "end": end[0] if end else None}
        cases[case["name"]] = {"rows": rows, "undefined": case["undefined"],
                               "aarch64": is_aarch64(case["name"]),
                               "built": case["name"].startswith("built-with-torch-")}
    return cases


def is_aarch64(name):
    """Whether the binary is of a wheel for aarch64."""
    return wheels.machine_of(name.partition("/")[0]) == "aarch64"


def undefined_names(path):
    """All undefined names of the file, and those of them that a relocation uses."""
    wanted = subprocess.run(["nm", "-D", "--undefined-only", path], text=True,
                            capture_output=True, check=True).stdout
    used = subprocess.run(["readelf", "-rW", path], text=True, capture_output=True, check=True,
                          errors="replace").stdout
    names = {line.split()[-1].partition("@")[0] for line in wanted.splitlines()}
    strong = [line for line in wanted.splitlines() if line.split()[-2] == "U"]
    return len(strong), names & set(re.split(r"[\s@]+", used))


def find_files(cases, small):
    """{path: binary} of the files that can be checked here."""
    found = {}
    for name, case in cases.items():
        wheel, _, file = name.partition("/")
        if case["built"]:
            built = wheels.CACHE / "built" / wheel[len("built-with-torch-"):]
            paths = [built / f"{file}.so"]
        elif small and re.match(r"vllm-|fbgemm|torchao-0\.1[56]|xformers", wheel):
            continue
        else:
            there = {one.partition("/")[2] for one in cases if one.startswith(wheel + "/")}
            paths = wheels.extensions(wheel, there).rglob(file)
        for path in map(str, paths):
            if os.path.isfile(path):
                count, case["used"] = undefined_names(path)
                # Of two files with the same name, the one that was imported.
                if case["built"] or count == case["undefined"]:
                    found[path] = name
    return found


def judge(anyflash, torch, paths):
    """{path: extension of the JSON} for every path; those for aarch64, for a Debian 12."""
    environment = {name: value for name, value in os.environ.items()
                   if name != "LD_LIBRARY_PATH"}
    answers = {}
    for path, name in paths.items():
        machine = ["--machine", HERE / "debian12_aarch64.json"] if is_aarch64(name) else \
            ["--against", sys.executable]
        run = subprocess.run([anyflash, "inspect", path, "--torch", torch, "--json", *machine],
                             text=True, capture_output=True, check=False, env=environment)
        document = json.loads(run.stdout)
        answers[path] = document["extensions"][0]
    return answers


def missing_agrees(answer, row, case):
    """Whether the reported libraries and names are those that were missing.

    Names that no relocation uses do not count: the loader never looks them up, although the
    records list them. Records list at most 20 names. If this system has a library that was
    missing then, such as CUDA's, its names are found here.
    """
    names, libraries = set(answer["missing"]), set(answer["missing_libraries"])
    then = {name for name in row["names"] if name in case["used"]}
    symbols, = (check for check in answer["checks"] if check["id"] == "symbols")
    if case["aarch64"]: # a record says neither which libraries the system has nor their names
        then_sure = {name for name in then if TORCH.match(name)}
        return libraries <= row["libraries"] and (row["cut"] or names <= then) and \
            (symbols["answer"] == "unknown" or then_sure <= names)
    if row["libraries"] - libraries:
        then = {name for name in then if not name.startswith("cuda")}
        names = {name for name in names if not name.startswith("cuda")}
    # builds.py compiles with less optimisation than the records, so it needs a few more names.
    same = case["built"] or (len(names) <= row["count"] if row["cut"] else names <= then)
    libraries |= SYSTEM & row["libraries"]
    return libraries == row["libraries"] and then <= names and same


def classify(name, answer, row, case):
    noes = {check["id"] for check in answer["checks"] if check["answer"] == "no"}
    if name in KNOWN and not row["real"] and row["end"] and answer["verdict"] != "no":
        return "explained"
    if answer["verdict"] == "unknown":
        return "unknown"
    if row["real"] and answer["verdict"] == "no":
        return "refused" if noes <= set(RULES) else "different"
    if row["real"] != (answer["verdict"] == "yes"):
        return "different"
    return "same" if missing_agrees(answer, row, case) else "names"


def table(title, counts):
    lines = [f"| {title} | " + " | ".join(CLASSES) + " | lines |",
             "|---" * (len(CLASSES) + 2) + "|"]
    for key, row in counts.items():
        lines.append(f"| {key} | " + " | ".join(str(row[name]) for name in CLASSES) +
                     f" | {sum(row.values())} |")
    return "\n".join(lines)


def kind_of(name, system):
    if system == "aarch64":
        return "wheels for aarch64"
    where = "" if system == "clean" else ", a system CUDA toolkit beside torch's"
    return ("own builds" if name.startswith("built-with") else "wheels") + where


def compare(arguments, cases, files):
    by_torch, by_kind = ({}, {})
    remarks = []
    torches = sorted({torch for case in cases.values() for torch, _ in case["rows"]},
                     key=lambda text: [int(part) for part in text.split(".")])
    for torch in torches:
        there = {path: name for path, name in files.items()
                 if any(key[0] == torch for key in cases[name]["rows"])}
        answers = judge(arguments.anyflash, torch, there)
        for path, name in there.items():
            for (_, system), row in ((key, row) for key, row in cases[name]["rows"].items()
                                     if key[0] == torch):
                kind = classify(name, answers[path], row, cases[name])
                by_torch.setdefault(torch, collections.Counter())[kind] += 1
                by_kind.setdefault(kind_of(name, system), collections.Counter())[kind] += 1
                if kind != "same":
                    remarks.append((kind, name, torch, system, row, answers[path]))
        print(f"torch {torch}: {dict(by_torch[torch])}", flush=True)
    return by_torch, by_kind, remarks


def say(remark):
    kind, name, torch, system, row, answer = remark
    checks = [f"{check['id']}: {check['evidence']}" for check in answer["checks"]
              if check["answer"] in ("no", "unknown") and not
              check["id"].startswith(("gpu", "ptx", "compression"))]
    return (f"{kind}: {name} on torch {torch} ({system}): imported {row['real']}"
            f"{' (' + row['end'] + ')' if row['end'] else ''}, verdict {answer['verdict']}; "
            f"then {row['count']} missing, now {len(answer['missing'])}; " + "; ".join(checks))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anyflash", default="build/release/anyflash")
    parser.add_argument("--small", action="store_true", help="leave the largest wheels out")
    parser.add_argument("--processor", choices=("x86_64", "aarch64"), help="only its files")
    parser.add_argument("--remarks", metavar="FILE", help="write every line that is not 'same'")
    arguments = parser.parse_args()
    cases = {name: case for name, case in read_cases().items()
             if arguments.processor in (None, "aarch64" if is_aarch64(name) else "x86_64")}
    files = find_files(cases, arguments.small)
    if not files:
        print("nothing to judge")
        return 3
    by_torch, by_kind, remarks = compare(arguments, cases, files)
    lines = sum(len(cases[name]["rows"]) for name in files.values())
    print(f"\n{len(files)} libraries, {lines} of "
          f"{sum(len(case['rows']) for case in cases.values())} lines judged\n")
    print(table("which", by_kind), table("torch", by_torch), sep="\n\n")
    if arguments.remarks:
        pathlib.Path(arguments.remarks).write_text("\n".join(map(say, remarks)) + "\n")
    mistakes = [remark for remark in remarks if remark[0] in ("names", "different")]
    print("", *map(say, mistakes), f"{len(mistakes)} mistakes", sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
