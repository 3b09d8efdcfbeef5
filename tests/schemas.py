"""Compares answers of the program with their schemas in docs/reference/schema/.

Without the package jsonschema nothing is compared, and tests/cli/test_schemas.py reports that.
"""
import functools
import json
from pathlib import Path

try:
    import jsonschema
except ImportError:
    jsonschema = None

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference" / "schema"
COMMON = "common.schema.json#/"
SCHEMA = '"schema": "anyflash-'


def load(name):
    """One schema with the common definitions copied into it. Versions of jsonschema differ in
    how they resolve references to other files; this needs none."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    common = json.loads((FOLDER / "common.schema.json").read_text())
    schema.setdefault("$defs", {}).update(common["$defs"])
    return json.loads(json.dumps(schema).replace(COMMON, "#/"))


GOOD = set()  # (identity of a schema, text of an item that satisfies it)


def items(validator, schema, array, _):
    """The keyword of this name, which compares equal items once, and every n-th of thousands:
    answers list the same wheels, and jsonschema takes a millisecond for each."""
    listed = array if validator.is_type(array, "array") else []
    every = len(listed) // 500 + 1
    for index, item in list(enumerate(listed))[::every]:
        key = id(schema), json.dumps(item)
        if key in GOOD:
            continue
        errors = list(validator.descend(item, schema, path=index))
        yield from errors
        if not errors:
            GOOD.add(key)


@functools.cache
def validator(name):
    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"items": items})
    return kind(load(name))


def name_of(answer):
    """The name of the schema that an answer must satisfy."""
    return answer["schema"].removeprefix("anyflash-").removesuffix("/1")


def problems(answer):
    """Where the answer differs from its schema, one text each; empty if it satisfies it."""
    found = validator(name_of(answer)).iter_errors(answer)
    return [f"{'/'.join(map(str, error.absolute_path)) or 'the answer'}: {error.message[:400]}"
            for error in found]


def check(text):
    """Fails if `text` is a JSON answer that does not satisfy its schema."""
    if jsonschema is None or not text.startswith("{") or SCHEMA not in text[:60]:
        return
    found = problems(json.loads(text))
    assert not found, "\n".join([f"{len(found)} differences from the schema:", *found[:10]])
