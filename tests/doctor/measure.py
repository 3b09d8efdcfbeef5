#!/usr/bin/env python3
"""Measures how often `anyflash doctor` names the right cause.

  measure.py CASES.jsonl [--program PATH] [--jobs N] [--misses] [--words] [--leave-one-out]
  measure.py --recorded

A case has `symptom` (the log), `env` (facts, given as --given KEY=VALUE), `category` (the id
of the cause) and `source_url`. Prints how often the cause comes first and among the first
three, in all and for each phase.

--misses          lists the cases whose cause is not first

--words           lists the cases that only signatures of people's own words decide: rows
                  whose `source` is a thread, not a program
--leave-one-out   measures each project's cases with a program that lacks the signatures whose
                  `source` names threads of that project only; builds one in
                  build/leave-one-out for each such project
--recorded        lists the recorded logs of failures (logs.jsonl): what comes first, how
                  sure that is, and the facts that show it
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import logs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = os.environ.get("ANYFLASH", str(ROOT / "build/release/anyflash"))
SIGNATURES = ROOT / "data/signatures.jsonl"
CAUSES = ROOT / "data/causes.jsonl"
SECONDS_MAX = 60
THREAD = re.compile(r"\b([\w.-]+/[\w.-]+)#\d+")


def load(path):
    with open(path, encoding="utf-8") as rows:
        return [json.loads(row) for row in rows if row.strip()]


def project_of(case):
    """owner/repo of a GitHub thread, or the host of any other page."""
    parts = case["source_url"].split("/")
    return "/".join(parts[3:5]) if "github.com" in parts[2] else parts[2]


def environment():
    kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **kept}


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def diagnose(case, program):
    """What the program says about the case, as JSON."""
    given = [word for key, value in case.get("env", {}).items()
             for word in ("--given", f"{key}={text_of(value)}")]
    if not given:
        given = ["--given", "arch=x86_64"]  # else the facts of this machine would count
    done = subprocess.run([program, "doctor", "--json", *given, "-"], input=case["symptom"],
                          text=True, encoding="utf-8", capture_output=True,
                          env=environment(), cwd=HERE, timeout=SECONDS_MAX)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{case.get('id', case['source_url'])}: exit code "
                           f"{done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def ask(case, program):
    """The causes that the program names, best first."""
    return diagnose(case, program)["causes"]


def ask_all(cases, program=PROGRAM, jobs=4):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda case: ask(case, program), cases))


class Figures:
    """How often the cause was first, and among the first three."""

    def __init__(self):
        self.total = self.first = self.three = 0
        self.misses = []

    def add(self, case, answer):
        ids = [cause["id"] for cause in answer]
        self.total += 1
        self.first += ids[:1] == [case["category"]]
        self.three += case["category"] in ids[:3]
        if ids[:1] != [case["category"]]:
            self.misses.append((case, answer))

    def __str__(self):
        if self.total == 0:
            return "no cases"
        return (f"first {self.first}/{self.total} = {100 * self.first / self.total:.1f} %, "
                f"among three {self.three}/{self.total} = "
                f"{100 * self.three / self.total:.1f} %")


def figures_of(cases, answers):
    figures = Figures()
    for case, answer in zip(cases, answers):
        figures.add(case, answer)
    return figures


def by_phase(cases, answers, phase_of):
    groups = collections.defaultdict(Figures)
    for case, answer in zip(cases, answers):
        groups[case.get("phase") or phase_of[case["category"]]].add(case, answer)
    return groups


def print_misses(figures):
    for case, answer in figures.misses:
        named = ", ".join(f"{c['id']} ({c['confidence']})" for c in answer[:4]) or "nothing"
        line = " | ".join(case["symptom"].strip().splitlines())[:160]
        print(f"  {case.get('id', case['source_url'])}: {case['category']}; named: {named}")
        print(f"      {line}")


def rows_of_words():
    """Ids of the signatures that come from people's words, with the projects that said them."""
    return {row["id"]: set(THREAD.findall(row["source"])) for row in load(SIGNATURES)
            if THREAD.search(row["source"]) or row["source"] == "people's words"}


def decided_by_words(cases, answers, jobs):
    """The cases that are answered correctly only with the rows made of people's own words."""
    def is_right(case, answer):
        return [cause["id"] for cause in answer[:1]] == [case["category"]]
    without = ask_all(cases, program_without(set(rows_of_words())), jobs)
    return [case for case, answer, less in zip(cases, answers, without)
            if is_right(case, answer) and not is_right(case, less)]


def program_without(dropped):
    """Builds the program with a table that lacks the rows `dropped`; returns its path."""
    folder = ROOT / "build/leave-one-out"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for row in load(SIGNATURES) if row["id"] not in dropped]
    for row in rows:  # a row may not refer to one that is gone
        for owner in (row, *row["causes"]):
            for key in owner.keys() & {"near", "not_near"}:
                owner[key] = [entry for entry in owner[key] if entry[1:] not in dropped]
    table = folder / "signatures.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja",
                        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                        f"-DANYFLASH_SIGNATURES={table}"], **quiet)
    subprocess.run(["cmake", "--build", folder, "--target", "anyflash"], **quiet)
    return str(folder / "anyflash")


def leave_one_out(cases, jobs):
    """Answers each case by a program without the rows that only its project contributed."""
    words = rows_of_words()
    groups = collections.defaultdict(list)
    for case in cases:
        groups[project_of(case)].append(case)
    figures, lost = Figures(), collections.Counter()
    for project, own in sorted(groups.items()):
        dropped = {row for row, projects in words.items() if projects == {project}}
        program = PROGRAM if not dropped else program_without(dropped)
        for case, answer in zip(own, ask_all(own, program, jobs)):
            figures.add(case, answer)
        lost[project] = len(dropped)
    return figures, {project: count for project, count in lost.items() if count}


def print_recorded(program):
    """Prints a line for each recorded failure with a cause, and counts by confidence."""
    expected = logs.read()
    names = sorted(name for name, row in expected.items() if row["causes"])
    cases = [{"symptom": expected[name]["text"], "id": name,
              "env": dict(word.split("=", 1) for word in expected[name]["given"])}
             for name in names]
    levels = collections.Counter()
    for name, answer in zip(names, ask_all(cases, program)):
        best = answer[0]
        right = best["id"] in expected[name]["causes"]
        shown = [f"{row['fact']}={row['value']}" if "fact" in row else
                 f"line {row['line']}: {row['text'][:60]}" for row in best["evidence"]]
        levels[best["confidence"] if right else "wrong"] += 1
        print(f"{name.split('/')[1]:42} {best['id']:26} {best['confidence']:9}"
              f"{'' if right else 'WRONG '}{'; '.join(shown)}")
    print(", ".join(f"{count} {level}" for level, count in levels.most_common()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="?", default=HERE / "cases.jsonl")
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    options = parser.parse_args()
    if options.recorded:
        print_recorded(options.program)
        return
    cases = load(options.cases)
    phase_of = {row["id"]: row["phases"][0] for row in load(CAUSES)}
    answers = ask_all(cases, options.program, options.jobs)
    figures = figures_of(cases, answers)
    print(figures)
    for phase, group in sorted(by_phase(cases, answers, phase_of).items()):
        print(f"  {phase}: {group}")
    if options.misses:
        print_misses(figures)
    if options.words:
        chosen = decided_by_words(cases, answers, options.jobs)
        print(f"decided by people's words only: {len(chosen)}")
        for case in chosen:
            print(f"  {case.get('id', case['source_url'])}: {case['symptom'][:100]}")
    if options.leave_one_out:
        figures, lost = leave_one_out(cases, options.jobs)
        print(f"leave one project out: {figures}")
        for project, count in sorted(lost.items()):
            print(f"  {project}: {count} signatures left out")
        if options.misses:
            print_misses(figures)


if __name__ == "__main__":
    sys.exit(main())
