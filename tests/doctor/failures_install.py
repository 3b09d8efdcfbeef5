"""Failures while a wheel is fetched and installed: the wheel, the network, the disk."""

import os
import socket
import subprocess

import world
from world import FLASH, LINUX, RELEASE, TAGS, failure, flash_attn_file, make_wheel
from world import pip_install, uv_install

BAD_ZIP = ("wheel-is-lfs-pointer", "installer-damage")

# ---- wheels that do not fit ----


@failure("pip-wheel-of-another-python", "wheel-tag-wrong-python", least="proved", given=LINUX)
def _(scene):
    """A cp312 wheel, asked for by Python 3.11."""
    wheel = make_wheel(
        scene.work, "flash_attn", "2.8.3+cu12torch2.8cxx11abiTRUE", "cp312-cp312-linux_x86_64",
        {},
    )
    pip_install(scene, scene.env(pip="25.1"), wheel.name, prompt=True)


@failure(
    "uv-wheel-of-another-python", "wheel-tag-wrong-python", "no-wheel-for-python",
    least="proved", given=LINUX,
)
def _(scene):
    """The same with uv."""
    wheel = make_wheel(
        scene.work, "flash_attn", "2.8.3+cu12torch2.8cxx11abiTRUE", "cp310-cp310-linux_x86_64",
        {},
    )
    uv_install(scene, scene.env(), f"./{wheel.name}", prompt=True)


@failure("pip-wheel-of-windows", "no-wheel-for-platform", least="proved", given=LINUX)
def _(scene):
    """A Windows wheel on Linux."""
    wheel = make_wheel(
        scene.work, "flash_attn", "2.8.3+cu128torch2.8.0cxx11abiFALSE", "cp311-cp311-win_amd64",
        {},
    )
    pip_install(scene, scene.env(pip="24.0"), wheel.name, prompt=True)


@failure("uv-wheel-of-arm", "no-wheel-for-platform", least="proved", given=LINUX)
def _(scene):
    """A wheel for AArch64 on x86-64, by URL, with uv."""
    make_wheel(scene.work, "flash_attn", "2.8.3", "cp311-cp311-linux_aarch64", {})
    port = scene.serve(world.folder_handler(scene.work))
    uv_install(
        scene, scene.env(),
        f"http://127.0.0.1:{port}/flash_attn-2.8.3-cp311-cp311-linux_aarch64.whl",
    )


@failure(
    "pip-wheel-of-newer-linux", "glibc-too-old", least="proved", given=(*LINUX, "glibc=2.36")
)
def _(scene):
    """A wheel whose tag asks for a glibc that does not exist yet."""
    wheel = make_wheel(
        scene.work, "flash_attn", "2.8.3", "cp311-cp311-manylinux_2_99_x86_64", {}
    )
    pip_install(scene, scene.env(pip="25.1"), wheel.name, prompt=True)


@failure("pip-hash", "hash-mismatch", least="proved", given=LINUX)
def _(scene):
    """--require-hashes and a wheel with other bytes."""
    wheel = flash_attn_file(scene, RELEASE, {})
    scene.file("requirements.txt", f"flash_attn @ file://{wheel} --hash=sha256:{'0a' * 32}\n")
    pip_install(scene, scene.env(pip="25.1"), "--require-hashes", "-r", "requirements.txt")


@failure("uv-hash", "hash-mismatch", least="proved", given=LINUX)
def _(scene):
    """The same with uv."""
    wheel = flash_attn_file(scene, RELEASE, {})
    scene.file("requirements.txt", f"flash_attn @ file://{wheel} --hash=sha256:{'0a' * 32}\n")
    uv_install(scene, scene.env(), "--require-hashes", "-r", "requirements.txt")


@failure("pip-no-hash", "hash-mismatch", least="possible", given=LINUX)
def _(scene):
    """--require-hashes and a requirement without one."""
    scene.file("requirements.txt", f"flash-attn=={RELEASE}\n")
    pip_install(scene, scene.env(pip="25.1"), "--require-hashes", "-r", "requirements.txt")


LFS = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:" + "4d" * 32 + "\nsize 256040057\n"
)
PAGE = "<!DOCTYPE html>\n<html><head><title>Not Found</title></head><body>404</body></html>\n"
BAD_NAME = f"flash_attn-{RELEASE}-{TAGS}.whl"


@failure("pip-lfs-pointer", *BAD_ZIP, given=LINUX)
def _(scene):
    """A Git LFS pointer in place of the wheel."""
    scene.file(BAD_NAME, LFS)
    pip_install(scene, scene.env(pip="25.1"), BAD_NAME, prompt=True)


@failure("uv-lfs-pointer", *BAD_ZIP, given=LINUX)
def _(scene):
    """The same with uv."""
    scene.file(BAD_NAME, LFS)
    uv_install(scene, scene.env(), f"./{BAD_NAME}", prompt=True)


@failure("pip-page-for-a-wheel", *BAD_ZIP, given=LINUX)
def _(scene):
    """A login or error page saved as a wheel, by URL."""
    scene.file(BAD_NAME, PAGE)
    port = scene.serve(world.folder_handler(scene.work))
    pip_install(scene, scene.env(pip="24.0"), f"http://127.0.0.1:{port}/{BAD_NAME}")


@failure("uv-page-for-a-wheel", *BAD_ZIP, given=LINUX)
def _(scene):
    """The same with uv."""
    scene.file(BAD_NAME, PAGE)
    port = scene.serve(world.folder_handler(scene.work))
    uv_install(scene, scene.env(), f"http://127.0.0.1:{port}/{BAD_NAME}")


def truncated(scene):
    wheel = flash_attn_file(scene, RELEASE, {"flash_attn/data.bin": os.urandom(200000)})
    wheel.write_bytes(wheel.read_bytes()[:120000])
    return wheel


@failure("pip-cut-wheel", *BAD_ZIP, "network-blocked", given=LINUX)
def _(scene):
    """A truncated wheel, as an interrupted download leaves it."""
    pip_install(scene, scene.env(pip="25.1"), truncated(scene).name, prompt=True)


@failure("uv-cut-wheel", *BAD_ZIP, "network-blocked", given=LINUX)
def _(scene):
    """The same with uv."""
    uv_install(scene, scene.env(), truncated(scene))


RENAMED = ("filename-metadata-mismatch", "wheel-renamed")
LOCAL = f"{RELEASE}+cu12torch2.8cxx11abiTRUE"


def renamed(scene):
    return flash_attn_file(scene, RELEASE, {}, file_version=LOCAL)


@failure("pip-renamed-wheel", *RENAMED, least="proved", given=LINUX)
def _(scene):
    """The file name has a local version, the metadata does not."""
    renamed(scene)
    pip_install(
        scene, scene.env(pip="25.1"), "--no-index", "--find-links", ".", f"flash-attn=={LOCAL}",
        prompt=True,
    )


@failure("pip-other-name-inside", *RENAMED, given=LINUX)
def _(scene):
    """The wheel's file name says flash_attn, its metadata says another package."""
    wheel = flash_attn_file(scene, RELEASE, {}, metadata_name="flash_attn_x")
    pip_install(scene, scene.env(pip="25.1"), wheel.name, prompt=True)


@failure("pip-short-name", "wheel-renamed", least="proved", given=LINUX)
def _(scene):
    """A wheel renamed to flash_attn.whl."""
    renamed(scene).rename(scene.work / "flash_attn.whl")
    pip_install(scene, scene.env(pip="25.1"), "./flash_attn.whl", prompt=True)


@failure("uv-short-name", "wheel-renamed", least="proved", given=LINUX)
def _(scene):
    """The same with uv."""
    renamed(scene).rename(scene.work / "flash_attn-latest.whl")
    uv_install(scene, scene.env(), "./flash_attn-latest.whl", prompt=True)


@failure("pip-glob-in-name", "wheel-renamed", least="proved", given=LINUX)
def _(scene):
    """A pattern that the shell did not expand, as on Windows or without a match."""
    pip_install(scene, scene.env(pip="24.0"), "flash_attn-2.8.3*.whl", prompt=True)


# ---- network ----


def unused_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@failure("pip-dead-proxy", "network-blocked", given=LINUX)
def _(scene):
    """The proxy is not running."""
    pip_install(
        scene, scene.env(pip="25.1"), "--no-cache-dir", "--retries", "1",
        "--proxy", f"http://127.0.0.1:{unused_port()}", FLASH,
    )


@failure("uv-dead-proxy", "network-blocked", given=LINUX)
def _(scene):
    """The same with uv."""
    uv_install(
        scene, scene.env(), "--no-cache", FLASH,
        variables={"HTTPS_PROXY": f"http://127.0.0.1:{unused_port()}", "UV_HTTP_RETRIES": "1"},
    )


@failure("pip-forbidding-proxy", "network-blocked", least="proved", given=LINUX)
def _(scene):
    """The proxy answers 403."""
    port = scene.serve(world.Forbidding)
    pip_install(
        scene, scene.env(pip="24.0"), "--no-cache-dir", "--retries", "1",
        "--proxy", f"http://127.0.0.1:{port}", FLASH,
    )


@failure("pip-no-such-host", "network-blocked", given=LINUX)
def _(scene):
    """The index's name has no address."""
    pip_install(
        scene, scene.env(pip="25.1"), "--no-cache-dir", "--retries", "1",
        "-i", "https://index.invalid/simple", FLASH,
    )


@failure("uv-no-such-host", "network-blocked", "offline-node", given=LINUX)
def _(scene):
    """A wheel by URL from a host without an address, with uv."""
    uv_install(
        scene, scene.env(), "--no-cache",
        f"https://github.invalid/Dao-AILab/flash-attention/releases/download/v2.8.3/{BAD_NAME}",
        variables={"UV_HTTP_RETRIES": "1"},
    )


@failure("pip-no-network", "network-blocked", "offline-node", given=LINUX)
def _(scene):
    """A machine without any network, such as a compute node."""
    env = scene.env(pip="25.1")
    scene.run(
        "unshare", "--net", env / "bin/python", "-m", "pip", "install", "--no-cache-dir",
        "--retries", "1",
        f"https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/{BAD_NAME}",
        env=env,
    )


@failure("uv-no-network", "network-blocked", "offline-node", given=LINUX)
def _(scene):
    """The same with uv, and an address in place of a name."""
    scene.run(
        "unshare", "--net", "uv", "pip", "install", "--no-cache",
        f"http://192.0.2.7/wheels/{BAD_NAME}",
        env=scene.env(),
        variables={"UV_HTTP_RETRIES": "1", "HTTPS_PROXY": "", "HTTP_PROXY": ""},
    )


@failure("pip-refused", "network-blocked", given=LINUX)
def _(scene):
    """No server listens at the index's address."""
    pip_install(
        scene, scene.env(pip="25.1"), "--retries", "1",
        "-i", f"http://127.0.0.1:{unused_port()}/simple", FLASH,
    )


@failure("pip-dropped", "network-blocked", given=LINUX)
def _(scene):
    """The server closes the connection."""
    port = scene.serve(world.Dropping)
    pip_install(
        scene, scene.env(pip="25.1"), "--retries", "1", f"http://127.0.0.1:{port}/{BAD_NAME}"
    )


@failure("pip-tls", "tls-certificates", least="proved", given=LINUX)
def _(scene):
    """A certificate that is not trusted, as behind a firewall that inspects TLS."""
    port = scene.serve(world.Missing, tls=True)
    pip_install(
        scene, scene.env(pip="25.1"), "--retries", "1",
        "-i", f"https://localhost:{port}/simple", FLASH,
    )


@failure("uv-tls", "tls-certificates", least="proved", given=LINUX)
def _(scene):
    """The same with uv."""
    port = scene.serve(world.Missing, tls=True)
    uv_install(
        scene, scene.env(), "--no-cache", "-i", f"https://localhost:{port}/simple", FLASH,
        variables={"UV_HTTP_RETRIES": "1"},
    )


@failure("uv-offline", "offline-node", "network-blocked", given=LINUX)
def _(scene):
    """uv --offline with an empty cache."""
    uv_install(scene, scene.env(), "--offline", "--cache-dir", scene.work / "cache", FLASH)


# ---- the disk and the installation ----


@failure("pip-full-disk", "disk-full", least="proved", given=LINUX)
def _(scene):
    """The environment lies on a file system that is too small for the wheel."""
    scene.mount(scene.work / "small", "48m")
    env = scene.env(pip="25.1", name="small/venv")
    wheel = flash_attn_file(scene, RELEASE, {"flash_attn_2_cuda.so": os.urandom(60 << 20)})
    pip_install(scene, env, wheel.name, prompt=True)


@failure("uv-full-disk", "disk-full", least="proved", given=LINUX)
def _(scene):
    """The same with uv."""
    scene.mount(scene.work / "small", "20m")
    env = scene.env(name="small/venv")
    wheel = flash_attn_file(scene, RELEASE, {"flash_attn_2_cuda.so": os.urandom(30 << 20)})
    uv_install(scene, env, "--no-cache", "--link-mode", "copy", wheel, prompt=True)


@failure("pip-full-temporary-folder", "disk-full", least="proved", given=LINUX)
def _(scene):
    """/tmp is too small to download the wheel."""
    flash_attn_file(scene, RELEASE, {"flash_attn_2_cuda.so": os.urandom(9 << 20)})
    port = scene.serve(world.folder_handler(scene.work))
    small = scene.mount(scene.work / "tmp", "4m")
    pip_install(
        scene, scene.env(pip="24.0"), f"http://127.0.0.1:{port}/{BAD_NAME}",
        variables={"TMPDIR": str(small)},
    )


# ---- failures unrelated to flash-attn, for which there is no cause ----


@failure("managed-python", given=LINUX)
def _(scene):
    """Debian's Python refuses pip."""
    scene.run("/usr/bin/python3", "-m", "pip", "install", FLASH)


@failure("read-only-environment", given=LINUX)
def _(scene):
    """site-packages lies on a read-only file system."""
    env = scene.env(pip="25.1")
    wheel = flash_attn_file(scene, RELEASE, {})
    subprocess.run(["mount", "--bind", env, env], check=True)
    scene.undo.callback(subprocess.run, ["umount", "-l", str(env)])
    subprocess.run(["mount", "-o", "remount,ro,bind", env], check=True)
    pip_install(scene, env, wheel.name, prompt=True)


@failure("no-permission", given=LINUX)
def _(scene):
    """The environment belongs to somebody else."""
    env = scene.env(pip="25.1")
    wheel = flash_attn_file(scene, RELEASE, {})
    scene.shell(
        f"chmod a+rx {scene.work} && setpriv --reuid 65534 --clear-groups "
        "unshare --user --map-root-user true; "
        f"setpriv --reuid 65534 --clear-groups {env}/bin/python -m pip install "
        f"--no-cache-dir {wheel}",
        env=env,
        variables={"HOME": "/nonexistent"},
    )


@failure("no-such-release", "version-not-published", given=LINUX)
def _(scene):
    """A flash-attn release that does not exist."""
    pip_install(scene, scene.env(pip="25.1"), "flash-attn==2.9.99")


@failure("uv-no-such-release", "version-not-published", given=LINUX)
def _(scene):
    """The same with uv."""
    uv_install(scene, scene.env(), "flash-attn==2.9.99")


@failure("wrong-package-name", given=LINUX)
def _(scene):
    """A package that no index has."""
    pip_install(scene, scene.env(pip="25.1"), "flash-attn-no-such-package")


@failure("file-that-is-not-there", given=LINUX)
def _(scene):
    """pip is given a path to a wheel that does not exist."""
    pip_install(scene, scene.env(pip="25.1"), f"./{BAD_NAME}", prompt=True)
