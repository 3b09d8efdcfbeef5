"""Splits a PTX file of nvcc into one module for each of its kernels.

    for mangled, pieces in modules(text):   # "".join(pieces) is a complete module

A module has one kernel, which is called `kernel`, the functions that it reaches, and the
variables that these use, each declared before it is used. It is for PTX 7.8, which every driver
since 520 (CUDA 11.8) reads, and for compute capability 8.0 and later.
"""

import re

#: The version and the target of every module.
VERSION, TARGET = "7.8", "80"
HEAD = f".version {VERSION}\n.target sm_{TARGET}\n.address_size 64\n"
#: The name of a module's kernel.
KERNEL = "kernel"

#: Lines without meaning for the assembler. The pragma is a hint that readers of PTX 7.8 refuse.
IGNORED = re.compile(r'\s*(?://.*|\.pragma "used_bytes_mask .*)?$')
HEAD_LINE = re.compile(r"\.(?:version|target|address_size)\s")
FUNCTION = re.compile(r"[^{]*?\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
VARIABLE = re.compile(r"(?:\.\w+\s+(?:\d+\s+)?)+([\w$]+)\s*(?:\[|=|;)")
WORD = re.compile(r"[A-Za-z_$][\w$]+")
#: nvcc numbers labels by the function's place in the file, but they are local to it. Without
#: that number, equal functions of two files are equal texts.
LABEL = re.compile(r"\$L__BB\d+_")


class Unreadable(ValueError):
    """The PTX is not of the form that nvcc writes."""


class Statement:
    """A variable, a function, or the declaration of one.

    kind is "variable", "entry", "func" or "declaration"; words are the identifiers in its text.
    """

    def __init__(self, text):
        function = FUNCTION.match(text)
        found = function or VARIABLE.match(text)
        if found is None:
            raise Unreadable(f"unknown statement in PTX: '{text[:80].strip()}'")
        self.kind = "variable"
        if function:
            self.kind = function[1] if "{" in text else "declaration"
        self.name = found[found.lastindex]
        self.text = LABEL.sub("$L__BB_", text) if "{" in text else text
        self.words = set(WORD.findall(self.text))


def statements(text):
    """The statements of a PTX file, in its order."""
    lines, depth = [], 0
    for line in text.splitlines():
        if IGNORED.match(line) or (not lines and HEAD_LINE.match(line)):
            continue
        lines.append(line)
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.rstrip().endswith(("}", ";")):
            yield Statement("\n".join(lines) + "\n")
            lines = []
    if lines:
        raise Unreadable(f"the PTX ends inside of a statement: '{lines[0][:80].strip()}'")


def reached(entry, functions):
    """The functions that an entry calls, directly and indirectly, by name."""
    found, left = {}, [entry]
    while left:
        for name in left.pop().words & functions.keys() - found.keys():
            found[name] = functions[name]
            left.append(functions[name])
    return [found[name] for name in sorted(found)]


def renamed(entry):
    """The text of an entry under the name `kernel`, which is also in its parameters' names."""
    return re.sub(rf"(?<![\w$]){re.escape(entry.name)}(?=_param_\d|[^\w$])", KERNEL, entry.text)


def head_of(function):
    """The declaration of a function that has only a definition."""
    return function.text[:function.text.index("{")].rstrip() + "\n;\n"


def modules(text):
    """(mangled name, pieces of the module) of every kernel in a PTX file, in its order."""
    found = list(statements(text))
    by_kind = {kind: [one for one in found if one.kind == kind]
               for kind in ("variable", "declaration", "func", "entry")}
    functions = {one.name: one for one in by_kind["func"]}
    for entry in by_kind["entry"]:
        called = reached(entry, functions)
        words = entry.words.union(*(one.words for one in called))
        used = [one for kind in ("variable", "declaration") for one in by_kind[kind]
                if one.name in words]
        # A function without its own declaration may be called by one that stands before it.
        declared = {one.name for one in used}
        heads = [head_of(one) for one in called if one.name not in declared]
        yield entry.name, [HEAD, *(one.text for one in used), *heads,
                           *(one.text for one in called), renamed(entry)]
