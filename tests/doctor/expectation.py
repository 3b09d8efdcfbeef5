"""What `anyflash doctor` must say about a log, and whether it did."""
import json
import os
import pathlib
import subprocess

PROGRAM = os.environ.get("ANYFLASH", "anyflash")
LEVELS = ("possible", "likely", "proved")


def ask(path, given=()):
    """The diagnosis as JSON, and the exit code."""
    words = [word for fact in given for word in ("--given", fact)]
    done = subprocess.run([PROGRAM, "doctor", "--json", *words, str(path)], timeout=60,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
                          capture_output=True, cwd=pathlib.Path(path).parent)
    assert done.returncode in (0, 1), done.stderr.decode(errors="replace")
    return json.loads(done.stdout), done.returncode


def claims(answer):
    """The causes that are more than possible."""
    return [cause for cause in answer["causes"] if cause["confidence"] != "possible"]


def shown(answer):
    return "; ".join(f"{cause['id']} {cause['confidence']}" for cause in answer["causes"]) or \
        "no cause"


def fault(answer, causes, least):
    """None, or why the answer is not what was expected: the first cause is one of `causes`
    with at least that confidence; without causes none is proved or likely."""
    first = answer["causes"][0] if answer["causes"] else None
    if not causes:
        return f"claims {shown(answer)}" if claims(answer) else None
    if first is None or first["id"] not in causes:
        return f"says {shown(answer)}, not {' or '.join(causes)}"
    if LEVELS.index(first["confidence"]) < LEVELS.index(least):
        return f"says {shown(answer)}, which should be {least}"
    return None


def wrong_claim(answer, causes):
    """None, or what is said if the first cause is a claim and none of `causes`."""
    first = {"causes": answer["causes"][:1]}
    wrong = any(cause["id"] not in causes for cause in claims(first))
    return f"claims {shown(answer)}" if wrong else None


def problems(path, row):
    """Every way in which the doctor's word about the log is not what `row` says."""
    answer, code = ask(path, row["given"])
    found = [fault(answer, row["causes"], row["least"] or "possible")]
    if (code == 0) != bool(claims({"causes": answer["causes"][:1]})):
        found.append(f"exit code {code} with {shown(answer)}")
    if row["given"]:
        without = wrong_claim(ask(path)[0], row["causes"])
        found.append(without and f"without facts: {without}")
    return [problem for problem in found if problem]
