"""Failures before anything is compiled: resolving, build dependencies, downloading, installing."""
import os
import socket
import subprocess

import world
from world import RELEASE, TAGS, failure, make_wheel, of_torch

FLASH = f"flash-attn=={RELEASE}"
LINUX = ("os=linux", "arch=x86_64", "python=3.11")
NO_TORCH = ("no-torch-in-build-env", "uv-no-build-isolation")
BAD_ZIP = ("wheel-is-lfs-pointer", "installer-damage")
# What flash-attn's setup.py wants of an environment where nothing is isolated.
HELPERS = ("setuptools<81", "wheel", "packaging", "psutil", "ninja")


def pip(scene, env, *words, **options):
    return scene.run(env / "bin/python", "-m", "pip", *words, env=env, **options)


def uv(scene, env, *words, **options):
    return scene.run("uv", "pip", *words, env=env, **options)


# ---- build dependencies ----


@failure("pip-isolated-build", *NO_TORCH, given=LINUX)
def _(scene):
    """pip builds flash-attn's sdist in an isolated environment, which has no torch."""
    pip(scene, scene.env(pip="26.3"), "install", FLASH)


@failure("pip-isolated-build-although-torch-is-there", *NO_TORCH, given=of_torch("2.6.0"))
def _(scene):
    """The same in an environment that has torch, with an older pip, and the command shown."""
    pip(scene, scene.torch("2.6.0", pip="23.2.1"), "install", "flash-attn", prompt=True)


@failure("pip-isolated-build-verbose", *NO_TORCH, given=LINUX)
def _(scene):
    """The same with -v, as a reader of the first message tries next."""
    pip(scene, scene.env(pip="25.1"), "install", "-v", "--no-binary", ":all:", FLASH)


@failure("uv-isolated-build", *NO_TORCH, given=LINUX)
def _(scene):
    """uv pip builds flash-attn's sdist in an isolated environment."""
    uv(scene, scene.env(), "install", FLASH, prompt=True)


@failure("uv-project-isolated-build", *NO_TORCH, given=LINUX)
def _(scene):
    """uv sync of a project that depends on flash-attn and torch."""
    scene.file("pyproject.toml", '[project]\nname = "trainer"\nversion = "0.1.0"\n'
               f'requires-python = "==3.11.*"\ndependencies = ["torch", "{FLASH}"]\n')
    scene.run("uv", "sync", prompt=True)


@failure("uv-project-no-build-isolation", "cuda-major-mismatch", "network-blocked",
         "nvcc-missing", "cuda-home-unset", given=of_torch("2.6.0"))
def _(scene):
    """uv sync with no-build-isolation-package: uv installs torch first; setup.py may not reach
    the host of its wheels, and then finds a toolkit of another major, or none."""
    scene.file("pyproject.toml", '[project]\nname = "trainer"\nversion = "0.1.0"\n'
               f'requires-python = "==3.11.*"\ndependencies = ["torch==2.6.0", "{FLASH}"]\n'
               '[tool.uv]\nno-build-isolation-package = ["flash-attn"]\n')
    scene.quiet("uv", "venv", "-q", "--python", "3.11")
    scene.quiet("uv", "pip", "install", "-q", *HELPERS)
    scene.run("uv", "sync", "--inexact", prompt=True)


@failure("pip-no-torch-without-isolation", *NO_TORCH, given=LINUX)
def _(scene):
    """--no-build-isolation in an environment with the helpers, without torch."""
    pip(scene, scene.env(*HELPERS, pip=True), "install", "--no-build-isolation", FLASH)


@failure("pip-no-packaging", "missing-build-helper", given=of_torch("2.6.0"))
def _(scene):
    """--no-build-isolation without the package 'packaging'."""
    env = scene.torch("2.6.0", "setuptools==69.5.1", "wheel==0.43.0", pip="24.0")
    pip(scene, env, "install", FLASH, "--no-build-isolation")


@failure("pip-torch-without-its-needs", given=of_torch("2.6.0"))
def _(scene):
    """torch was installed without the packages that it needs: a fault of the environment."""
    env = scene.env("setuptools<81", "wheel", pip="25.1")
    scene.quiet("uv", "pip", "install", "-q", "--no-deps", "torch==2.6.0", env=env)
    pip(scene, env, "install", FLASH, "--no-build-isolation")


@failure("pip-no-wheel-package", "missing-build-helper", given=of_torch("2.6.0"))
def _(scene):
    """--no-build-isolation without the package 'wheel'."""
    env = scene.env("setuptools<70", "packaging", pip="24.0")
    scene.quiet("uv", "pip", "install", "-q", "--no-deps", "torch==2.6.0", env=env)
    pip(scene, env, "install", FLASH, "--no-build-isolation")


@failure("uv-no-setuptools", "missing-build-helper", given=of_torch("2.6.0"))
def _(scene):
    """uv pip --no-build-isolation in a uv environment, which has no setuptools."""
    env = scene.env(name=".venv")
    scene.quiet("uv", "pip", "install", "-q", "--no-deps", "torch==2.6.0", env=env)
    uv(scene, env, "install", FLASH, "--no-build-isolation")


@failure("pip-no-setuptools", "missing-build-helper", given=LINUX)
def _(scene):
    """The same with pip: BackendUnavailable of setuptools."""
    pip(scene, scene.env(pip="25.1"), "install", FLASH, "--no-build-isolation")


def fake_nvcc(scene, release):
    """A toolkit folder whose nvcc can tell its version and nothing else."""
    scene.script("cuda/bin/nvcc", "#!/bin/sh\ncat <<'END'\nnvcc: NVIDIA (R) Cuda compiler driver\n"
                 "Copyright (c) 2005-2024 NVIDIA Corporation\n"
                 f"Cuda compilation tools, release {release}, V{release}.131\n"
                 f"Build cuda_{release}.r{release}/compiler.1_0\nEND\n")
    return str(scene.work / "cuda")


@failure("pip-no-toolkit", "nvcc-missing", "cuda-home-unset", given=of_torch("2.6.0", "nvcc=none"))
def _(scene):
    """No CUDA toolkit on the machine."""
    pip(scene, scene.torch("2.6.0", *HELPERS, pip="25.1"), "install", FLASH,
        "--no-build-isolation", hidden=True)


@failure("uv-no-toolkit", "nvcc-missing", "cuda-home-unset",
         given=of_torch("2.11.0", "nvcc=none"))
def _(scene):
    """The same with uv and a newer torch."""
    uv(scene, scene.torch("2.11.0", *HELPERS), "install", FLASH,
       "--no-build-isolation", hidden=True, prompt=True)


@failure("older-release-no-toolkit", "nvcc-missing", "cuda-home-unset",
         given=of_torch("2.6.0", "nvcc=none"))
def _(scene):
    """No CUDA toolkit, an older flash-attn and pip -v."""
    pip(scene, scene.torch("2.6.0", *HELPERS, pip="24.0"), "install", "-v", "flash-attn==2.5.8",
        "--no-build-isolation", hidden=True)


@failure("toolkit-folder-without-nvcc", "nvcc-missing", "cuda-home-unset",
         given=of_torch("2.6.0", "nvcc=none"))
def _(scene):
    """CUDA_HOME names a folder that has no nvcc, as in a runtime image."""
    env = scene.torch("2.6.0", *HELPERS, pip="25.1")
    (scene.work / "cuda/bin").mkdir(parents=True)
    pip(scene, env, "install", FLASH, "--no-build-isolation", hidden=True,
        variables={"CUDA_HOME": str(scene.work / "cuda")})


@failure("nvcc-of-11-6", "nvcc-too-old", given=of_torch("2.6.0", "nvcc=11.6"))
def _(scene):
    """The first nvcc says that it is of CUDA 11.6."""
    env = scene.torch("2.6.0", *HELPERS, pip="25.1")
    pip(scene, env, "install", FLASH, "--no-build-isolation", hidden=True,
        variables={"CUDA_HOME": fake_nvcc(scene, "11.6")})


MATCH_RUNTIME = """\
[project]
name = "trainer"
version = "0.1.0"
requires-python = "==3.11.*"
dependencies = ["torch==2.6.0", "flash-attn==2.8.3"]
[tool.uv.extra-build-dependencies]
flash-attn = [{ requirement = "torch", match-runtime = true }]
"""


@failure("uv-match-runtime", "uv-match-runtime-metadata", given=LINUX)
def _(scene):
    """extra-build-dependencies with match-runtime, without static metadata; older releases of uv
    refuse that."""
    tools = scene.env("uv==0.9.5", name="tools")
    scene.file("pyproject.toml", MATCH_RUNTIME)
    scene.write("$ uv sync\n")
    scene.run(tools / "bin/uv", "sync")


@failure("toolkit-without-headers", "cuda-headers-missing", given=of_torch("2.6.0", "nvcc=12.4"))
def _(scene):
    """setup.py builds with a toolkit that has nothing but nvcc."""
    env = scene.torch("2.6.0", "setuptools<81", "wheel", "packaging", "ninja")
    scene.run("python", "setup.py", "bdist_wheel", env=env, cwd=scene.sdist(), hidden=True,
              variables={"FLASH_ATTENTION_FORCE_BUILD": "TRUE", "MAX_JOBS": "1",
                         "CUDA_HOME": fake_nvcc(scene, "12.4")})


# ---- resolving ----


@failure("pip-old-python", "no-wheel-for-python", given=("os=linux", "python=3.8"))
def _(scene):
    """flash-attn asks for Python 3.9, this is 3.8; the sdist is a file here."""
    env = scene.env(python="3.8", pip="24.0")
    made = scene.work / "flash_attn-2.8.3"
    (made / "flash_attn").mkdir(parents=True)
    for name in ("setup.py", "README.md"):
        (made / name).write_bytes((world.builds.sdist(FLASH) / name).read_bytes())
    (made / "pyproject.toml").write_text('[project]\nname = "flash-attn"\nversion = "2.8.3"\n'
                                         'requires-python = ">=3.9"\n')
    pip(scene, env, "install", "./flash_attn-2.8.3")


@failure("pip-peer-pins-torch", "torch-forced-by-peer", least="possible",
         given=of_torch("2.6.0"))
def _(scene):
    """A flash-attn wheel beside a torch, and xformers, which pins another torch."""
    wheel = make_wheel(scene.work, "flash_attn", "2.8.3+cu12torch2.6", TAGS, {}, ("torch",))
    pip(scene, scene.env(pip="25.1"), "install", "torch==2.6.0", wheel, "xformers==0.0.31",
        limit=500)


@failure("uv-peer-pins-torch", "torch-forced-by-peer", least="possible",
         given=of_torch("2.6.0"))
def _(scene):
    """The same with uv."""
    wheel = make_wheel(scene.work, "flash_attn", "2.8.3+cu12torch2.6", TAGS, {}, ("torch",))
    uv(scene, scene.env(), "install", "torch==2.6.0", wheel, "xformers==0.0.31", prompt=True)


@failure("pip-dsl-pins", "dsl-version-conflict", least="possible", given=LINUX)
def _(scene):
    """flash-attn-4 with a CUTLASS DSL other than the one that it asks for."""
    pip(scene, scene.env(pip="25.1"), "install", "--dry-run", "--pre", "flash-attn-4",
        "nvidia-cutlass-dsl==4.2.0", limit=500)


@failure("uv-dsl-pins", "dsl-version-conflict", least="possible", given=LINUX)
def _(scene):
    """The same with uv, and an exact pre-release."""
    uv(scene, scene.env(), "install", "--dry-run", "flash-attn-4==4.0.0b4",
       "nvidia-cutlass-dsl==4.2.0")


# ---- wheels that do not fit ----


@failure("pip-wheel-of-another-python", "wheel-tag-wrong-python", given=LINUX)
def _(scene):
    """A cp312 wheel, asked for by Python 3.11."""
    wheel = make_wheel(scene.work, "flash_attn", "2.8.3+cu12torch2.8cxx11abiTRUE",
                       "cp312-cp312-linux_x86_64", {})
    pip(scene, scene.env(pip="25.1"), "install", wheel.name, prompt=True)


@failure("uv-wheel-of-another-python", "wheel-tag-wrong-python", "no-wheel-for-python",
         given=LINUX)
def _(scene):
    """The same with uv."""
    wheel = make_wheel(scene.work, "flash_attn", "2.8.3+cu12torch2.8cxx11abiTRUE",
                       "cp310-cp310-linux_x86_64", {})
    uv(scene, scene.env(), "install", f"./{wheel.name}", prompt=True)


@failure("pip-wheel-of-windows", "no-wheel-for-platform", given=LINUX)
def _(scene):
    """A Windows wheel on Linux."""
    wheel = make_wheel(scene.work, "flash_attn", "2.8.3+cu128torch2.8.0cxx11abiFALSE",
                       "cp311-cp311-win_amd64", {})
    pip(scene, scene.env(pip="24.0"), "install", wheel.name, prompt=True)


@failure("uv-wheel-of-arm", "no-wheel-for-platform", given=LINUX)
def _(scene):
    """A wheel for AArch64 on x86-64, by URL, with uv."""
    make_wheel(scene.work, "flash_attn", "2.8.3", "cp311-cp311-linux_aarch64", {})
    port = scene.serve(world.folder_handler(scene.work))
    uv(scene, scene.env(), "install",
       f"http://127.0.0.1:{port}/flash_attn-2.8.3-cp311-cp311-linux_aarch64.whl")


@failure("pip-wheel-of-newer-linux", "no-wheel-for-platform", "glibc-too-old", given=LINUX)
def _(scene):
    """A wheel whose tag asks for a glibc that does not exist yet."""
    wheel = make_wheel(scene.work, "flash_attn", "2.8.3", "cp311-cp311-manylinux_2_99_x86_64", {})
    pip(scene, scene.env(pip="25.1"), "install", wheel.name, prompt=True)


@failure("pip-hash", "hash-mismatch", given=LINUX)
def _(scene):
    """--require-hashes and a wheel with other bytes."""
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS, {})
    scene.file("requirements.txt", f"flash_attn @ file://{wheel} --hash=sha256:{'0a' * 32}\n")
    pip(scene, scene.env(pip="25.1"), "install", "--require-hashes", "-r", "requirements.txt")


@failure("uv-hash", "hash-mismatch", given=LINUX)
def _(scene):
    """The same with uv."""
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS, {})
    scene.file("requirements.txt", f"flash_attn @ file://{wheel} --hash=sha256:{'0a' * 32}\n")
    uv(scene, scene.env(), "install", "--require-hashes", "-r", "requirements.txt")


@failure("pip-no-hash", "hash-mismatch", least="possible", given=LINUX)
def _(scene):
    """--require-hashes and a requirement without one."""
    scene.file("requirements.txt", f"flash-attn=={RELEASE}\n")
    pip(scene, scene.env(pip="25.1"), "install", "--require-hashes", "-r", "requirements.txt")


LFS = ("version https://git-lfs.github.com/spec/v1\noid sha256:" + "4d" * 32 +
       "\nsize 256040057\n")
PAGE = "<!DOCTYPE html>\n<html><head><title>Not Found</title></head><body>404</body></html>\n"
BAD_NAME = f"flash_attn-{RELEASE}-{TAGS}.whl"


@failure("pip-lfs-pointer", *BAD_ZIP, given=LINUX)
def _(scene):
    """A Git LFS pointer in place of the wheel."""
    scene.file(BAD_NAME, LFS)
    pip(scene, scene.env(pip="25.1"), "install", BAD_NAME, prompt=True)


@failure("uv-lfs-pointer", *BAD_ZIP, given=LINUX)
def _(scene):
    """The same with uv."""
    scene.file(BAD_NAME, LFS)
    uv(scene, scene.env(), "install", f"./{BAD_NAME}", prompt=True)


@failure("pip-page-for-a-wheel", *BAD_ZIP, given=LINUX)
def _(scene):
    """The page of a log-in or an error, saved as a wheel, by URL."""
    scene.file(BAD_NAME, PAGE)
    port = scene.serve(world.folder_handler(scene.work))
    pip(scene, scene.env(pip="24.0"), "install", f"http://127.0.0.1:{port}/{BAD_NAME}")


@failure("uv-page-for-a-wheel", *BAD_ZIP, given=LINUX)
def _(scene):
    """The same with uv."""
    scene.file(BAD_NAME, PAGE)
    port = scene.serve(world.folder_handler(scene.work))
    uv(scene, scene.env(), "install", f"http://127.0.0.1:{port}/{BAD_NAME}")


def truncated(scene):
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS,
                       {"flash_attn/data.bin": os.urandom(200000)})
    wheel.write_bytes(wheel.read_bytes()[:120000])
    return wheel


@failure("pip-cut-wheel", *BAD_ZIP, "network-blocked", given=LINUX)
def _(scene):
    """A wheel whose download broke off."""
    pip(scene, scene.env(pip="25.1"), "install", truncated(scene).name, prompt=True)


@failure("uv-cut-wheel", *BAD_ZIP, "network-blocked", given=LINUX)
def _(scene):
    """The same with uv."""
    uv(scene, scene.env(), "install", truncated(scene))


RENAMED = ("filename-metadata-mismatch", "wheel-renamed")
LOCAL = f"{RELEASE}+cu12torch2.8cxx11abiTRUE"


def renamed(scene):
    return make_wheel(scene.work, "flash_attn", RELEASE, TAGS, {}, file_version=LOCAL)


@failure("pip-renamed-wheel", *RENAMED, given=LINUX)
def _(scene):
    """The file name has a local version that the metadata inside has not."""
    renamed(scene)
    pip(scene, scene.env(pip="25.1"), "install", "--no-index", "--find-links", ".",
        f"flash-attn=={LOCAL}", prompt=True)


@failure("uv-renamed-wheel", *RENAMED, given=LINUX)
def _(scene):
    """The same with uv."""
    renamed(scene)
    uv(scene, scene.env(), "install", "--no-index", "--find-links", ".", f"flash-attn=={LOCAL}",
       prompt=True)


@failure("pip-other-name-inside", *RENAMED, least="possible", given=LINUX)
def _(scene):
    """The wheel's file name says flash_attn, its metadata says another package."""
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS, {}, metadata_name="flash_attn_x")
    pip(scene, scene.env(pip="25.1"), "install", wheel.name, prompt=True)


@failure("pip-short-name", "wheel-renamed", given=LINUX)
def _(scene):
    """A wheel renamed to flash_attn.whl."""
    renamed(scene).rename(scene.work / "flash_attn.whl")
    pip(scene, scene.env(pip="25.1"), "install", "./flash_attn.whl", prompt=True)


@failure("uv-short-name", "wheel-renamed", given=LINUX)
def _(scene):
    """The same with uv."""
    renamed(scene).rename(scene.work / "flash_attn-latest.whl")
    uv(scene, scene.env(), "install", "./flash_attn-latest.whl", prompt=True)


@failure("pip-glob-in-name", "wheel-renamed", given=LINUX)
def _(scene):
    """A pattern that the shell did not expand, as on Windows or without a match."""
    pip(scene, scene.env(pip="24.0"), "install", "flash_attn-2.8.3*.whl", prompt=True)


# ---- network ----


def unused_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@failure("pip-dead-proxy", "network-blocked", given=LINUX)
def _(scene):
    """The proxy does not run."""
    pip(scene, scene.env(pip="25.1"), "install", "--no-cache-dir", "--retries", "1", "--proxy",
        f"http://127.0.0.1:{unused_port()}", FLASH)


@failure("uv-dead-proxy", "network-blocked", given=LINUX)
def _(scene):
    """The same with uv."""
    uv(scene, scene.env(), "install", "--no-cache", FLASH, variables={
        "HTTPS_PROXY": f"http://127.0.0.1:{unused_port()}", "UV_HTTP_RETRIES": "1"})


@failure("pip-forbidding-proxy", "network-blocked", given=LINUX)
def _(scene):
    """The proxy answers 403."""
    port = scene.serve(world.Forbidding)
    pip(scene, scene.env(pip="24.0"), "install", "--no-cache-dir", "--retries", "1", "--proxy",
        f"http://127.0.0.1:{port}", FLASH)


@failure("pip-no-such-host", "network-blocked", given=LINUX)
def _(scene):
    """The index's name has no address."""
    pip(scene, scene.env(pip="25.1"), "install", "--no-cache-dir", "--retries", "1", "-i",
        "https://index.invalid/simple", FLASH)


@failure("uv-no-such-host", "network-blocked", "offline-node", given=LINUX)
def _(scene):
    """A wheel by URL from a host without an address, with uv."""
    uv(scene, scene.env(), "install", "--no-cache", f"https://github.invalid/Dao-AILab/"
       f"flash-attention/releases/download/v2.8.3/{BAD_NAME}", variables={"UV_HTTP_RETRIES": "1"})


@failure("pip-no-network", "network-blocked", "offline-node", given=LINUX)
def _(scene):
    """A machine without any network, as a compute node."""
    env = scene.env(pip="25.1")
    scene.run("unshare", "--net", env / "bin/python", "-m", "pip", "install", "--no-cache-dir",
              "--retries", "1", "https://github.com/Dao-AILab/flash-attention/releases/download/"
              f"v2.8.3/{BAD_NAME}", env=env)


@failure("uv-no-network", "network-blocked", "offline-node", least="possible", given=LINUX)
def _(scene):
    """The same with uv, and an address in place of a name."""
    scene.run("unshare", "--net", "uv", "pip", "install", "--no-cache",
              f"http://192.0.2.7/wheels/{BAD_NAME}", env=scene.env(),
              variables={"UV_HTTP_RETRIES": "1", "HTTPS_PROXY": "", "HTTP_PROXY": ""})


@failure("pip-refused", "network-blocked", given=LINUX)
def _(scene):
    """Nobody listens where the index should be."""
    pip(scene, scene.env(pip="25.1"), "install", "--retries", "1", "-i",
        f"http://127.0.0.1:{unused_port()}/simple", FLASH)


@failure("pip-dropped", "network-blocked", given=LINUX)
def _(scene):
    """The server closes the connection."""
    port = scene.serve(world.Dropping)
    pip(scene, scene.env(pip="25.1"), "install", "--retries", "1",
        f"http://127.0.0.1:{port}/{BAD_NAME}")


@failure("pip-tls", "network-blocked", given=LINUX)
def _(scene):
    """A certificate that nobody trusts, as behind an inspecting firewall."""
    port = scene.serve(world.Missing, tls=True)
    pip(scene, scene.env(pip="25.1"), "install", "--retries", "1", "-i",
        f"https://localhost:{port}/simple", FLASH)


@failure("uv-tls", "network-blocked", given=LINUX)
def _(scene):
    """The same with uv."""
    port = scene.serve(world.Missing, tls=True)
    uv(scene, scene.env(), "install", "--no-cache", "-i", f"https://localhost:{port}/simple",
       FLASH, variables={"UV_HTTP_RETRIES": "1"})


@failure("uv-offline", "offline-node", "network-blocked", given=LINUX)
def _(scene):
    """uv --offline with an empty cache."""
    uv(scene, scene.env(), "install", "--offline", "--cache-dir", scene.work / "cache", FLASH)


def setup_download(scene, address, version="2.6.0", force=None, **options):
    """setup.py's own download of a wheel, from `address` in place of GitHub."""
    env = scene.torch(version, *HELPERS)
    source = scene.sdist()
    setup = source / "setup.py"
    setup.write_text(setup.read_text().replace(
        "https://github.com/Dao-AILab/flash-attention/releases/download", address))
    variables = {"CUDA_HOME": fake_nvcc(scene, options.pop("release", "12.4")),
                 **options.pop("variables", {})}
    scene.run("uv", "pip", "install", "--no-build-isolation", "--no-deps", "-v",
              source, env=env, hidden=True, variables=variables, **options)


@failure("setup-download-dropped", "network-blocked", given=of_torch("2.6.0", "nvcc=12.4"))
def _(scene):
    """setup.py downloads a wheel, and the server closes the connection without an answer."""
    setup_download(scene, f"http://127.0.0.1:{scene.serve(world.Dropping)}")


@failure("setup-rename-over-mounts", "cross-device-link", given=of_torch("2.6.0", "nvcc=12.4"))
def _(scene):
    """setup.py downloads a wheel and renames it into a folder of another file system."""
    version = f"{RELEASE}+cu12torch2.6cxx11abiFALSE"
    tag = scene.work / "served" / f"v{RELEASE}"
    tag.mkdir(parents=True)
    make_wheel(tag, "flash_attn", RELEASE, TAGS, {}, file_version=version)
    port = scene.serve(world.folder_handler(scene.work / "served"))
    env = scene.torch("2.6.0", *HELPERS)
    source = scene.sdist()
    setup = source / "setup.py"
    setup.write_text(setup.read_text().replace(
        "https://github.com/Dao-AILab/flash-attention/releases/download",
        f"http://127.0.0.1:{port}"))
    scene.mount(scene.work / "dist", "8m")
    scene.run("python", "setup.py", "bdist_wheel", "--dist-dir", scene.work / "dist", env=env,
              cwd=source, hidden=True, variables={"CUDA_HOME": fake_nvcc(scene, "12.4")})


# ---- the disk and the installation ----


@failure("pip-full-disk", "disk-full", given=LINUX)
def _(scene):
    """The environment lies on a file system that is too small for the wheel."""
    scene.mount(scene.work / "small", "48m")
    env = scene.env(pip="25.1", name="small/venv")
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS,
                       {"flash_attn_2_cuda.so": os.urandom(60 << 20)})
    pip(scene, env, "install", wheel.name, prompt=True)


@failure("uv-full-disk", "disk-full", given=LINUX)
def _(scene):
    """The same with uv."""
    scene.mount(scene.work / "small", "20m")
    env = scene.env(name="small/venv")
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS,
                       {"flash_attn_2_cuda.so": os.urandom(30 << 20)})
    uv(scene, env, "install", "--no-cache", "--link-mode", "copy", wheel, prompt=True)


@failure("pip-full-temporary-folder", "disk-full", given=LINUX)
def _(scene):
    """/tmp is too small to download the wheel."""
    make_wheel(scene.work, "flash_attn", RELEASE, TAGS,
               {"flash_attn_2_cuda.so": os.urandom(9 << 20)})
    port = scene.serve(world.folder_handler(scene.work))
    small = scene.mount(scene.work / "tmp", "4m")
    pip(scene, scene.env(pip="24.0"), "install", f"http://127.0.0.1:{port}/{BAD_NAME}",
        variables={"TMPDIR": str(small)})


# ---- failures that are not flash-attn's and have no cause of their own ----


@failure("managed-python", given=LINUX)
def _(scene):
    """Debian's Python refuses pip."""
    scene.run("/usr/bin/python3", "-m", "pip", "install", FLASH)


@failure("read-only-environment", given=LINUX)
def _(scene):
    """site-packages lies on a read-only file system."""
    env = scene.env(pip="25.1")
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS, {})
    subprocess.run(["mount", "--bind", env, env], check=True)
    scene.undo.callback(subprocess.run, ["umount", "-l", str(env)])
    subprocess.run(["mount", "-o", "remount,ro,bind", env], check=True)
    pip(scene, env, "install", wheel.name, prompt=True)


@failure("no-permission", given=LINUX)
def _(scene):
    """The environment belongs to somebody else."""
    env = scene.env(pip="25.1")
    wheel = make_wheel(scene.work, "flash_attn", RELEASE, TAGS, {})
    scene.shell(f"chmod a+rx {scene.work} && setpriv --reuid 65534 --clear-groups "
                f"unshare --user --map-root-user true; "
                f"setpriv --reuid 65534 --clear-groups {env}/bin/python -m pip install "
                f"--no-cache-dir {wheel}", env=env, variables={"HOME": "/nonexistent"})


@failure("no-such-release", given=LINUX)
def _(scene):
    """A flash-attn release that does not exist."""
    pip(scene, scene.env(pip="25.1"), "install", "flash-attn==2.9.99")


@failure("uv-no-such-release", given=LINUX)
def _(scene):
    """The same with uv."""
    uv(scene, scene.env(), "install", "flash-attn==2.9.99")


@failure("wrong-package-name", given=LINUX)
def _(scene):
    """A package that no index has."""
    pip(scene, scene.env(pip="25.1"), "install", "flash-attn-no-such-package")


@failure("file-that-is-not-there", given=LINUX)
def _(scene):
    """pip is given a path to a wheel that does not exist."""
    pip(scene, scene.env(pip="25.1"), "install", f"./{BAD_NAME}", prompt=True)


