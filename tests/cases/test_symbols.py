"""No two modules may define the same name: the linker would silently use the wrong one."""
import collections
import pathlib
import subprocess

import pytest

import cases

LIBRARIES = sorted(pathlib.Path(cases.PROGRAM).parent.glob("libaf_*.a"))


@pytest.mark.skipif(not LIBRARIES, reason="needs $ANYFLASH in its build folder")
def test_symbols__are_defined_by_one_module():
    owners = collections.defaultdict(set)
    for library in LIBRARIES:
        listing = subprocess.run(["nm", "--defined-only", "--extern-only", "-A", library],
                                 capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            place, _, name = line.rpartition(" ")
            owners[name].add(place.rsplit(":", 1)[0])
    twice = {name: sorted(places) for name, places in owners.items()
             if len(places) > 1 and name.startswith(("af_", "anyflash_"))}
    assert not twice
