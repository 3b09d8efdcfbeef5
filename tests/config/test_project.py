"""What `anyflash config uv --write` does with what projects state, over their combinations.

Exit 0: uv locks the file, with the torch and the flash-attn that were announced, and comments
and line ends are kept. Any other exit: nothing in the project has changed.
"""
import itertools
import json
import tomllib

import loopback
import pytest
from conftest import MINOR, World

PUBLISHED = [("2.8.3", "2.7"), ("2.8.3", "2.8"), ("2.7.4.post1", "2.8")]
MACHINE_TORCH = "2.8"
ALL = ["2.10", "2.9", "2.8", "2.7"]
# What is written of torch, and which of its releases that allows; None: uv can lock none for
# this machine, because it does not keep machines apart by a marker on one side only.
TORCH = [
    (["torch"], ALL),
    (["torch==2.7.1"], ["2.7"]),
    (["torch == 2.8.*"], ["2.8"]),
    (["torch==2.9.0"], ["2.9"]),
    (["torch>=2.7,!=2.8.*"], ["2.10", "2.9", "2.7"]),
    (["torch==2.7.1", "torch>=2.8"], []),
    (["torch", "torchvision==0.22.1"], ["2.7"]),
    (["torchvision>=0.24"], ["2.10", "2.9"]),
    (["torch==2.7.1 ; sys_platform == 'win32'"], None),
    (["torch==2.7.1 ; sys_platform == 'win32'", "torch ; sys_platform == 'linux'"], ALL),
]
APART = TORCH[-1]  # uv keeps them apart in the dependencies only
PLACES = ["dependencies", "extra", "group", "constraint"]
# What is written of flash-attn and where, and which versions that allows.
FLASH = [
    (None, None, ["2.8.3", "2.7.4.post1"]),
    ("flash-attn", "dependencies", ["2.8.3", "2.7.4.post1"]),
    ("Flash_Attn == 2.7.4.post1", "extra", ["2.7.4.post1"]),
    ("flash-attn>=2.8,<3", "group", ["2.8.3"]),
    ("flash-attn==2.6.3", "dependencies", []),
]
KINDS = ["package", "wide", "virtual"]
GRID = list(itertools.product(TORCH, PLACES, FLASH, KINDS, ["\n", "\r\n"]))


def text_of(torch, place, flash, where, kind, end):
    lists = {name: [] for name in PLACES}
    lists[place] += torch
    if flash:
        lists[where].append(flash)
    inside = {name: "".join(f'    "{each}",  # {name} {n}\n' for n, each in enumerate(lines))
              for name, lines in lists.items()}
    python = f">=3.{MINOR}" + ("" if kind == "wide" else f",<3.{MINOR + 1}")
    uv = "package = false\n" if kind == "virtual" else ""
    return (f'# first\n[project]\nname = "demo"\nversion = "0.1"  # kept\n'
            f'requires-python = "{python}"\n'
            f'dependencies = [\n    "einops",  # kept, too\n{inside["dependencies"]}]\n\n'
            f'[project.optional-dependencies]\nmore = [\n{inside["extra"]}]\n\n'
            f'[dependency-groups]\ndev = [\n{inside["group"]}]\n\n'
            f'[tool.uv]\n{uv}constraint-dependencies = [\n{inside["constraint"]}]\n'
            '# last\n').replace("\n", end)


def expected(torches, versions):
    """The (version, torch) that is to be chosen, or None."""
    for torch in [MACHINE_TORCH] if MACHINE_TORCH in (torches or []) else torches or []:
        for version in versions:
            if (version, torch) in PUBLISHED:
                return version, torch
    return None


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("projects"))
    for vision, torch in [("0.22.1", "2.7.1"), ("0.23.0", "2.8.0"), ("0.24.0", "2.9.0"),
                          ("0.25.0", "2.10.0")]:
        loopback.make_wheel(world.index.folder("torchvision"), "torchvision", vision,
                            "py3-none-any", requires=(f"torch=={torch}",))
    for version, torch in PUBLISHED:
        world.wheel(version=version, torch=torch)
    world.machine()
    yield world
    world.index.close()


def files(folder):
    return {path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def check_kept(before, after, end):
    """All lines stay in their order, but for those on flash-attn; so do the line ends."""
    assert after.count("\n") == after.count(end)
    rest = iter(after.split(end))
    for line in before.split(end):
        kept = line if "flash" not in line.lower() else line[line.index("#"):]
        assert any(kept == each or (kept[:1] == "#" and each.endswith(kept))
                   for each in rest), line


def check_locked(world, answer, version, torch):
    assert [(pin["version"], pin["torch"]) for pin in answer["pins"]] == [(version, torch)]
    done = world.uv("lock")
    assert done.code == 0, done
    lock = tomllib.loads((world.project / "uv.lock").read_text())
    locked = {(each["name"], each["version"]) for each in lock["package"]}
    assert {each for name, each in locked if name == "flash-attn"} == {version}
    assert any(name == "torch" and each.startswith(f"{torch}.") for name, each in locked)
    wheel = next(each for each in lock["package"] if each["name"] == "flash-attn")
    assert "path" in wheel["source"], wheel


def check_place(made, where, kind):
    """Where flash-attn stood it stands; else it is required by projects only that are none."""
    lists = {"dependencies": made["project"]["dependencies"],
             "extra": made["project"]["optional-dependencies"]["more"],
             "group": made["dependency-groups"]["dev"],
             "flash": made["project"]["optional-dependencies"].get("flash", [])}
    has = [name for name, lines in lists.items()
           if any(line.lower().replace("_", "-").startswith("flash-attn") for line in lines)]
    assert has == [where or ("dependencies" if kind == "virtual" else "flash")]


def check(world, torch, place, flash, kind, end):
    (lines, torches), (line, where, versions) = torch, flash
    if torch is APART and place != "dependencies":
        torches = None
    text = text_of(lines, place, line, where, kind, end)
    world.project = world.folder / "projects" / str(len(list(world.folder.glob("projects/*"))))
    world.project.mkdir(parents=True)
    path = world.project / "pyproject.toml"
    path.write_bytes(text.encode())
    before = files(world.project)
    done = world.config("config", "uv", "--write", "--json", "--from",
                        str(world.index.folder("release")))
    answer = json.loads(done.out)
    wanted = expected(torches, versions)
    assert done.code == (1 if wanted is None else 0), done
    if wanted is None:
        assert files(world.project) == before
        assert answer["reason"] and (not torches or "nearest pins" in answer["hint"]), answer
        return
    check_kept(text, path.read_bytes().decode(), end)
    check_locked(world, answer, *wanted)
    made = tomllib.loads(path.read_bytes().decode())
    check_place(made, where, kind)
    notes = " ".join(answer["notes"])
    assert ("because of" in notes) == (MACHINE_TORCH not in torches), notes
    assert ("the extra 'flash'" in notes) == (where is None and kind != "virtual"), notes
    assert (f"only Python 3.{MINOR} gets" in notes) == (kind == "wide"), notes


@pytest.mark.parametrize("number", range(len(TORCH)))
def test_what_is_written_locks_and_what_is_refused_changes_nothing(shared, number):
    from conftest import UV
    if UV is None:
        pytest.skip("needs uv: pip install uv, on PATH or as $UV")
    for combination in GRID:
        if combination[0] is TORCH[number]:
            check(shared, *combination)
