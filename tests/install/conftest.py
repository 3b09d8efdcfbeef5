"""Real environments, the real uv and pip, and wheels made here. Tests that lack a tool are
skipped."""
import base64
import contextlib
import functools
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import schemas  # noqa: E402

PROGRAM = os.environ.get("ANYFLASH", "anyflash")
HOST_PYTHON = "/usr/bin/python3"  # the interpreter for the environments, of any version
PRINT_TAG = "import sys; print('cp%d%d' % sys.version_info[:2])"
PYTHON_TAG = subprocess.run([HOST_PYTHON, "-c", PRINT_TAG], capture_output=True, text=True,
                            check=True).stdout.strip()
WHEEL_TAG = f"{PYTHON_TAG}-{PYTHON_TAG}-linux_x86_64"
EXTENSION_END = f".cpython-{PYTHON_TAG[2:]}-x86_64-linux-gnu.so"
KILLABLE = os.environ.get("ANYFLASH_HOOKS", "anyflash_hooks")


def find_uv():
    """The real uv; a version manager's shim would need that manager's variables."""
    found = shutil.which("uv")
    if found is None:
        return None
    if Path(found).read_bytes()[:4] == b"\x7fELF":
        return found
    done = subprocess.run(["pyenv", "which", "uv"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


UV = find_uv()


REFUSAL = """
def flash_attn_func(*tensors, **options):
    raise RuntimeError("FlashAttention only supports CUDA tensors")
"""


def make_wheel(folder, name="flash_attn", version="2.8.3", local="", files=None,
               requires=("torch",), text="", tag="py3-none-any", record=True,
               module=None, metadata_local=False):
    """Writes a wheel like flash-attn's: the file name may have a local part that METADATA
    lacks. `module` is the folder of its code, if that is not called as the wheel is."""
    inside = f"{version}+{local}" if metadata_local else version
    info = f"{name}-{inside}.dist-info"
    code = f"__version__ = '{version}'\n{text}\n{REFUSAL if name == 'flash_attn' else ''}"
    members = {f"{module or name}/__init__.py": code.encode(),
               f"{module or name}/kernels.bin": bytes(range(256)) * 40}
    members.update(files or {})
    members[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {inside}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in requires)).encode()
    members[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n").encode()
    lines = []
    for path, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        lines.append(f"{path},sha256={digest.decode()},{len(content)}\n")
    lines.append(f"{info}/RECORD,,\n")
    if record:
        members[f"{info}/RECORD"] = "".join(lines).encode()
    path = Path(folder) / f"{name}-{version}{'+' + local if local else ''}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def compiled(folder, code, *flags):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler: package gcc")
    folder.mkdir(exist_ok=True)
    (folder / "one.c").write_text(code)
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", folder / "one.so",
                    folder / "one.c"], check=True)
    return (folder / "one.so").read_bytes()


DIGESTS = {}  # of files that were read, by what changes when they do


def digest(path, facts):
    changed = facts.st_ctime_ns if facts.st_nlink == 1 else 0  # each new link changes it
    key = facts.st_dev, facts.st_ino, facts.st_mtime_ns, changed, facts.st_size
    if key not in DIGESTS:
        DIGESTS[key] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return DIGESTS[key]


def snapshot(root):
    """All files below root but caches: kind, mode, size, modification time, content."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if one != "__pycache__"]
        for name in files + folders:
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            key = os.path.relpath(path, root)
            if stat.S_ISDIR(facts.st_mode):
                found[key] = "folder"
            elif stat.S_ISLNK(facts.st_mode):
                found[key] = os.readlink(path)
            else:
                found[key] = facts.st_mode, facts.st_mtime_ns, digest(path, facts)
    return found


def visible(tree):
    """A snapshot without the backup files for undo and the lock file of a killed run."""
    return {key: value for key, value in tree.items() if ".anyflash" not in key}


@functools.cache
def pip_template():
    """Creating an environment with pip takes seconds, so one is created beside the program and
    copied. Runs at the same time each create one, and the first is kept."""
    kept = Path(PROGRAM).resolve().parent / f"pip-{PYTHON_TAG}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = Path(folder) / "venv"
            subprocess.run([HOST_PYTHON, "-m", "venv", made], check=True)
            with contextlib.suppress(OSError):  # another run was first
                made.rename(kept)
    return kept


def link(source, target):
    """Modules of pip and setuptools, which no test writes into, are links: copying them takes a
    second of processor time for each environment, linking a tenth."""
    if re.search(r"/site-packages/(pip|setuptools|pkg_resources)/", source):
        with contextlib.suppress(OSError):  # on another disk
            os.link(source, target)
            return
    shutil.copy2(source, target, follow_symlinks=False)


class Place:
    """An environment with its own home and state folder."""

    def __init__(self, root, installer):
        self.root = Path(root)
        self.installer = installer
        self.venv = self.root / "venv"
        self.home = self.root / "home"
        self.state = self.home / "state"
        self.bin = self.root / "bin"
        for folder in (self.home, self.bin):
            folder.mkdir(parents=True)
        if installer == "uv":
            (self.bin / "uv").symlink_to(UV)
            subprocess.run([UV, "venv", "-q", "--python", HOST_PYTHON, self.venv],
                           check=True, env=self.environment())
        else:
            shutil.copytree(pip_template(), self.venv, symlinks=True, copy_function=link)
        self.site = next(self.venv.glob("lib/python3*/site-packages"))

    def environment(self):
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home), "TERM": "xterm",
                "ANYFLASH_STATE": str(self.state), "PYTHONDONTWRITEBYTECODE": "1",
                "UV_CACHE_DIR": str(self.root / "uv-cache"), "UV_OFFLINE": "1"}

    def command(self, *words, program=PROGRAM):
        option = "--against" if words[0] == "inspect" else "--python"
        with_python = [] if words[0] in ("version", "help") else [option, str(self.venv)]
        return [program, *map(str, words), *with_python]

    def run(self, *words, env=None, program=PROGRAM, timeout=120):
        done = subprocess.run(self.command(*words, program=program), cwd=self.root,
                              env={**self.environment(), **(env or {})}, capture_output=True,
                              text=True, timeout=timeout)
        schemas.check(done.stdout)
        done.all = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *words, env=None, program=PROGRAM):
        return subprocess.Popen(self.command(*words, program=program), cwd=self.root,
                                env={**self.environment(), **(env or {})}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def tree(self):
        return snapshot(self.venv)

    def own(self):
        """Names of anyflash's folders and files in the environment."""
        return sorted(path.name for path in self.site.iterdir()
                      if path.name.startswith(".anyflash"))

    def python(self, code):
        return subprocess.run([self.venv / "bin/python", "-c", code], capture_output=True,
                              text=True, env=self.environment())


@functools.cache
def has_ensurepip():
    done = subprocess.run([HOST_PYTHON, "-c", "import ensurepip"], capture_output=True)
    return done.returncode == 0


def have(installer):
    if installer == "uv" and UV is None:
        pytest.skip("needs uv: pip install uv")
    if installer == "pip" and not has_ensurepip():
        pytest.skip("needs venv and pip of /usr/bin/python3: package python3-venv")


def pytest_collection_modifyitems(config, items):
    """By turns, tests that could have either installer have uv or pip; at night, both."""
    if os.environ.get("ANYFLASH_TEST_NIGHT") or UV is None or config.option.keyword:
        return
    numbers, kept, others = {}, [], []
    for item in items:
        given = dict(getattr(item, "callspec", None) and item.callspec.params or {})
        installer = given.pop("place", None)
        number = numbers.setdefault((item.originalname, repr(given)), len(numbers))
        of_turn = ("uv", "pip")[number % 2]
        (kept if installer in (None, of_turn) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


@pytest.fixture(params=["uv", "pip"])
def place(request, tmp_path):
    """An empty environment, once with uv as the installer and once with pip."""
    have(request.param)
    return Place(tmp_path / "place", request.param)


@pytest.fixture
def quick_place(tmp_path):
    """One environment, with uv if possible or as requested: for tests with many runs."""
    installer = os.environ.get("ANYFLASH_TEST_INSTALLER") or ("uv" if UV else "pip")
    have(installer)
    return Place(tmp_path / "place", installer)
