"""Projects in folders, and the program that checks them; its path is in $ANYFLASH."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import schemas  # noqa: E402

PROGRAM = os.environ.get("ANYFLASH", "anyflash")


GUARDED = {"a.py": "try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None\n"}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def check(tmp_path):
    """check(files, "--diff") writes the files and runs `anyflash check`; .folder has them."""
    folder = tmp_path / "project"
    folder.mkdir()

    def run(files, *words):
        write(folder, files)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "xterm"}
        done = subprocess.run([PROGRAM, "check", *words, str(folder)], capture_output=True,
                              text=True, timeout=60, env=environment)
        if "--json" in words and done.returncode < 2:
            done.json = json.loads(done.stdout)
            schemas.check(done.stdout)
        return done
    run.folder = folder
    return run


@pytest.fixture
def findings(check):
    """The ids of what is found in the files, in order."""
    return lambda files: [row["id"] for row in check(files, "--json").json["findings"]]


def repaired(check, files, *words):
    """The files after `check --write`."""
    assert check(files, "--write", *words).returncode == 1
    return {name: (check.folder / name).read_text() for name in files}
