"""Failures when flash-attn is imported, with the real loader."""

import shutil
import subprocess
import textwrap

from world import LINUX, RELEASE, SOABI, failure, of_torch

OTHER_TORCH = (
    "torch-minor-mismatch",
    "stale-after-torch-upgrade",
    "stale-cached-wheel",
    "no-wheel-for-torch",
    "torch-patch-mismatch",
)
OLD_ABI = ("abi-mismatch", *OTHER_TORCH)
WRONG_CUDA = ("cuda-major-mismatch",)


def python(scene, env, code, **options):
    """Runs the code as a script, whose name tracebacks show."""
    script = scene.file("train.py", textwrap.dedent(code))
    return scene.run("python", script, env=env, hidden=True, **options)


def beside(scene, torch, built_for, code="import flash_attn\n", **options):
    """flash-attn whose extension was compiled for one torch, imported beside another."""
    env = scene.torch(torch)
    scene.install_flash_attn(env, built_for, **options)
    python(scene, env, code)


# ---- another torch ----


@failure(
    "import-2-8-in-2-6", *OTHER_TORCH, "abi-mismatch", least="proved", given=of_torch("2.6.0")
)
def _(scene):
    """Compiled for torch 2.8, imported beside torch 2.6."""
    beside(scene, "2.6.0", "2.8.0")


@failure("import-2-3-in-2-15", *OLD_ABI, least="proved", given=of_torch("2.15.0"))
def _(scene):
    """Compiled for torch 2.3 (CUDA 13 in its needs), imported beside torch 2.15."""
    beside(scene, "2.15.0", "2.3.1+cu13")


@failure("import-2-6-in-2-11", *OLD_ABI, least="proved", given=of_torch("2.11.0"))
def _(scene):
    """Compiled for torch 2.6 with the old C++ ABI (CUDA 13 in its needs), beside torch 2.11."""
    beside(scene, "2.11.0", "2.6.0+cu13")


@failure("import-2-8-in-2-11", *OTHER_TORCH, least="proved", given=of_torch("2.11.0"))
def _(scene):
    """Compiled for torch 2.8 (CUDA 13 in its needs), beside torch 2.11."""
    beside(scene, "2.11.0", "2.8.0+cu13")


@failure("import-2-9-in-2-15", *OTHER_TORCH, least="proved", given=of_torch("2.15.0"))
def _(scene):
    """Compiled for torch 2.9 (CUDA 13 in its needs), beside 2.15, by a function's import."""
    beside(scene, "2.15.0", "2.9.1+cu13", "from flash_attn import flash_attn_func\n")


@failure(
    "import-2-15-in-2-6", *OTHER_TORCH, "abi-mismatch", least="proved", given=of_torch("2.6.0")
)
def _(scene):
    """Compiled for torch 2.15 (CUDA 12 in its needs), beside 2.6, imported by `python -c`."""
    env = scene.torch("2.6.0")
    scene.install_flash_attn(env, "2.15.0+cu12")
    scene.run("python", "-c", "import torch, flash_attn_2_cuda", env=env, prompt=True)


@failure(
    "upgrade-of-torch", "stale-after-torch-upgrade", least="proved", given=of_torch("2.11.0")
)
def _(scene):
    """torch is upgraded while flash-attn is installed, which is then imported."""
    env = scene.env("torch==2.6.0", "numpy")
    scene.install_flash_attn(env, "2.6.0+cu13")
    scene.run("uv", "pip", "install", "torch==2.11.0", env=env, prompt=True, limit=900)
    python(scene, env, "import flash_attn\n")


@failure("cuda-12-wheel-in-cuda-13", *WRONG_CUDA, least="proved", given=of_torch("2.11.0"))
def _(scene):
    """A CUDA 12 extension beside a torch for CUDA 13: libcudart.so.12 is missing."""
    beside(scene, "2.11.0", "2.11.0+cu12")


@failure("cuda-13-wheel-in-cuda-12", *WRONG_CUDA, least="proved", given=of_torch("2.6.0"))
def _(scene):
    """A CUDA 13 extension beside a torch for CUDA 12."""
    beside(scene, "2.6.0", "2.6.0+cu13", "from flash_attn import flash_attn_varlen_func\n")


@failure("cuda-11-wheel-in-cuda-12", *WRONG_CUDA, least="proved", given=of_torch("2.6.0"))
def _(scene):
    """An extension that needs the runtime of CUDA 11."""
    env = scene.torch("2.6.0")
    scene.install_flash_attn(env, "2.6.0")
    compiled = scene.file("needs.c", "int needed(void) { return 0; }\n")
    scene.shared_library(
        scene.work / "libcudart.so.11.0", compiled, "-Wl,-soname,libcudart.so.11.0"
    )
    stub_extension(scene, env, "", scene.work / "libcudart.so.11.0")
    python(scene, env, "import torch\nimport flash_attn\n")


def stub_extension(scene, env, text, *more, name="flash_attn_2_cuda"):
    """Puts a small extension in place of the one that is installed."""
    source = scene.file(
        "stub.c",
        text + "\n#include <Python.h>\nstatic struct PyModuleDef module ="
        f' {{PyModuleDef_HEAD_INIT, "{name}"}};\n'
        f"PyObject *PyInit_{name}(void) {{ return PyModule_Create(&module); }}\n",
    )
    (target,) = env.glob("lib/python*/site-packages")
    library = target / f"{name}.{SOABI}.so"
    library.unlink(missing_ok=True)
    include = subprocess.run(
        [env / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
        check=True, text=True, capture_output=True,
    ).stdout.strip()
    scene.shared_library(library, f"-I{include}", source, "-Wl,--no-as-needed", *more)


def stub_library(scene, soname, function, node):
    """A library with one function of one symbol version, to link with."""
    versions = scene.file(f"{soname}.map", f"{node} {{ global: {function}; local: *; }};\n")
    source = scene.file(f"{soname}.c", f"int {function}(void) {{ return 0; }}\n")
    library = scene.work / "stubs" / soname
    library.parent.mkdir(exist_ok=True)
    scene.shared_library(
        library, "-nostdlib", source, f"-Wl,-soname,{soname}",
        f"-Wl,--version-script={versions}",
    )
    return library


def needs_version(scene, torch, soname, node):
    env = scene.torch(torch)
    scene.install_flash_attn(env, torch)
    stub_extension(
        scene, env, "int newer(void);\nint use(void) { return newer(); }",
        stub_library(scene, soname, "newer", node),
    )
    python(scene, env, "import flash_attn\n")


@failure(
    "glibc-of-a-newer-linux", "glibc-too-old",
    least="proved", given=of_torch("2.6.0", "glibc=2.31"),
)
def _(scene):
    """The extension needs a symbol version that this glibc lacks."""
    needs_version(scene, "2.6.0", "libc.so.6", "GLIBC_2.99")


@failure(
    "glibc-of-a-newer-linux-libm", "glibc-too-old", least="proved", given=of_torch("2.11.0")
)
def _(scene):
    """The same with libm, in a log that does not state the glibc version."""
    needs_version(scene, "2.11.0", "libm.so.6", "GLIBC_2.43")


@failure(
    "libstdcxx-of-a-newer-gcc", "libstdcxx-too-old", least="proved", given=of_torch("2.6.0")
)
def _(scene):
    """The extension needs a symbol version that this libstdc++ lacks."""
    needs_version(scene, "2.6.0", "libstdc++.so.6", "GLIBCXX_3.4.99")


@failure("libstdcxx-cxxabi", "libstdcxx-too-old", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """The same with CXXABI."""
    needs_version(scene, "2.6.0", "libstdc++.so.6", "CXXABI_1.3.99")


@failure("import-before-torch", "import-before-torch", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """The extension is imported without torch, whose libraries are then not loaded."""
    env = scene.torch("2.6.0")
    scene.install_flash_attn(env, "2.6.0")
    python(scene, env, "import flash_attn_2_cuda as flash_attn_gpu\n")


# ---- the extension is missing ----


@failure(
    "clone-shadows", "source-tree-shadows", "extension-missing",
    least="proved", given=of_torch("2.6.0"),
)
def _(scene):
    """A clone in the current folder is found before the installed package."""
    env = scene.torch("2.6.0", "einops")
    source = scene.sdist().rename(scene.work / "flash-attention")
    scene.run("python", "-c", "import flash_attn", env=env, cwd=source, prompt=True)


@failure(
    "clone-shadows-a-script", "source-tree-shadows", "extension-missing",
    least="proved", given=of_torch("2.11.0"),
)
def _(scene):
    """The same with a script in the clone."""
    env = scene.torch("2.11.0", "einops")
    source = scene.sdist().rename(scene.work / "flash-attention")
    (source / "check.py").write_text("from flash_attn import flash_attn_func\n")
    scene.run("python", "check.py", env=env, cwd=source, prompt=True)


@failure("built-without-cuda", "extension-missing", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """flash-attn really installed with FLASH_ATTENTION_SKIP_CUDA_BUILD, then imported."""
    env = scene.torch(
        "2.6.0", "setuptools<81", "wheel", "packaging", "psutil", "ninja", "einops"
    )
    scene.quiet(
        "uv", "pip", "install", "--no-cache", "--no-build-isolation", "--no-deps",
        f"flash-attn=={RELEASE}",
        env=env, hidden=True, variables={"FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"},
    )
    python(scene, env, "from flash_attn import flash_attn_qkvpacked_func, flash_attn_func\n")


@failure(
    "extension-of-another-python", "extension-missing", "wheel-tag-wrong-python",
    least="proved", given=of_torch("2.6.0"),
)
def _(scene):
    """site-packages has the extension of Python 3.10."""
    env = scene.torch("2.6.0")
    scene.install_flash_attn(env, "2.6.0")
    (library,) = env.glob("lib/python*/site-packages/flash_attn_2_cuda*.so")
    library.rename(library.with_name("flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so"))
    python(scene, env, "import flash_attn\n")


@failure("extra-extension", "csrc-extension-missing", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """A layer that needs the extension dropout_layer_norm."""
    beside(
        scene, "2.6.0", "2.6.0",
        "from flash_attn.ops.layer_norm import dropout_add_layer_norm\n",
    )


@failure(
    "extra-extension-alone", "csrc-extension-missing", least="possible", given=of_torch("2.6.0")
)
def _(scene):
    """The same with rotary_emb, imported directly."""
    beside(scene, "2.6.0", "2.6.0", "import rotary_emb\n")


# ---- nothing is installed, or the wrong thing ----


@failure(
    "not-installed", "not-installed", least="proved", given=of_torch("2.6.0", "flash_attn=none")
)
def _(scene):
    """flash_attn is imported but not installed."""
    python(
        scene, scene.torch("2.6.0"), "import torch\nfrom flash_attn import flash_attn_func\n"
    )


@failure("not-installed-bare", "not-installed", least="proved", given=("os=linux",))
def _(scene):
    """The same in an empty environment."""
    scene.run("python", "-c", "import flash_attn", env=scene.env(), prompt=True)


@failure(
    "flash-attn-3-not-there", "fa3-module-name", "not-installed",
    least="proved", given=of_torch("2.6.0"),
)
def _(scene):
    """FlashAttention 3 is imported where only 2 is installed."""
    beside(scene, "2.6.0", "2.6.0", "from flash_attn_interface import flash_attn_func\n")


@failure("flash-attn-4-not-there", "fa4-namespace", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """flash_attn.cute is imported where only flash-attn 2 is installed."""
    env = scene.torch("2.6.0")
    scene.install_flash_attn(env, "2.6.0")
    (folder,) = env.glob("lib/python*/site-packages/flash_attn")
    shutil.rmtree(folder / "cute", ignore_errors=True)
    python(scene, env, "from flash_attn.cute import flash_attn_func\n")


@failure("flash-attn-4-without-dsl", "dsl-helper-missing", least="proved", given=LINUX)
def _(scene):
    """flash-attn-4 installed with --no-deps, then imported."""
    env = scene.torch("2.11.0", "einops")
    scene.quiet(
        "uv", "pip", "install", "--no-deps", "--prerelease", "allow", "flash-attn-4", env=env
    )
    python(scene, env, "from flash_attn.cute import flash_attn_func\n")


@failure(
    "function-of-1-x", "api-renamed",
    least="proved", given=of_torch("2.6.0", f"flash_attn={RELEASE}"),
)
def _(scene):
    """A caller asks flash-attn 2 for a function of 1.x."""
    beside(
        scene, "2.6.0", "2.6.0",
        "from flash_attn.flash_attn_interface import flash_attn_unpadded_qkvpacked_func\n",
    )


@failure(
    "module-of-1-x", "api-renamed",
    least="proved", given=of_torch("2.6.0", f"flash_attn={RELEASE}"),
)
def _(scene):
    """A caller asks flash-attn 2 for a module of 1.x."""
    beside(scene, "2.6.0", "2.6.0", "from flash_attn.flash_attention import FlashAttention\n")
