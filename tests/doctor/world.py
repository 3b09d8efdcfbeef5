"""The world that make_logs.py runs scenarios in: folders, environments, wheels and servers.

A scenario is a function with the decorator `failure` or `healthy`; it gets a Scene, whose
run() really runs a command and appends what it printed to the scenario's log. Environments
are made with uv, whose cache makes a second run cheap.
"""

import contextlib
import dataclasses
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "real"))
import builds  # noqa: E402
import wheels  # noqa: E402

HIDE_TOOLKIT = HERE.parent / "real" / "hide_toolkit.sh"
RELEASE = "2.8.3"
CUDA_OF = {"2.6.0": "12.4", "2.11.0": "13.0", "2.15.0": "13.2"}
SOABI = "cpython-311-x86_64-linux-gnu"
TAGS = "cp311-cp311-linux_x86_64"
FLASH = f"flash-attn=={RELEASE}"
LINUX = ("os=linux", "arch=x86_64", "python=3.11")
# What flash-attn's setup.py needs in an environment without build isolation.
HELPERS = ("setuptools<81", "wheel", "packaging", "psutil", "ninja")
SCENARIOS = {}


@dataclasses.dataclass
class Scenario:
    """One log: how it is made and what the doctor must say about it.

    causes: ids, any of which may come first; empty: none may be proved or likely.
    least: the lowest confidence that the first cause may have.
    given: facts of the machine as `--given` takes them.
    """

    name: str
    kind: str
    how: str
    make: callable
    causes: tuple = ()
    least: str = "likely"
    given: tuple = ()


def add_scenario(scenario):
    key = f"{scenario.kind}/{scenario.name}"
    assert key not in SCENARIOS, key
    SCENARIOS[key] = scenario


def failure(name, *causes, least="likely", given=()):
    def register(make):
        add_scenario(
            Scenario(
                name, "failures", " ".join(make.__doc__.split()), make, causes,
                least if causes else "", tuple(given),
            )
        )
        return make

    return register


def healthy(name, how, make):
    add_scenario(Scenario(name, "healthy", how, make, (), "", ()))


def of_torch(version, *more):
    """The facts that a user with this torch on an ordinary Linux would state."""
    return (
        "os=linux",
        "arch=x86_64",
        "python=3.11",
        f"torch={version}+cu{CUDA_OF[version].replace('.', '')}",
        *more,
    )


class Scene:
    """The folder, the environment variables and the log of one scenario."""

    def __init__(self, folder, kind, name, log):
        self.work = folder / "work" / kind / name
        self.envs = folder / "envs"
        self.shared = folder
        self.log = log
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.work = self.work.resolve()
        self.undo = contextlib.ExitStack()
        self.ended = None

    def variables(self, env=None, toolkit=False, more=()):
        """The caller's environment without a toolkit, with the programs of `env` first."""
        keep = {
            name: value
            for name, value in os.environ.items()
            if not re.match(
                r"CUDA|VIRTUAL_ENV|PYENV|PYTHON|LD_|UV_PYTHON|TORCH|MAX_JOBS|"
                r"CPATH|C_INCLUDE|CPLUS_INCLUDE|LIBRARY_PATH",
                name,
            )
        }
        programs = [f"{env}/bin"] if env else []
        if toolkit:
            programs.append("/usr/local/cuda/bin")
        uv = os.path.dirname(shutil.which("uv") or "")
        keep["PATH"] = os.pathsep.join(
            [*programs, "/usr/bin", "/bin", "/usr/sbin", "/sbin", f"{self.shared}/bin"]
        )
        (self.shared / "bin").mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (self.shared / "bin/uv").symlink_to(real_program("uv", uv))
        if env:
            keep["VIRTUAL_ENV"] = str(env)
        keep["LC_ALL"] = "C.UTF-8"
        keep["PIP_CACHE_DIR"] = str(self.shared / "pip-cache")
        keep["PIP_NO_COLOR"] = keep["NO_COLOR"] = "1"
        keep["COLUMNS"] = "120"
        keep["SOURCE_DATE_EPOCH"] = "1700000000"
        keep.update(dict(more))
        return keep

    def run(
        self, *words, env=None, toolkit=False, hidden=False, cwd=None, limit=240, prompt=False,
        variables=(), feed=None, limits=None,
    ):
        """Runs the command and appends its output. Returns whether it exited 0.

        hidden: no CUDA toolkit of this machine can be seen. prompt: the command is written
        above its output. limits: called in the child before the command starts.
        """
        words = [str(word) for word in words]
        if prompt:
            shown = [os.path.basename(words[0]), *words[1:]]
            self.write("$ " + " ".join(shown) + "\n")
        given = [f"{name}={value}" for name, value in dict(variables).items()]
        command = [str(HIDE_TOOLKIT), "env", *given, *words] if hidden else words
        child = subprocess.Popen(
            command,
            cwd=cwd or self.work, env=self.variables(env, toolkit, variables),
            stdin=subprocess.PIPE if feed is not None else subprocess.DEVNULL, stdout=self.log,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limits,
        )
        try:
            child.communicate(feed, timeout=limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGINT)
            try:
                child.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        self.log.flush()
        self.ended = child.returncode
        return child.returncode == 0

    def quiet(self, *words, **options):
        """Runs a command that must succeed, without logging it."""
        log = self.log
        with open(self.work / "quiet.txt", "w+b") as self.log:
            good = self.run(*words, **options)
        self.log = log
        assert good, (self.work / "quiet.txt").read_text(errors="replace")[-3000:]

    def shared_library(self, library, *words):
        self.quiet("gcc", "-shared", "-fPIC", *words, "-o", library)

    def write(self, text):
        self.log.write(text.encode())
        self.log.flush()

    def shell(self, line, **options):
        return self.run("bash", "-c", line, **options)

    def file(self, name, text):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def script(self, name, text):
        path = self.file(name, text)
        path.chmod(0o755)
        return path

    def env(self, *packages, python="3.11", pip=None, name="venv"):
        """A new environment with these packages; pip: with pip, or with that version of it."""
        folder = self.work / name
        if python != "3.11":
            others = (pathlib.Path.home() / ".pyenv/versions").glob(f"{python}.*/bin/python")
            python = next(others, python)
        self.quiet("uv", "venv", "-q", "--python", python, folder)
        wanted = [*packages]
        if pip:
            wanted.append("pip" if pip is True else f"pip=={pip}")
        if wanted:
            self.quiet(
                "uv", "pip", "install", "-q", "--python", folder / "bin/python", *wanted,
                limit=1500,
            )
        return folder

    def torch(self, version, *packages, **options):
        """A new environment that finds torch and NumPy in one that all scenarios share."""
        shared = self.envs / f"torch-{version}"
        if not (shared / "ready").exists():
            self.quiet("uv", "venv", "-q", "--clear", "--python", "3.11", shared)
            self.quiet(
                "uv", "pip", "install", "-q", "--compile-bytecode", f"torch=={version}",
                "numpy", env=shared, limit=1500,
            )
            (shared / "ready").touch()
        folder = self.env(*packages, **options)
        (target,) = folder.glob("lib/python*/site-packages")
        (found,) = shared.glob("lib/python*/site-packages")
        (target / "torch.pth").write_text(f"{found}\n")
        return folder

    def sdist(self):
        """A copy of flash-attn's unpacked sdist without its tests."""
        target = self.work / f"flash_attn-{RELEASE}"
        shutil.copytree(
            builds.sdist(f"flash-attn=={RELEASE}"), target,
            ignore=shutil.ignore_patterns("tests", "hopper"),
        )
        return target

    def flash_attn_wheel(self, built_for, version=RELEASE, local=None, extension=True):
        """A wheel with flash-attn's Python code, and its extension compiled for that torch."""
        source = builds.sdist(f"flash-attn=={RELEASE}")
        files = {
            str(path.relative_to(source)): path.read_bytes()
            for path in (source / "flash_attn").rglob("*.py")
        }
        if version != RELEASE:
            start = files["flash_attn/__init__.py"].decode()
            files["flash_attn/__init__.py"] = start.replace(RELEASE, version).encode()
        if extension:
            library = wheels.CACHE / "built" / built_for / "flash_attn_2_cuda.so"
            files[f"flash_attn_2_cuda.{SOABI}.so"] = library.read_bytes()
        whole = version + (f"+{local}" if local else "")
        return make_wheel(self.work, "flash_attn", whole, TAGS, files, ("torch", "einops"))

    def install_flash_attn(self, env, built_for, **options):
        wheel = self.flash_attn_wheel(built_for, **options)
        self.quiet(
            "uv", "pip", "install", "-q", "--python", env / "bin/python", "--no-deps", wheel
        )
        self.quiet("uv", "pip", "install", "-q", "--python", env / "bin/python", "einops")

    def serve(self, handler, tls=False):
        """The port of a server on this machine that answers until the scenario is over."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if tls:
            self.quiet(
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
                "-subj", "/CN=localhost", "-keyout", self.work / "key.pem", "-out",
                self.work / "cert.pem",
            )
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.work / "cert.pem", self.work / "key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.undo.callback(server.shutdown)
        return server.server_address[1]

    def mount(self, folder, size):
        """A file system in memory of that size, until the scenario is over."""
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True
        )
        self.undo.callback(subprocess.run, ["umount", "-l", str(folder)])
        return folder

    def memory_group(self, limit_bytes):
        """A control group of this much memory; put a child into it with join_group()."""
        root = pathlib.Path("/sys/fs/cgroup/memory")
        unified = not root.is_dir()
        group = (pathlib.Path("/sys/fs/cgroup") if unified else root) / f"logs-{os.getpid()}"
        group.mkdir(exist_ok=True)
        name = "memory.max" if unified else "memory.limit_in_bytes"
        (group / name).write_text(str(limit_bytes))
        self.undo.callback(lambda: group.rmdir())
        return group

    def close(self):
        self.undo.close()
        shutil.rmtree(self.work, ignore_errors=True)


def real_program(name, folder):
    """The real program, if a version manager has put a shim of that name on PATH."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        found = subprocess.run(
            ["pyenv", "which", name], check=True, text=True, capture_output=True
        )
        return found.stdout.strip()
    return os.path.join(folder, name)


def pip_install(scene, env, *words, **options):
    return scene.run(env / "bin/python", "-m", "pip", "install", *words, env=env, **options)


def uv_install(scene, env, *words, **options):
    return scene.run("uv", "pip", "install", *words, env=env, **options)


def join_group(group):
    def join():
        (group / "cgroup.procs").write_text(str(os.getpid()))

    return join


def make_wheel(
    folder, name, version, tags, files, requires=(), file_version=None, metadata_name=None
):
    """Writes a wheel and returns its path. `file_version`: a different version for its name."""
    info = f"{metadata_name or name}-{version}.dist-info"
    content = dict(files)
    needs = "".join(f"Requires-Dist: {need}\n" for need in requires)
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {metadata_name or name}\nVersion: {version}\n{needs}"
    ).encode()
    content[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: bdist_wheel (0.45.1)\n"
        f"Root-Is-Purelib: false\nTag: {tags}\n"
    ).encode()
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in content).encode()
    path = folder / f"{name}-{file_version or version}-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for member, data in content.items():
            archive.writestr(member, data)
    return path


def flash_attn_file(scene, version, files, requires=(), **options):
    """A wheel of flash-attn for Python 3.11 on Linux with these files."""
    return make_wheel(scene.work, "flash_attn", version, TAGS, files, requires, **options)


def edit(path, old, new):
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new))


def download_from(source, address):
    """Makes setup.py in this folder download its wheel from `address` instead of GitHub."""
    edit(
        source / "setup.py", "https://github.com/Dao-AILab/flash-attention/releases/download",
        address,
    )


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Missing(http.server.BaseHTTPRequestHandler):
    """Answers 404 to everything."""

    def do_GET(self):
        self.send_error(404)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Dropping(Missing):
    """Closes the connection without an answer."""

    def do_GET(self):
        self.close_connection = True

    do_HEAD = do_CONNECT = do_GET


class Forbidding(Missing):
    """A proxy that refuses every request."""

    def do_GET(self):
        self.send_error(403)

    do_HEAD = do_CONNECT = do_GET


def folder_handler(folder):
    """Serves the files of the folder."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words, **options):
            super().__init__(*words, directory=str(folder), **options)

        def log_message(self, *_):
            pass

    return Handler
