"""If anyflash finds nothing wrong with a wheel's METADATA, then Python reads no requirement in
it but those that anyflash has seen: random METADATA with every character at which some
program ends a line.

ANYFLASH_TEST_SEED: begin with this seed; ANYFLASH_TEST_CASES: so many texts (150)."""
import email.parser
import json
import os
import random
import subprocess
import time
import zipfile

import pytest

PROGRAM = os.environ["ANYFLASH"]
COUNT = int(os.environ.get("ANYFLASH_TEST_CASES", 150))
FIXED = 40  # others, the same each time
FIRST = int(os.environ.get("ANYFLASH_TEST_SEED", int(time.time()) % 10**6 * 10**3))
ODD_ENDS = ["\r", "\n\r", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\0", "\n\n",
            "\n \n", "\n\t"]
ENDS = ["\n"] * 30 + ["\r\n"] * 3 + ODD_ENDS
LINES = ["Name: flash_attn", "Version: 2.8.3", "Summary: fast", "License: a\n  b",
         "Requires-Dist: torch", "requires-dist:einops", "Requires-Dist : torch", "no header",
         "Requires-Dist: evil", "Requires-Dist: torch @ file:///x", " Requires-Dist: evil",
         "Requires-Dist:", " @ file:///x", "Requires-Dist: torch; extra == 'x'",
         "REQUIRES-DIST: torch>=2", ": x", "Requires-Dist: ./x", "\ufeffRequires-Dist: evil"]
SEEN = {"torch", "einops", "torch>=2", "torch; extra == 'x'", ""}


def metadata(seed):
    draw = random.Random(seed)
    end = "".join(draw.choice(LINES) + draw.choice(ENDS) for _ in range(draw.randrange(1, 5)))
    harmless = draw.random() < 0.3
    if harmless:
        end = "".join(draw.choice(LINES[:6]) + "\n" for _ in range(draw.randrange(1, 5)))
    return f"Metadata-Version: 2.1\nName: flash_attn\nVersion: 2.8.3\n{end}\nThe text.\n"


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    found = []
    wheel = tmp_path_factory.mktemp("w") / "flash_attn-2.8.3-py3-none-any.whl"
    for seed in [*range(FIXED), *range(FIRST, FIRST + COUNT)]:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("flash_attn/__init__.py", "")
            archive.writestr("flash_attn-2.8.3.dist-info/METADATA", metadata(seed))
        done = subprocess.run([PROGRAM, "inspect", wheel, "--json"], capture_output=True)
        rows = json.loads(done.stdout)["wheel"]["content"]["unexpected"]
        found.append((seed, [row["kind"] for row in rows if row["refused"]]))
    return found


def test_python_reads_no_other_requirement(answers):
    for seed, refused in answers:
        read = email.parser.BytesParser().parsebytes(metadata(seed).encode())
        wanted = {str(value).strip() for value in read.get_all("Requires-Dist", [])}
        assert refused or wanted <= SEEN, f"seed {seed}: {wanted - SEEN}"


def test_both_outcomes_occur(answers):
    assert 8 < sum(not refused for _, refused in answers[:FIXED]) < 32
