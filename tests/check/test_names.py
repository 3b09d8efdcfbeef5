"""What `check` says and writes can be done by everybody: nothing is installed, required or
imported that others cannot get. The rule is tested over all projects of this folder."""
import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter

import pytest

from conftest import PROGRAM
from test_check import REQUIRED
from test_imports import IMPORT
from test_limits import PATTERNS
from test_projects import ROWS

#: A build for after the publication may write guarded imports of anyflash.
with tempfile.TemporaryDirectory() as empty:
    IS_PUBLISHED = subprocess.run([PROGRAM, "check", "--fallback", "anyflash", empty],
                                  capture_output=True).returncode != 2
GUARDED = ["flash_attn", *(["anyflash"] if IS_PUBLISHED else [])]
ALLOWED = {*sys.stdlib_module_names, "torch"}
FUNCTIONS = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache",
             "flash_attn_qkvpacked_func"]
IMPORTS = [f"from {module} import {names}\n"
           for module in ("flash_attn", "flash_attn.flash_attn_interface")
           for names in (*FUNCTIONS, ", ".join(FUNCTIONS),
                         f"({FUNCTIONS[0]},\n {FUNCTIONS[1]})", f"{FUNCTIONS[1]} as varlen",
                         "flash_attn_func as a, flash_attn_func as b")]
PROJECTS = [*(row["files"] for row in ROWS), REQUIRED, {"a.py": IMPORT},
            *({"a.py": text, **REQUIRED, "README.md": "    pip install flash-attn\n"}
              for text in IMPORTS),
            *({name: before + unit.replace("%d", "1") + after}
              for name, patterns in PATTERNS.items() for before, unit, after in patterns
              if len(before) + len(after) < 10000)]


def imports(tree, guarded=False):
    """(module, whether an ImportError is caught) for each import of the source."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((one.name.split(".")[0], guarded) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0], guarded
        elif isinstance(node, ast.Try):
            for part in node.body:
                yield from imports(ast.Module([part], []), True)
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                yield from imports(ast.Module([part], []), guarded)
        else:
            yield from imports(node, guarded)


@pytest.mark.parametrize("number", range(len(PROJECTS)))
def test_everybody_can_do_what_it_says(check, number):
    files = PROJECTS[number]
    said = [check(files, *words).stdout for words in ([], ["--json"], ["--github"], ["--diff"])]
    check({}, "--write")
    said += [(check.folder / name).read_text() for name in files]
    for text in said:
        assert not re.search(r"(pip|uv|pipx|conda)[^\n]*(install|add)[^\n`]* anyflash\b", text)
        assert IS_PUBLISHED or not re.search(r"(from|import) anyflash\b", text)
        assert not re.search(r"""["']anyflash["'\[ =<>~!;]""", text)
        assert not re.search(r"^ *-? *anyflash *([\[=<>~!;]|$)", text, re.MULTILINE)
    for name, before in files.items():
        after = (check.folder / name).read_text()
        if name.endswith(".py") and after != before:
            made = Counter(imports(ast.parse(after))) - Counter(imports(ast.parse(before)))
            for module, is_guarded in made:
                assert module in ALLOWED or (module in GUARDED and is_guarded), (module, after)
