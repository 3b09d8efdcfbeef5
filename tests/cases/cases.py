"""Shared by the scenario tests: runs the program and compares its answers with
expectations.

  machines/NAME.json         a recorded machine; examples/machines has more
  machines.jsonl             the answers that follow from the reference data, a row for each
                             machine, recorded or given by its difference from one
  machines/NAME.plan.txt     what `anyflash plan` prints; NAME.doctor.txt for doctor. Only a
                             few machines have them, one for each kind of answer
  threads.jsonl              failures that people reported, as stated facts
  not_determined.jsonl       reported failures that the stated facts do not explain
  gpus.jsonl                 what is recommended for a GPU (test_gpus.py)

`python3 tests/cases/cases.py --write-goldens [NAME...]` rewrites the printed texts.
Read them beside the expectation before you commit them.
"""
import concurrent.futures
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import recorded  # noqa: E402

MACHINES = HERE / "machines"
PROGRAM = os.environ.get("ANYFLASH", str(HERE.parents[1] / "build/debug/anyflash"))
SECONDS_MAX = 60  # far above any honest run, also with sanitizers
TEXTS = ("plan", "doctor")


def environment(**more):
    """Environment variables without those of the caller that could influence the program."""
    kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    return {**bare, **kept, **more}


def run(*words, folder=MACHINES, given="", **keywords):
    """(exit code, standard output, standard error) of the program; `given` is its input."""
    done = subprocess.run([PROGRAM, *words], cwd=folder, env=environment(), text=True,
                          input=given, capture_output=True, timeout=SECONDS_MAX, **keywords)
    return done.returncode, done.stdout, done.stderr


def words_beside(name):
    """The options that describe the machine to a command in the folder of its record."""
    return ["--machine", recorded.record_of(name).name, *recorded.given_of(name)]


def run_about(name, *words):
    """run() for the machine."""
    return run(*words, *words_beside(name), folder=recorded.record_of(name).parent)


def run_in_terminal(name, *words, columns=80):
    """The lines that the program prints about the machine on a terminal of this width."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([PROGRAM, *words, *words_beside(name)],
                             cwd=recorded.record_of(name).parent, env=environment(NO_COLOR="1"),
                             stdout=secondary, stderr=subprocess.DEVNULL)
    os.close(secondary)
    pieces = []
    try:
        while piece := os.read(primary, 65536):
            pieces.append(piece)
    except OSError:  # how Linux reports that the other end was closed
        pass
    os.close(primary)
    child.wait(SECONDS_MAX)
    return b"".join(pieces).decode().replace("\r\n", "\n").splitlines()


def run_many(commands):
    """Calls run_about() with each list of arguments, a few at a time; the results in order."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda command: run_about(*command), commands))


def load(name):
    """The rows of a file of this folder."""
    with open(HERE / name, encoding="utf-8") as rows:
        return [json.loads(row) for row in rows]


def text_of(kind, name):
    """What `anyflash KIND` prints about the machine."""
    code, out, err = run_about(name, kind)
    if code not in (0, 1):
        raise RuntimeError(f"{kind} of {name} ended with {code}: {err}")
    return out


def reason_ids(items):
    return {item["id"] for item in items}


def any_of(wanted):
    """An expected id, or a list of which any is accepted."""
    return set(wanted) if isinstance(wanted, list) else {wanted}


def plan_errors(expect, plan):
    """Sentences that say where `plan --json` differs from an expectation."""
    errors = []
    rungs = {rung["name"]: rung for rung in plan["rungs"]}
    if plan["decision"] not in any_of(expect["decision"]):
        errors.append(f"decision is {plan['decision']}, expected {expect['decision']}")
    filename = (plan.get("wheel") or {}).get("filename")
    if plan["decision"] in ("wheel", "torch-change") and not re.fullmatch(
            expect.get("wheel", ".*"), filename or ""):
        errors.append(f"wheel is {filename}, expected {expect['wheel']}")
    for name, demand in expect.get("rungs", {}).items():
        rung = rungs[name]
        if rung["verdict"] not in any_of(demand["answer"]):
            errors.append(f"{name}: verdict is {rung['verdict']}, expected {demand['answer']}")
        for wanted in demand.get("reasons", []):
            if not any_of(wanted) & reason_ids(rung["reasons"]):
                found = sorted(reason_ids(rung["reasons"]))
                errors.append(f"{name}: no {wanted} among {found}")
    everywhere = set().union(*(reason_ids(r["reasons"]) for r in rungs.values()))
    for wanted in expect.get("any_reason", []):
        if not any_of(wanted) & everywhere:
            errors.append(f"no {wanted} among {sorted(everywhere)}")
    change = rungs["torch-change"]
    for key, pattern in expect.get("torch_change", {}).items():
        if not re.fullmatch(pattern, change.get(f"torch_{key}") or ""):
            errors.append(f"torch-change: {key} is {change.get(f'torch_{key}')}, not {pattern}")
    wheel = change["wheel"]
    if wheel and "." in (wheel["cuda"] or "") and (
            "cu" + wheel["cuda"].replace(".", "") != change["torch_cuda"]):
        errors.append(f"torch-change: {wheel} for a torch of {change}")
    if plan["decision"] in ("wheel", "torch-change"):
        errors += step_errors(plan)
    return errors


def step_errors(plan):
    """A step that installs a wheel names one file and never changes torch."""
    errors = []
    for step in plan["steps"]:
        words = step.get("argv") or []
        if any(word.endswith(".whl") for word in words) and "--no-deps" not in words:
            errors.append(f"installs a wheel without --no-deps: {words}")
    return errors


def doctor_errors(expect, doctor):
    errors = []
    found = reason_ids(doctor["findings"])
    for wanted in expect.get("doctor", []):
        if not any_of(wanted) & found:
            errors.append(f"doctor: no {wanted} among {sorted(found)}")
    broken = [f["id"] for f in doctor["findings"] if f["severity"] == "broken"]
    if expect.get("doctor_not_broken") and broken:
        errors.append(f"doctor calls a working installation broken: {broken}")
    return errors


def write_goldens(names):
    for name in names or [path.name.removesuffix(".plan.txt")
                          for path in MACHINES.glob("*.plan.txt")]:
        for kind in TEXTS:
            (MACHINES / f"{name}.{kind}.txt").write_text(text_of(kind, name), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] != "--write-goldens":
        sys.exit(__doc__)
    write_goldens(sys.argv[2:])
