"""`anyflash update` with listings in the format of GitHub's API."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import Done
from server import File

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import schemas  # noqa: E402

PROGRAM = os.environ.get("ANYFLASH", "anyflash")
DATA = pathlib.Path(__file__).resolve().parents[2] / "data"
OFFICIAL = "Dao-AILab/flash-attention"
SMALL = "bdashore3/flash-attention"
NEW = "flash_attn-9.9.9+cu13torch2.15cxx11abiTRUE-cp314-cp314-manylinux_2_34_x86_64.whl"


def known(source):
    rows = [json.loads(line) for line in (DATA / "wheels.jsonl").read_text().splitlines()[1:]]
    return [row for row in rows if row["source"] == source]


def asset(source, tag, name, **more):
    url = f"https://github.com/{source}/releases/download/{tag}/{name}"
    return {"name": name, "browser_download_url": url, "state": "uploaded", "size": 1, **more}


def releases(source, rows, **extra):
    """A listing as the API returns it: releases with their files, newest first."""
    tags = {}
    for row in rows:
        tags.setdefault(row["release_tag"], []).append(
            asset(source, row["release_tag"], row["filename"],
                  browser_download_url=row["url"]))
    return [{"tag_name": tag, "draft": False, "assets": assets, **extra}
            for tag, assets in tags.items()]


@pytest.fixture
def update(server, tmp_path):
    """update("--check"): runs it; update.list(source, releases, kind) publishes a listing."""
    sources = []

    def publish(source, listed, kind="community"):
        sources.append({"source": source, "kind": kind})
        for page in range(0, len(listed) // 30 + 1):
            server.files[f"{source}/{page + 1}"] = File(
                json.dumps(listed[page * 30:page * 30 + 30]).encode(),
                content_type="application/json")

    def run(*words, command="update"):
        options = ["--sources", "sources.json", "--allow-http"] if command == "update" else []
        (tmp_path / "sources.json").write_text(json.dumps({
            "listing": server.url("{source}/{page}"), "count": 30, "pages_max": 5,
            "files": "https://github.com/{source}/releases/download/", "sources": sources}))
        done = subprocess.run(
            [PROGRAM, command, *words, *(options if "--undo" not in words else [])],
            env={"PATH": "/usr/bin:/bin", "ANYFLASH_STATE": str(tmp_path / "state"),
                 "no_proxy": "localhost"},
            capture_output=True, timeout=120, cwd=tmp_path)
        answer = Done.__new__(Done)
        answer.code, answer.err = done.returncode, done.stderr.decode()
        answer.out = done.stdout.decode()
        schemas.check(answer.out)
        answer.json = json.loads(answer.out) if "--json" in words and answer.out else None
        return answer
    run.list = publish
    run.file = tmp_path / "state" / "catalog.afu"
    return run


def small(update, extra=()):
    update.list(SMALL, releases(SMALL, known(SMALL)) + list(extra))


def release(*assets, tag="v9"):
    return {"tag_name": tag, "draft": False, "assets": list(assets)}


def test_new_wheels_are_found_after_an_update(update):
    small(update, [release(asset(SMALL, "v9", NEW))])
    done = update("--json")
    assert done.code == 0 and (done.json["added"], done.json["gone"]) == (1, 0), done.err
    assert done.json["after"]["count"] == done.json["before"]["count"] + 1
    found = json.loads(update("9.9.9", "--json", command="find").out)
    wheel = found["wheels"][0]
    assert found["catalog"]["name"] == "updated" and found["count"] == 1
    assert (wheel["torch"], wheel["cuda"], wheel["python"]) == ("2.15", "13", "cp314")
    assert wheel["filename"] == NEW and wheel["source"] == SMALL


def test_version_and_find_say_which_catalog(update):
    small(update)
    assert "catalog embedded" in update(command="version").out
    assert update().code == 0
    assert "catalog updated: 8729 wheels" in update(command="version").out
    assert "of 8729 wheels match (catalog: updated" in update("torch=2.8", command="find").err


def test_the_date_stays_while_a_source_cannot_be_read(update):
    small(update)
    done = update("--check", "--json").json
    assert done["before"]["date"] < done["after"]["date"]
    update.list(OFFICIAL, [{"broken": True}])
    done = update("--check", "--json").json
    assert done["before"]["date"] == done["after"]["date"]


def test_all_that_is_known_of_a_wheel_is_kept(update):
    update.list(OFFICIAL, releases(OFFICIAL, [r for r in known(OFFICIAL) if r.get("url")]),
                "official")
    small(update)
    before = json.loads(update("--json", "--limit", "9999", command="find").out)["wheels"]
    assert update().code == 0
    after = json.loads(update("--json", "--limit", "9999", command="find").out)["wheels"]
    by_url = {wheel["url"]: wheel for wheel in after if wheel["url"]}
    changed = [wheel for wheel in before if wheel["url"]
               and {**by_url[wheel["url"]], "seen": None} != {**wheel, "seen": None}]
    assert len(before) == len(after) and changed == []


PUBLISHERS = [row["source"] for row in
              json.loads((DATA / "sources.json").read_text())["sources"]]


@pytest.mark.parametrize("source", [each for each in PUBLISHERS if known(each)])
def test_a_listing_is_read_as_the_catalog_has_it(update, source):
    """Names of today's forms: no fact that is read from one contradicts what is known of it."""
    rows = [dict(row, release_tag=f"again-{row['release_tag']}",
                 url=row["url"].replace("/download/", "/download/again-"))
            for row in known(source) if row.get("url") and row.get("valid_name", True)
            and "github.com" in row["url"]]
    listed = [each for part in (known(source), rows) for each in releases(
        source, [row for row in part if row.get("url")])]
    update.list(source, [release(*[asset for each in listed for asset in each["assets"]])])
    assert update().code == 0
    found = json.loads(update(f"source={source}", "--json", "--limit", "9999",
                              command="find").out)["wheels"]
    read = {row["url"]: row for row in found if "/again-" in row["url"]}
    assert len(read) == len({row["url"] for row in rows})
    for row in rows:
        new = read[row["url"]]
        for key, default in (("gpu", "cuda"), ("python", None), ("abi", None),
                             ("platform", None), ("version", None)):
            assert new[key] == row.get(key, default), (row["filename"], key)
        assert new["package"] in (row["package"], "flashattn")
        for key in ("torch", "cuda", "cxx11abi"):
            assert new.get(key) in (None, row.get(key)), (row["filename"], key)


@pytest.mark.parametrize("gpu, torch", [
    ("RX 6800", "2.14.0+rocm7.2"), ("RX 7900 XTX", "2.14.0+rocm6.4"),
    ("RX 7900 XTX", "2.14.0+cu130")])
def test_a_rocm_file_of_a_listing_is_no_yes_where_its_targets_are_unknown(update, gpu, torch):
    name = "flash_attn-9.9.9+rocm7.2torch2.14gitabcdef0-cp312-cp312-linux_x86_64.whl"
    small(update, [release(asset(SMALL, "v9", name))])
    assert update().code == 0
    plan = json.loads(update("--json", "--given", f"gpu={gpu}", "--given", f"torch={torch}",
                             "--given", "python=3.12", "--given", "os=linux", "--given",
                             "arch=x86_64", command="plan").out)
    assert "9.9.9" not in json.dumps([plan["headline"], plan["wheel"], plan["steps"]])


def test_check_changes_nothing_and_says_whether_there_is_news(update):
    small(update)
    assert update("--check").code == 1 and not update.file.exists()
    small(update, [release(asset(SMALL, "v9", NEW))])
    assert update("--check").code == 0 and not update.file.exists()


DIGEST = "0123456789abcdef" * 4


def test_hashes_of_the_listing_are_kept_and_printed(update):
    listed = releases(SMALL, known(SMALL))
    first, other, short = [one for each in listed for one in each["assets"]][:3]
    first["digest"] = f"sha256:{DIGEST}"
    other["digest"] = f"sha512:{DIGEST}"
    short["digest"] = "sha256:short"
    update.list(SMALL, listed)
    assert update("--check").code == 0
    done = update("--json")
    assert done.code == 0 and done.json["replaced"] == 0, done.err
    assert update("--check").code == 1
    assert update("--json", "--limit", "9999", command="find").out.count(DIGEST) == 1
    assert f"#sha256={DIGEST}" in update("-q", first["name"], command="find").out


def test_a_replaced_file_is_reported_and_its_new_hash_used(update):
    wheel = next(row for row in known("lesj0610/flash-attention") if "sha256" in row)
    listed = releases(wheel["source"], known(wheel["source"]))
    for one in (one for each in listed for one in each["assets"]):
        if one["name"] == wheel["filename"]:
            one["digest"] = f"sha256:{DIGEST}"
    update.list(wheel["source"], listed)
    done = update("--json")
    assert done.json["replaced"] == done.json["sources"][0]["replaced"] == 1, done.json
    assert "1 file was replaced by its publisher" in update().out
    assert DIGEST in update("-q", wheel["filename"], command="find").out


def test_a_hash_stays_when_the_listing_has_none(update):
    wheel = next(row for row in known("lesj0610/flash-attention") if "sha256" in row)
    update.list(wheel["source"], releases(wheel["source"], known(wheel["source"])))
    assert update().code == 0
    assert wheel["sha256"] in update("-q", wheel["filename"], command="find").out


def test_undo_goes_back(update):
    small(update, [release(asset(SMALL, "v9", NEW))])
    assert update().code == 0 and update.file.exists()
    assert update("--undo").code == 0 and not update.file.exists()
    assert "catalog embedded" in update(command="version").out
    assert update("--undo").code == 1


def test_wheels_that_are_published_no_more_go(update):
    rows = known(SMALL)
    update.list(SMALL, releases(SMALL, rows[1:]))
    done = update("--json")
    assert (done.json["added"], done.json["gone"]) == (0, 1), done.err
    assert rows[0]["filename"] not in update("-q", SMALL, command="find").out


def test_a_listing_that_shrinks_absurdly_is_refused(update):
    update.list(SMALL, releases(SMALL, known(SMALL)[:5]))
    other = "oobabooga/flash-attention"
    update.list(other, releases(other, known(other)))
    done = update("--json")
    problem = done.json["sources"][0]["problem"]
    assert "26 of 31 known wheels are missing" in problem, done.json["sources"]
    assert done.json["after"]["count"] == done.json["before"]["count"]


@pytest.mark.parametrize("page, words", [
    (b"<!DOCTYPE html><html></html>", "line 1"), (b"{}", "not an array"),
    (b"[1]", "lacks its tag"), (b'[{"tag_name": "v"}]', "its list of files"),
    (b'[{"tag_name": "v", "assets": [{}]}]', "lacks its name"),
    (json.dumps([release(asset("evil/other", "v", NEW))]).encode(), "not among its project"),
    (json.dumps([release(asset(SMALL, "v/`id`", NEW))]).encode(), "not an https URL"),
    (b"", "line 1")])
def test_a_page_of_another_shape_is_refused(update, server, page, words):
    small(update)
    server.files[f"{SMALL}/1"] = File(page)
    done = update()
    assert done.code == 3 and words in done.err and not update.file.exists(), done.err


def test_names_of_others_and_bad_names_are_passed_over(update):
    names = ["other-1.0-py3-none-any.whl", "flash_attn-x.whl", "notes.txt", "flash_attn.tar.gz"]
    small(update, [release(*[asset(SMALL, "v9", name) for name in names])])
    assert json.loads(update("--json").out)["added"] == 0


def test_drafts_and_unfinished_files_are_passed_over(update):
    small(update, [{**release(asset(SMALL, "v9", NEW)), "draft": True},
                   release(asset(SMALL, "v8", NEW, state="starter"))])
    assert json.loads(update("--json").out)["added"] == 0


def test_a_source_that_fails_is_left_as_it_was(update, server):
    small(update, [release(asset(SMALL, "v9", NEW))])
    update.list("oobabooga/flash-attention", [])
    server.files["oobabooga/flash-attention/1"] = File(b"{}", status=404)
    done = update("--json")
    assert done.code == 0 and done.json["added"] == 1
    assert "no such file" in done.json["sources"][1]["problem"]
    assert done.json["after"]["count"] == done.json["before"]["count"] + 1


def test_a_rate_limit_ends_the_asking_and_keeps_what_an_update_brought(update, server):
    small(update, [release(asset(SMALL, "v9", NEW))])
    other = "oobabooga/flash-attention"
    update.list(other, releases(other, known(other)))
    assert update().code == 0
    limit = File(b'{"message": "API rate limit exceeded"}', status=403)
    server.files[f"{SMALL}/1"] = limit
    server.requests.clear()
    done = update()
    assert done.code == 3 and "too many requests" in done.err
    assert len(server.requests) == 1
    assert "8730 wheels" in update(command="version").out


def test_pages_are_asked_one_after_the_other(update, server):
    rows = known(SMALL)
    single = [release(asset(SMALL, row["release_tag"], row["filename"],
                            browser_download_url=row["url"]), tag=row["release_tag"])
              for row in rows]
    update.list(SMALL, single)
    assert len(single) == 31
    done = update("--json")
    assert (done.json["added"], done.json["gone"]) == (0, 0)
    assert [request.path for request in server.requests] == [f"/{SMALL}/1", f"/{SMALL}/2"]


def test_offline_is_a_clear_answer(update, server):
    small(update)
    done = update("--offline")
    assert done.code == 3 and "because of --offline" in done.err and server.requests == []


def test_a_damaged_catalog_is_passed_over_with_a_remark(update):
    small(update)
    assert update().code == 0
    whole = update.file.read_bytes()
    holed = whole[:100] + b"\0" * 50 + whole[150:]
    for damaged in (b"", whole[:50], whole[:-10], holed):
        update.file.write_bytes(damaged)
        done = update(command="version")
        assert "catalog embedded" in done.out
        assert "using the embedded catalog" in done.err, done.err


def test_a_catalog_of_another_program_is_passed_over(update):
    small(update)
    assert update().code == 0
    whole = bytearray(update.file.read_bytes())
    whole[5] ^= 1
    update.file.write_bytes(whole)
    assert "another version of anyflash" in update(command="version").err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sources": 5}'])
def test_a_list_of_sources_of_another_shape_is_refused(update, tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    done = update("--sources", "bad.json", command="update")
    assert done.code == 3
