"""`anyflash find`: a table, addresses or JSON; what it says about what it does not find."""
import json

from test_decide import WORKSTATION, answer_json


def test_find_answers_in_a_table(anyflash):
    answer = anyflash("find", "package=flash_attn", "torch=2.9", "python=3.12", "cuda=12",
                      "abi=true", "platform=linux_x86_64")
    lines = answer.out.splitlines()
    assert answer.code == 0 and lines[0].startswith("VERSION ") and len(lines) > 1
    for line in lines[1:]:
        _, torch, _, abi = line.split()[:4]
        assert torch.startswith("2.9") and abi == "true"


def test_find_says_that_only_wheels_for_any_torch_match(anyflash):
    note = "no wheel was built for torch 9.9; these match any torch"
    answer = anyflash("find", "torch=9.9")
    assert answer.code == 0 and note in answer.err
    assert "was built for" not in anyflash("find", "torch=2.9", "package=flash_attn_4").err
    assert "these match" not in anyflash("find", "torch=9.9", "package=flash_attn").err


def test_find_names_the_package_if_there_are_several(anyflash):
    answer = anyflash("find", "torch=2.9", "python=3.12", "--official")
    lines = answer.out.splitlines()
    packages = [line.split()[0].replace("_", "") for line in lines[1:]]
    betas = [int(line.split()[1][len("4.0.0b"):]) for line in lines if " 4.0.0b" in line]
    assert lines[0].startswith("PACKAGE ") and packages[0] == "flashattn"
    assert packages == sorted(packages) and betas == sorted(betas, reverse=True)


def test_find_says_that_only_other_packages_match(anyflash):
    note = "no wheel of flash_attn is among them, only of other packages, such as flash_attn_4"
    words = ["find", "torch=2.9", "python=3.11", "cuda=12", "--official"]
    assert note in anyflash(*words).err
    for others in (["package=flash_attn_4"], ["--limit=3"]):
        assert "is among them" not in anyflash(*words, *others).err
    assert "is among them" not in anyflash("find", "torch=2.9", "python=3.11").err


def test_find_lists_no_wheel_that_refuses_the_gpu(anyflash):
    """FlashAttention-4 compiles when it runs, but not for every GPU."""
    words = ["package=flash_attn_4", "--json"]
    majors = {sm: len(answer_json(anyflash, "find", f"sm={sm}", *words)["wheels"])
              for sm in ("7.5", "9.0", "10.0", "13.0")}
    assert majors["7.5"] == majors["13.0"] == 0 < majors["9.0"] <= majors["10.0"]


def test_find_cuts_nothing_in_a_pipe(anyflash):
    answer = anyflash("find", "package=flash_attn", "source=astral", "torch=2.9",
                      "python=3.12", "-v")
    assert " astral-sh-build v2.8.3.post1\n" in answer.out and "..." not in answer.out
    plan = anyflash("plan", *WORKSTATION, "--all", "-v")
    assert "..." not in plan.out
    assert "-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl\n" in plan.out


def test_find_says_how_many_wheels_match(anyflash):
    assert " wheels match (catalog: " in anyflash("find", "torch=2.9").err
    limited = anyflash("find", "torch=2.9", "--limit", "3").err
    assert " wheels match; the first 3 are shown (catalog: " in limited


def test_find_without_words_lists_the_catalog(anyflash):
    assert len(anyflash("find").out.splitlines()) == 1 + json.loads(
        anyflash("version", "--json").out)["catalog"]["count"]


def test_find_judges_when_a_machine_is_named(anyflash):
    answer = anyflash("find", "torch=2.8", "python=3.12", "-v", *WORKSTATION)
    lines = answer.out.splitlines()
    assert answer.code == 0 and lines[0].startswith("FITS ")
    verdicts = {line.split()[0] for line in lines[1:] if not line.startswith(" ")}
    assert {"yes", "no"} <= verdicts <= {"yes", "no", "unknown", "-"}


def test_find_quiet_prints_whole_addresses(anyflash):
    for line in anyflash("find", "torch=2.9", "official=true", "-q").out.splitlines():
        assert line.startswith("https://") and line.endswith(".whl")


def test_find_json_has_the_documented_shape(anyflash):
    found = answer_json(anyflash, "find", "torch=2.9", "--limit", "2")
    assert set(found) == {"schema", "catalog", "publishers", "count", "wheels"}
    assert found["schema"] == "anyflash-find/1" and found["count"] > 2
    assert len(found["wheels"]) == 2
    assert {"filename", "url", "source", "verdict", "reasons"} <= set(found["wheels"][0])
    assert found["wheels"][0]["verdict"] is None


def test_find_nothing_exits_1(anyflash):
    answer = anyflash("find", "version=99.9")
    assert answer.code == 1 and answer.out == "" and answer.err.startswith("note: ")
    assert answer_json(anyflash, "find", "version=99.9", codes=(1,))["wheels"] == []


def test_find_takes_a_product_as_its_compute_capability(anyflash):
    for gpu, sm in (("h100", "9.0"), ("rtx4090", "8.9"), ("8.9", "8.9")):
        counts = [answer_json(anyflash, "find", word, "--limit", "1")["count"]
                  for word in (f"gpu={gpu}", f"sm={sm}")]
        assert counts[0] == counts[1]
    refused = anyflash("find", "gpu=frog")
    assert refused.code == 2 and "gpu is cuda or rocm" in refused.err


def test_find_lists_what_fits_first(anyflash):
    found = answer_json(anyflash, "find", "torch=2.8", *WORKSTATION)["wheels"]
    order = [("yes", "unknown", None, "no").index(one["verdict"]) for one in found]
    assert order[0] == 0 and order == sorted(order) and order[-1] == 3


def test_a_catalog_without_wheels_is_refused(anyflash, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    for command in ("find", "plan", "version"):
        answer = anyflash(command, "--catalog", "empty.jsonl")
        assert answer.code == 3 and "catalog 'empty.jsonl' has no wheels" in answer.err


def test_a_version_that_is_asked_for_is_the_one_that_setup_py_would_download(anyflash):
    words = ("plan", "-v", "--given", "torch=2.7.0+cu126", "--given", "python=3.12",
             "--given", "os=linux", "--given", "glibc=2.35", "--given", "sm=9.0")
    assert "\n    flash_attn-2.7.3+cu12torch2.7cxx11abiTRUE-cp312" in anyflash(
        *words, "--version", "2.7.3").out
    assert "setup.py tries" not in anyflash(*words, "--version", "2.5.8").out
