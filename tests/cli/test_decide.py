"""The deciding commands: plan, doctor and find, as text and as JSON."""
import itertools
import json
import os
import shlex
import shutil

import pytest
from conftest import is_wide
from recorded import MACHINES, RECORDS, words_of

BY_NAME = {name: str(path) for name, path in RECORDS.items()}
RUNGS = ["wheel", "torch-kernels", "build", "torch-change", "engine"]
WORKSTATION = ["--given", "os=linux", "--given", "arch=x86_64", "--given", "glibc=2.39",
               "--given", "python=3.12", "--given", "torch=2.8.0+cu128",
               "--given", "cxx11abi=true", "--given", "sm=8.9", "--given", "driver=580.95.05"]


def answer_json(anyflash, *words, codes=(0, 1), **options):
    answer = anyflash(*words, "--json", **options)
    assert answer.code in codes, answer
    return json.loads(answer.out)


ANSWERS = {}


@pytest.fixture
def recorded(anyflash):
    """As `anyflash`, but runs a command only once for all tests: what it says about a recorded
    machine is always the same."""

    def ask(*words):
        if words not in ANSWERS:
            ANSWERS[words] = anyflash(*words)
        return ANSWERS[words]
    return ask


def check_steps(steps):
    for step in steps:
        assert (step["command"] is None) == (step["argv"] == [])


@pytest.mark.parametrize("name", MACHINES)
def test_plan_json_lists_every_way_and_names_the_wheel_it_takes(recorded, name):
    plan = answer_json(recorded, "plan", *words_of(name))
    assert [rung["name"] for rung in plan["rungs"]] == RUNGS
    check_steps(plan["steps"])
    if plan["decision"] == "wheel":
        assert plan["wheel"]["filename"].endswith(".whl") and plan["wheel"]["url"]


@pytest.mark.parametrize("name", MACHINES)
def test_plan_json_and_screen_name_the_same_next_step(recorded, name):
    plan = answer_json(recorded, "plan", *words_of(name))
    following = plan["next"]
    open_kinds = ("environment", "fact", "reasons")
    assert (following["kind"] in open_kinds) == (plan["decision"] is None)
    assert following["command"] is following["undo"] is None
    shown = " ".join(recorded("plan", *words_of(name)).out.split())
    assert following["text"] is None or f"Next: {following['text']}" in shown


@pytest.mark.parametrize("name", MACHINES)
def test_plan_says_the_way_in_one_word_that_agrees_with_the_decision(recorded, name):
    plan = answer_json(recorded, "plan", *words_of(name))
    rungs = {rung["name"]: rung for rung in plan["rungs"]}
    no_fact = plan["headline"].startswith("No decision yet")
    others = {"torch-kernels": "kernels", "torch-change": "change", "build": "build",
              "engine": "nothing", None: "undecided" if no_fact else "nothing"}
    if plan["decision"] == "wheel" and rungs["wheel"]["verdict"] == "yes":
        assert plan["way"] == ("official" if plan["wheel"]["official"] else "community")
    elif plan["decision"] == "wheel" or plan["prove_first"]:
        assert plan["way"] == "prove"
    else:
        assert plan["way"] == others[plan["decision"]]


@pytest.mark.parametrize("name", MACHINES)
def test_doctor_json_lists_the_worst_first_and_has_the_plans_next_step(recorded, name):
    doctor = answer_json(recorded, "doctor", *words_of(name))
    ranks = ["broken", "risk", "note"]
    severities = [ranks.index(finding["severity"]) for finding in doctor["findings"]]
    assert severities == sorted(severities)
    if doctor["next"]["kind"] == "plan":
        following = answer_json(recorded, "plan", *words_of(name))["next"]
        for key in ("text", "command", "undo"):
            assert doctor["next"][key] == following[key]
    check_steps(doctor["next"]["steps"])


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("command", ["doctor", "plan"])
def test_screens_fit_96_columns(recorded, command, name):
    answer = recorded(command, *words_of(name))
    assert answer.code in (0, 1) and answer.err == ""
    assert [line for line in answer.out.splitlines() if is_wide(line)] == []
    assert "\x1b" not in answer.out and "\t" not in answer.out


@pytest.mark.parametrize("name", MACHINES)
def test_doctor_fits_a_screen(recorded, name):
    lines = recorded("doctor", *words_of(name)).out.splitlines()
    assert 10 <= len(lines) <= 48
    assert lines.index("What fits") < lines.index("Machine")


@pytest.mark.parametrize("name", MACHINES)
def test_doctor_opens_with_the_answer_and_the_next_step(recorded, name):
    lines = recorded("doctor", *words_of(name)).out.splitlines()
    kind = answer_json(recorded, "doctor", *words_of(name))["next"]["kind"]
    assert lines[0] and not lines[0].startswith(" "), lines[0]
    assert ("Next step" in lines[:6]) == (kind != "nothing"), lines[:6]


def test_verbose_says_where_facts_were_read(anyflash):
    path = BY_NAME["rtx4090-torch2.8"]
    short = anyflash("doctor", "--machine", path).out
    long = anyflash("doctor", "-v", "--machine", path).out
    assert "\n                source: " in long and "\n                source: " not in short
    assert [line for line in long.splitlines() if is_wide(line)] == []


def test_no_command_is_doctor(anyflash):
    assert anyflash(*WORKSTATION).out == anyflash("doctor", *WORKSTATION).out


def test_doctor_of_this_machine_works_anywhere(anyflash):
    answer = anyflash()
    assert answer.code in (0, 1) and "Next step" in answer.out


def test_doctor_takes_one_machine(anyflash):
    path = BY_NAME["rtx4090-torch2.8"]
    answer = anyflash("doctor", "-m", path, "-m", path)
    assert answer.code == 2
    assert f"hint: `anyflash plan --machine {path} --machine {path}`" in answer.err


def test_plan_serves_several_machines(anyflash):
    plan = answer_json(anyflash, "plan", "-m", BY_NAME["rtx4090-torch2.8"], "-m",
                       BY_NAME["healthy"])
    assert len(plan["machines"]) == 2
    assert plan["rungs"][0]["verdict"] == "no"


CLUSTER = ("colab-t4", "h100-ngc", "rtx4090-torch2.8")


def machine_words(*names):
    return [word for name in names for word in ("-m", BY_NAME[name])]


def test_plan_says_what_is_best_for_each_machine_alone(anyflash):
    plan = answer_json(anyflash, "plan", *machine_words(*CLUSTER))
    alone = {row["name"]: row["alone"] for row in plan["machines"]}
    for name in CLUSTER:
        one = answer_json(anyflash, "plan", *machine_words(name))
        assert one["machines"][0]["alone"] is None and one["machines"][0]["steps"] is None
        assert alone[f"{name}.json"]["headline"] == one["headline"]
        assert alone[f"{name}.json"]["way"] == one["way"]
    assert [alone[f"{name}.json"]["decides"] for name in CLUSTER] == [True, True, False]
    shown = anyflash("plan", *machine_words(*CLUSTER)).out
    for name, row in alone.items():
        assert f"  - {name}: {row['headline']}\n" in shown
    assert "the answer for all follows from colab-t4.json, h100-ngc.json\n" in shown


def test_reasons_for_several_machines_name_the_machine(anyflash):
    plan = answer_json(anyflash, "plan", *machine_words(*CLUSTER))
    wheel = {(reason["id"], reason.get("machine")) for reason in plan["rungs"][0]["reasons"]}
    assert ("sm-unsupported", "colab-t4.json") in wheel
    assert ("ngc-prerelease-torch", "h100-ngc.json") in wheel
    assert "rtx4090-torch2.8.json" not in {machine for _, machine in wheel}
    shown = anyflash("plan", *machine_words(*CLUSTER)).out
    assert "wheel          no      colab-t4.json: FlashAttention does not support" in shown
    verbose = anyflash("plan", "-v", *machine_words(*CLUSTER)).out
    assert "- h100-ngc.json: no published wheel matches a vendor's" in verbose
    assert "on colab-t4.json" in plan["headline"], "only it has the memory-efficient kernel"


def test_machines_that_agree_alone_but_not_together_say_so(anyflash):
    plan = answer_json(anyflash, "plan", *machine_words("rtx4090-torch2.8", "rtx5090-torch2.9"))
    assert plan["decision"] != "wheel"
    assert all(row["alone"]["way"] in ("official", "community") for row in plan["machines"])
    assert not any(row["alone"]["decides"] for row in plan["machines"])
    assert [reason["id"] for reason in plan["rungs"][0]["reasons"]] == ["no-wheel-for-all"]


def test_a_build_on_one_machine_serves_another_torch_but_not_another_gpu(anyflash):
    for names, verdict in ((("rtx4090-torch2.8", "rtx4090-torch2.15"), "yes"),
                           (("rtx4090-torch2.8", "rtx5090-torch2.9"), "no")):
        plan = answer_json(anyflash, "plan", *machine_words(*names))
        build = plan["rungs"][RUNGS.index("build")]
        assert build["verdict"] == verdict
        reasons = [reason["id"] for reason in build["reasons"]]
        assert ("no-wheel-for-all" in reasons) == (verdict == "no")


def test_steps_for_several_machines_are_those_of_each(anyflash, tmp_path):
    twin = tmp_path / "twin.json"
    shutil.copy(BY_NAME["colab-t4"], twin)
    words = [*machine_words("colab-t4"), "-m", str(twin), *machine_words("rtx4090-torch2.8")]
    plan = answer_json(anyflash, "plan", *words)
    for row, prefix in zip(plan["machines"], ("/usr", "/usr", "/srv/projects/.venv")):
        check_steps(row["steps"])
        assert [step["argv"][-1] for step in row["steps"] if step["argv"]][0] == prefix
    shown = anyflash("plan", *words).out
    first, second = shown.split("Steps on colab-t4.json, twin.json\n")[1].split(
        "Steps on rtx4090-torch2.8.json\n")
    assert "--python /usr\n" in first and "/srv" not in first
    assert "--python /srv/projects/.venv\n" in second
    quiet = anyflash("plan", "-q", *words).out.splitlines()
    assert quiet[0] == "# on colab-t4.json, twin.json"
    first = quiet.index("# on rtx4090-torch2.8.json")
    assert any(line.endswith("/srv/projects/.venv") for line in quiet[first:])


def test_a_wheel_has_reasons_only_on_the_machine_that_it_does_not_fit(anyflash):
    wheel = "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    shown = anyflash("plan", "--wheel", wheel,
                     *machine_words("rtx4090-torch2.8", "rtx4090-torch2.15")).out
    assert shown.startswith("It does not fit") and "rtx4090-torch2.15.json: reasons:" in shown
    assert "rtx4090-torch2.8.json: notes:" in shown


def test_equal_steps_of_several_machines_are_shown_once(anyflash):
    words = machine_words("rtx4090-torch2.8", "rtx4090-torch2.8")
    shown = anyflash("plan", *words).out
    assert shown.count("\nSteps") == 1 and "\nSteps\n" in shown
    assert "# on" not in anyflash("plan", "-q", *words).out


def test_a_wheel_is_found_for_an_ordinary_workstation(anyflash):
    plan = answer_json(anyflash, "plan", *WORKSTATION, codes=(0,))
    assert plan["decision"] == "wheel" and "torch2.8" in plan["wheel"]["filename"]
    assert plan["wheel"]["python"] == "cp312"


def test_quiet_plan_prints_only_commands(anyflash):
    path = BY_NAME["rtx4090-torch2.8"]
    plan = answer_json(anyflash, "plan", "--machine", path)
    commands = [step["command"] for step in plan["steps"] if step["command"]]
    assert anyflash("plan", "-q", "--machine", path).out.splitlines() == commands


def test_prefer_takes_another_way(anyflash):
    plan = answer_json(anyflash, "plan", *WORKSTATION, "--prefer", "engine", codes=(0,))
    assert plan["decision"] == "engine"


@pytest.mark.parametrize("softcap", [50.0, None])
def test_a_model_with_softcap_is_not_sent_to_torch(anyflash, tmp_path, softcap):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "model_type": "gemma2", "head_dim": 256, "num_attention_heads": 16,
        "attn_logit_softcapping": softcap, "torch_dtype": "bfloat16"}))
    plan = answer_json(anyflash, "plan", "--machine", BY_NAME["rtx4090-torch2.15"],
                       "--for", str(config), codes=(0,))
    kernels, = [rung for rung in plan["rungs"] if rung["name"] == "torch-kernels"]
    assert kernels["verdict"] == ("yes" if softcap is None else "no")
    assert (plan["decision"] == "torch-kernels") == (softcap is None)


def test_ways_without_flash_attn_name_the_python_package(anyflash):
    plan = answer_json(anyflash, "plan", *WORKSTATION, "--prefer", "engine", codes=(0,))
    rungs = {rung["name"]: json.dumps(rung) for rung in plan["rungs"]}
    assert "from anyflash import flash_attn_func" in rungs["torch-kernels"]
    assert "anyflash.torch.enable()" in rungs["engine"]
    assert any("anyflash.torch.enable()" in step["title"] for step in plan["steps"])


@pytest.mark.parametrize("gpu, torch, faster", [
    ("H100", "2.9.1+cu128", "flash_attn_3"), ("B200", "2.9.1+cu128", "flash_attn_4"),
    ("H100", "2.3.0+cu121", None), ("A100", "2.9.1+cu128", None)])
def test_plan_names_a_newer_flashattention_where_it_has_a_wheel(anyflash, gpu, torch, faster):
    facts = ("os=linux", "arch=x86_64", "glibc=2.35", "python=3.12", f"torch={torch}",
             f"gpu={gpu}")
    words = [word for fact in facts for word in ("--given", fact)]
    plan = answer_json(anyflash, "plan", *words, codes=(0,))
    assert plan["faster"] == faster
    assert (f"--package {faster}" in anyflash("plan", *words).out) == (faster is not None)
    if faster:
        own = answer_json(anyflash, "plan", *words, "--package", faster, codes=(0,))
        assert own["decision"] == "wheel" and own["faster"] is None


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_without_a_known_driver_plan_takes_the_torch_for_older_ones(anyflash, system):
    words = ["plan", "--given", "gpu=rtx4070", "--given", "torch=none", "--given",
             f"os={system}"]
    change = answer_json(anyflash, *words)["rungs"][RUNGS.index("torch-change")]
    assert change["torch_cuda"].startswith("cu12")
    assert any("CUDA 12 needs NVIDIA driver 52" in (reason["detail"] or "")
               for reason in change["reasons"])
    assert "check the driver" in anyflash(*words).out
    known = anyflash(*words, "--given", "driver=580.95.05").out
    assert "cu13" in known.splitlines()[0] and "check the driver" not in known


@pytest.mark.parametrize("given", [("os=windows", "arch=x86_64"), ("os=macos", "arch=aarch64")])
def test_the_python_package_is_not_offered_where_it_is_not(anyflash, given):
    facts = [word for fact in given for word in ("--given", fact)]
    plan = anyflash("plan", *facts, "--given", "python=3.12", "--given", "torch=2.8.0",
                    "--prefer", "engine", "--verbose")
    assert "scaled_dot_product_attention" in plan.out
    assert "anyflash.torch" not in plan.out and "from anyflash import" not in plan.out


NVIDIA_WORDS = ("no NVIDIA GPU", "--arch", "cu128", "CUDA build", "name the GPU")


@pytest.mark.parametrize("facts", [
    ("gpu=rx7900xtx", "os=linux", "torch=2.9.1"), ("gpu=rx7900xtx", "os=windows", "torch=none"),
    ("gpu=m2", "os=macos", "torch=2.9.1"), ("gpu=arc a770", "os=linux", "torch=2.9.1")])
def test_other_vendors_get_no_sentences_about_nvidia(anyflash, facts):
    words = [word for fact in facts for word in ("--given", fact)]
    rungs = answer_json(anyflash, "plan", *words)["rungs"]
    said = [text for rung in rungs
            for row in rung["reasons"] + rung["prerequisites"]
            for text in (row.get("message"), row.get("hint"), row.get("fix")) if text]
    assert not [text for text in said if any(word in text for word in NVIDIA_WORDS)]


@pytest.mark.parametrize("torch", ["none", "2.9.1"])
def test_on_windows_torch_for_amd_is_not_taken_from_pytorchs_index(anyflash, torch):
    done = anyflash("plan", "--given", "gpu=rx7900xtx", "--given", "os=windows", "--given",
                    f"torch={torch}")
    assert "torch-backend" not in done.out and "AMD publishes it" in done.out


def test_the_engine_is_not_promised_where_the_package_does_not_run(anyflash):
    done = anyflash("plan", "--given", "gpu=m2", "--given", "os=macos")
    first = done.out.splitlines()[0]
    assert first.endswith('"sdpa"') and "Python package" not in done.out
    assert "package install" not in done.out


def test_an_open_torch_change_does_not_say_no(anyflash):
    rungs = answer_json(anyflash, "plan", "--given", "os=macos")["rungs"]
    change = rungs[RUNGS.index("torch-change")]
    assert change["verdict"] == "unknown" and not change["summary"].startswith("no ")


def test_a_fact_without_its_option_is_told_the_option(anyflash):
    answer = anyflash("plan", "torch=2.14")
    assert answer.code == 2 and "`--given torch=2.14`" in answer.err
    assert "--given" not in anyflash("plan", "torch").err


def test_a_preference_that_is_not_possible_exits_1(anyflash):
    answer = anyflash("plan", "--given", "sm=7.0", "--given", "torch=2.16.0+cu132",
                      "--given", "python=3.12", "--prefer", "wheel")
    assert answer.code == 1 and answer.out.startswith("The preferred option is not possible")
    answer = anyflash("plan", "--given", "sm=8.9", "--given", "torch=2.16.0+cu132",
                      "--given", "python=3.12", "--prefer", "wheel")
    assert answer.code == 1 and answer.out.startswith("The preferred option is not possible")


SMS = {"T4": 7.5, "V100": 7.0, "L4": 8.9, "H100": 9.0}
MIXED = [*map(",".join, itertools.permutations(SMS, 2)), "V100,H100,T4"]


@pytest.mark.parametrize("gpus", MIXED)
@pytest.mark.parametrize("torch", ["2.8.0+cu128", "2.8.0+cpu", "2.16.0+cu130"])
def test_the_first_lines_name_all_gpus_and_those_that_are_not_supported(anyflash, gpus, torch):
    words = ["--given", f"gpu={gpus}", "--given", f"torch={torch}", "--given", "python=3.12"]
    old = [f"{name} (sm {SMS[name]})" for name in gpus.split(",") if SMS[name] < 8]
    partly = 0 < len(old) < len(gpus.split(","))
    note = f"not supported: {', '.join(old)}; choose the others with CUDA_VISIBLE_DEVICES"
    for command in ("plan", "doctor"):
        first = " ".join(anyflash(command, *words).out.partition("\n\n")[0].split())
        assert (note in first) == partly and ("VISIBLE" in first) == partly, first
        assert command == "doctor" or f", {', '.join(gpus.split(','))}" in first


def test_plan_counts_gpus_that_are_alike_and_marks_hidden_ones(anyflash):
    words = ["plan", "--given", "gpu=T4,2x H100", "--given", "torch=2.8.0+cu128"]
    assert ", T4, 2 x H100\n" in anyflash(*words).out
    out = anyflash(*words, "--given", "visible_devices=1,2").out
    assert ", T4 (hidden), 2 x H100\n" in out and "not supported" not in out


NEWER = ("2.15.0+cu130", "2.16.0+cu130", "2.16.0", "3.0.0+cu130")


@pytest.mark.parametrize("gpu", ["RTX 5070", "RTX 4090", "H100", "T4"])
@pytest.mark.parametrize("system", ["windows", "linux"])
@pytest.mark.parametrize("torch", NEWER)
def test_a_newer_list_comes_before_replacing_torch(anyflash, torch, system, gpu):
    words = [f"--given={fact}" for fact in (f"gpu={gpu}", f"os={system}", f"torch={torch}",
                                            "python=3.12", "arch=x86_64")]
    plan = answer_json(anyflash, "plan", *words)
    screens = [anyflash(command, *words, *more).out for command in ("plan", "doctor")
               for more in ((), ("--quiet",))]
    assert all("torch==" not in screen for screen in screens)
    assert (plan["next"]["kind"] == "update") == (plan["decision"] == "torch-change")
    if plan["decision"] == "torch-change":
        date = plan["catalog"]["date"]
        assert plan["headline"] == f"The list of wheels of {date} is older than torch {torch}"
        assert plan["next"]["command"] + "\n" == screens[1] == "anyflash update\n"
        assert screens[0].index("`anyflash update`") < screens[0].index("torch-change")
        assert "github.com/mjun0812" in screens[0]
        assert "`anyflash update`" in screens[2] and "release pages below" in screens[2]
        chosen = anyflash("plan", *words, "--prefer", "torch-change").out
        assert chosen.startswith("Replace torch with 2.") and "torch==" in chosen


@pytest.mark.parametrize("gpus, torches, helps", [
    (("RTX 5070", "RTX 4090"), ("2.16.0+cu130", "2.16.0+cu130"), True),
    (("RTX 5070", "RTX 5070"), ("2.4.1+cu124", "2.16.0+cu130"), False)])  # no common torch
def test_a_newer_list_is_asked_for_if_it_may_help_all_machines(anyflash, tmp_path, gpus,
                                                               torches, helps):
    files = []
    for number, (gpu, torch) in enumerate(zip(gpus, torches)):
        given = (f"gpu={gpu}", "os=windows", "python=3.12", "arch=x86_64", f"torch={torch}")
        record = anyflash("machine", *(f"--given={fact}" for fact in given), "--json").out
        files += ["-m", str(tmp_path / f"{number}.json")]
        (tmp_path / f"{number}.json").write_text(record, encoding="utf-8")
    shown = anyflash("plan", *files).out
    assert shown.startswith("The list of wheels of ") == helps
    assert ("torch==" in shown) != helps


def test_version_narrows_the_choice(anyflash):
    plan = answer_json(anyflash, "plan", *WORKSTATION, "--version", "2.8.2")
    assert plan["wheel"] is None or plan["wheel"]["version"] == "2.8.2"


def test_the_first_line_says_that_no_such_wheel_is_published(anyflash):
    done = anyflash("plan", *WORKSTATION, "--version", "2.8.3.post2")
    assert done.out.startswith("No wheel of flash_attn 2.8.3.post2 is published"), done


def test_official_narrows_the_choice(anyflash):
    plan = answer_json(anyflash, "plan", *WORKSTATION, "--official")
    assert plan["wheel"]["official"] is True


@pytest.mark.parametrize("words", [
    ["plan", "--prefer", "magic"],
    ["plan", "--arch", "fast"],
    ["plan", "--package", "flash_attn_9"],
    ["plan", "--version", "9.9"],
    ["install", "--version", "9.9"],
    ["config", "uv", "--package", "flash_attn_9"],
    ["plan", "--given", "torch=abc"],
    ["doctor", "--given", "python=banana"],
    ["plan", "--limit", "3"],
    ["plan", "--all", "--limit", "0"],
    ["plan", "--all", "--wheel", "a.whl"],
    ["plan", "--all", "--limit", "x"],
    ["find", "torch==="],
    ["find", "nosuchkey=1"],
])
def test_wrong_values_exit_2(anyflash, words):
    answer = anyflash(*words)
    assert answer.code == 2 and answer.err.startswith("error: ") and answer.out == ""


@pytest.mark.parametrize("words, hint", [
    (["--package", "flash_attn_9"], "it has flash_attn, flash_attn4, flash_attn_3"),
    (["--version", "9.9"], " 2.8.3, 2.8.2"),
    (["--package", "flash_attn_3", "--version", "2.8.3"], "it has 3.0.0, 3.0.0b1"),
    (["--given", "cuda=12.8"], "did you mean torch_cuda, cuda_api or cuda_toolkit?"),
    (["--given", "tosch=2.9.1"], "did you mean torch?"),
    (["--given", "torch=abc"], "values of torch: 2.9.1+cu128"),
])
def test_an_error_says_what_there_is(anyflash, words, hint):
    answer = anyflash("plan", *words)
    assert answer.code == 2 and "hint: " in answer.err and hint in answer.err, answer


def test_a_release_without_wheels_may_be_asked_for(anyflash):
    words = ("--version", "2.8.3.post2", "--given", "torch=2.8.0+cu128")
    assert anyflash("plan", *words).code in (0, 1)


def test_a_key_given_twice_is_noted(anyflash):
    answer = anyflash("machine", "--given", "torch=2.8.0", "--given", "torch=2.9.1",
                      "--given", "gpu=h100", "--given", "gpu=a100")
    assert answer.err == "note: torch is given twice; the last value counts\n"
    assert [gpu["sm"]["value"] for gpu in json.loads(answer.out)["gpus"]] == ["9.0", "8.0"]


def test_an_unknown_gpu_is_no_silent_decision(anyflash):
    answer = anyflash("plan", "--given", "torch=2.9.1+cu128", "--given", "gpu=FOO9000")
    assert "gpu=FOO9000: not a known product" in answer.err
    assert answer.out.startswith("If Python is 3.12, a wheel may fit")
    assert "the GPU is unknown" in answer.out



@pytest.mark.parametrize("text", ["9.0", "90", "sm_90", "sm90", "9", "h100", "H100"])
def test_arch_is_read_as_people_write_it(anyflash, text):
    without_gpu = WORKSTATION[:WORKSTATION.index("sm=8.9") - 1]
    plan = answer_json(anyflash, "plan", *without_gpu, "--arch", text)
    assert plan["rungs"][0]["verdict"] != "no"


FITTING = "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"


@pytest.mark.parametrize("name", [FITTING, FITTING.replace("+", "%2B"),
                                  "https://example.org/a/" + FITTING + "#sha256=0"])
def test_one_wheel_is_judged_yes(anyflash, name):
    answer = anyflash("plan", *WORKSTATION, "--wheel", name)
    assert answer.code == 0 and "fits" in answer.out


def test_one_wheel_is_judged_no_with_reasons(anyflash):
    words = ["plan", *WORKSTATION, "--wheel", FITTING.replace("torch2.8", "torch2.7")]
    answer = anyflash(*words)
    assert answer.code == 1 and "does not fit" in answer.out
    verdict = answer_json(anyflash, *words)
    assert verdict["schema"] == "anyflash-wheel/1" and verdict["verdict"] == "no"
    assert "torch-minor-mismatch" in [r["id"] for r in verdict["machines"][0]["reasons"]]


def test_a_wheel_that_is_not_in_the_catalog_exits_3(anyflash):
    answer = anyflash("plan", *WORKSTATION, "--wheel", "none.whl")
    assert answer.code == 3 and "none.whl" in answer.err


def test_all_lists_every_wheel_best_first(anyflash):
    answer = anyflash("plan", *WORKSTATION, "--all")
    lines = answer.out.splitlines()
    ranks = [["yes", "unknown", "no"].index(line.split()[0]) for line in lines[1:]]
    assert answer.code == 0 and len(ranks) > 7000 and ranks == sorted(ranks)


def test_all_with_limit_in_json(anyflash):
    listed = answer_json(anyflash, "plan", *WORKSTATION, "--all", "--limit", "5")
    assert listed["schema"] == "anyflash-candidates/1" and len(listed["candidates"]) == 5
    assert listed["candidates"][0]["verdict"] == "yes"


def test_plan_says_the_stated_target(anyflash):
    answer = anyflash("plan", "--machine", BY_NAME["login-node-no-gpu"], "--arch", "9.0")
    assert any("target sm 9.0" in line for line in answer.out.splitlines()[:3])


def test_doctor_without_gpu_says_how_to_decide_for_another_node(anyflash):
    answer = anyflash("doctor", "--machine", BY_NAME["no-gpu-cpu-torch"])
    assert "--arch" in answer.out.split("Next step")[1].split("What fits")[0]


def test_doctor_gives_the_reason_of_a_way_that_is_closed(anyflash):
    answer = anyflash("doctor", *words_of("v100-torch2.7"))
    line = next(line for line in answer.out.splitlines() if line.startswith("  wheel "))
    assert line.split()[1] == "no" and "does not support this GPU" in line, line


def test_another_catalog_by_option_and_variable(anyflash, tmp_path):
    row = {"source": "a/b", "package": "flash_attn", "version": "9.9.9", "release_tag": "v1",
           "filename": "flash_attn-9.9.9-cp312-cp312-linux_x86_64.whl", "python": "cp312",
           "abi": "cp312", "platform": "linux_x86_64", "evidence": "listed",
           "url": "https://example.org/flash_attn-9.9.9-cp312-cp312-linux_x86_64.whl"}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
    by_option = anyflash("find", "--catalog", "mine.jsonl")
    assert by_option.code == 0 and "9.9.9" in by_option.out, by_option
    assert anyflash("find", env={"ANYFLASH_CATALOG": "mine.jsonl"}).out == by_option.out


@pytest.mark.parametrize("content", [b"{", b"\xff\n", b'{"filename": 3}\n', b"[]\n"])
def test_a_bad_catalog_exits_3_and_names_the_line(anyflash, tmp_path, content):
    (tmp_path / "bad.jsonl").write_bytes(content)
    answer = anyflash("find", "--catalog", "bad.jsonl")
    assert answer.code == 3 and "bad.jsonl" in answer.err and "line 1" in answer.err


def test_color_only_on_request_or_a_terminal(anyflash):
    plain = anyflash("doctor", *WORKSTATION).out
    colored = anyflash("doctor", *WORKSTATION, "--color=always").out
    assert "\x1b[1m" in colored and "\x1b" not in plain
    stripped = colored
    for code in ("0", "1", "2", "31", "32"):
        stripped = stripped.replace(f"\x1b[{code}m", "")
    assert stripped == plain


def on_terminal(words, env):
    """What the program prints on a terminal."""
    from conftest import PROGRAM
    ours, theirs = os.openpty()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs, 1)
        os.execve(PROGRAM, [PROGRAM, *words], env)
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 65536):
            text += chunk
    except OSError:
        pass
    os.waitpid(pid, 0)
    os.close(ours)
    return text


def test_terminals_get_color_unless_told_not_to():
    words = ["doctor", *WORKSTATION]
    assert b"\x1b[1m" in on_terminal(words, {"TERM": "xterm"})
    assert b"\x1b" not in on_terminal(words, {"TERM": "xterm", "NO_COLOR": "1"})
    assert b"\x1b" not in on_terminal(words, {"TERM": "dumb"})
    assert b"\x1b" not in on_terminal([*words, "--color=never"], {"TERM": "xterm"})


@pytest.mark.parametrize("name", MACHINES)
def test_broken_commands_are_whole_again_in_a_shell(recorded, name):
    steps = answer_json(recorded, "plan", *words_of(name))["steps"]
    screen = recorded("plan", *words_of(name)).out
    windows = "windows" in name
    if windows:  # its commands are in one line each
        screen = screen.replace("\\", "\\\\")
    shown = [shlex.split(line) for line in screen.replace("\\\n", "").splitlines()
             if line.startswith("     ") and line.count("'") % 2 == 0]
    for step in steps:
        if step["command"] is not None:
            assert step["argv"] in shown, step["command"]


def build_words(anyflash, *options):
    plan = answer_json(anyflash, "plan", "-m", BY_NAME["rtx4090-torch2.15"], *options)
    slim, full = plan["builds"]
    assert full["argv"][-1] == "--full"
    assert shlex.split(slim["command"]) == slim["argv"]
    return slim, slim["argv"][4:]


def test_plan_offers_the_slim_build_where_no_wheel_is(anyflash):
    plan = answer_json(anyflash, "plan", "-m", BY_NAME["rtx4090-torch2.15"])
    rungs = {rung["name"]: rung for rung in plan["rungs"]}
    assert (rungs["wheel"]["verdict"], rungs["build"]["verdict"]) == ("unknown", "yes")
    slim, full = plan["builds"]
    assert slim["command"] == ("anyflash build --python /srv/projects/.venv/bin/python "
                               "--head-dim 128 --dtype bf16")
    for key in ("kernels", "estimated_seconds", "cpu_seconds", "disk_bytes", "wheel_bytes"):
        assert 0 < slim[key] < full[key]
    assert slim["peak_bytes"] <= slim["memory_bytes"] <= full["memory_bytes"]


@pytest.mark.parametrize("options, words", [
    ([], ["--head-dim", "128", "--dtype", "bf16"]),
    (["--dtype", "fp16"], ["--head-dim", "128", "--dtype", "fp16"]),
    (["--inference"], ["--head-dim", "128", "--dtype", "bf16", "--inference"]),
    (["--head-dim", "64,96"], ["--head-dim", "64,96"]),
])
def test_plan_offers_the_build_that_is_asked_for(anyflash, options, words):
    assert build_words(anyflash, *options)[1] == words


def test_plan_reads_a_models_configuration_or_its_folder(anyflash, tmp_path):
    config = tmp_path / "model" / "config.json"
    config.parent.mkdir()
    config.write_text('{"head_dim": 256, "sliding_window": 4096, "torch_dtype": "bfloat16"}')
    for path in (config, config.parent):
        slim, words = build_words(anyflash, "--for", str(path), "--inference")
        assert words == ["--for", str(path), "--inference"]
        assert "head size 256, bf16, forward only, window" in slim["holds"]
        assert 0 < slim["kernels"] < 80


def test_plan_names_what_is_wrong_with_a_configuration(anyflash, tmp_path):
    (tmp_path / "config.json").write_text("[]")
    answer = anyflash("plan", "--for", "config.json", "-m", BY_NAME["rtx4090-torch2.15"])
    assert answer.code == 3 and "config.json: not a JSON object" in answer.err


def test_plan_offers_no_build_where_none_can_be(anyflash):
    plan = answer_json(anyflash, "plan", "-m", BY_NAME["colab-t4"])
    assert plan["builds"] == []


@pytest.mark.parametrize("words, text", [
    (["--check", "--clean"], "--check cannot be used with --clean"),
    (["--full", "--for", "x"], "--full cannot be used with --for"),
    (["wheel.whl"], "'build' takes no arguments"),
    (["--head-dim", "0"], "use 1 to 256"),
    (["--head-dim", "64", "--dtype", "fp8"], "fp8"),
    (["--head-dim", "64", "--features", "sinks"], "sinks"),
    (["--head-dim", "64", "--jobs", "0"], "--jobs takes a number"),
    (["--check", "--arch", "75"], "compute capabilities from 8.0"),
    (["--check", "--arch", "80,130"], "--arch 130"), (["--check", "--arch", "9999"], "--arch"),
    ([], "say what to build: --for MODEL/config.json"),
])
def test_build_refuses_words_that_it_does_not_know(anyflash, words, text):
    answer = anyflash("build", *words)
    assert answer.code == 2 and text in answer.err and answer.out == "", answer


def test_plan_says_why_an_older_version_is_taken(anyflash):
    answer = anyflash("plan", "-v", "--machine", BY_NAME["xformers-window"])
    said = " ".join(answer.out.split())
    reason = "a newer version does not suit an installed package: flash_attn 2.8.3"
    assert reason in said, answer
    assert "flash_attn 2.8.3" not in answer.out.splitlines()[0]
