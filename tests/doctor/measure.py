#!/usr/bin/env python3
"""Measures how often `anyflash doctor` names the right cause.

  measure.py [CASES.jsonl ...] [--program PATH] [--jobs N] [--misses] [--words]
             [--leave-one-out]
  measure.py --recorded

A case has `symptom` (the log), `env` (facts, given as --given KEY=VALUE), `category` (the id
of the cause; without one nothing of flash-attn failed), `also` (causes that are as right) and
`source_url`. Prints how often a right cause comes first and among the first three, a wrong
one first, and none at all; and for how many texts without a cause the answer claims one of
flash-attn: any title that names it, however unsure, is a claim.
Without files it reads all sets of this folder.

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
SETS = [HERE / f"{name}.jsonl" for name in ("cases", "threads", "unseen", "unrelated")]
SECONDS_MAX = 60
FLASH = re.compile(r"flash.?att|flash_attn|\bfa[234]\b", re.IGNORECASE)
THREAD = re.compile(r"\b([\w.-]+/[\w.-]+)#\d+")


def load(path):
    with open(path, encoding="utf-8") as rows:
        return [json.loads(row) for row in rows if row.strip()]


def project_of(case):
    """owner/repo of a GitHub thread, or the host of any other page."""
    parts = case["source_url"].split("/")
    return "/".join(parts[3:5]) if "github.com" in parts[2] else parts[2]


def name_of(case):
    return case.get("id") or case.get("name") or case.get("source_url") or case["source"]


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
        raise RuntimeError(f"{name_of(case)}: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def ask(case, program):
    """The causes that the program names, best first."""
    return diagnose(case, program)["causes"]


def ask_all(cases, program=PROGRAM, jobs=4):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda case: ask(case, program), cases))


def is_claim(answer):
    """Whether a person reads that flash-attn failed: the first title names it."""
    return bool(answer) and FLASH.search(answer[0]["title"]) is not None


def is_right(case, cause):
    return cause["id"] in (case["category"], *case.get("also", []))


def part(count, total):
    return f"{count}/{total} = {100 * count / total:.1f} %"


class Figures:
    """How often a right cause was first or in the first three, a wrong one first, or none."""

    def __init__(self):
        self.total = self.first = self.three = self.silent = 0
        self.healthy = self.claimed = 0
        self.misses = []

    def add(self, case, answer):
        if not case.get("category"):
            claimed = is_claim(answer)
            self.healthy += 1
            self.claimed += claimed
            if claimed:
                self.misses.append((case, answer))
            return
        first = bool(answer) and is_right(case, answer[0])
        self.total += 1
        self.first += first
        self.three += any(is_right(case, cause) for cause in answer[:3])
        self.silent += not answer
        if not first:
            self.misses.append((case, answer))

    def __str__(self):
        parts = []
        if self.total > 0:
            wrong = self.total - self.first - self.silent
            parts.append(f"first {part(self.first, self.total)}, among three "
                         f"{part(self.three, self.total)}, wrong {wrong}, silent {self.silent}")
        if self.healthy > 0:
            parts.append(f"{self.healthy} without a cause, "
                         f"a claim about flash-attn for {self.claimed}")
        return "; ".join(parts) or "no cases"


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
        print(f"  {name_of(case)}: {case.get('category') or 'no cause'}; named: {named}")
        print(f"      {line}")


def rows_of_words():
    """Ids of the signatures that come from people's words, with the projects that said them."""
    return {row["id"]: set(THREAD.findall(row["source"])) for row in load(SIGNATURES)
            if THREAD.search(row["source"]) or row["source"] == "people's words"}


def decided_by_words(cases, answers, jobs):
    """The cases that are answered correctly only with the rows made of people's own words."""
    def is_first(case, answer):
        return any(is_right(case, cause) for cause in answer[:1])
    without = ask_all(cases, program_without(set(rows_of_words())), jobs)
    return [case for case, answer, less in zip(cases, answers, without)
            if is_first(case, answer) and not is_first(case, less)]


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
    parser.add_argument("files", nargs="*")
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
    cases, answers = [], []
    for path in options.files or SETS:
        own = load(path)
        replies = ask_all(own, options.program, options.jobs)
        figures = figures_of(own, replies)
        print(f"{pathlib.Path(path).name}: {figures}")
        if options.misses:
            print_misses(figures)
        cases += [case for case in own if case.get("category")]
        answers += [reply for case, reply in zip(own, replies) if case.get("category")]
    phase_of = {row["id"]: row["phases"][0] for row in load(CAUSES)}
    print(f"all: {figures_of(cases, answers)}")
    for phase, group in sorted(by_phase(cases, answers, phase_of).items()):
        print(f"  {phase}: {group}")
    if options.words:
        chosen = decided_by_words(cases, answers, options.jobs)
        print(f"decided by people's words only: {len(chosen)}")
        for case in chosen:
            print(f"  {name_of(case)}: {case['symptom'][:100]}")
    if options.leave_one_out:
        figures, lost = leave_one_out(cases, options.jobs)
        print(f"leave one project out: {figures}")
        for project, count in sorted(lost.items()):
            print(f"  {project}: {count} signatures left out")
        if options.misses:
            print_misses(figures)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough: `measure.py | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
