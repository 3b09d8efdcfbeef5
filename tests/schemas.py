"""Answers of the program compared with their schemas in docs/reference/schema/."""
import functools
import json
from pathlib import Path

import jsonschema

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference" / "schema"
COMMON = "common.schema.json#/"


def load(name):
    """One schema with the common definitions copied into it. Versions of jsonschema differ in
    how they resolve references to other files; this needs none."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    common = json.loads((FOLDER / "common.schema.json").read_text())
    schema.setdefault("$defs", {}).update(common["$defs"])
    return json.loads(json.dumps(schema).replace(COMMON, "#/"))


@functools.cache
def validators():
    """A validator for each schema, by the first word of its file name."""
    found = {}
    for path in sorted(FOLDER.glob("*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        schema = load(name)
        jsonschema.Draft202012Validator.check_schema(schema)
        found[name] = jsonschema.Draft202012Validator(schema)
    return found


def name_of(answer):
    """Which schema an answer must satisfy."""
    name = answer["schema"].removeprefix("anyflash-").removesuffix("/1")
    return "machine-facts" if name == "machine" and "groups" in answer else name


def problems(answer):
    """Where the answer differs from its schema, one text each; empty when it satisfies it."""
    found = validators()[name_of(answer)].iter_errors(answer)
    return [f"{'/'.join(map(str, error.absolute_path)) or 'the answer'}: {error.message[:400]}"
            for error in found]


def check(text):
    """Fails when `text` is an answer of ours that does not satisfy its schema."""
    if not text.startswith("{") or '"schema": "anyflash-' not in text[:60]:
        return
    found = problems(json.loads(text))
    assert not found, "\n".join([f"{len(found)} differences from the schema:", *found[:10]])
