#!/usr/bin/env python3
"""Real uv resolves each project of the corpus before and after `anyflash check --write`.

    ANYFLASH=build/release/anyflash tests/real/lock_projects.py [PART OF A SOURCE ...]

A pyproject.toml is locked, a requirements file compiled, for Python 3.11 on Linux. What
resolved before must resolve after, with torch if it was there. uv may build a package to learn
what it needs; what takes longer than two minutes counts as not resolved. Prints a line for each
change, with the versions or the reason; exits 1 if one is worse.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [json.loads(line) for line in
        (ROOT / "tests/check/projects.jsonl").read_text().splitlines()]
PROGRAM = os.environ.get("ANYFLASH", ROOT / "build/release/anyflash")
LIMIT_S = 120


def run(folder, *words):
    try:
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False,
                              timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", "no answer within two minutes")


def is_project(path):
    return path.name == "pyproject.toml" and "[project]" in path.read_text()


def is_cut(file, text):
    """Whether the row leaves out the version, without which uv does not read the file."""
    return file.endswith("pyproject.toml") and "[project]\n" in text and not re.search(
        r'^version|"version"', text, re.M)


def stand_in(folder, url):
    """A wheel with the name of the one at the address, and flash-attn's requirements."""
    file = urllib.parse.unquote(url.split("#")[0].rsplit("/", 1)[1])
    name, version = file.split("-")[:2]
    version = version.split("+")[0]
    made = folder / "wheels" / file
    made.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(made, "w") as wheel:
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: "
                       f"{version}\nRequires-Dist: torch\nRequires-Dist: einops\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
                       f"Tag: {'-'.join(file[:-4].split('-')[2:])}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return made.as_uri()


def resolve(path):
    """The versions that uv would install, or why there are none. Wheels of releases are not
    downloaded: stand-ins have their names."""
    text = path.read_text()
    for url in set(re.findall(r"https://github\.com/\S+\.whl(?:#\S+)?", text)):
        text = text.replace(url, stand_in(path.parent, url))
    path.write_text(text)
    if is_project(path):
        done = run(path.parent, "uv", "lock", "--quiet", "--python", "3.11")
        lock = path.with_name("uv.lock")
        text = lock.read_text() if done.returncode == 0 else ""
        lock.unlink(missing_ok=True)
        found = re.findall(r'^name = "(torch|flash-attn)"\nversion = "(.*)"', text, re.M)
    else:
        done = run(path.parent, "uv", "pip", "compile", "--quiet", "--no-header",
                   "--python-version", "3.11", "--python-platform", "linux", path.name)
        found = re.findall(r"^(torch|flash-attn)(?:==| @ )(\S+)", done.stdout, re.M)
    why = (done.stderr.strip().splitlines() or ["nothing"])[-1]
    return (dict(found), "") if done.returncode == 0 else (None, why)


def judge(path, before, after, why):
    """What the change made worse; "" if nothing."""
    if before is not None and after is None:
        return f"does not resolve any more: {why}"
    if before and after is not None and "torch" in before and "torch" not in after:
        return "torch is gone"
    return ""


def main():
    worse = changed = 0
    for row in ROWS:
        if sys.argv[1:] and not any(part in row["source"] for part in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file, text in row["files"].items():
                if is_cut(file, text):
                    text = text.replace("[project]\n", '[project]\nversion = "0"\n')
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text)
            diff = run(folder, PROGRAM, "check", "--diff", ".").stdout
            paths = [folder / file for file in re.findall(r"^\+\+\+ b/(.*)$", diff, re.M)]
            paths = [path for path in paths if path.suffix == ".txt" or is_project(path)]
            before = {path: resolve(path) for path in paths}
            run(folder, PROGRAM, "check", "--write", ".")
            for path, (had, why_not) in before.items():
                has, why = resolve(path)
                problem = judge(path, had, has, why)
                changed += 1
                worse += problem != ""
                print(f"{'WORSE' if problem else 'ok'}  {row['source']} {path.name}: "
                      f"{had or why_not[:90]} -> {has if has is not None else why[:90]}"
                      f"{': ' + problem if problem else ''}", flush=True)
    print(f"{changed} changed files, {worse} worse")
    sys.exit(worse > 0)


if __name__ == "__main__":
    main()
