"""Every JSON answer satisfies its schema, and every schema is used, listed and up to date.

The fixture `anyflash` compares each answer of this folder's tests with its schema (schemas.py);
this file tests the answers that no other test asks for.
"""
import importlib.util
import json
import re
from pathlib import Path

import pytest

import schemas
from recorded import MACHINES, words_of

jsonschema = pytest.importorskip("jsonschema", reason="needs package python3-jsonschema")

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATIONS = ("uv", "pip", "pylock", "poetry", "pixi", "conda", "dockerfile")
GPU_LIBRARIES = sorted((ROOT / "tests" / "data" / "gpu").glob("*.so"))


def named(path):
    return path.stem


@pytest.mark.parametrize("name", MACHINES)
def test_a_recorded_machine(anyflash, name):
    for words in (("plan", "--json"), ("doctor", "--json"), ("config", "uv", "--json"),
                  ("plan", "--all", "--limit", "20", "--json"), ("machine",)):
        answer = anyflash(*words, *words_of(name))
        assert answer.code in (0, 1) and answer.out.startswith("{"), answer


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_each_kind_of_configuration(anyflash, kind):
    for name in ("a100-torch2.7", "alpine-musl", "b200-torch2.7", "rtx4090-torch2.8"):
        assert anyflash("config", kind, "--json", *words_of(name)).out.startswith("{")


@pytest.mark.parametrize("words", [
    ("build", "--check"),
    ("build", "--clean", "--dry-run"),
    ("doctor",),
    ("find", "torch=2.9", "--limit", "20"),
    ("find", "torch=2.9", "--here", "--limit", "20"),
    ("inspect", "installed"),
    ("machine",),
    ("machine", "--schema"),
    ("undo",),
    ("undo", "--forget"),
    ("undo", "--list"),
    ("update", "--undo"),
    ("verify",),
    ("version",),
], ids=" ".join)
def test_on_this_machine(anyflash, words):
    wants_json = () if words[0] == "machine" else ("--json",)
    answer = anyflash(*words, *wants_json)
    assert answer.code in (0, 1) and answer.out.startswith("{"), answer


@pytest.mark.parametrize("library", GPU_LIBRARIES, ids=named)
def test_gpu_code_of_a_library(anyflash, library):
    answer = anyflash("inspect", library, "--json")
    assert answer.code in (0, 1) and '"gpu_code"' in answer.out, answer


def test_an_unknown_member_a_missing_one_and_a_wrong_type_are_found(anyflash):
    good = json.loads(anyflash("version", "--json").out)
    bad = [{**good, "more": 1}, {**good, "version": 7}, {"schema": good["schema"]},
           {**good, "catalog": {**good["catalog"], "more": 1}}]
    assert schemas.problems(good) == [] and all(schemas.problems(one) for one in bad)


def test_the_schema_of_a_record_has_the_facts_of_the_program(anyflash):
    path = ROOT / "tools" / "make_machine_schema.py"
    spec = importlib.util.spec_from_file_location("make_machine_schema", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    groups = json.loads(anyflash("machine", "--schema").out)["groups"]
    assert tool.PAGE.read_text() == tool.text_of(groups), (
        "write it again: anyflash machine --schema | tools/make_machine_schema.py")


def test_every_schema_is_listed_in_the_reference():
    page = (ROOT / "docs" / "reference" / "json.md").read_text()
    listed = set(re.findall(r"\(schema/([a-z-]+)\.schema\.json\)", page))
    assert listed == {path.name.removesuffix(".schema.json")
                      for path in schemas.FOLDER.glob("*.json")}


def test_every_schema_is_one():
    for path in schemas.FOLDER.glob("*.json"):
        schema = schemas.load(path.name.removesuffix(".schema.json"))
        jsonschema.Draft202012Validator.check_schema(schema)


def test_no_schema_lets_unknown_members_pass():
    def objects(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            node = list(node.values())
        for child in node if isinstance(node, list) else ():
            yield from objects(child)
    for path in schemas.FOLDER.glob("*.json"):
        for node in objects(json.loads(path.read_text())):
            closed = node.get("additionalProperties") is False
            assert closed or node.get("description") == "one wheel of the catalog", (path, node)
