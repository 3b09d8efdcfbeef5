"""Context parallelism with 1 to 4 processes (gloo), compared with the attention of one
process."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("needs a torch that was built with torch.distributed", allow_module_level=True)

WORKER = pathlib.Path(__file__).with_name("distributed_worker.py")
CASES = re.findall(r"^def (case_\w+)", WORKER.read_text(), re.MULTILINE)
WORLDS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Failures by (number of processes, rank) and case; no process is left behind."""
    folder = tmp_path_factory.mktemp("worlds")
    command = [sys.executable, str(WORKER), str(folder), *map(str, WORLDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)
    found = {
        (world, rank): json.loads(path.read_text())
        for world in WORLDS
        for rank in range(world)
        for path in folder.glob(f"{world}-{rank}.json")
    }
    return found, done.stderr


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world", WORLDS)
def test_equals_one_process(results, world, case):
    found, log = results
    for rank in range(world):
        assert (world, rank) in found, f"process {rank} of {world} is lost:\n{log[-3000:]}"
        failed = found[world, rank]
        assert case not in failed, f"process {rank}: {failed.get(case)}"
