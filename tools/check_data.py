#!/usr/bin/env python3
"""Checks what the build does not check in data/: counts, evidence, sources and dates.

Prints each problem and exits 1, or says what was checked.
"""
import json
import pathlib
import re
import struct
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
ROWS = {"torch": "releases", "cuda": "toolkits", "flash_attn_releases": "releases",
        "flash_attn_4": "releases", "traps": "traps"}
VERSION = r"\d+(\.\d+)*"
TSV = {"amd_targets.tsv": (r"gfx[0-9a-f]+\*?", r"[A-Z][\w ,.]+", "full|experimental|none|-",
                           "ck|triton|-", "aiter|-"),
       "distributions.tsv": (r"[a-z]+", VERSION, "glibc|musl", VERSION, f"({VERSION})?"),
       "driver_cuda.tsv": (r"\d+", r"\d+\.\d"),
       "index_releases.tsv": ("torch|flash-attn", r"\d[\d.]*(post\d+)?",
                              r"20\d\d-[01]\d-[0-3]\d"),
       "gpu_generations.tsv": (r"\d+\.\d", r"[A-Z][\w ,.()]+", "integrated|-", r"\d+\.\d|-",
                               r"\d+|-", r"\d+\.\d|-", r"flash_attn_\d|-", "cudnn|-"),
       "gpu_names.tsv": ("nvidia|amd|intel|apple", r"[a-z0-9 ]+", r"\d+\.\d|gfx[0-9a-f]+|-"),
       "torch_assertions.tsv": (r"[\w/.]+\.h", r"\d+", "[0-9a-f]+"),
       "wheel_contents.tsv": (r"[a-z0-9-]+", r"\w+[\w./-]*\*?", "package|extension|requirement",
                              r"github:[\w./-]+@[\w.-]+:.+|`anyflash build`: [\w./]+"),
       "taken_names.tsv": (r"\w+", "Python|torch"),
       "version_windows.tsv": (r"[\w-]+", r"[\w/]+\.py", r".+", r".+", r".+", r".+")}
DATE = re.compile(r"20\d\d-[01]\d-[0-3]\d")
HOST = re.compile(r"py" r"pi\.org|python" r"hosted|download\.py" r"torch")


def read_lines(name):
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def check_counts(counts):
    rows = re.compile(r"^\| (\w+\.(?:jsonl?|tsv)) \| (\d+) \|", re.MULTILINE)
    stated = dict(rows.findall((DATA / "README.md").read_text()))
    for name, count in counts.items():
        if stated.get(name) != str(count):
            yield f"README.md: {name} has {count} rows, not {stated.get(name)}"


def check_wheels(head, wheels, evidence):
    if not DATE.fullmatch(head.get("catalog_date", "")):
        yield "wheels.jsonl: the first line has no catalog_date"
    used = {row.get("evidence_ref") for row in wheels}
    for key in sorted(used ^ set(evidence)):
        yield f"evidence '{key}' is not on both sides"
    for number, row in enumerate(wheels, 2):
        if row.get("url") is None and not row.get("note"):
            yield f"wheels.jsonl:{number}: no url and no note"


def check_table(name, table):
    if not DATE.fullmatch(table.get("date", "")):
        yield f"{name}.json: no date"
    for number, row in enumerate(table[ROWS[name]], 1):
        if not any(table.get(key) for key in ("source", "sources")) and not row.get("source"):
            yield f"{name}.json: row {number} has no source"
        if name == "traps" and not DATE.fullmatch(row.get("date", "")):
            yield f"{name}.json: row {number} has no date"


def read_rows(name):
    lines = (DATA / name).read_text().splitlines()
    return ([line for line in lines if line.startswith("#")],
            [line.split("\t") for line in lines if not line.startswith("#")])


def check_rows(name, remarks, rows, columns):
    """Each row has the fields that the remarks name and is unique; source and date exist."""
    said = "\n".join(remarks)
    if "\n# source: " not in said or not re.search(r"\n# date: 20\d\d-[01]\d", said):
        yield f"{name}: no source or no date"
    for number, row in enumerate(rows, len(remarks) + 1):
        if len(row) != len(columns) or \
                not all(re.fullmatch(form, field) for form, field in zip(columns, row)):
            yield f"{name}:{number}: not {len(columns)} fields as they should be"
    keys = [tuple(row[:2]) for row in rows]
    if len(keys) != len(set(keys)):
        yield f"{name}: a row occurs twice"


def check_torch_symbols(table, data):
    """The builds have source and date; the names are sorted and as many as the head says."""
    if not DATE.fullmatch(table.get("date", "")):
        yield "torch_symbols.json: no date"
    for number, build in enumerate(table["builds"], 1):
        if not build["source"] or not DATE.fullmatch(build["date"] or ""):
            yield f"torch_symbols.json: build {number} has no source or no date"
        if not 0 < len(build["libraries"]) <= 64:
            yield f"torch_symbols.json: build {number} has {len(build['libraries'])} libraries"
    names, patterns, builds = struct.unpack_from("<III", data, 4)
    counts = data[16:16 + 65536]
    if builds != len(table["builds"]) or sum(counts) != names or \
            len(data) != 65552 + 6 * names + 8 * patterns * builds:
        yield "torch_symbols.bin: its head contradicts its length, or the builds"
        return
    low = struct.unpack_from(f"<{names}I", data, 65552)
    at = 0
    for count in counts:
        if any(low[i] >= low[i + 1] for i in range(at, at + count - 1)):
            yield f"torch_symbols.bin: the names from {at} on are not in order"
        at += count


def check_toolkits(cuda):
    """The newest toolkit has its PTX, and each major version a driver of its own."""
    newest = cuda["toolkits"][-1]["cuda"]
    if newest not in [row["cuda"] for row in cuda["ptx_isa"]]:
        yield f"cuda.json: ptx_isa has no row for the newest toolkit, {newest}"
    floors = {}
    for row in cuda["toolkits"]:
        major = row["cuda"].partition(".")[0]
        if floors.setdefault(row["driver_linux_floor"], major) != major:
            yield (f"cuda.json: driver_linux_floor of {row['cuda']} is that of CUDA "
                   f"{floors[row['driver_linux_floor']]}")


def check_generations(toolkits):
    """Each GPU that another table names has a row, and the rows are in order."""
    rows = [row[0] for row in read_rows("gpu_generations.tsv")[1]]
    for sm, *_, first_cuda, _, _ in read_rows("gpu_generations.tsv")[1]:
        if float(sm) >= 10 and first_cuda == "-":
            yield f"gpu_generations.tsv: {sm} has no first CUDA version"
    named = {row[2] for row in read_rows("gpu_names.tsv")[1] if row[0] == "nvidia"}
    named |= {sm.rstrip("af") for row in toolkits for sm in row["sm_targets"] or []}
    for sm in sorted(named - set(rows)):
        if float(sm) >= 5:
            yield f"gpu_generations.tsv: no row for {sm}"
    if rows != sorted(rows, key=float):
        yield "gpu_generations.tsv: the rows are not in order"


def main():
    head, *wheels = read_lines("wheels.jsonl")
    evidence = json.loads((DATA / "wheels_evidence.json").read_text())
    tables = {name: json.loads((DATA / f"{name}.json").read_text()) for name in ROWS}
    counts = {"wheels.jsonl": len(wheels), "wheels_evidence.json": len(evidence),
              "wheels_not_published.jsonl": len(read_lines("wheels_not_published.jsonl")),
              "causes.jsonl": len(read_lines("causes.jsonl"))}
    counts.update({f"{name}.json": len(table[ROWS[name]]) for name, table in tables.items()})
    symbols = json.loads((DATA / "torch_symbols.json").read_text())
    counts["torch_symbols.json"] = len(symbols["builds"])
    problems = [*check_wheels(head, wheels, evidence)]
    for name, table in tables.items():
        problems += check_table(name, table)
    for name, columns in TSV.items():
        remarks, rows = read_rows(name)
        counts[name] = len(rows)
        problems += check_rows(name, remarks, rows, columns)
    problems += check_counts(counts)
    problems += check_generations(tables["cuda"]["toolkits"])
    problems += check_toolkits(tables["cuda"])
    branches = [int(row[0]) for row in read_rows("driver_cuda.tsv")[1]]
    if branches != sorted(branches, reverse=True):
        problems.append("driver_cuda.tsv: the newest branch must be first")
    problems += check_torch_symbols(symbols, (DATA / "torch_symbols.bin").read_bytes())
    for path in sorted(DATA.iterdir()):
        if path.suffix != ".bin" and HOST.search(path.read_text()):
            problems.append(f"{path.name}: a package index's host name")
    print("\n".join(problems) if problems else f"{sum(counts.values())} rows are valid")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
