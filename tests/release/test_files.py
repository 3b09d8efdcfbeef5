"""The scripts of packaging/ that describe and sign a release: on small wheels and folders."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
import sbom  # noqa: E402
import wheel_file  # noqa: E402

INFO = "anyflash-0.1.0.dist-info"
SOURCES = "package\tversion\tsha256_of_dsc\njansson\t2.14-2\t%s\nzlib\t1:1.2.13-1\t%s\n"


def run(script, *words, **environment):
    command = [ROOT / "packaging" / script, *words]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, text=True, capture_output=True)


def wheel(path, *names):
    with zipfile.ZipFile(path, "w") as files:
        for name in (*names, f"{INFO}/METADATA", f"{INFO}/RECORD"):
            files.writestr(name, name)
    return path


# Wheels.


def test_equal_contents_are_equal_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    found = []
    for names in (("anyflash/a.py", "anyflash/b.py"), ("anyflash/b.py", "anyflash/a.py")):
        path = wheel(tmp_path / "a.whl", *names)
        os.utime(path, (0, 0))
        wheel_file.write(path, wheel_file.read(path))
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_a_rewritten_wheel_keeps_programs_executable_and_has_a_right_record(tmp_path):
    files = {"anyflash/bin/anyflash": (b"\x7fELF", True), f"{INFO}/METADATA": (b"", False)}
    wheel_file.write(tmp_path / "a.whl", files)
    found = wheel_file.read(tmp_path / "a.whl")
    assert found["anyflash/bin/anyflash"] == (b"\x7fELF", True)
    empty = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    rows = found[f"{INFO}/RECORD"][0].decode().splitlines()
    assert [rows[0], rows[-1]] == [f"{INFO}/METADATA,sha256={empty},0", f"{INFO}/RECORD,,"]
    assert re.fullmatch(r"anyflash/bin/anyflash,sha256=[\w-]{43},4", rows[1])


# What is inside.


@pytest.fixture
def sources(tmp_path, monkeypatch):
    path = tmp_path / "sources.tsv"
    path.write_text(SOURCES % ("a" * 64, "b" * 64))
    monkeypatch.setattr(sbom, "SOURCES", path)


def of_wheel(path):
    sbom.into_wheel(path)
    return json.loads(wheel_file.read(path)[f"{INFO}/sboms/{sbom.NAME}"][0])


def test_the_libraries_of_a_wheel_have_versions_licences_and_hashes(tmp_path, sources):
    found = of_wheel(wheel(tmp_path / "a.whl", "anyflash/bin/anyflash"))
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    jansson, zlib = found["components"]
    assert (jansson["name"], jansson["version"]) == ("jansson", "2.14-2")
    assert jansson["licenses"] == [{"license": {"id": "MIT"}}]
    assert jansson["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert zlib["version"] == "1.2.13-1"
    assert zlib["purl"] == "pkg:deb/debian/zlib@1%3A1.2.13-1?arch=source"


def test_a_wheel_without_the_program_has_no_libraries_inside(tmp_path, sources):
    assert of_wheel(wheel(tmp_path / "a.whl", "anyflash/libanyflash.so"))["components"] == []


def test_a_wheel_for_windows_has_parts_of_mingw(tmp_path, sources):
    (mingw,) = of_wheel(wheel(tmp_path / "a.whl", "anyflash/anyflash.dll"))["components"]
    assert mingw["name"] == "mingw-w64"
    assert re.search(r"from the package ziglang [\d.]+$", mingw["description"])
    assert mingw["licenses"] == [{"expression": "ZPL-2.1 AND MIT"}]


def test_a_static_program_also_has_a_c_library(tmp_path, sources):
    program, path = tmp_path / "anyflash", tmp_path / "anyflash.cdx.json"
    program.write_bytes(b"\x7fELF")
    sbom.of_program(program, path)
    found = json.loads(path.read_text())
    assert [c["name"] for c in found["components"]] == ["jansson", "zlib", "musl"]
    assert len(found["metadata"]["component"]["hashes"][0]["content"]) == 64


def test_every_library_inside_has_a_licence_and_its_text():
    linked = re.findall(r"pkg_check_modules\((\w+)", (ROOT / "CMakeLists.txt").read_text())
    pinned = (ROOT / "packaging/sources.tsv").read_text().splitlines()[1:]
    short = {name.removeprefix("lib").rstrip("3") for name in sbom.LICENSES}
    assert {name.rstrip("3") for name in linked} == short
    assert {row.split("\t")[0] for row in pinned} == set(sbom.LICENSES)
    texts = {path.stem for path in (ROOT / "licenses").iterdir()} - {"flash-attention"}
    assert texts == short | set(sbom.OF_ZIG)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    ours = {"LICENSE", "licenses/flash-attention.txt"}
    in_linux_wheels = set(project["tool"]["scikit-build"]["wheel"]["license-files"])
    assert in_linux_wheels == ours | {f"licenses/{name}.txt" for name in short}


# Sums, signature, formula.


def test_sums_name_every_file_and_are_right(tmp_path):
    (tmp_path / "page").mkdir()
    for name in ("b.whl", "a b.tar.gz", "page/index.html", "SHA256SUMS"):
        (tmp_path / name).write_text(name)
    assert run("sign.sh", tmp_path, MINISIGN_KEY="").returncode == 0
    sums = (tmp_path / "SHA256SUMS").read_text()
    assert [line[66:] for line in sums.splitlines()] == [
        "a b.tar.gz", "b.whl", "page/index.html"
    ]
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 0


def test_the_signature_is_checked_with_the_public_key(tmp_path):
    release, keys = tmp_path / "dist", tmp_path / "keys"
    release.mkdir(), keys.mkdir()
    (release / "a.whl").write_text("a")
    for name in ("ours", "theirs"):
        make = ["minisign", "-G", "-W", "-p", keys / f"{name}.pub", "-s", keys / name]
        subprocess.run(make, check=True, capture_output=True)
    ours = {"MINISIGN_KEY": str(keys / "ours"), "MINISIGN_PUBLIC": str(keys / "ours.pub")}
    assert run("sign.sh", release, **ours).returncode == 0
    assert (release / "SHA256SUMS.minisig").exists()
    theirs = run("sign.sh", release, **{**ours, "MINISIGN_PUBLIC": str(keys / "theirs.pub")})
    assert theirs.returncode != 0
    again = run("sign.sh", release, MINISIGN_KEY="")
    assert again.returncode == 0 and not (release / "SHA256SUMS.minisig").exists()


def test_the_formula_names_the_source_and_its_hash(tmp_path):
    version = run("version.py").stdout.strip()
    (tmp_path / f"anyflash-{version}.tar.gz").write_bytes(b"source")
    done = run("homebrew.sh", tmp_path, URL="https://host.example/anyflash")
    assert done.returncode == 0, done.stderr
    formula = (tmp_path / "anyflash.rb").read_text()
    assert f'url "https://host.example/anyflash/releases/download/v{version}/' in formula
    assert f'sha256 "{hashlib.sha256(b"source").hexdigest()}"' in formula
    assert not re.search("@[A-Z]", formula)
    assert "URL: is not set" in run("homebrew.sh", tmp_path, URL="").stderr


def test_pip_can_have_what_builds_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    required = [re.match(r"[\w-]+", text)[0] for text in project["build-system"]["requires"]]
    provider = project["tool"]["scikit-build"]["metadata"]["version"]["provider"]
    for module in (project["build-system"]["build-backend"], provider):
        assert module.split(".")[0].replace("_", "-") in required
