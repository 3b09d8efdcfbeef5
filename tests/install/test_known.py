"""Wheels that were inspected before: how `plan` uses the results, and what `install`
proves."""
import json
import os
import subprocess

import pytest

from conftest import EXTENSION_END, PYTHON_TAG, WHEEL_TAG, compiled, make_wheel
from test_plan import GIVEN, Server, fake_torch, install

EXTENSION = "flash_attn_2_cuda" + EXTENSION_END
LIBRARIES = ("libtorch_global_deps.so", "libc10.so", "libtorch_cpu.so", "libtorch_python.so",
             "libtorch.so", "libshm.so", "libtorch_cuda.so", "libc10_cuda.so")
LOADS = "void *PyInit_flash_attn_2_cuda(void) { return 0; }\n"
FAILS = "void nobody_has_this(void);\n" \
    "void *PyInit_flash_attn_2_cuda(void) { nobody_has_this(); return 0; }\n"


@pytest.fixture
def market(quick_place, tmp_path):
    """An environment with torch 2.8; a wheel for it, and newer ones built for torch 2.7."""
    place = quick_place
    fake_torch(place)
    (place.site / "torch/lib").mkdir()
    for name in LIBRARIES:
        (place.site / "torch/lib" / name).write_bytes(
            compiled(tmp_path / "build", "int nothing;\n", f"-Wl,-soname,{name}"))
    place.folder = tmp_path / "shop"
    place.server = Server(place.folder)
    place.catalog = tmp_path / "catalog.jsonl"
    place.rows = [{"catalog_date": "2026-08-22"}]
    place.words = ("--catalog", place.catalog, *GIVEN)

    def offer(version, torch, code, needs=None):
        flags = ()
        if needs is not None:
            needed = tmp_path / needs
            needed.write_bytes(compiled(tmp_path / "build", "int own(void) { return 1; }\n",
                                        f"-Wl,-soname,{needs}"))
            flags = ("-Wl,--no-as-needed", needed)
        local = f"cu12torch{torch}cxx11abiTRUE"
        wheel = make_wheel(place.folder, version=version, local=local,
                           tag=WHEEL_TAG,
                           files={EXTENSION: compiled(tmp_path / "build", code, *flags)})
        url = place.server.url(wheel.name.replace("+", "%2B"))
        place.rows.append({
            "source": "Dao-AILab/flash-attention", "kind": "official", "package": "flash_attn",
            "version": version, "local": local, "release_tag": f"v{version}",
            "filename": wheel.name, "url": url, "cuda": "12", "torch": torch, "cxx11abi": True,
            "python": PYTHON_TAG, "abi": PYTHON_TAG, "platform": "linux_x86_64",
            "sm": ["8.0", "9.0"], "evidence": "listed"})
        place.catalog.write_text("\n".join(map(json.dumps, place.rows)) + "\n")
        return url
    place.offer = offer
    yield place
    place.server.shutdown()


def plan(market, *words):
    return json.loads(market.run("plan", *market.words, *words, "--json").stdout)


def inspect(market, url):
    done = subprocess.run([market.command("x")[0], "inspect", url, "--allow-http", "--against",
                           str(market.venv)], env=market.environment(), capture_output=True,
                          text=True, cwd=market.root, timeout=120)
    return done.returncode


def reasons(answer):
    return {one["id"] for one in answer["rungs"][0]["reasons"]}


def test_a_wheel_made_for_another_torch_is_offered_once_it_is_proved(market):
    url = market.offer("2.8.3", "2.7", LOADS)
    assert "no-wheel-for-torch" in reasons(plan(market))
    assert inspect(market, url) == 0
    answer = plan(market)
    assert answer["decision"] == "wheel" and answer["wheel"]["url"] == url
    assert "proved-to-load" in reasons(answer)
    done = install(market)
    assert done.returncode == 0, done.all
    assert "checked: 'flash_attn_2_cuda" in done.stderr and "call: yes" in done.stdout


def test_what_is_proved_stands_below_what_is_made_for_this_torch(market):
    exact = market.offer("2.8.2", "2.8", LOADS)
    assert inspect(market, market.offer("2.8.3", "2.7", LOADS)) == 0
    answer = plan(market)
    assert answer["wheel"]["url"] == exact and answer["candidates"]["fitting"] == 2


def test_a_name_that_fits_is_passed_over_once_its_bytes_are_known_not_to(market):
    older = market.offer("2.8.2", "2.8", LOADS)
    newer = market.offer("2.8.3", "2.8", FAILS)
    assert plan(market)["wheel"]["url"] == newer
    done = install(market)
    assert done.returncode == 1 and "would not load" in done.stdout, done.all
    assert not (market.site / "flash_attn").exists()
    assert inspect(market, newer) == 1
    assert plan(market)["wheel"]["url"] == older


def test_bytes_that_changed_since_they_were_inspected_are_proved_again(market):
    url = market.offer("2.8.3", "2.7", LOADS)
    assert inspect(market, url) == 0
    market.offer("2.8.3", "2.7", FAILS)
    before = market.tree()
    done = install(market)
    assert done.returncode == 1 and "would not load" in done.stdout, done.all
    assert market.tree() == before


def test_files_of_a_folder_need_no_inspection(market):
    market.offer("2.8.3", "2.7", LOADS)
    assert install(market).returncode == 1
    done = install(market, "--from", market.folder, "--offline")
    assert done.returncode == 0, done.all
    assert market.server.requests == []


def test_proofs_are_of_the_environment_that_is_here(market):
    assert inspect(market, market.offer("2.8.3", "2.7", LOADS)) == 0
    assert plan(market)["decision"] == "wheel"
    assert plan(market, "--given", "torch=2.8.1+cu128")["decision"] != "wheel"
    record = market.root / "record.json"
    record.write_text(market.run("machine").stdout)
    words = ("--catalog", market.catalog, "--machine", record, "--arch", "8.9", "--json")
    done = subprocess.run([market.command("x")[0], "plan", *map(str, words)], text=True,
                          env=market.environment(), capture_output=True)
    assert "proved-to-load" not in reasons(json.loads(done.stdout))


def test_a_proof_is_forgotten_once_torch_has_changed(market):
    url = market.offer("2.8.3", "2.7", LOADS)
    assert inspect(market, url) == 0
    library = market.site / "torch/lib/libtorch_cpu.so"
    library.write_bytes(library.read_bytes() + b"rebuilt")
    assert "no-wheel-for-torch" in reasons(plan(market))
    assert inspect(market, url) == 0
    assert "proved-to-load" in reasons(plan(market))


def test_a_missing_library_counts_until_something_is_installed(market):
    code = "int own(void);\nvoid *PyInit_flash_attn_2_cuda(void) { own(); return 0; }\n"
    url = market.offer("2.8.3", "2.8", code, needs="libown.so.1")
    words = ("plan", "--catalog", market.catalog, "--arch", "8.9", "--all", "-v")
    assert inspect(market, url) == 1
    assert "proved-not-to-load" in market.run(*words).stdout
    os.utime(market.site, (1, 1))
    assert "proved-not-to-load" not in market.run(*words).stdout


def test_plan_reads_neither_network_nor_state_that_is_not_there(market):
    market.offer("2.8.3", "2.7", LOADS)
    plan(market)
    assert market.server.requests == [] and not market.state.exists()
