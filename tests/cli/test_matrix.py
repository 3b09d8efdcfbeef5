"""`anyflash build --matrix`: the jobs as JSON, workflow and script, and those left out."""
import json
import os
import subprocess

import pytest
import yaml

SLIM = ("--head-dim", "128", "--dtype", "bf16", "--features", "none")
SCRIPT = """\
#!/bin/sh
# One task per wheel: sbatch THIS-FILE
# Nodes need uv, anyflash and a C++ compiler; jobs for CUDA 12 or older
# also need that CUDA toolkit, with nvcc.
#SBATCH --job-name=anyflash-build
#SBATCH --array=0-0
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
set -eu
case ${SLURM_ARRAY_TASK_ID:?is not set: submit this file with sbatch} in
0) # torch2.9.1-cu128-cp312-sm90
    uv venv --allow-existing --python 3.12 anyflash-env/torch2.9.1-cu128-cp312-sm90
    uv pip install --python anyflash-env/torch2.9.1-cu128-cp312-sm90 torch==2.9.1
    anyflash build --python anyflash-env/torch2.9.1-cu128-cp312-sm90 --head-dim 128 \
--dtype bf16 --features none --arch 90 --memory 8G --jobs 4 --output wheels
    ;;
*)
    echo "there is no job $SLURM_ARRAY_TASK_ID" >&2
    exit 2
    ;;
esac
"""


def matrix(anyflash, *words, slim=SLIM):
    return anyflash("build", "--matrix", *words, *slim)


def jobs(anyflash, *words, slim=SLIM):
    done = matrix(anyflash, *words, slim=slim)
    assert done.code == 0, done
    return json.loads(done.out)


def test_every_combination_is_a_job(anyflash):
    answer = jobs(anyflash, "torch=2.9,2.10", "python=3.11,3.12", "arch=80,90")
    assert answer["schema"] == "anyflash-matrix/1" and answer["left_out"] == []
    assert [(job["torch"], job["python"], job["arch"]) for job in answer["jobs"]] == [
        (torch, python, arch) for torch in ("2.9.1", "2.10.0") for python in ("3.11", "3.12")
        for arch in (80, 90)]
    assert len({job["environment"] for job in answer["jobs"]}) == 8


def test_without_a_selection_each_wheel_holds_everything(anyflash):
    answer = jobs(anyflash, "torch=2.9,2.10", "python=3.11,3.12", "arch=80,90", slim=())
    assert len(answer["jobs"]) == 8
    for job in answer["jobs"]:
        assert job["steps"][-1]["argv"][4:7] == ["--full", "--arch", str(job["arch"])]


def test_a_part_of_the_selection_narrows_everything(anyflash):
    answer = jobs(anyflash, "torch=2.9", "python=3.12", "arch=90", slim=("--dtype", "bf16"))
    job, = answer["jobs"]
    argv = job["steps"][-1]["argv"]
    assert argv[argv.index("--head-dim") + 1] == "32,64,96,128,192,256"
    assert argv[argv.index("--dtype") + 1] == "bf16"


@pytest.mark.parametrize("part", [("--head-dim", "64"), ("--dtype", "bf16"), ("--inference",),
                                  ("--features", "none")])
def test_full_is_not_narrowed(anyflash, part):
    done = anyflash("build", "--full", *part, "--dry-run")
    assert done.code == 2 and f"--full cannot be used with {part[0]}" in done.err, done


def test_a_job_makes_its_environment_then_builds(anyflash):
    job, = jobs(anyflash, "torch=2.9.0", "python=3.12", "arch=9.0")["jobs"]
    place = "anyflash-env/torch2.9.0-cu128-cp312-sm90"
    assert [step["argv"] for step in job["steps"]] == [
        ["uv", "venv", "--allow-existing", "--python", "3.12", place],
        ["uv", "pip", "install", "--python", place, "torch==2.9.0"],
        ["anyflash", "build", "--python", place, *SLIM, "--arch", "90", "--output", "wheels"]]


def test_a_chosen_cuda_reaches_uv(anyflash):
    job, = jobs(anyflash, "torch=2.9", "python=3.12", "arch=90", "cuda=13.0")["jobs"]
    assert job["cuda"] == "cu130"
    assert job["steps"][1]["argv"][4:] == [
        job["environment"], "--torch-backend", "cu130", "torch==2.9.1"]


def test_the_build_line_is_one_that_build_takes(anyflash):
    job, = jobs(anyflash, "torch=2.9", "python=3.12", "arch=90", "--inference",
                "--memory", "6000M", "--jobs", "3", "--toolkit", "index")["jobs"]
    done = anyflash(*job["steps"][2]["argv"][1:], "--dry-run")
    assert done.code == 3 and "anyflash-env" in done.err, done  # no environment


def test_a_model_is_read_here_and_not_by_the_jobs(anyflash, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(
        {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
         "torch_dtype": "bfloat16"}))
    job, = jobs(anyflash, "torch=2.9", "python=3.12", "arch=90", slim=("--for",
                "config.json"))["jobs"]
    words = job["steps"][2]["argv"]
    assert "--for" not in words and words[words.index("--head-dim") + 1] == "128"


def test_values_that_mean_the_same_are_one_job(anyflash):
    answer = jobs(anyflash, "torch=2.9,2.9.1", "python=3.12", "arch=80,8.9,sm_86,8.0")
    names = ["torch2.9.1-cu128-cp312-sm80", "torch2.9.1-cu128-cp312-sm86"]
    assert [job["name"] for job in answer["jobs"]] == names


@pytest.mark.parametrize("words, reason", [
    (("torch=2.15", "python=3.10", "arch=80"), "no torch 2.15.0 for Python 3.10"),
    (("torch=2.8", "python=3.14t", "arch=80"), "no torch 2.8.0 for Python 3.14t"),
    (("torch=2.3", "python=3.8", "arch=80"), "does not support Python 3.8"),
    (("torch=2.99", "python=3.12", "arch=80"), "unknown torch release 2.99"),
    (("torch=2.6", "python=3.12", "arch=120"), "CUDA 12.4"),
    (("torch=2.9", "python=3.12", "arch=80", "cuda=11.8"), "no torch 2.9.1 with cu118"),
])
def test_what_cannot_be_is_left_out_with_the_reason(anyflash, words, reason):
    done = matrix(anyflash, *words)
    assert done.code == 1 and reason in done.err, done
    answer = json.loads(done.out)
    assert answer["jobs"] == [] and reason in answer["left_out"][0]["reason"]
    for form in ("github", "slurm"):
        done = matrix(anyflash, *words, "--format", form)
        assert done.code == 1 and done.out == ""


@pytest.mark.parametrize("words, named", [
    (("torch=2.9", "python=3.12"), "arch="), (("torch=2.9", "arch=80"), "python="),
    ((), "torch="), (("torch=", "python=3.12", "arch=80"), "not a value"),
    (("torch=2.9,", "python=3.12", "arch=80"), "not a value"),
    (("torch=2.9+cu128", "python=3.12", "arch=80"), "cuda=12.8"),
    (("torch=2.9;reboot", "python=3.12", "arch=80"), "2.9;reboot"),
    (("torch=2.9", "python=$(id)", "arch=80"), "$(id)"),
    (("torch=2.9", "python=2.7", "arch=80"), "2.7"),
    (("torch=2.9", "python=3.12", "arch=75"), "8.0 or newer"),
    (("torch=2.9", "python=3.12", "arch=80", "cuda=x"), "'x'"),
    (("torch=2.9", "python=3.12", "arch=80", "os=mac"), "os=mac"),
    (("torch=2.9", "torch=2.10", "python=3.12", "arch=80"), "twice"),
    (("torch=2.9", "python=3.12", "arch=80", "--arch", "90"), "instead of --arch"),
    (("torch=2.9", "python=3.12", "arch=80", "--format", "toml"), "json, github or slurm"),
    (("torch=2.9", "python=3.12", "arch=80", "--json", "--format", "slurm"),
     "--json cannot be"),
    (("torch=2.9\x1b[31m", "python=3.12", "arch=80"), "\\x1b[31m"),
])
def test_bad_words_are_named(anyflash, words, named):
    done = matrix(anyflash, *words)
    assert done.code == 2 and named in done.err and done.out == "", done


def test_too_many_values_and_jobs_are_refused(anyflash):
    many = ",".join(f"2.{i}" for i in range(33))
    assert "more than 32" in matrix(anyflash, f"torch={many}", "python=3.12", "arch=80").err
    done = matrix(anyflash, f"torch={many[:-5]}", "arch=80,90,100,120",
                  "python=" + ",".join(f"3.{i}" for i in range(9, 17)))
    assert "at most 1000" in done.err and done.out == "", done


def test_slurm_script(anyflash):
    done = matrix(anyflash, "torch=2.9", "python=3.12", "arch=90", "--format", "slurm",
                  "--memory", "8G", "--jobs", "4")
    assert done.code == 0 and done.out == SCRIPT, done


@pytest.mark.parametrize("form", ["github", "slurm"])
def test_only_old_cuda_needs_a_toolkit_there(anyflash, form):
    assert "with nvcc" not in matrix(anyflash, "torch=2.15", "python=3.12", "arch=90",
                                     "--format", form).out
    assert "with nvcc" in matrix(anyflash, "torch=2.8,2.15", "python=3.12", "arch=90",
                                 "--format", form).out


def fake_tools(folder):
    """Stand-ins for uv and anyflash that only log their arguments."""
    folder.mkdir()
    for name in ("uv", "anyflash"):
        tool = folder / name
        tool.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@" --- >>"$SEEN"\n')
        tool.chmod(0o755)


@pytest.mark.parametrize("output", ["wheels", "my wheels", "it's $HOME; `x`", "a\nb"])
def test_slurm_script_runs_one_job_a_task(anyflash, tmp_path, output):
    fake_tools(tmp_path / "bin")
    words = ("torch=2.9,2.10", "python=3.12", "arch=90", "--output", output)
    script = matrix(anyflash, *words, "--format", "slurm").out
    wanted = jobs(anyflash, *words)["jobs"]
    assert subprocess.run(["sh", "-n"], input=script, text=True).returncode == 0
    for task, job in enumerate(wanted):
        seen = tmp_path / f"seen{task}"
        environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SEEN": str(seen),
                       "SLURM_ARRAY_TASK_ID": str(task)}
        subprocess.run(["sh"], input=script, text=True, env=environment, check=True)
        assert seen.read_text() == "".join(
            "\n".join([*step["argv"], "---", ""]) for step in job["steps"])
    environment["SLURM_ARRAY_TASK_ID"] = "2"
    done = subprocess.run(["sh"], input=script, text=True, env=environment, capture_output=True)
    assert done.returncode == 2 and "no job 2" in done.stderr


@pytest.mark.parametrize("output", ["wheels", 'it\'s "quoted" \\ # : here', "grün"])
def test_workflow_has_one_entry_a_job(anyflash, output):
    words = ("torch=2.9,2.10", "python=3.12", "arch=80,90", "--output", output)
    text = matrix(anyflash, *words, "--format", "github").out
    job = yaml.safe_load(text)["jobs"]["wheel"]
    entries = job["strategy"]["matrix"]["include"]
    wanted = jobs(anyflash, *words)["jobs"]
    assert [entry["name"] for entry in entries] == [each["name"] for each in wanted]
    for entry, each in zip(entries, wanted):
        commands = [entry["environment"], entry["install"], entry["build"]]
        assert commands == [step["command"] for step in each["steps"]]
        assert all(isinstance(value, str) for value in entry.values())
    assert [step["run"] for step in job["steps"][:3]] == [
        "${{ matrix.environment }}", "${{ matrix.install }}", "${{ matrix.build }}"]
    assert job["steps"][3]["with"]["path"] == f"{output}/*.whl"


@pytest.mark.parametrize("output", ["${{ secrets.X }}", "a*b", "a\nb", os.fsdecode(b"\xff")])
def test_workflow_refuses_folders_that_are_expressions(anyflash, output):
    done = matrix(anyflash, "torch=2.9", "python=3.12", "arch=80", "--format", "github",
                  "--output", output)
    assert done.code == 2 and done.out == "", done


def test_a_folder_that_is_no_utf_8_is_refused(anyflash):
    done = matrix(anyflash, "torch=2.9", "python=3.12", "arch=80", "--output",
                  os.fsdecode(b"\xff"))
    assert done.code == 2 and "UTF-8" in done.err, done


def test_workflow_takes_at_most_256_jobs(anyflash):
    done = matrix(anyflash, "torch=2.7,2.8,2.9,2.10,2.11,2.12,2.13,2.14",
                  "arch=80,90,100,120", "python=3.10,3.11,3.12,3.13,3.14",
                  "cuda=12.6,12.8,13.0", "--format", "github")
    assert done.code == 3 and "256" in done.err and done.out == "", done
