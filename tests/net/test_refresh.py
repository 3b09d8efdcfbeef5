"""tools/refresh.py with listings and a package index of a local server."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from server import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ANYFLASH", "anyflash")
DERIVED = "astral-sh-build/build-flash-attention"
OTHER = "oobabooga/flash-attention"
NEW = "flash_attn-9.9.9+cu13torch2.15cxx11abiTRUE-cp314-cp314-manylinux_2_34_x86_64.whl"
FILES = ("wheels.jsonl", "wheels_evidence.json", "torch.json", "flash_attn_releases.json",
         "torch_symbols.json", "index_releases.tsv")
JSON = "application/vnd.pypi.simple.v1+json"
DAYS = {"torch": [("torch-2.99.0-cp312-cp312-linux_x86_64.whl", "2027-01-02T03:04:05Z"),
                  ("torch-2.99.0-cp313-cp313-linux_x86_64.whl", "2027-01-01T03:04:05Z"),
                  ("torch-1.0.0-cp36-cp36m-manylinux1_x86_64.whl", "2018-12-07T00:00:00Z"),
                  ("torch-3.0.0rc1-cp312-cp312-linux_x86_64.whl", "2027-02-01T00:00:00Z"),
                  ("torch-2.14.0-cp312-cp312-linux_x86_64.whl", "2026-09-03T00:00:00Z")],
        "flash-attn": [("flash_attn-7.0.0.tar.gz", "2027-03-01T00:00:00Z"),
                       ("flash_attn-7.0.1.post1.tar.gz", "2027-03-02T00:00:00Z")],
        "flash-attn-4": []}
INDEX = {"torch": ["torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl",
                   "torch-2.15.7-cp312-cp312-manylinux_2_28_x86_64.whl",
                   "torch-2.99.0-cp312-cp312-manylinux_2_28_x86_64.whl"],
         "flash-attn": ["flash_attn-2.8.3.tar.gz", "flash_attn-7.0.0.tar.gz"],
         "flash-attn-4": ["flash_attn_4-4.0.0b36-py3-none-any.whl",
                          "flash_attn_4-4.9.0-py3-none-any.whl"]}


def digest(name):
    return hashlib.sha256(name.encode()).hexdigest()


class Data:
    def __init__(self, folder, server):
        self.folder = folder / "data"
        self.server = server
        self.sources = []
        shutil.copytree(ROOT / "data", self.folder)
        for project, names in INDEX.items():
            links = "".join(f'<a href="../f/{name}#sha256={digest(name)}">{name}</a>'
                            for name in names)
            files = [{"filename": name, "upload-time": day, "yanked": False}
                     for name, day in DAYS[project]]
            server.files[f"simple/{project}/"] = File(links.encode(), accepted={
                JSON: File(json.dumps({"files": files}).encode())})

    def rows(self):
        return [json.loads(line) for line in
                (self.folder / "wheels.jsonl").read_text().splitlines()][1:]

    def publish(self, source, names):
        self.sources.append({"source": source, "kind": "community"})
        if names is None:
            return
        assets = [{"name": name, "digest": f"sha256:{digest(name)}", "state": "uploaded",
                   "browser_download_url": url} for name, url in names.items()]
        self.server.files[f"{source}/1"] = File(
            json.dumps([{"tag_name": "v9", "draft": False, "assets": assets}]).encode())

    def refresh(self, *words, index=None):
        listing = self.server.url("{source}/{page}")
        sources = self.folder.parent / "sources.json"
        sources.write_text(json.dumps({
            "listing": listing, "count": 30, "pages_max": 2, "sources": self.sources,
            "files": "https://github.com/{source}/releases/download/"}))
        done = subprocess.run(
            [sys.executable, ROOT / "tools/refresh.py", "--data", self.folder, "--out",
             self.folder.parent / "out", "--program", PROGRAM, "--index",
             index or self.server.url("simple"), *words, "--", "--sources", sources,
             "--allow-http"],
            capture_output=True, text=True, timeout=300,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder.parent),
                 "no_proxy": "localhost"})
        assert "Traceback" not in done.stderr, done.stderr
        return done


@pytest.fixture
def data(tmp_path, server):
    data = Data(tmp_path, server)
    known = [row for row in data.rows() if row["source"] == DERIVED]
    names = {row["filename"]: row["url"] for row in known}
    names[NEW] = f"https://github.com/{DERIVED}/releases/download/v9/{NEW}"
    names.pop(known[0]["filename"])
    data.publish(DERIVED, names)
    data.gone = known[0]["url"]
    return data


def test_differences_are_shown_and_nothing_is_overwritten(data):
    before = {name: (data.folder / name).read_bytes() for name in FILES}
    done = data.refresh()
    assert done.returncode == 0, done.stdout + done.stderr
    line = next(line for line in done.stdout.splitlines() if line.endswith(DERIVED))
    assert line.split()[:3] == ["1", "1", "204"], done.stdout
    assert '"torch": "2.15", "latest": "2.15.7"' in done.stdout
    assert "torch 2.99.0 is new" in done.stdout and "flash-attn 7.0.0 is new" in done.stdout
    assert "flash_attn_4-4.9.0-py3-none-any.whl is new" in done.stdout
    assert "--apply" in done.stdout
    assert before == {name: (data.folder / name).read_bytes() for name in FILES}


def test_releases_of_the_index_get_the_day_of_their_first_file(data):
    done = data.refresh("--apply")
    rows = (data.folder / "index_releases.tsv").read_text().splitlines()
    assert "torch\t2.99.0\t2027-01-01" in rows and "flash-attn\t7.0.1.post1\t2027-03-02" in rows
    assert not [row for row in rows if "1.0.0\t2018" in row or "rc1" in row]
    assert "torch\t2.14.0\t2026-09-02" in rows  # a row that is known stays, and is named
    assert "the index dates torch 2.14.0 to 2026-09-03, the row to 2026-09-02" in done.stdout
    old = (ROOT / "data/index_releases.tsv").read_text().splitlines()
    assert {row for row in old if row[0] != "#"} < set(rows)


def test_apply_keeps_what_is_known_and_adds_what_was_read(data):
    old = {row.get("url"): row for row in data.rows()}
    assert data.refresh("--apply").returncode == 0
    new = {row.get("url"): row for row in data.rows()}
    evidence = json.loads((data.folder / "wheels_evidence.json").read_text())
    assert data.gone not in new and len(new) == len(old)
    seen = [row for row in new.values() if row["source"] == DERIVED]
    assert len(seen) == 205 and all(row["evidence"] == "listed" for row in seen)
    assert all(row["sha256"] == digest(row["filename"]) for row in seen)
    assert {evidence[row["evidence_ref"]].split(",")[0] for row in seen} == {
        "the release page of the repository in `source`"}
    added = {"sha256", "evidence", "evidence_ref"}
    for url in old.keys() & new.keys():
        assert {key: value for key, value in old[url].items() if key not in added} == {
            key: value for key, value in new[url].items() if key not in added}
    assert {row["evidence_ref"] for row in data.rows()} == set(evidence)


def test_each_source_fails_on_its_own(data):
    data.publish(OTHER, None)
    done = data.refresh(index="http://localhost:1/simple")
    assert done.returncode == 1
    assert f"wheels.jsonl: not read: {OTHER}: " in done.stdout, done.stdout
    assert "torch.json: not read: the package index did not answer for torch" in done.stdout
    assert "index_releases.tsv: not read: the package index gave no days" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.endswith(DERIVED))
    assert line.split()[:3] == ["1", "1", "204"], done.stdout
