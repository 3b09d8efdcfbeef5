"""Packages that look for flash_attn find the shim in an environment that has it installed."""

import importlib.util
import os
import pathlib
import subprocess
import venv

import pytest

torch = pytest.importorskip("torch")

from anyflash import shim  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a new environment with the packages of this one and the shim."""
    folder = tmp_path_factory.mktemp("consumer") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    ours = pathlib.Path(torch.__file__).parents[1]
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "these.pth").write_text(f"{ROOT / 'python'}\n{ours}\n")
    interpreter = folder / "bin" / "python"
    shim.install(interpreter)
    return interpreter


def run(python, code):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def needs(package):
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None,
        reason=f"needs {package}: pip install {package}",
    )


def test_the_module_computes(python):
    code = (
        "import torch, flash_attn, anyflash.flash_attn as ours; "
        "from flash_attn import flash_attn_func; "
        "q = torch.randn(1, 5, 2, 16); "
        "print(flash_attn.__version__, flash_attn.__anyflash__ != '', "
        "flash_attn_func is ours.flash_attn_func, *flash_attn_func(q, q, q).shape)"
    )
    assert run(python, code) == "2.8.3 True True 1 5 2 16"


@needs("transformers")
def test_transformers_finds_it_where_there_is_a_gpu(python):
    """transformers' own check without the test for a GPU."""
    code = (
        "import torch; torch.cuda.is_available = lambda: True\n"
        "import transformers.utils.import_utils as u\n"
        "u.is_torch_cuda_available = lambda: True\n"
        "print(u.is_flash_attn_2_available())"
    )
    assert run(python, code) == "True"


@needs("transformers")
def test_transformers_imports_what_it_needs_from_it(python):
    code = (
        "from flash_attn import flash_attn_func, flash_attn_varlen_func\n"
        "from flash_attn import flash_attn_with_kvcache\n"
        "from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input\n"
        "from flash_attn.layers.rotary import apply_rotary_emb\n"
        "from flash_attn.ops.triton.rotary import apply_rotary\n"
        "print('yes')"
    )
    assert run(python, code) == "yes"


@needs("diffusers")
def test_diffusers_takes_it(python):
    code = (
        "from diffusers.utils import is_flash_attn_available, is_flash_attn_version\n"
        "import diffusers.models.attention_dispatch as d\n"
        "print(is_flash_attn_available(), is_flash_attn_version('>=', '2.6.3'), "
        "d.flash_attn_func.__module__)"
    )
    assert run(python, code) == "True True anyflash.flash_attn"
