"""Failures while metadata is generated, versions are chosen, or setup.py downloads a wheel."""

import world
from world import FLASH, HELPERS, LINUX, RELEASE, TAGS, failure, flash_attn_file, make_wheel
from world import of_torch, pip_install, uv_install

NO_TORCH = ("no-torch-in-build-env", "uv-no-build-isolation")

# ---- build dependencies ----


@failure("pip-isolated-build", *NO_TORCH, least="proved", given=LINUX)
def _(scene):
    """pip builds flash-attn's sdist in an isolated environment, which has no torch."""
    pip_install(scene, scene.env(pip="26.3"), FLASH)


@failure(
    "pip-isolated-build-although-torch-is-there", *NO_TORCH,
    least="proved", given=of_torch("2.6.0"),
)
def _(scene):
    """The same in an environment that has torch, with an older pip, and the command shown."""
    pip_install(scene, scene.torch("2.6.0", pip="23.2.1"), "flash-attn", prompt=True)


@failure("pip-isolated-build-verbose", *NO_TORCH, least="proved", given=LINUX)
def _(scene):
    """The same with -v, which users try after the first message."""
    pip_install(scene, scene.env(pip="25.1"), "-v", "--no-binary", ":all:", FLASH)


@failure("uv-isolated-build", *NO_TORCH, least="proved", given=LINUX)
def _(scene):
    """uv pip builds flash-attn's sdist in an isolated environment."""
    uv_install(scene, scene.env(), FLASH, prompt=True)


@failure("uv-project-isolated-build", *NO_TORCH, least="proved", given=LINUX)
def _(scene):
    """uv sync of a project that depends on flash-attn and torch."""
    scene.file(
        "pyproject.toml",
        '[project]\nname = "trainer"\nversion = "0.1.0"\n'
        f'requires-python = "==3.11.*"\ndependencies = ["torch", "{FLASH}"]\n',
    )
    scene.run("uv", "sync", prompt=True)


@failure(
    "uv-project-no-build-isolation", "cuda-major-mismatch", "network-blocked", "nvcc-missing",
    "cuda-home-unset", least="proved", given=of_torch("2.6.0"),
)
def _(scene):
    """uv sync with no-build-isolation-package: uv installs torch first; setup.py may not reach
    the host of its wheels, and then finds a toolkit of another major, or none."""
    scene.file(
        "pyproject.toml",
        '[project]\nname = "trainer"\nversion = "0.1.0"\n'
        f'requires-python = "==3.11.*"\ndependencies = ["torch==2.6.0", "{FLASH}"]\n'
        '[tool.uv]\nno-build-isolation-package = ["flash-attn"]\n',
    )
    scene.quiet("uv", "venv", "-q", "--python", "3.11")
    scene.quiet("uv", "pip", "install", "-q", *HELPERS)
    scene.run("uv", "sync", "--inexact", prompt=True)


@failure("pip-no-torch-without-isolation", *NO_TORCH, given=LINUX)
def _(scene):
    """--no-build-isolation in an environment with the helpers, without torch."""
    pip_install(scene, scene.env(*HELPERS, pip=True), "--no-build-isolation", FLASH)


@failure("pip-no-packaging", "missing-build-helper", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """--no-build-isolation without the package 'packaging'."""
    env = scene.torch("2.6.0", "setuptools==69.5.1", "wheel==0.43.0", pip="24.0")
    pip_install(scene, env, FLASH, "--no-build-isolation")


@failure("pip-torch-without-its-needs", given=of_torch("2.6.0"))
def _(scene):
    """torch was installed without its dependencies: a fault of the environment."""
    env = scene.env("setuptools<81", "wheel", pip="25.1")
    scene.quiet("uv", "pip", "install", "-q", "--no-deps", "torch==2.6.0", env=env)
    pip_install(scene, env, FLASH, "--no-build-isolation")


@failure(
    "pip-no-wheel-package", "missing-build-helper", least="proved", given=of_torch("2.6.0")
)
def _(scene):
    """--no-build-isolation without the package 'wheel'."""
    env = scene.env("setuptools<70", "packaging", pip="24.0")
    scene.quiet("uv", "pip", "install", "-q", "--no-deps", "torch==2.6.0", env=env)
    pip_install(scene, env, FLASH, "--no-build-isolation")


@failure("uv-no-setuptools", "missing-build-helper", least="proved", given=of_torch("2.6.0"))
def _(scene):
    """uv pip --no-build-isolation in a uv environment, which has no setuptools."""
    env = scene.env(name=".venv")
    scene.quiet("uv", "pip", "install", "-q", "--no-deps", "torch==2.6.0", env=env)
    uv_install(scene, env, FLASH, "--no-build-isolation")


@failure("pip-no-setuptools", "missing-build-helper", least="proved", given=LINUX)
def _(scene):
    """The same with pip: BackendUnavailable of setuptools."""
    pip_install(scene, scene.env(pip="25.1"), FLASH, "--no-build-isolation")


def fake_nvcc(scene, release):
    """A toolkit folder whose nvcc can only print its version."""
    scene.script(
        "cuda/bin/nvcc",
        "#!/bin/sh\ncat <<'END'\nnvcc: NVIDIA (R) Cuda compiler driver\n"
        "Copyright (c) 2005-2024 NVIDIA Corporation\n"
        f"Cuda compilation tools, release {release}, V{release}.131\n"
        f"Build cuda_{release}.r{release}/compiler.1_0\nEND\n",
    )
    return str(scene.work / "cuda")


@failure(
    "pip-no-toolkit", "nvcc-missing", "cuda-home-unset",
    least="proved", given=of_torch("2.6.0", "nvcc=none"),
)
def _(scene):
    """No CUDA toolkit on the machine."""
    pip_install(
        scene, scene.torch("2.6.0", *HELPERS, pip="25.1"), FLASH, "--no-build-isolation",
        hidden=True,
    )


@failure(
    "uv-no-toolkit", "nvcc-missing", "cuda-home-unset",
    least="proved", given=of_torch("2.11.0", "nvcc=none"),
)
def _(scene):
    """The same with uv and a newer torch."""
    uv_install(
        scene, scene.torch("2.11.0", *HELPERS), FLASH, "--no-build-isolation",
        hidden=True, prompt=True,
    )


@failure(
    "older-release-no-toolkit", "nvcc-missing", "cuda-home-unset",
    least="proved", given=of_torch("2.6.0", "nvcc=none"),
)
def _(scene):
    """No CUDA toolkit, an older flash-attn and pip -v."""
    pip_install(
        scene, scene.torch("2.6.0", *HELPERS, pip="24.0"), "-v", "flash-attn==2.5.8",
        "--no-build-isolation", hidden=True,
    )


@failure(
    "toolkit-folder-without-nvcc", "nvcc-missing", "cuda-home-unset",
    least="proved", given=of_torch("2.6.0", "nvcc=none"),
)
def _(scene):
    """CUDA_HOME names a folder that has no nvcc, as in a runtime image."""
    env = scene.torch("2.6.0", *HELPERS, pip="25.1")
    (scene.work / "cuda/bin").mkdir(parents=True)
    pip_install(
        scene, env, FLASH, "--no-build-isolation",
        hidden=True, variables={"CUDA_HOME": str(scene.work / "cuda")},
    )


@failure("nvcc-of-11-6", "nvcc-too-old", least="proved", given=of_torch("2.6.0", "nvcc=11.6"))
def _(scene):
    """The first nvcc on PATH reports CUDA 11.6."""
    env = scene.torch("2.6.0", *HELPERS, pip="25.1")
    pip_install(
        scene, env, FLASH, "--no-build-isolation",
        hidden=True, variables={"CUDA_HOME": fake_nvcc(scene, "11.6")},
    )


MATCH_RUNTIME = """\
[project]
name = "trainer"
version = "0.1.0"
requires-python = "==3.11.*"
dependencies = ["torch==2.6.0", "flash-attn==2.8.3"]
[tool.uv.extra-build-dependencies]
flash-attn = [{ requirement = "torch", match-runtime = true }]
"""


@failure("uv-match-runtime", "uv-match-runtime-metadata", least="proved", given=LINUX)
def _(scene):
    """extra-build-dependencies with match-runtime, without static metadata; older releases of
    uv refuse that."""
    tools = scene.env("uv==0.11.0", name="tools")
    scene.file("pyproject.toml", MATCH_RUNTIME)
    scene.write("$ uv sync\n")
    scene.run(tools / "bin/uv", "sync")


@failure(
    "toolkit-without-headers", "cuda-headers-missing", given=of_torch("2.6.0", "nvcc=12.4")
)
def _(scene):
    """setup.py builds with a toolkit that consists of nvcc only."""
    env = scene.torch("2.6.0", *HELPERS)
    scene.run(
        "python",
        "setup.py",
        "bdist_wheel",
        env=env,
        cwd=scene.sdist(),
        hidden=True,
        variables={
            "FLASH_ATTENTION_FORCE_BUILD": "TRUE",
            "MAX_JOBS": "1",
            "CUDA_HOME": fake_nvcc(scene, "12.4"),
        },
    )


# ---- resolving ----


@failure(
    "pip-old-python", "no-wheel-for-python", least="proved", given=("os=linux", "python=3.8")
)
def _(scene):
    """flash-attn requires Python 3.9, but this is 3.8."""
    pip_install(scene, scene.env(python="3.8", pip="24.0"), FLASH)


@failure("pip-peer-pins-torch", "torch-forced-by-peer", given=of_torch("2.6.0"))
def _(scene):
    """A flash-attn wheel beside a torch, and xformers, which pins another torch."""
    wheel = flash_attn_file(scene, "2.8.3+cu12torch2.6", {}, ("torch",))
    pip_install(
        scene, scene.env(pip="25.1"), "torch==2.6.0", wheel, "xformers==0.0.31", limit=500
    )


@failure("uv-peer-pins-torch", "torch-forced-by-peer", given=of_torch("2.6.0"))
def _(scene):
    """The same with uv."""
    wheel = flash_attn_file(scene, "2.8.3+cu12torch2.6", {}, ("torch",))
    uv_install(scene, scene.env(), "torch==2.6.0", wheel, "xformers==0.0.31", prompt=True)


@failure("pip-dsl-pins", "dsl-version-conflict", least="proved", given=LINUX)
def _(scene):
    """flash-attn-4 with a version of CUTLASS DSL that it does not accept."""
    pip_install(
        scene, scene.env(pip="25.1"), "--dry-run", "--pre", "flash-attn-4",
        "nvidia-cutlass-dsl==4.2.0", limit=500,
    )


@failure("uv-dsl-pins", "dsl-version-conflict", least="proved", given=LINUX)
def _(scene):
    """The same with uv, and an exact pre-release."""
    uv_install(
        scene, scene.env(), "--dry-run", "flash-attn-4==4.0.0b4", "nvidia-cutlass-dsl==4.2.0"
    )


# ---- the download of setup.py ----


def setup_download(scene, address, version="2.6.0", force=None, **options):
    """setup.py's own download of a wheel, from `address` in place of GitHub."""
    env = scene.torch(version, *HELPERS)
    source = scene.sdist()
    world.download_from(source, address)
    variables = {
        "CUDA_HOME": fake_nvcc(scene, options.pop("release", "12.4")),
        **options.pop("variables", {}),
    }
    scene.run(
        "uv", "pip", "install", "--no-build-isolation", "--no-deps", "-v", source,
        env=env, hidden=True, variables=variables, **options,
    )


@failure("setup-download-dropped", "network-blocked", given=of_torch("2.6.0", "nvcc=12.4"))
def _(scene):
    """setup.py downloads a wheel, and the server closes the connection without an answer."""
    setup_download(scene, f"http://127.0.0.1:{scene.serve(world.Dropping)}")


@failure(
    "setup-rename-over-mounts", "cross-device-link",
    least="proved", given=of_torch("2.6.0", "nvcc=12.4"),
)
def _(scene):
    """setup.py downloads a wheel and renames it into a folder of another file system."""
    version = f"{RELEASE}+cu12torch2.6cxx11abiFALSE"
    tag = scene.work / "served" / f"v{RELEASE}"
    tag.mkdir(parents=True)
    make_wheel(tag, "flash_attn", RELEASE, TAGS, {}, file_version=version)
    port = scene.serve(world.folder_handler(scene.work / "served"))
    env = scene.torch("2.6.0", *HELPERS)
    source = scene.sdist()
    world.download_from(source, f"http://127.0.0.1:{port}")
    scene.mount(scene.work / "dist", "8m")
    scene.run(
        "python", "setup.py", "bdist_wheel", "--dist-dir", scene.work / "dist",
        env=env, cwd=source, hidden=True, variables={"CUDA_HOME": fake_nvcc(scene, "12.4")},
    )
