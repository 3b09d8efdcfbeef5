#!/usr/bin/env python3
"""Refreshes the files of data/ from their sources, and shows what would change.

    tools/refresh.py            reads every source; the new files go to build/refresh/
    tools/refresh.py --apply    puts them into data/, after it has shown the differences

A source that cannot be read is reported with its reason, and its rows stay as they are; the
others are refreshed. Files that were read by hand are named with their sources. Wheels are read
by `anyflash update`, so build the program first. The exit code is 1 if a source could not be
read.
"""
import argparse
import collections
import datetime
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TODAY = datetime.date.today().isoformat()
TIMEOUT_S = 60
# the key in wheels_evidence.json of what a listing added on one day
LISTING = "the release page of the repository in `source`, read {} by `anyflash update`"
BY_HAND = ("amd_targets.tsv", "causes.jsonl", "cuda.json", "distributions.tsv",
           "driver_cuda.tsv", "flash_attn_4.json", "gpu_generations.tsv", "gpu_names.tsv",
           "signatures.jsonl", "torch_assertions.tsv", "traps.json")


class Unreadable(Exception):
    """Why a source could not be read, in a sentence."""


def dump(row):
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Links(html.parser.HTMLParser):
    """The links of an index page: {file name: SHA-256 or None}, {file name: address}."""

    def __init__(self):
        super().__init__()
        self.files = {}
        self.addresses = {}

    def handle_starttag(self, tag, attributes):
        address = dict(attributes).get("href") if tag == "a" else None
        if address:
            path, _, fragment = address.partition("#")
            digest = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment)
            name = urllib.request.unquote(path.rsplit("/", 1)[-1])
            self.files[name] = digest and digest[1]
            self.addresses[name] = path


class Index:
    """The Python package index that pip uses."""

    def __init__(self, address):
        self.address = address or self.configured()
        self.pages = {}
        self.addresses = {}  # of the files of the projects that were asked for

    @staticmethod
    def configured():
        if os.environ.get("PIP_INDEX_URL"):
            return os.environ["PIP_INDEX_URL"]
        code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
        for words in (["-m", "pip", "config", "get", "global.index-url"], ["-c", code]):
            told = subprocess.run([sys.executable, *words], capture_output=True, text=True)
            if told.returncode == 0:
                break
        return told.stdout.strip()

    def files(self, project):
        """{file name: SHA-256 or None} of the project."""
        if project not in self.pages:
            page_address = f"{self.address.rstrip('/')}/{project}/"
            try:
                with urllib.request.urlopen(page_address, timeout=TIMEOUT_S) as answer:
                    page = answer.read().decode()
            except (urllib.error.URLError, OSError, ValueError) as error:
                raise Unreadable(f"the package index did not answer for {project}: {error}")
            links = Links()
            links.feed(page)
            self.pages[project] = links.files
            for name, address in links.addresses.items():
                self.addresses[project, name] = urllib.parse.urljoin(page_address, address)
        return self.pages[project]

    def days(self, project):
        """{version: day of its first file}, without pre-releases and withdrawn ones."""
        wanted = urllib.request.Request(f"{self.address.rstrip('/')}/{project}/", headers={
            "Accept": "application/vnd.pypi.simple.v1+json"})
        try:
            with urllib.request.urlopen(wanted, timeout=TIMEOUT_S) as answer:
                files = json.loads(answer.read())["files"]
            found = {}
            for file in files:
                match = re.match(r"[^-]+-(\d[\d.]*(?:post\d+)?)(?:-|\.tar)", file["filename"])
                if match and not file.get("yanked") and "upload-time" in file:
                    day = file["upload-time"][:10]
                    found[match[1]] = min(day, found.get(match[1], day))
            return found
        except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError) as error:
            raise Unreadable(f"the package index gave no days for {project}: {error}")

    def versions(self, project):
        """Its released versions, as tuples of numbers."""
        found = set()
        for name in self.files(project):
            match = re.match(r"[^-]+-(\d+(?:\.\d+)+)(?:-|\.tar)", name)
            if match:
                found.add(tuple(map(int, match[1].split("."))))
        return found


class Refresh:
    def __init__(self, options):
        self.data = options.data
        self.out = options.out
        self.index = Index(options.index)
        self.program = options.program
        self.update_words = options.update_words
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)

    def put(self, name, text):
        if text != (self.data / name).read_text():
            (self.out / name).write_text(text)

    # ---- wheels.jsonl and wheels_evidence.json

    def updated_rows(self):
        """The rows of `anyflash update`, and its report of each source."""
        target = self.out / "update.jsonl"
        words = ["update", "--check", "--json", "--export", target, *self.update_words]
        try:
            done = subprocess.run([self.program, *words], capture_output=True, text=True)
        except OSError as error:
            raise Unreadable(f"cannot run {self.program}: {error}; `make build` makes it")
        if not target.exists():
            raise Unreadable(done.stderr.strip().splitlines()[0].removeprefix("error: ")
                             if done.stderr else "`anyflash update` wrote no rows")
        rows = {row["url"]: row for row in read_rows(target)[1:] if row.get("url")}
        target.unlink()
        return rows, json.loads(done.stdout)["sources"]

    def wheels(self):
        fresh, sources = self.updated_rows()
        head, *old = read_rows(self.data / "wheels.jsonl")
        evidence = json.loads((self.data / "wheels_evidence.json").read_text())
        for source in sources:
            if source["problem"]:
                yield f"not read: {source['source']}: {source['problem']}"
        read = {source["source"] for source in sources if not source["problem"]}
        key = f"E{max(int(each[1:]) for each in evidence) + 1}"
        rows = [kept(row, fresh, key) for row in old
                if row["source"] not in read or not row.get("url") or row["url"] in fresh]
        known = {row.get("url") for row in old}
        rows += [{**row, "evidence_ref": key} for url, row in fresh.items() if url not in known]
        evidence[key] = LISTING.format(TODAY)
        used = {row.get("evidence_ref") for row in rows}
        if rows != old:
            head["catalog_date"] = TODAY
            self.put("wheels.jsonl", "".join(dump(row) + "\n" for row in [head, *rows]))
            lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(text, ensure_ascii=False)}"
                               for name, text in evidence.items() if name in used)
            self.put("wheels_evidence.json", f"{{\n{lines}\n}}\n")

    # ---- what the package index says

    def torch(self):
        """Newest patch releases; a new minor release needs more than its number."""
        text = (self.data / "torch.json").read_text()
        newest = {}
        for version in self.index.versions("torch"):
            if len(version) == 3:
                newest[version[:2]] = max(version, newest.get(version[:2], version))
        known = {tuple(map(int, minor.split("."))): latest for minor, latest in
                 re.findall(r'"torch": "([\d.]+)", "latest": "([\d.]+)"', text)}
        for minor, version in sorted(newest.items()):
            name = ".".join(map(str, version))
            if minor in known and known[minor] != name:
                text = text.replace(f'"latest": "{known[minor]}"', f'"latest": "{name}"')
            elif minor > max(known):
                yield f"by hand: torch {name} is new and has no row"
        self.put("torch.json", text)

    def index_releases(self):
        """New releases with their days; a row that is known stays as it is."""
        path = self.data / "index_releases.tsv"
        lines = path.read_text().splitlines()
        head = [line for line in lines if line.startswith("#")]
        rows = [tuple(line.split("\t")) for line in lines if not line.startswith("#")]
        for project in sorted({row[0] for row in rows}):
            known = {row[1]: row[2] for row in rows if row[0] == project}
            newest = max(known.values())
            for version, day in sorted(self.index.days(project).items(),
                                       key=lambda one: (one[1], one[0])):
                if version not in known and day > newest:
                    rows.append((project, version, day))
                elif known.get(version, day) != day:
                    yield (f"by hand: the index dates {project} {version} to {day}, the row to "
                           f"{known[version]}")
        rows.sort(key=lambda row: row[0])
        head = [f"# date: {TODAY}" if line.startswith("# date: ") else line for line in head]
        if len(rows) + len(head) != len(lines):
            self.put("index_releases.tsv", "\n".join(head + ["\t".join(row) for row in rows]) +
                     "\n")

    def flash_attn_releases(self):
        known = {tuple(map(int, re.findall(r"\d+", row["version"]))) for row in
                 json.loads((self.data / "flash_attn_releases.json").read_text())["releases"]}
        for version in sorted(self.index.versions("flash-attn")):
            if version > max(known):
                name = ".".join(map(str, version))
                yield f"by hand: flash-attn {name} is new: read setup.py of its source archive"

    def torch_symbols(self):
        builds = json.loads((self.data / "torch_symbols.json").read_text())["builds"]
        known = {tuple(map(int, build["version"].split("."))) for build in builds}
        for version in sorted(self.index.versions("torch")):
            if version > max(known):
                name = ".".join(map(str, version))
                yield (f"by hand: torch {name} is new: tools/make_torch_symbols.py --build "
                       f"{name}+cuXXX FILE...")

    def fa4_hashes(self):
        """FlashAttention-4: the release and the package index have the same files."""
        path = self.out / "wheels.jsonl"
        path = path if path.exists() else self.data / "wheels.jsonl"
        files = self.index.files("flash-attn-4")
        head, *rows = read_rows(path)
        for row in rows:
            if row["package"] == "flash_attn_4" and files.get(row["filename"]):
                row["sha256"] = files[row["filename"]]
        self.put("wheels.jsonl", "".join(dump(row) + "\n" for row in [head, *rows]))
        wheels = {name for name in files if re.match(r"flash_attn_4-4\..*\.whl$", name)}
        for name in sorted(wheels - {row["filename"] for row in rows}):
            yield (f"by hand: {name} is new: read its METADATA and its "
                   "flash_attn/cute/interface.py for flash_attn_4.json")

    # ---- the report

    def run(self):
        """Prints a line for each thing to know; whether every source was read."""
        good = True
        for name, read in (("wheels.jsonl", self.wheels), ("wheels.jsonl", self.fa4_hashes),
                           ("torch.json", self.torch),
                           ("index_releases.tsv", self.index_releases),
                           ("flash_attn_releases.json", self.flash_attn_releases),
                           ("torch_symbols.json", self.torch_symbols)):
            try:
                for line in read():
                    good &= not line.startswith("not read")
                    print(f"{name}: {line}")
            except Unreadable as problem:
                good = False
                print(f"{name}: not read: {problem}")
        for name in BY_HAND:
            print(f"{name}: by hand: {source_of(self.data / name)}")
        return good


def kept(row, fresh, key):
    """The known row, now marked as seen and with the hash that the listing states."""
    listed = fresh.get(row.get("url"))
    if listed is None:
        return row
    row = dict(row)
    if listed.get("sha256"):
        row["sha256"] = listed["sha256"]
    if listed["evidence"] == "listed" and row["evidence"] != "listed":
        row["evidence"] = "listed"
        row["evidence_ref"] = key
    return row


def source_of(path):
    """Where the file says that it was read."""
    text = path.read_text()
    remark = re.search(r'^(?:# source: | "source": ")(.*?)"?,?$', text, re.MULTILINE)
    if remark:
        return remark[1]
    return "each row names its source"


def differences(old_path, new_path):
    """Counts the wheels added, removed and changed for each publisher."""
    old = {row.get("url") or row["filename"]: row for row in read_rows(old_path)[1:]}
    new = {row.get("url") or row["filename"]: row for row in read_rows(new_path)[1:]}
    counts = collections.defaultdict(lambda: [0, 0, 0])
    for key in {**old, **new}:
        source = (new.get(key) or old[key])["source"]
        counts[source][0] += key not in old
        counts[source][1] += key not in new
        counts[source][2] += key in old and key in new and old[key] != new[key]
    return {source: count for source, count in sorted(counts.items()) if any(count)}


def show(refresh):
    """Prints what the new files change; their names."""
    names = sorted(path.name for path in refresh.out.iterdir())
    for name in names:
        if name == "wheels.jsonl":
            print(f"\n{name}:    added  removed  changed")
            found = differences(refresh.data / name, refresh.out / name)
            for source, (added, removed, changed) in found.items():
                print(f"  {added:14}  {removed:7}  {changed:7}  {source}")
        else:
            print(f"\n{name}:", flush=True)
            subprocess.run(["diff", "-U0", refresh.data / name, refresh.out / name])
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--apply", action="store_true", help="put the new files into data/")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/refresh")
    parser.add_argument("--index", help="URL of the package index (default: that of pip)")
    parser.add_argument("--program", default=ROOT / "build/release/anyflash")
    parser.add_argument("update_words", nargs="*", help="after --: options for the update")
    options = parser.parse_args()
    refresh = Refresh(options)
    good = refresh.run()
    names = show(refresh)
    if not names:
        print("\nnothing changed")
    elif options.apply:
        for name in names:
            shutil.copy(options.out / name, options.data / name)
        print("\nwritten to data/; then: tools/check_data.py, and the counts in data/README.md")
    else:
        print(f"\nthe new files are in {options.out}; --apply puts them into data/")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
