"""Failures of programs that use flash-attn, and of libraries that it needs."""

import shutil

from failures_import import OTHER_TORCH, python, beside, stub_extension
from world import LINUX, RELEASE, failure, flash_attn_file, of_torch

MODEL = """\
import transformers
config = transformers.LlamaConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=2,
                                  intermediate_size=64, vocab_size=64)
transformers.AutoModelForCausalLM.from_config(config, attn_implementation="flash_attention_2")
"""


@failure(
    "transformers-without", "not-installed",
    least="proved", given=of_torch("2.6.0", "flash_attn=none"),
)
def _(scene):
    """transformers is told to use flash_attention_2, and nothing is installed."""
    python(scene, scene.torch("2.6.0", "transformers==4.51.3"), MODEL)


@failure(
    "transformers-too-old", "flash-attn-too-old",
    least="proved", given=of_torch("2.6.0", "flash_attn=2.0.4"),
)
def _(scene):
    """transformers needs flash-attn 2.1 and finds 2.0.4 (it checks the GPU later)."""
    env = scene.torch("2.6.0", "transformers==4.40.2")
    scene.install_flash_attn(env, "2.6.0", version="2.0.4")
    python(scene, env, "import torch\ntorch.cuda.is_available = lambda: True\n" + MODEL)


@failure(
    "transformers-broken", *OTHER_TORCH, "installed-but-unloadable", "abi-mismatch",
    least="proved", given=of_torch("2.6.0"),
)
def _(scene):
    """A model class of transformers imports a flash-attn made for another torch."""
    env = scene.torch("2.6.0", "transformers==4.51.3")
    scene.install_flash_attn(env, "2.8.0")
    python(
        scene,
        env,
        "import torch\ntorch.cuda.is_available = lambda: True\n"
        "from transformers.models.llama.modeling_llama import LlamaForCausalLM\n" + MODEL,
    )


@failure(
    "cudnn-damaged", "installed-but-unloadable", "installer-damage", given=of_torch("2.11.0")
)
def _(scene):
    """torch's cuDNN was removed, so torch itself does not load."""
    env = scene.env("torch==2.11.0", "numpy")
    scene.install_flash_attn(env, "2.11.0")
    for folder in env.glob("lib/python*/site-packages/nvidia/cudnn*/lib"):
        shutil.rmtree(folder)
    python(scene, env, "import flash_attn\n")


@failure("older-nccl-first", "nccl-mismatch", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """Another NCCL, without newer functions, is loaded before torch's own."""
    env = scene.torch("2.6.0")
    scene.install_flash_attn(env, "2.6.0")
    old = scene.file("nccl.c", "int ncclGetVersion(int *v) { *v = 21005; return 0; }\n")
    scene.shared_library(scene.work / "libnccl.so.2", old, "-Wl,-soname,libnccl.so.2")
    python(
        scene, env, "import flash_attn\n",
        variables={"LD_PRELOAD": str(scene.work / "libnccl.so.2")},
    )


@failure("no-driver", given=of_torch("2.6.0", "gpu=none"))
def _(scene):
    """Tensors on a GPU without a driver: torch fails before flash-attn is called."""
    beside(
        scene,
        "2.6.0",
        "2.6.0",
        """\
        import torch
        from flash_attn import flash_attn_func
        q = torch.randn(1, 8, 2, 64, dtype=torch.float16, device="cuda")
        flash_attn_func(q, q, q)
        """,
    )


@failure("numpy-2-with-older-torch", "numpy", least="possible", given=LINUX)
def _(scene):
    """An extension compiled against NumPy 1 is imported beside NumPy 2."""
    env = scene.env("numpy==2.1.3")
    scene.quiet("uv", "pip", "install", "-q", "--no-deps", "torch==2.6.0", env=env)
    headers = scene.env("numpy==1.26.4", name="headers")
    (include,) = headers.glob("lib/python*/site-packages/numpy/core/include")
    stub = (
        "#include <Python.h>\n#include <numpy/arrayobject.h>\n"
        "__attribute__((constructor)) static void load(void) { _import_array(); }\n"
    )
    stub_extension(scene, env, stub, f"-I{include}", name="_C")
    python(scene, env, "import _C\n")


# ---- the installation itself ----


@failure("half-removed", given=of_torch("2.6.0"))
def _(scene):
    """An installation without RECORD, which pip cannot remove; unrelated to flash-attn."""
    env = scene.torch("2.6.0", pip="24.0")
    wheel = flash_attn_file(scene, "2.7.0", {"flash_attn/__init__.py": b""})
    scene.quiet("uv", "pip", "install", "--no-deps", wheel, env=env)
    (record,) = env.glob("lib/python*/site-packages/flash_attn-*.dist-info/RECORD")
    record.unlink()
    newer = flash_attn_file(scene, RELEASE, {"flash_attn/__init__.py": b""})
    scene.run("python", "-m", "pip", "install", "--no-deps", newer, env=env, prompt=True)
