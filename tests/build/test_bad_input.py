"""What a build prints when something is wrong, and that finished objects are kept."""

import hashlib
import json
import shutil
import signal
import sys
import tarfile

import pytest

import synthetic
from bad_world import UV, SELECTION, File, Server, World, interrupt_when
from full_disk import needs_small_disk as needs_mounts

ALL = 6 + len(synthetic.GLUE)  # files of the selection, and ours
VERSION = synthetic.VERSION


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def refused(world, name, *texts, options=SELECTION, **keywords):
    """The build does not start, for the reason `name`, and nothing was compiled."""
    said = world.run(*options, **keywords)
    assert said.code == 3 and said.compiled == [], said
    for text in (f"cannot start the build: {name}: ", *texts):
        assert text in said.err, said
    assert not list((world.folder / "cache").glob("build/*/objects"))
    return said


def test_no_compiler(world):
    (world.folder / "bin" / "c++").unlink()
    refused(world, "host-compiler", "hint: ", "g++")


def test_a_host_compiler_that_crashes(world):
    world.replace("c++", "#!/bin/sh\nkill -SEGV $$\n")
    refused(world, "host-compiler", "c++", "hint: ")


def test_a_toolkit_that_is_older_than_the_gpu(world):
    synthetic.write(world.cuda / "version.json", '{"cuda": {"version": "12.4.0"}}')
    refused(world, "gpu-target", "nvcc 12.4, SM 12.0", "hint: ",
            options=[*SELECTION, "--toolkit", "system", "--arch", "120"])


def test_an_nvcc_that_crashes_when_asked(world):
    world.compiler('[ -n "$source" ] || kill -SEGV $$')
    refused(world, "cuda-toolkit", "nvcc", "--toolkit index")


def test_an_nvcc_that_hangs_when_asked(world):
    world.compiler('[ -n "$source" ] || sleep 600')
    refused(world, "cuda-toolkit", "did not answer within 20 s", "--toolkit index")


@needs_mounts
def test_no_space_before(world):
    cache = world.folder / "cache"
    said = world.mounted(
        f"cp -a {cache} {cache}.copy && mount -t tmpfs -o size=96m none {cache} && "
        f"cp -a {cache}.copy/. {cache}/", *SELECTION)
    assert said.code == 3, said
    assert "not enough free disk space for a build: 0.1 GiB free" in said.err, said
    assert "ANYFLASH_CACHE" in said.err and said.compiled == []


@needs_mounts
def test_a_cache_that_cannot_be_written_to(world):
    cache = world.folder / "cache"
    said = world.mounted(f"mount --bind {cache} {cache} && mount -o remount,bind,ro {cache}",
                         *SELECTION)
    assert said.code == 3 and "cannot start the build: disk: " in said.err, said
    assert "which is not writable" in said.err and said.compiled == []


def test_no_space_midway_keeps_what_was_built(world):
    world.compiler('case $source in *hdim128_bf16_causal*) [ -e "$COMPILED.room" ] || '
                   '{ echo "$object: No space left on device" >&2; exit 1; };; esac')
    said = world.run()
    assert said.code == 1 and "No space left on device" in said.out, said
    assert 0 < len(said.compiled) < ALL
    (world.folder / "compiled.room").touch()
    again = world.run()
    assert again.code == 0, again
    assert len(said.compiled) + len(again.compiled) == ALL
    assert not set(said.compiled) & set(again.compiled)


def test_sources_with_a_wrong_hash_offline(world):
    world.lock("0" * 64)
    said = world.run()
    assert said.code == 3 and "incomplete in the cache" in said.err, said


def test_sources_with_a_wrong_hash_that_cannot_be_had_again(world):
    world.lock("0" * 64)
    said = world.run(*SELECTION, offline=False)
    assert said.code == 3 and "x.invalid" in said.err, said
    assert not world.left_over()


def served(world, content, **how):
    """A run where the index serves `content` as the archive, with the hash of the real one."""
    real = world.archive.read_bytes()
    world.archive.unlink()
    with Server() as server:
        server.files["a.tar.gz"] = File(real if content is None else content, **how)
        world.lock(hashlib.sha256(real).hexdigest(), server.url("a.tar.gz"))
        return world.run(*SELECTION, offline=False)


def test_sources_from_a_server_of_ones_own(world):
    assert served(world, None).code == 0


def test_sources_with_a_wrong_hash_from_a_server(world):
    said = served(world, b"another")
    assert said.code == 3 and "has the wrong SHA-256" in said.err, said
    assert not world.archive.exists() and said.compiled == []


def test_sources_that_are_not_there(world):
    said = served(world, b"gone", status=404)
    assert said.code == 3 and "404" in said.err, said


@pytest.mark.skipif(UV is None, reason="needs uv: pip install uv")
def test_sources_are_found_in_the_index_of_the_users_own_configuration(world):
    folder = world.folder / "an index" / "flash-attn"
    folder.mkdir(parents=True)
    world.pack([("setup.py", "# found by uv\n"), *synthetic.files_of()])
    world.archive.rename(folder / world.archive.name)
    (folder / "index.html").write_text(f'<a href="{world.archive.name}">x</a>')
    (world.sources / "pylock.flash-attn.toml").unlink()
    (world.folder / "bin" / "uv").symlink_to(UV)
    index = (world.folder / "an index").as_uri()
    synthetic.write(world.folder / ".config" / "uv" / "uv.toml",
                    f'[[index]]\nurl = "{index}"\ndefault = true\n')
    said = world.run(*SELECTION, "--python", sys.executable, offline=False)
    assert said.code == 0 and len(said.compiled) == ALL, said


def member(name, kind=tarfile.REGTYPE, link="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


TOP = f"flash_attn-{synthetic.VERSION}"
HOSTILE = {
    "a name outside": member("../evil", size=3),
    "a name outside, deep": member(f"{TOP}/flash_attn/../../../evil", size=3),
    "an absolute name": member("/evil", size=3),
    "a link": member(f"{TOP}/evil", tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": member(f"{TOP}/evil", tarfile.LNKTYPE, "/etc/passwd"),
    "a device": member(f"{TOP}/evil", tarfile.CHRTYPE),
    "two top folders": member("evil/LICENSE", size=3),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_writes_nothing_elsewhere(world, name):
    world.pack([*synthetic.files_of(), HOSTILE[name], ("after", "x")])
    said = world.run()
    assert said.code in (0, 3), said
    assert not list(world.folder.rglob("evil*"))


def test_an_archive_without_kernels(world):
    world.pack([("LICENSE", "x")])
    said = world.run()
    assert said.code == 3 and "unpacking the sources failed" in said.err, said
    assert not world.left_over()


def test_an_archive_of_another_release_names_what_it_lacks(world):
    world.pack([row for row in synthetic.files_of() if "hdim128_bf16_causal" not in row[0]])
    said = world.run()
    assert said.code == 3 and "have no file 'csrc/flash_attn/src/flash_" in said.err, said


def test_an_archive_that_is_cut_short(world):
    world.pack([*synthetic.files_of(), ("csrc/flash_attn/large", "0123456789" * 9999)])
    whole = world.archive.read_bytes()
    world.archive.write_bytes(whole[:len(whole) // 2])
    world.lock(hashlib.sha256(world.archive.read_bytes()).hexdigest())
    said = world.run()
    assert said.code == 3 and "unpacking the sources failed" in said.err, said
    assert not world.left_over()


def test_an_archive_that_is_none(world):
    world.archive.write_bytes(b"<html>not here</html>")
    world.lock(hashlib.sha256(world.archive.read_bytes()).hexdigest())
    said = world.run()
    assert said.code == 3 and "unpacking the sources failed" in said.err, said


MODELS = {
    "missing": (None, "cannot open"),
    "empty": ("", "config.json"),
    "no JSON": ("{'hidden_size': 12", "config.json"),
    "a list": ("[1, 2]", "not a JSON object"),
    "another file": ('{"tokenizer_class": "X"}', "is it a model's config.json"),
    "no heads": ('{"hidden_size": 4096, "num_attention_heads": 0}', "config.json"),
    "heads that do not divide": ('{"hidden_size": 4096, "num_attention_heads": 3}',
                                 "config.json"),
    "too large a head": ('{"head_dim": 512, "torch_dtype": "bfloat16"}', "512"),
    "negative": ('{"head_dim": -64}', "config.json"),
    "a text": ('{"head_dim": "64"}', "config.json"),
    "huge": ('{"head_dim": 1e300}', "config.json"),
    "deep": ('{"a_config": ' * 5000 + "{}" + "}" * 5000, "config.json"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_configuration_that_is_wrong(world, name):
    text, wanted = MODELS[name]
    path = world.folder / "config.json"
    if text is not None:
        path.write_text(text)
    said = world.run("--for", str(path), "--dry-run")
    assert said.code in (2, 3) and wanted in said.err, said
    assert said.err.startswith("error: ") and "\x1b" not in said.err


def test_an_nvcc_that_crashes_on_one_file(world):
    world.compiler('case $source in *bwd*128_bf16_sm80*) [ -e "$COMPILED.well" ] || '
                   'kill -SEGV $$;; esac')
    said = world.run()
    assert said.code == 1 and "not built:" in said.out and "log:" in said.out, said
    assert "flash_bwd_hdim128_bf16_sm80.cu" in said.out, said
    (world.folder / "compiled.well").touch()
    again = world.run()
    assert again.code == 0, again
    assert again.compiled and not set(said.compiled) & set(again.compiled)


KILLED = ('[ -e "$COMPILED.again" ] || { touch "$COMPILED.again"; '
          "echo \"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\" >&2; "
          "kill -KILL $$; }")
WRONG = "echo 'b.cu(3): error: expected a \";\"' >&2; exit 1"


@pytest.mark.parametrize("fragment", [
    f"case $source in *fwd_hdim*_causal*) {KILLED};; *bwd*_causal*) sleep 1; {WRONG};; esac",
    f"case $source in *bwd*_causal*) {KILLED}; {WRONG};; esac",
])
def test_an_attempt_that_was_repeated_is_not_the_cause_of_a_failure(world, fragment):
    world.compiler(fragment)
    said = world.run()
    # Without a control group the kernel counts kills of the whole machine, so a kill in another
    # test at the same time is reported as a lack of memory here.
    assert said.code == 1 and "will be repeated" in said.err, said
    assert 'not built: b.cu(3): error: expected a ";"' in said.out, said


def test_an_nvcc_that_hangs_is_ended_by_ctrl_c_and_the_rest_is_kept(world):
    world.compiler('case $source in *bwd*128_bf16_sm80*) [ -e "$COMPILED.well" ] || '
                   'sleep 600;; esac')
    process = world.start(*SELECTION)
    assert interrupt_when(world, process, ALL - 2), world.said(process)
    said = world.said(process)
    assert said.code not in (0, 1) and "interrupted" in said.err, said
    (world.folder / "compiled.well").touch()
    again = world.run()
    assert again.code == 0 and not set(said.compiled) & set(again.compiled), again


def test_a_terminated_build_goes_on(world):
    world.compiler('case $source in *bwd*) [ -e "$COMPILED.well" ] || sleep 600;; esac')
    process = world.start(*SELECTION)
    assert interrupt_when(world, process, 3, signal.SIGKILL)
    world.said(process)
    first = set(world.compiled_log.read_text().split())
    (world.folder / "compiled.well").touch()
    again = world.run()
    assert again.code == 0, again
    assert not first & set(again.compiled), (first, again)


def test_variables_of_nvcc_are_not_listened_to(world):
    said = world.run(more={"NVCC_APPEND_FLAGS": "--bad", "NVCC_PREPEND_FLAGS": "--bad"})
    assert said.code == 0 and len(said.compiled) == ALL, said


def test_offline_with_all_kept(world):
    said = world.run()
    assert said.code == 0 and len(said.compiled) == ALL, said


def test_offline_without_sources(world):
    world.archive.unlink()
    refused(world, "sources", "because of --offline", "without --offline")


def test_no_network_without_sources_names_what_was_asked(world):
    world.archive.unlink()
    (world.sources / "pylock.flash-attn.toml").unlink()
    world.replace("uv", "#!/bin/sh\necho 'error: Failed to fetch: dns error' >&2\nexit 2\n")
    said = world.run(*SELECTION, offline=False)
    assert said.code == 3, said
    assert "looking for the sources on PyPI" in said.err, said
    assert "UV_DEFAULT_INDEX=URL" in said.err and "dns error" in said.err


def test_no_network_without_the_compiler_names_what_was_asked(world):
    world.replace("uv", "#!/bin/sh\necho 'error: Failed to fetch: dns error' >&2\nexit 2\n")
    said = world.run(*SELECTION, "--toolkit", "index", offline=False)
    assert said.code == 3 and "dns error" in said.err, said
    assert "getting the CUDA compiler from PyPI" in said.err and not said.compiled
    assert "UV_DEFAULT_INDEX=URL" in said.err


def test_neither_uv_nor_venv(world):
    world.archive.unlink()
    (world.sources / "pylock.flash-attn.toml").unlink()
    refused(world, "installer", "neither uv nor Python's own venv and pip", offline=False)


def test_check_says_what_is_there_and_what_is_not(world):
    said = world.run("--check", "--json")
    check = json.loads(said.out)
    assert said.code == 0 and check["can_start"], said
    verdicts = {row["name"]: row["verdict"] for row in check["prerequisites"]}
    assert {verdicts[name] for name in ("cuda-toolkit", "sources")} == {"yes"}
    (world.folder / "bin" / "c++").unlink()
    said = world.run("--check", "--json")
    check = json.loads(said.out)
    rows = {row["name"]: row for row in check["prerequisites"]}
    assert said.code == 1 and not check["can_start"]
    assert rows["host-compiler"]["verdict"] == "no" and rows["host-compiler"]["fix"]
    text = world.run("--check")
    assert "host-compiler      no" in text.out
    assert text.out.startswith("not ready to build: 1 prerequisite is missing\n")
    assert not [line for line in text.out.splitlines()
                if len(line) > 96 and "/" not in line]  # a path stays whole


def test_clean_removes_what_builds_keep(world):
    assert world.run().code == 0
    listed = world.run("--clean", "--dry-run")
    assert listed.code == 0 and "would free" in listed.out and "flash-attn 2.8.3" in listed.out
    cleaned = world.run("--clean", "--json")
    rows = json.loads(cleaned.out)["builds"]
    assert cleaned.code == 0 and {row["done"] for row in rows} == {"removed"} and len(rows) == 2
    assert not list((world.folder / "cache" / "build").iterdir())
    assert "the cache has no builds" in world.run("--clean").out


def test_clean_leaves_a_build_at_work(world):
    world.compiler('case $source in *bwd*) sleep 600;; esac')
    process = world.start(*SELECTION)
    try:
        assert interrupt_when(world, process, 3, signal.SIGCONT)
        said = world.run("--clean")
        assert said.code == 1 and "a build is using" in said.out, said
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
