"""`anyflash wheelhouse`: its pages, the files it leaves out, and an index that exists
already."""
import base64
import hashlib
import html.parser
import json
import os
import subprocess
import urllib.parse
import zipfile

import pytest

LOCAL = "2.8.3+cu12torch2.8cxx11abitrue"
NAME = f"flash_attn-{LOCAL}-cp312-cp312-linux_x86_64.whl"
# the files of an index of this wheel alone
WHOLE = [f"flash-attn/{NAME}", f"flash-attn/{NAME}.metadata", "flash-attn/index.html",
         "flash-attn/index.json", "index.html", "index.json"]


def make(folder, name="flash_attn", version=LOCAL, tag="cp312-cp312-linux_x86_64", *,
         inside=None, more="", drop=(), metadata=None, file=None, extra=None):
    """Writes a wheel, returns its path; `inside`: METADATA's version, `file`: another name."""
    inside = inside or version
    info = f"{name}-{inside}.dist-info"
    members = {f"{name.lower()}/__init__.py": b"x = 1\n" * 50,
               f"{info}/METADATA": metadata or (f"Metadata-Version: 2.1\nName: {name}\n"
                                                f"Version: {inside}\n{more}\nText.\n").encode(),
               f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"
               .encode(), **(extra or {})}
    rows = "".join(
        f"{path},sha256="
        f"{base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},"
        f"{len(data)}\n" for path, data in members.items())
    members[f"{info}/RECORD"] = f"{rows}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file or f"{name}-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            if not member.endswith(tuple(drop) or ("\0",)):
                archive.writestr(zipfile.ZipInfo(member, (2024, 1, 1, 0, 0, 0)), data)
    return path


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Links(html.parser.HTMLParser):
    """The anchors of a page: (attributes, text)."""

    def __init__(self, path):
        super().__init__()
        self.anchors = []
        self.metas = {}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.anchors.append([dict(attrs), ""])
        if tag == "meta" and dict(attrs).get("name"):
            self.metas[dict(attrs)["name"]] = dict(attrs)["content"]

    def handle_data(self, data):
        if self.anchors and data.strip():
            self.anchors[-1][1] = self.anchors[-1][1] or data


@pytest.fixture
def wheels(tmp_path):
    return tmp_path / "wheels"


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_index_holds_pages_wheels_and_metadata(anyflash, wheels):
    make(wheels)
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 0 and "1 wheel of 1 package" in done.out, done
    assert tree(wheels / "simple") == WHOLE
    assert (wheels / "simple/flash-attn" / NAME).samefile(wheels / NAME)


def test_html_page_names_hash_python_and_metadata(anyflash, wheels):
    path = make(wheels, more='Requires-Python: >=3.9,<4\n')
    assert anyflash("wheelhouse", "wheels").code == 0
    page = Links(wheels / "simple/flash-attn/index.html")
    assert page.metas["pypi:repository-version"] == "1.0"
    (attributes, text), = page.anchors
    metadata = sha256(wheels / f"simple/flash-attn/{NAME}.metadata")
    assert text == NAME
    assert attributes == {
        "href": f"{NAME.replace('+', '%2B')}#sha256={sha256(path)}",
        "data-requires-python": ">=3.9,<4", "data-core-metadata": f"sha256={metadata}"}
    assert 'python="&gt;=3.9,&lt;4"' in (wheels / "simple/flash-attn/index.html").read_text()
    assert Links(wheels / "simple/index.html").anchors == [[{"href": "flash-attn/"},
                                                           "flash-attn"]]


def test_json_page_says_the_same(anyflash, wheels):
    path = make(wheels, more='Requires-Python: >=3.9\n')
    make(wheels, version="2.8.2")
    assert anyflash("wheelhouse", "wheels").code == 0
    page = json.loads((wheels / "simple/flash-attn/index.json").read_text())
    assert page["meta"]["api-version"] == "1.0" and page["name"] == "flash-attn"
    file = next(each for each in page["files"] if each["filename"] == NAME)
    assert file == {
        "filename": NAME, "url": NAME.replace("+", "%2B"), "hashes": {"sha256": sha256(path)},
        "requires-python": ">=3.9",
        "core-metadata": {"sha256": sha256(wheels / f"simple/flash-attn/{NAME}.metadata")}}
    root = json.loads((wheels / "simple/index.json").read_text())
    assert root["projects"] == [{"name": "flash-attn"}]


def test_metadata_file_is_the_wheels_own(anyflash, wheels):
    path = make(wheels)
    assert anyflash("wheelhouse", "wheels").code == 0
    with zipfile.ZipFile(path) as archive:
        inside = archive.read(f"flash_attn-{LOCAL}.dist-info/METADATA")
    assert (wheels / f"simple/flash-attn/{NAME}.metadata").read_bytes() == inside


def test_names_are_normalised(anyflash, wheels):
    make(wheels, "Flash_Attn", "2.8.3")
    make(wheels, "flash_attn", "2.8.2")
    make(wheels, "zope.event", "5.0", "py3-none-any")
    assert anyflash("wheelhouse", "wheels").code == 0
    root = json.loads((wheels / "simple/index.json").read_text())
    assert [each["name"] for each in root["projects"]] == ["flash-attn", "zope-event"]
    assert len(Links(wheels / "simple/flash-attn/index.html").anchors) == 2


def test_an_escaped_plus_becomes_one(anyflash, wheels):
    make(wheels, file=NAME.replace("+", "%2B"))
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 0 and (wheels / "simple/flash-attn" / NAME).is_file(), done


def test_a_name_is_listed_once(anyflash, wheels):
    make(wheels)
    make(wheels, version="2.8.2")
    twin = make(wheels, file=NAME.replace("+", "%2B"))
    done = anyflash("wheelhouse", "wheels")
    assert "another file in the folder has the same name" in " ".join(done.out.split()), done
    page = json.loads((wheels / "simple/flash-attn/index.json").read_text())
    assert len({file["filename"] for file in page["files"]}) == len(page["files"]) == 2
    assert twin.exists()


def test_official_wheels_are_left_out_unless_told(anyflash, wheels):
    make(wheels, inside="2.8.3")
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 1 and "version '2.8.3'" in " ".join(done.out.split()), done
    assert "no index was written" in done.out and not (wheels / "simple").exists()
    assert anyflash("wheelhouse", "wheels", "--inconsistent").code == 0
    assert (wheels / "simple/flash-attn" / NAME).is_file()


def cut(path):
    path.write_bytes(path.read_bytes()[:200])


def climb(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../outside.py", "x")


def double(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other-1.0.dist-info/METADATA", "Name: other\nVersion: 1.0\n")


@pytest.mark.parametrize("spoil, reason", [
    (cut, ""), (climb, "outside"), (double, "several dist-info"),
    (lambda path: path.write_bytes(b""), ""),
    (lambda path: path.write_text("<html>not found</html>"), ""),
])
def test_broken_wheels_are_left_out_and_the_others_listed(anyflash, wheels, spoil, reason):
    make(wheels, version="2.8.2")
    spoil(make(wheels))
    done = anyflash("wheelhouse", "wheels", "--json")
    answer = json.loads(done.out)
    assert done.code == 1 and [each["version"] for each in answer["wheels"]] == ["2.8.2"]
    (left_out,) = answer["left_out"]
    assert left_out["file"] == NAME and left_out["reason"] and reason in left_out["reason"]
    assert NAME not in (wheels / "simple/flash-attn/index.html").read_text()


@pytest.mark.parametrize("options, reason", [
    ({"drop": ("METADATA",)}, "no METADATA"),
    ({"metadata": b"Name: torch\nVersion: 2.8.3\n\n"}, "names 'torch'"),
    ({"metadata": b"Name: flash-attn\n\n"}, "version ''"),
    ({"metadata": b"Name: flash-attn\nVersion: 2.8.3\xff\n\n"}, "not UTF-8"),
    ({"more": "Requires-Python: >='3\"<script>\n"}, "not a specifier"),
    ({"tag": "cp312-cp312-linux_x86_64-x86_64_v3"}, "variant"),
    ({"file": "flash_attn.whl"}, "its name"),
    ({"file": "flash_attn-x y-cp312-cp312-linux_x86_64.whl"}, "its name"),
])
def test_reasons_to_leave_out(anyflash, wheels, options, reason):
    make(wheels, **options)
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 1 and reason in " ".join(done.out.split()), done


def test_only_wheels_are_looked_at(anyflash, wheels):
    make(wheels)
    (wheels / "flash_attn-2.8.3.tar.gz").write_text("x")
    make(wheels / "sub", version="2.8.2")
    done = anyflash("wheelhouse", "wheels", "--json")
    assert done.code == 0 and done.err == "", done
    assert [each["filename"] for each in json.loads(done.out)["wheels"]] == [NAME]


def test_links_to_wheels_are_followed_and_others_left_out(anyflash, wheels, tmp_path):
    real = make(tmp_path / "elsewhere")
    wheels.mkdir()
    (wheels / NAME).symlink_to(real)
    for name, to in (("a-1.0-py3-none-any.whl", "nowhere"), ("b-1.0-py3-none-any.whl",
                                                              "b-1.0-py3-none-any.whl")):
        (wheels / name).symlink_to(to)
    os.mkfifo(wheels / "c-1.0-py3-none-any.whl")
    done = anyflash("wheelhouse", "wheels", "--json")
    answer = json.loads(done.out)
    assert [each["filename"] for each in answer["wheels"]] == [NAME]
    assert [each["file"][0] for each in answer["left_out"]] == ["a", "b", "c"]
    placed = wheels / "simple/flash-attn" / NAME
    assert not placed.is_symlink() and placed.read_bytes() == real.read_bytes()


def test_output_stands_for_itself(anyflash, wheels, tmp_path):
    make(wheels)
    assert anyflash("wheelhouse", "wheels", "--output", "index").code == 0
    assert not (wheels / "simple").exists()
    (tmp_path / "index").rename(tmp_path / "moved")
    for page in (tmp_path / "moved").rglob("index.html"):
        for attributes, _ in Links(page).anchors:
            place = urllib.parse.unquote(attributes["href"].split("#")[0])
            assert (page.parent / place).exists()


def test_a_second_run_changes_nothing(anyflash, wheels):
    make(wheels)
    make(wheels, version="2.8.2")
    assert anyflash("wheelhouse", "wheels").code == 0
    before = {path: (wheels / "simple" / path).read_bytes() for path in tree(wheels / "simple")}
    assert anyflash("wheelhouse", "wheels").code == 0
    assert before == {path: (wheels / "simple" / path).read_bytes()
                      for path in tree(wheels / "simple")}


def test_what_is_gone_leaves_the_index(anyflash, wheels):
    make(wheels)
    other = make(wheels, "einops", "0.8.1", "py3-none-any")
    old = make(wheels, version="2.8.2")
    assert anyflash("wheelhouse", "wheels").code == 0
    other.unlink()
    old.unlink()
    assert anyflash("wheelhouse", "wheels").code == 0
    assert tree(wheels / "simple") == WHOLE
    assert not (wheels / "simple/einops").exists()


@pytest.mark.parametrize("file", [
    "mine.txt", "flash-attn/mine.txt", "torch/torch-1.0-py3-none-any.whl",
    "flash-attn/flash_attn-1.0-py3-none-any.whl", "flash-attn/.hidden",
    "flash-attn/flash_attn-1.0-py3-none-any.whl.metadata", "flash_attn.whl",
])
def test_an_index_with_other_files_is_refused_and_unchanged(anyflash, wheels, file):
    make(wheels)
    assert anyflash("wheelhouse", "wheels").code == 0
    mine = wheels / "simple" / file
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    make(wheels, version="2.8.2")
    before = tree(wheels / "simple")
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 3 and f"'wheels/simple/{file}' was not written by" in done.err, done
    assert tree(wheels / "simple") == before and mine.read_text() == "mine"


def test_a_folder_of_wheels_is_no_index(anyflash, wheels, tmp_path):
    make(wheels)
    make(tmp_path / "other" / "flash-attn")
    done = anyflash("wheelhouse", "wheels", "--output", "other")
    assert done.code == 3 and f"'other/flash-attn/{NAME}' was not written" in done.err, done
    assert tree(tmp_path / "other") == [f"flash-attn/{NAME}"]


def test_what_a_killed_run_left_goes(anyflash, wheels):
    make(wheels)
    assert anyflash("wheelhouse", "wheels").code == 0
    half = wheels / "simple/.anyflash-new/flash-attn"
    half.mkdir(parents=True)
    (half / f"{NAME}.123.part").write_text("half")
    (wheels / "simple/.anyflash.lock").write_text("process 1 on nowhere (wheelhouse)")
    assert anyflash("wheelhouse", "wheels").code == 0
    assert tree(wheels / "simple") == WHOLE
    assert not half.parent.exists()


KILLED = ["mkdir", "link", "unlink", "rmdir", "rename", "renameat2", "fsync"]


@pytest.mark.parametrize("call", KILLED)
def test_a_killed_run_leaves_an_index_that_the_next_run_replaces(anyflash, wheels, call):
    """Kills the program at each of its calls of one kind."""
    # LeakSanitizer does not work in a program that strace follows
    no_leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    options = {**os.environ, "ASAN_OPTIONS": no_leaks}
    for nth in range(1, 100):
        for path in wheels.glob("*.whl"):
            path.unlink()
        make(wheels)
        make(wheels, version=f"2.8.{nth}")
        make(wheels, "einops" if nth % 2 == 0 else "packaging", "1.0", "py3-none-any")
        done = subprocess.run(["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                               f"inject={call}:signal=KILL:when={nth}",
                               anyflash.program, "wheelhouse", wheels],
                              capture_output=True, env=options)
        for page in (wheels / "simple").glob("[!.]*/index.html"):
            for attributes, _ in Links(page).anchors:
                file, expected = attributes["href"].split("#sha256=")
                assert sha256(page.parent / urllib.parse.unquote(file)) == expected
        if done.returncode == 0:
            break
    assert done.returncode == 0, done
    names = [path.name for path in wheels.glob("*.whl")]
    assert sorted(path.name for path in (wheels / "simple").glob("*/*.whl")) == sorted(names)


def test_a_server_of_the_index_sees_the_next_one(anyflash, wheels):
    """A server that was started in the folder, or a container that mounts it."""
    make(wheels)
    assert anyflash("wheelhouse", "wheels").code == 0
    number = (wheels / "simple").stat().st_ino
    make(wheels, version="2.8.2")
    assert anyflash("wheelhouse", "wheels").code == 0
    assert (wheels / "simple").stat().st_ino == number


def test_a_full_disk_leaves_the_earlier_index(in_a_mount, wheels):
    make(wheels)
    (wheels.parent / "disk").mkdir()
    done = in_a_mount("""
        mount -t tmpfs -o size=100k none disk
        "$1" wheelhouse wheels -o disk/simple >/dev/null
        find disk -type f -exec md5sum {} + | sort >before
        head -c 200000 /dev/urandom >wheels/big
        (cd wheels && python3 -m zipfile -c big.zip big && rm big)
        python3 - <<END
import sys, zipfile
from pathlib import Path
wheel = next(Path("wheels").glob("*.whl"))
with zipfile.ZipFile(wheel, "a") as archive:
    archive.write("wheels/big.zip", "big")
END
        "$1" wheelhouse wheels -o disk/simple 2>error && exit 9
        find disk -type f -exec md5sum {} + | sort >after
        find disk -name '.anyflash*' >left""")
    assert done.returncode == 0, done
    folder = wheels.parent
    assert "No space left on device" in (folder / "error").read_text()
    assert (folder / "before").read_text() == (folder / "after").read_text() != ""
    assert (folder / "left").read_text() == ""


def test_folders_that_cannot_be_exchanged_are_replaced(in_a_mount, wheels):
    """In a container, an index that an earlier layer of the image has."""
    make(wheels)
    other = make(wheels, "einops", "0.8.1", "py3-none-any")
    (wheels.parent / "layers").mkdir()
    done = in_a_mount(f"""
        layers=lowerdir=lower,upperdir=upper,workdir=work,userxattr
        mount -t tmpfs none layers && cd layers && mkdir lower upper work merged
        "$1" wheelhouse ../wheels -o lower/simple
        mount -t overlay overlay -o "$layers" merged || exit 8
        rm ../wheels/{other.name}
        "$1" wheelhouse ../wheels -o merged/simple
        find merged/simple -type f""")
    if done.returncode == 8:
        pytest.skip("this kernel mounts no overlayfs in a user namespace (Linux 5.11 does)")
    assert done.returncode == 0, done
    files = [line.removeprefix("merged/simple/") for line in done.stdout.splitlines()
             if line.startswith("merged/")]
    assert sorted(files) == WHOLE, done


def test_a_wheel_that_changed_gets_its_new_hash(anyflash, wheels):
    make(wheels)
    assert anyflash("wheelhouse", "wheels").code == 0
    (wheels / NAME).unlink()
    path = make(wheels, more="Summary: another\n")
    assert anyflash("wheelhouse", "wheels").code == 0
    assert sha256(path) in (wheels / "simple/flash-attn/index.html").read_text()
    assert sha256(wheels / "simple/flash-attn" / NAME) == sha256(path)


@pytest.mark.parametrize("page", ["index.html", "flash-attn/index.html", "index.json"])
def test_pages_of_others_are_kept(anyflash, wheels, page):
    make(wheels)
    stranger = wheels / "simple" / page
    stranger.parent.mkdir(parents=True)
    stranger.write_text("<html>my home page</html>")
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 3 and "was not written by" in " ".join(done.err.split()), done
    assert stranger.read_text() == "<html>my home page</html>"


def test_a_project_folder_that_is_a_link_is_refused(anyflash, wheels, tmp_path):
    make(wheels)
    (tmp_path / "target").mkdir()
    (wheels / "simple").mkdir()
    (wheels / "simple/flash-attn").symlink_to(tmp_path / "target")
    assert anyflash("wheelhouse", "wheels").code == 3
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("words, code", [
    ((), 2), (("a", "b"), 2), (("",), 2), (("nowhere",), 3), (("wheels", "--output",
                                                              "no/such/place"), 3)])
def test_bad_folders(anyflash, wheels, words, code):
    make(wheels)
    done = anyflash("wheelhouse", *words)
    assert done.code == code and done.out == "" and done.err.startswith("error: "), done


def test_a_wheel_with_more_than_its_package_is_left_out_unless_allowed(anyflash, wheels):
    make(wheels, extra={"zz.pth": b"import os\n"})
    done = anyflash("wheelhouse", "wheels", "--json")
    answer = json.loads(done.out)
    assert done.code == 1 and answer["wheels"] == [], done
    reason = answer["left_out"][0]["reason"]
    assert "zz.pth (Python runs its lines whenever it starts)" in reason
    assert "--allow-content zz.pth" in reason
    assert not (wheels / "simple/flash-attn").exists()
    done = anyflash("wheelhouse", "wheels", "--allow-content", "zz.pth")
    assert done.code == 0 and tree(wheels / "simple") == WHOLE, done


def test_a_folder_that_was_emptied_leaves_an_empty_index(anyflash, wheels):
    wheel = make(wheels)
    assert anyflash("wheelhouse", "wheels").code == 0
    wheel.unlink()
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 1 and "the index is now empty" in done.out, done
    assert tree(wheels / "simple") == ["index.html", "index.json"]
    assert json.loads((wheels / "simple/index.json").read_text())["projects"] == []


def test_an_empty_folder_gives_no_index(anyflash, wheels):
    wheels.mkdir()
    done = anyflash("wheelhouse", "wheels")
    assert done.code == 1, done
    assert done.out.startswith("the folder 'wheels' has no wheels; no index was written\n"
                               "Next: put .whl files into the folder")
    assert list(wheels.iterdir()) == []
