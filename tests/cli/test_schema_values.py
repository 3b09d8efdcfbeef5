"""Every value that the C code can give for an enum of a schema is in the schema, and no other:
which machine would make the program give it does not matter."""
import json
import re
from pathlib import Path

import pytest

import schemas

ROOT = Path(__file__).resolve().parents[2]
STRING = r'"([^"]+)"'
FIRST_OF_ROW = r'\{"([^"]+)",'
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def table(name, each=STRING):
    """Values in the initializer of a C table, by the name of the table."""
    return rf"\b{name}\[\w*\] = \{{(.*?)\}};", each


def rows(macro):
    """The names in rows of a table that is a file: MACRO(ID, "name", ...)."""
    return r"(.*)", rf'\b{macro}\(\s*\w+,\s*"([^"]+)"'


#: Schema, path of the enum in it (its last words), the C files, and how to read their values.
TABLES = [
    ("common", "rung_name", ["kit/fit/rung.c"], table("rung_names")),
    ("common", "effect", ["kit/fit/fit_json.c"], table("effects")),
    ("common", "prerequisite/properties/name",
     ["kit/fit/prerequisites.c", "kit/fit/rung_build.c", "kit/compile/build_check.c"],
     (r"(.*)", r'(?:\badd\(checking,|\baf_rung_build_row\(\s*\w+,)\s*"([^"]+)"')),
    ("common", "step/properties/kind", ["kit/answer/plan_json.c"], table("kind_names")),
    ("bench", "operation", ["bench/cases.c"], table("names")),
    ("bench", "dtype", ["bench/cases.c"],
     (r"\baf_bench_dtype_text\([^)]*\)\s*\{(.*?)\n\}", STRING)),
    ("build-clean", "done", ["kit/cli/build_clean.c"],
     (r"(.*)", r'(?:\bdone = |&kept\[i\], )"([a-z]+)"')),
    ("causes", "phases/items", ["kit/doctor/diagnosis_text.c"], table("names")),
    ("check", "id", ["kit/project/findings.inc"], rows("AF_PROJECT_FINDING")),
    ("config", "kind", ["kit/cli/cmd_config.c"], table("kinds", FIRST_OF_ROW)),
    ("diagnosis", "confidence", ["kit/doctor/diagnosis.c"], table("texts")),
    ("doctor", "next/properties/kind", ["kit/cli/cmd_doctor.c"], table("kinds")),
    ("inspect", "checks/items/properties/id", ["kit/proof/proof_checks.inc"],
     rows("AF_PROOF_CHECK")),
    ("inspect", "unexpected/items/properties/kind", ["kit/proof/content_kinds.inc"],
     rows("AF_CONTENT_KIND")),
    ("inspect", "targets/items/properties/kind", ["kit/formats/fatbin.c"], table("texts")),
    ("inspect", "flash_kernels/items/properties/operation", ["kit/formats/flash_kernel.c"],
     (r"af_flash_operation_text\([^)]*\)\s*\{(.*?)\n\}", STRING)),
    ("plan", "properties/way", ["kit/answer/plan_answer.c"],
     table("af_plan_ways", FIRST_OF_ROW)),
    ("plan", "next/properties/kind", ["kit/answer/plan_json.c"], table("kinds")),
]


def enums(node, path=""):
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == "enum":
            yield path, value
        yield from enums(value, f"{path}/{key}")


@pytest.mark.parametrize("name, where, files, how", TABLES,
                         ids=[f"{name}: {where}" for name, where, *_ in TABLES])
def test_an_enum_has_the_values_of_the_code(name, where, files, how):
    schema = json.loads((schemas.FOLDER / f"{name}.schema.json").read_text())
    listed = [values for path, values in enums(schema) if path.endswith("/" + where)]
    area, each = how
    text = "".join(COMMENT.sub("", (ROOT / file).read_text()) for file in files)
    given = {value for part in re.findall(area, text, re.DOTALL)
             for value in re.findall(each, part)}
    assert given and listed and all(set(one) == given for one in listed), given


def test_every_value_of_an_enum_is_in_the_code():
    code = "".join(path.read_text() for folder in ("kit", "engine", "bench", "python")
                   for path in (ROOT / folder).rglob("*.*")
                   if path.suffix in (".c", ".h", ".inc", ".py"))
    for path in schemas.FOLDER.glob("*.json"):
        for where, values in enums(json.loads(path.read_text())):
            absent = [one for one in values if isinstance(one, str) and f'"{one}"' not in code]
            assert not absent, (path.name, where, absent)
