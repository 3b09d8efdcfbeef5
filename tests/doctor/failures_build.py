"""Failures while flash-attn, or an extension like it, is compiled and linked."""

import os
import shutil

import world
from world import HELPERS, edit, failure, of_torch

NVCC = "/usr/local/cuda/bin/nvcc"
KERNEL = "csrc/flash_attn/src/flash_fwd_hdim64_bf16_sm80.cu"


def torch_headers(scene):
    return next(scene.envs.glob("torch-2.11.0/lib/python*/site-packages/torch/include"))


def need_nvcc():
    assert os.path.exists(NVCC), "needs a CUDA toolkit in /usr/local/cuda"


def source_for(scene, env, torch):
    """The sdist with two of its kernels only, and the environment variables of a build."""
    source = scene.sdist()
    setup = source / "setup.py"
    lines = [
        line
        for line in setup.read_text().splitlines(True)
        if "csrc/flash_attn/src/flash_" not in line or KERNEL in line
    ]
    setup.write_text("".join(lines))
    return source, {
        "FLASH_ATTENTION_FORCE_BUILD": "TRUE",
        "MAX_JOBS": "2",
        "NVCC_THREADS": "1",
        "FLASH_ATTN_CUDA_ARCHS": "80",
        "CUDA_HOME": "/usr/local/cuda",
    }


def build(scene, torch, change=None, env=None, installer="pip", limit=600, limits=None, **more):
    """Builds flash-attn with nvcc, as far as the build gets."""
    need_nvcc()
    env = env or scene.torch(torch, *HELPERS, pip="25.1")
    source, variables = source_for(scene, env, torch)
    variables.update(more)
    if change:
        change(source, variables)
    words = {
        "pip": ["python", "-m", "pip", "install", "-v"],
        "quiet": ["python", "-m", "pip", "install"],
        "uv": ["uv", "pip", "install"],
    }[installer]
    scene.run(
        *words, "--no-build-isolation", "--no-deps", source,
        env=env, toolkit=True, variables=variables, limit=limit, limits=limits,
    )


def wrapped_nvcc(scene, body):
    """A toolkit folder like the real one, but with this script as nvcc."""
    home = scene.work / "cuda"
    (home / "bin").mkdir(parents=True)
    for path in world.pathlib.Path("/usr/local/cuda").resolve().iterdir():
        if path.name != "bin":
            (home / path.name).symlink_to(path)
    scene.script("cuda/bin/nvcc", body)
    return str(home)


def nvcc_that_dies(scene):
    """A toolkit folder whose nvcc prints its version, but is killed when it compiles."""
    return wrapped_nvcc(
        scene,
        f'#!/bin/sh\ncase "$*" in *-V*|*--version*) exec {NVCC} "$@";; esac\nkill -9 $$\n',
    )


# ---- the toolkit and the compiler do not fit ----


@failure(
    "toolkit-of-another-major", "cuda-major-mismatch",
    least="proved", given=of_torch("2.6.0", "nvcc=13.0"),
)
def _(scene):
    """nvcc 13 with a torch for CUDA 12."""
    build(scene, "2.6.0")


@failure(
    "toolkit-of-another-major-uv", "cuda-major-mismatch",
    least="proved", given=of_torch("2.6.0", "nvcc=13.0"),
)
def _(scene):
    """The same with uv."""
    build(scene, "2.6.0", installer="uv")


def cuda_file(scene, *flags, text="__global__ void k() {}\n", **options):
    need_nvcc()
    source = scene.file("flash_attn/src/flash_fwd.cu", text)
    scene.run(
        NVCC, *flags, "-c", source, "-o", source.with_suffix(".o"),
        toolkit=True, prompt=True, **options,
    )


@failure(
    "nvcc-newer-gpu", "nvcc-older-than-gpu", least="proved", given=("nvcc=13.0", "os=linux")
)
def _(scene):
    """nvcc is asked for an architecture that it does not know yet."""
    cuda_file(scene, "-gencode", "arch=compute_130,code=sm_130")


@failure(
    "build-newer-gpu", "nvcc-older-than-gpu",
    least="proved", given=of_torch("2.11.0", "nvcc=13.0"),
)
def _(scene):
    """flash-attn built for an architecture that nvcc does not know yet."""
    build(
        scene,
        "2.11.0",
        lambda source, _: edit(
            source / "setup.py", "arch=compute_80,code=sm_80", "arch=compute_131,code=sm_131"
        ),
    )


@failure(
    "nvcc-dropped-gpu", "sm-unsupported", "nvcc-older-than-gpu", "no-wheel-for-cuda",
    given=("nvcc=13.0", "os=linux", "sm=3.0"),
)
def _(scene):
    """nvcc is asked for an architecture that it no longer knows."""
    cuda_file(scene, "-arch=compute_30")


@failure("gcc-newer-than-nvcc", "gcc-too-new", least="proved", given=("nvcc=13.0", "os=linux"))
def _(scene):
    """The host compiler says that it is gcc 99; CUDA's host_config.h refuses it."""
    compiler = scene.script(
        "g++", '#!/bin/sh\nexec /usr/bin/g++ -U__GNUC__ -D__GNUC__=99 "$@"\n'
    )
    cuda_file(scene, "-ccbin", compiler)


def compiler_of(scene, version):
    script = (
        f"#!/bin/sh\nfor word; do case $word in -dump*version) echo {version}; exit;; esac; "
        'done\nexec /usr/bin/g++ "$@"\n'
    )
    return str(scene.script("bin/g++", script))


@failure(
    "torch-says-gcc-too-new", "gcc-too-new",
    least="proved", given=of_torch("2.11.0", "nvcc=13.0"),
)
def _(scene):
    """torch's own check of the host compiler's version: too new."""
    build(scene, "2.11.0", CXX=compiler_of(scene, "99.1.0"))


@failure(
    "torch-says-gcc-too-old", "gcc-too-old",
    least="proved", given=of_torch("2.11.0", "nvcc=13.0"),
)
def _(scene):
    """torch's own check of the host compiler's version: too old."""
    build(scene, "2.11.0", CXX=compiler_of(scene, "4.8.5"))


@failure("gcc-7-error", "gcc-too-old", least="proved", given=of_torch("2.11.0", "gcc=7.5"))
def _(scene):
    """torch's headers with a compiler that has no C++17."""
    env = scene.torch("2.11.0")
    include = torch_headers(scene)
    source = scene.file("flash_attn/flash_api.cpp", "#include <torch/torch.h>\n")
    scene.run(
        "g++", "-std=c++14", "-fmax-errors=40", f"-I{include}",
        f"-I{include}/torch/csrc/api/include", "-c", source, "-o", "flash_api.o",
        env=env, prompt=True,
    )


@failure(
    "no-compiler", "compiler-missing", least="proved", given=of_torch("2.11.0", "gcc=none")
)
def _(scene):
    """The C++ compiler that CXX names does not exist."""
    build(scene, "2.11.0", CXX="/usr/bin/x86_64-linux-gnu-g++-99")


@failure(
    "no-compiler-plain", "compiler-missing", least="proved", given=("os=linux", "gcc=none")
)
def _(scene):
    """setuptools finds no gcc while it builds a package from source."""
    env = scene.env("setuptools<81", "wheel", pip="25.1")
    scene.file(
        "package/setup.py",
        "from setuptools import setup, Extension\nsetup(name='flash-attn-x',"
        " version='1', ext_modules=[Extension('flash_attn_x', ['x.c'])])\n",
    )
    scene.file("package/x.c", "int x;\n")
    scene.run(
        "python", "-m", "pip", "install", "--no-build-isolation", "./package",
        env=env, variables={"CC": "x86_64-linux-gnu-gcc-99"},
    )


# ---- files are missing ----


@failure("setup-without-cutlass", "missing-cutlass", least="proved", given=of_torch("2.11.0"))
def _(scene):
    """A clone's archive without its submodules: setup.py's assertion."""
    build(scene, "2.11.0", lambda source, _: shutil.rmtree(source / "csrc/cutlass"))


def without_cute(source, _):
    shutil.rmtree(source / "csrc/cutlass/include/cute")


@failure(
    "kernel-without-cute", "missing-cutlass",
    least="proved", given=of_torch("2.11.0", "nvcc=13.0"),
)
def _(scene):
    """ninja compiles a kernel, and CuTe's headers are missing."""
    build(scene, "2.11.0", without_cute, limit=900)


@failure(
    "nvcc-without-cute", "missing-cutlass", least="proved", given=("nvcc=13.0", "os=linux")
)
def _(scene):
    """The same with nvcc alone."""
    cuda_file(scene, text="#include <cute/tensor.hpp>\n")


def without_local_headers(scene, line):
    """Runs the line where /usr/local/include, which may have CUDA's headers, is empty."""
    scene.write(f"$ {line}\n")
    scene.run(
        "unshare", "--mount", "sh", "-c",
        f"mount -t tmpfs none /usr/local/include && exec {line}",
    )


def partial_toolkit(scene, without, text):
    """torch's or a kernel's C++ compiled with a toolkit that lacks some headers."""
    need_nvcc()
    scene.torch("2.11.0")
    include = torch_headers(scene)
    cuda = scene.work / "cuda-include"
    cuda.mkdir()
    for path in world.pathlib.Path("/usr/local/cuda/include").iterdir():
        if not path.name.startswith(without):
            (cuda / path.name).symlink_to(path)
    scene.file("flash_attn/flash_api.cpp", text)
    without_local_headers(
        scene, f"g++ -std=c++20 -I{include} -I{cuda} -c flash_attn/flash_api.cpp -o flash_api.o"
    )


@failure(
    "toolkit-without-cusolver", "cuda-headers-missing", given=of_torch("2.11.0", "nvcc=13.0")
)
def _(scene):
    """A partial toolkit: torch's headers include cusolverDn.h, which it lacks."""
    partial_toolkit(scene, "cusolver", "#include <ATen/cuda/CUDAContext.h>\n")


@failure(
    "toolkit-without-curand", "cuda-headers-missing", given=of_torch("2.11.0", "nvcc=13.0")
)
def _(scene):
    """A partial toolkit: a source includes curand_kernel.h, which it lacks."""
    partial_toolkit(scene, "curand", "#include <curand_kernel.h>\n")


@failure("no-cuda-headers", "cuda-headers-missing", given=of_torch("2.11.0"))
def _(scene):
    """The headers of the CUDA runtime are missing."""
    scene.torch("2.11.0")
    scene.file("flash_attn/flash_api.cpp", "#include <c10/cuda/CUDAGuard.h>\n")
    without_local_headers(
        scene,
        f"g++ -std=c++20 -I{torch_headers(scene)} -c flash_attn/flash_api.cpp -o flash_api.o",
    )


@failure("link-libcuda", "libcuda-not-found", least="proved", given=("os=linux",))
def _(scene):
    """The linker finds no libcuda."""
    source = scene.file("flash_api.cpp", "int main() { return 0; }\n")
    scene.run(
        "g++", "-shared", "-fPIC", source, "-o", "flash_attn_2_cuda.so", "-L/usr/local/lib",
        "-lcuda", prompt=True,
    )


@failure(
    "ninja-not-there", "missing-ninja",
    least="proved", given=of_torch("2.6.0", "nvcc=12.4", "ninja=none"),
)
def _(scene):
    """torch compiles an extension at run time and finds no ninja."""
    env = scene.torch("2.6.0", "setuptools<81")
    source = scene.file("flash_attn/flash_api.cpp", "int x;\n")
    script = scene.file(
        "flash_attn/jit.py",
        "from torch.utils.cpp_extension import load\n"
        f"load('flash_attn_2_cuda', ['{source}'])\n",
    )
    scene.run(
        "setpriv", "--no-new-privs", "env", "PATH=/nonexistent", f"{env}/bin/python", script,
        env=env, hidden=True,
    )


@failure(
    "build-without-ninja", "missing-ninja", "no-wheel-for-torch",
    least="proved", given=of_torch("2.11.0", "nvcc=13.0", "ninja=none"),
)
def _(scene):
    """No ninja: one compiler at a time, interrupted by the user after a minute."""
    env = scene.torch("2.11.0", "setuptools<81", "wheel", "packaging", "psutil", pip="25.1")
    hide = scene.script("bin/ninja", "#!/bin/sh\nexit 1\n")
    build(scene, "2.11.0", env=env, limit=100, PATH=f"{hide.parent}:{env}/bin:/usr/bin:/bin")
