"""Builds that run out of memory or disk, take too long, or find no wheel first."""

import resource

import world
from failures_build import build, cuda_file, need_nvcc, nvcc_that_dies
from world import failure, join_group, of_torch

KILLED = "#!/bin/sh\nkill -9 $$\n"


def ninja_file(scene, compiler, name="flash_fwd_hdim128_bf16_sm80"):
    scene.file(
        "build.ninja",
        f"rule cuda_compile\n  command = {compiler} -c $in -o $out\n"
        f"build {name}.o: cuda_compile csrc/flash_attn/src/{name}.cu\n"
        "build flash_api.o: cuda_compile csrc/flash_attn/flash_api.cpp\n",
    )
    scene.file(f"csrc/flash_attn/src/{name}.cu", "__global__ void k() {}\n")
    scene.file("csrc/flash_attn/flash_api.cpp", "int x;\n")


@failure("ninja-compiler-killed", "oom-build", given=("os=linux", "ram_gb=15", "cores=16"))
def _(scene):
    """ninja, and a compiler that is killed as the kernel kills it."""
    ninja_file(scene, scene.script("nvcc", KILLED))
    scene.run("ninja", "-v", prompt=True)


@failure("shell-compiler-killed", "oom-build", given=("os=linux", "ram_gb=15", "cores=16"))
def _(scene):
    """The same in a shell that prints Killed."""
    ninja_file(scene, "sh -c '" + str(scene.script("nvcc", KILLED)) + " $$*; exit $$?' nvcc")
    scene.run("ninja", prompt=True)


def heavy(scene):
    return scene.file(
        "flash_attn/flash_api.cpp",
        "#include <regex>\n#include <map>\n#include <functional>\n"
        "#include <random>\ntemplate <int N> struct T { std::map<int, T<N - 1>> m; };\n"
        "template <> struct T<0> {};\nT<300> t;\n",
    )


@failure(
    "gcc-in-a-small-group", "oom-build",
    least="proved", given=("os=linux", "ram_gb=1", "cores=16"),
)
def _(scene):
    """gcc's compiler proper is killed in a control group of 40 MB."""
    group = scene.memory_group(40 << 20)
    scene.run(
        "g++", "-O2", "-c", heavy(scene), "-o", "flash_api.o",
        prompt=True, limits=join_group(group),
    )


@failure(
    "nvcc-in-a-small-group", "oom-build",
    least="proved", given=("os=linux", "ram_gb=1", "nvcc=13.0"),
)
def _(scene):
    """A step of nvcc is killed in a control group of 60 MB."""
    group = scene.memory_group(60 << 20)
    cuda_file(
        scene,
        text=(
            "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
            "__global__ void k(half *p) { p[0] = __float2half(1.f); }\n"
        ),
        limits=join_group(group),
    )


@failure(
    "cicc-killed", "oom-build",
    least="proved", given=of_torch("2.11.0", "nvcc=13.0", "ram_gb=8"),
)
def _(scene):
    """cicc of a real build of flash-attn is killed in a control group of 250 MB."""
    group = scene.memory_group(250 << 20)
    build(scene, "2.11.0", limits=join_group(group), limit=900)


@failure(
    "gcc-without-address-space", "oom-build", least="proved", given=("os=linux", "ram_gb=1")
)
def _(scene):
    """gcc under ulimit -v: out of memory allocating."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (70 << 20, 70 << 20))

    scene.run("g++", "-O2", "-c", heavy(scene), "-o", "flash_api.o", prompt=True, limits=limit)


@failure(
    "build-killed-in-pip", "oom-build", least="proved", given=of_torch("2.11.0", "ram_gb=8")
)
def _(scene):
    """pip builds flash-attn and nvcc is killed; the log has no compiler error."""
    home = nvcc_that_dies(scene)
    build(scene, "2.11.0", CUDA_HOME=home, CXX="/usr/bin/g++", installer="quiet")


def finds_no_wheel(scene):
    """A change for build(): setup.py looks for a wheel and gets 404."""
    port = scene.serve(world.Missing)

    def change(source, variables):
        world.download_from(source, f"http://127.0.0.1:{port}")
        del variables["FLASH_ATTENTION_FORCE_BUILD"]

    return change


@failure("404-then-killed", "oom-build", least="proved", given=of_torch("2.11.0", "ram_gb=8"))
def _(scene):
    """setup.py finds no wheel (404), compiles, and the compiler is killed."""
    home = nvcc_that_dies(scene)
    build(scene, "2.11.0", finds_no_wheel(scene), CUDA_HOME=home)


@failure(
    "404-then-toolkit-mismatch", "cuda-major-mismatch",
    least="proved", given=of_torch("2.6.0", "nvcc=13.0"),
)
def _(scene):
    """setup.py finds no wheel (404), then torch refuses the toolkit."""
    build(scene, "2.6.0", finds_no_wheel(scene))


@failure("gcc-full-disk", "disk-full", least="proved", given=("os=linux", "disk_gb=0.1"))
def _(scene):
    """The object file does not fit on the disk."""
    small = scene.mount(scene.work / "small", "64k")
    source = scene.file("flash_attn/flash_api.cpp", "char big[1 << 20] = {1};\n")
    scene.run("g++", "-c", source, "-o", small / "flash_api.o", prompt=True)


@failure("build-full-disk", "disk-full", least="proved", given=of_torch("2.11.0", "nvcc=13.0"))
def _(scene):
    """nvcc's temporary files do not fit into TMPDIR."""
    need_nvcc()
    small = scene.mount(scene.work / "tmp", "1m")
    cuda_file(
        scene,
        text="#include <cuda_fp16.h>\n__global__ void k() {}\n",
        variables={"TMPDIR": str(small)},
    )


@failure(
    "build-takes-hours", "build-hours", "no-wheel-for-torch",
    least="proved", given=of_torch("2.11.0", "nvcc=13.0", "cores=2"),
)
def _(scene):
    """A build for four architectures, interrupted by the user after 90 seconds."""
    build(scene, "2.11.0", installer="quiet", limit=90, FLASH_ATTN_CUDA_ARCHS="80;90;100;120")


@failure("python-headers", given=("os=linux",))
def _(scene):
    """Python's headers are missing, which is unrelated to flash-attn."""
    source = scene.file(
        "package/x.c", "#include <Python_not_there.h>\n#include <Python.h>\nint x;\n"
    )
    scene.run("g++", "-c", source, "-o", "x.o", prompt=True)
