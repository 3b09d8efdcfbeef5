#!/usr/bin/env python3
"""Writes docs/reference/schema/machine.schema.json from the facts that the program knows.

    anyflash machine --schema | tools/make_machine_schema.py
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "schema" / "machine.schema.json"
TYPES = {
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "list of texts": {"type": "array", "items": {"type": "string"}},
}
DESCRIPTION = (
    "`anyflash machine`: the record of a machine. A fact is {value, source} when it is known "
    "(value null: known not to be there) and {unknown: why} when it is not. --machine also "
    "reads records with bare values, null and missing keys: what is missing is unknown.")


def closed(properties, required=True):
    names = {"required": list(properties)} if required else {}
    return {"type": "object", "properties": properties, **names, "additionalProperties": False}


def fact(type_):
    value = {"anyOf": [TYPES[type_], {"type": "null"}]}
    return {"oneOf": [closed({"value": value, "source": {"type": "string"}}),
                      {"$ref": "#/$defs/unknown"}]}


def name_of(type_):
    return type_.replace(" ", "_")


def row_of(group):
    return closed({one["name"]: {"$ref": f"#/$defs/{name_of(one['type'])}",
                                 "description": one["doc"]} for one in group["facts"]})


def schema_of(groups):
    """The schema of a record with these groups, which `anyflash machine --schema` lists."""
    none = closed({"value": {"type": "array", "maxItems": 0}, "source": {"type": "string"}})
    properties = {"schema": {"const": "anyflash-machine/1"}, "remark": {"type": "string"}}
    for group in groups:
        properties[group["name"]] = {"description": group["doc"], **(
            {"anyOf": [{"type": "array", "items": row_of(group)}, none,
                       {"$ref": "#/$defs/unknown"}]} if group["is_list"] else row_of(group))}
    record = closed(properties)
    record["required"].remove("remark")
    unknown = closed({"unknown": {"type": "string", "description": "why"}})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "machine.schema.json", "title": "anyflash-machine/1",
            "description": DESCRIPTION, **record,
            "$defs": {"unknown": unknown, **{name_of(type_): fact(type_) for type_ in TYPES}}}


def laid_out(node, indent=0):
    """JSON with objects and lists on one line where they hold no other."""
    flat = json.dumps(node, ensure_ascii=False)
    children = node.values() if isinstance(node, dict) else node
    if not isinstance(node, (dict, list)) or not any(
            isinstance(child, (dict, list)) for child in children):
        return flat
    blanks = " " * (indent + 1)
    rows = [laid_out(child, indent + 1) for child in children]
    if isinstance(node, dict):
        rows = [f"{json.dumps(name)}: {row}" for name, row in zip(node, rows)]
    first, last = "{}" if isinstance(node, dict) else "[]"
    return f"{first}\n" + ",\n".join(blanks + row for row in rows) + f"\n{' ' * indent}{last}"


def text_of(groups):
    return laid_out(schema_of(groups)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text_of(json.load(sys.stdin)["groups"]), encoding="utf-8")
