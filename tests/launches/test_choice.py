"""The launches of random calls are those of flash-attn's launchers: kernel with all template
arguments, grid, block and shared memory, for each GPU whose attributes choose other tiles. It
needs no torch and no GPU: `tests/run launches` compiles LAUNCHES/launch_choice."""
import os
import pathlib
import random
import subprocess

import pytest

import upstream_launches

PROGRAM = pathlib.Path(os.environ.get("LAUNCHES", "build/launches")) / "launch_choice"
COUNT = os.environ.get("LAUNCHES_COUNT", "4000")
SEED = os.environ.get("LAUNCHES_SEED") or str(random.randrange(1, 10**6))


def cases(sm):
    """(what was drawn, our launches, theirs)."""
    done = subprocess.run([PROGRAM, COUNT, SEED, str(sm)], capture_output=True, text=True,
                          check=True)
    found = []
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "case":
            found.append((rest, [], []))
        elif kind == "-":
            found[-1][1].append(rest)
        elif kind == "+":
            name, shape = rest.split("\t")
            found[-1][2].append(f"{upstream_launches.canonical(name)}\t{shape}")
        else:
            found.append((line, None, None))
    return found


@pytest.mark.parametrize("sm", [80, 86, 89, 90, 100, 120])
def test_the_launches_are_upstreams(sm):
    seen, refused = set(), {}
    for what, ours, theirs in cases(sm):
        if ours is None:
            refused[what] = refused.get(what, 0) + 1
            continue
        assert ours == theirs != [], f"seed {SEED}, sm {sm}: {what}"
        seen.update(line.split("\t")[0] for line in ours)
    print(sm, len(seen), "kernels", refused)
    assert len(seen) > 300 and sum(refused.values()) < int(COUNT) / 3, refused
