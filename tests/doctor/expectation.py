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


# Causes that are special cases, and the more general ones that are then also true.
GENERAL = {
    "mislabelled-wheel": {"abi-mismatch"},
    "stale-after-torch-upgrade": {"torch-minor-mismatch", "abi-mismatch"},
    "torch-nightly-wheel": {"torch-minor-mismatch"},
    "uv-no-build-isolation": {"no-torch-in-build-env"},
    "vendor-image-preinstalled": {"flash-attn-too-old"},
}


def also_true(causes):
    """The causes, and the more general ones that follow from them."""
    return set(causes).union(*(GENERAL.get(cause, set()) for cause in causes))


def wrong_proof(answer, causes):
    """An error text if a cause is proved that is not in `causes`, else None."""
    wrong = [cause["id"] for cause in answer["causes"]
             if cause["confidence"] == "proved" and cause["id"] not in also_true(causes)]
    return f"proves {' and '.join(wrong)}" if wrong else None


def fault(answer, causes, least):
    """An error text, else None.

    The first cause must be one of `causes`, with at least the confidence `least`; if `causes`
    is empty, no cause may be proved or likely.
    """
    first = answer["causes"][0] if answer["causes"] else None
    if not causes:
        return f"claims {shown(answer)}" if claims(answer) else None
    if first is None or first["id"] not in causes:
        return f"says {shown(answer)}, not {' or '.join(causes)}"
    if LEVELS.index(first["confidence"]) < LEVELS.index(least):
        return f"says {shown(answer)}, which should be {least}"
    return None


def wrong_claim(answer, causes):
    """An error text if the first cause is claimed but is not in `causes`, else None."""
    first = {"causes": answer["causes"][:1]}
    wrong = any(cause["id"] not in causes for cause in claims(first))
    return f"claims {shown(answer)}" if wrong else None


def problems(path, row):
    """All differences between the doctor's answer and what `row` expects."""
    answer, code = ask(path, row["given"])
    found = [
        fault(answer, row["causes"], row["least"] or "possible"),
        wrong_proof(answer, row["causes"]),
    ]
    if (code == 0) != bool(claims({"causes": answer["causes"][:1]})):
        found.append(f"exit code {code} with {shown(answer)}")
    if row["given"]:
        bare = ask(path)[0]
        for without in (wrong_claim(bare, row["causes"]),
                        wrong_proof(bare, row["causes"])):
            found.append(without and f"without facts: {without}")
    return [problem for problem in found if problem]
