"""What importing the package does, and what it does not do."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import python

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_importing_brings_in_nothing_large():
    done = python(
        "import sys, ctypes, importlib, operator, struct, threading; "
        "before = set(sys.modules); "
        "import anyflash; print({m.split('.')[0] for m in set(sys.modules) - before})"
    )
    assert done.stdout.strip() == "{'anyflash'}", done.stdout + done.stderr


def test_a_missing_library_is_an_import_error_that_names_it(tmp_path):
    missing = tmp_path / "libanyflash.so"
    done = python("import anyflash", ANYFLASH_LIBRARY=str(missing))
    assert "ImportError: anyflash cannot load its library" in done.stderr
    assert str(missing) in done.stderr


def library_of(folder, version, without=(), name="libanyflash.so", functions=None):
    """Compiles a library with the package's functions except `without`, of this `version`."""
    from anyflash import _loader

    names = (*_loader.ENGINE, *_loader.BINDINGS) if functions is None else functions
    lines = [
        f"int {n}(void) {{ return {_loader.INTERFACE}; }}" for n in names if n not in without
    ]
    if "anyflash_version_text" in names:
        lines = [line for line in lines if "anyflash_version_text" not in line]
        lines.append(f'const char *anyflash_version_text(void) {{ return "{version}"; }}')
    source, library = folder / "old.c", folder / name
    source.write_text("\n".join(lines) + "\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def loaded(library):
    """Runs a process that loads this library, pretends not to be CPython, so that the builtin
    is not used, and prints which libraries have the engine's and the bindings' functions."""
    return python(
        "import os, sys; sys.implementation.name = 'other'\n"
        "from anyflash import _lib\n"
        "print(*[os.path.basename(lib._name) for lib in (_lib._library, _lib.bindings)])",
        ANYFLASH_LIBRARY=str(library),
    )


def test_bindings_come_from_the_library_beside_the_engines(tmp_path):
    from anyflash import __version__, _loader

    engine = library_of(tmp_path, __version__, functions=_loader.ENGINE)
    name = "libanyflash_python.so"
    said = loaded(engine).stderr.splitlines()[-1]
    assert f"cannot load its library '{tmp_path / name}'" in said
    lacking = [n for n in _loader.BINDINGS if n != "anyflash_torch_counts"]
    beside = library_of(tmp_path, __version__, name=name, functions=lacking)
    said = loaded(engine).stderr.splitlines()[-1]
    assert said.startswith("ImportError: ") and str(beside) in said
    assert "an older build without anyflash_torch_counts" in said
    library_of(tmp_path, __version__, name=name, functions=_loader.BINDINGS)
    done = loaded(engine)
    assert done.stdout.split() == ["libanyflash.so", name], done.stderr


@pytest.mark.parametrize("missing", ["anyflash_merge", "anyflash_torch_operators"])
def test_an_older_build_of_the_library_is_told_at_import(tmp_path, missing):
    from anyflash import __version__

    library = library_of(tmp_path, __version__, [missing])
    beside = library_of(tmp_path, __version__, [missing], name="libanyflash_python.so")
    done = python("import anyflash", ANYFLASH_LIBRARY=str(library))
    said = done.stderr.splitlines()[-1]
    named = library if missing == "anyflash_merge" else beside
    assert said.startswith("ImportError: ") and str(named) in said, done.stderr
    assert f"which is an older build without {missing}: set ANYFLASH_LIBRARY to" in said


@pytest.mark.parametrize("version, age", [("0.0.9", "older"), ("10.2.0", "newer")])
def test_a_library_of_another_version_is_told_at_import(tmp_path, version, age):
    library = library_of(tmp_path, version)
    done = python("import anyflash", ANYFLASH_LIBRARY=str(library))
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ImportError: ") and str(library) in said, done.stderr
    assert f"which is the {age} version {version}: set ANYFLASH_LIBRARY to" in said


def test_bindings_of_another_version_are_told_at_import(tmp_path):
    from anyflash import __version__, _loader

    engine = library_of(tmp_path, __version__, functions=_loader.ENGINE)
    functions = ("anyflash_version_text", *_loader.BINDINGS)
    name = "libanyflash_python.so"
    beside = library_of(tmp_path, "10.2.0", name=name, functions=functions)
    said = loaded(engine).stderr.splitlines()[-1]
    assert str(beside) in said and "which is the newer version 10.2.0" in said


def test_bindings_of_another_build_are_told_at_import(tmp_path, monkeypatch):
    from anyflash import __version__, _loader

    engine = library_of(tmp_path, __version__, functions=_loader.ENGINE)
    with monkeypatch.context() as patch:
        patch.setattr(_loader, "INTERFACE", _loader.INTERFACE + 7)
        name = "libanyflash_python.so"
        beside = library_of(tmp_path, __version__, name=name, functions=_loader.BINDINGS)
    said = loaded(engine).stderr.splitlines()[-1]
    assert said.startswith("ImportError: ")
    assert f"cannot use its library '{beside}', which is from another build " in said
    assert f"(interface {_loader.INTERFACE + 7}; the package in" in said
    assert f"'{ROOT / 'python' / 'anyflash'}' needs {_loader.INTERFACE}): set ANY" in said


#: The interface's number, and a hash of the declarations that it stands for.
INTERFACE = 6, "74c4cc6a18a05682"


def test_the_interface_has_another_number_after_each_change():
    """A change of the two headers needs a new number in anyflash_python.h and in _loader.py."""
    from anyflash import _loader

    words = []
    for name in ("anyflash_python.h", "anyflash_torch.h"):
        text = (ROOT / "include" / "anyflash" / name).read_text()
        words += re.sub(r"/\*.*?\*/", " ", text, flags=re.S).split()
    at = words.index("ANYFLASH_PYTHON_INTERFACE") + 1
    assert int(words.pop(at)) == _loader.INTERFACE == INTERFACE[0]
    found = hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
    assert found == INTERFACE[1], "give the interface a new number"


def test_another_library_is_told_at_import(tmp_path):
    library = library_of(tmp_path, "", functions=["something_else"])
    done = python("import anyflash", ANYFLASH_LIBRARY=str(library))
    said = done.stderr.splitlines()[-1]
    assert f"cannot use its library '{library}', which has none of its functions: " in said


# Copies of the package, each with libraries of its own.


def copy_of(folder, version):
    """The package's folder of a copy with this version and libraries that only know it."""
    from anyflash import _loader

    package = folder / "anyflash"
    shutil.copytree(ROOT / "python/anyflash", package)
    (package / "_version.py").write_text(f"__version__ = {version!r}\n")
    engine = library_of(package, version, functions=_loader.ENGINE)
    # The symbol table may be cut off without harm.
    beside = library_of(
        package, version, name="libanyflash_python.so", functions=_loader.BINDINGS
    )
    subprocess.run(["strip", engine, beside], check=True)
    return package


def imported(*folders, code="", **environment):
    """Imports the package from these folders; not as CPython, so that nothing is called."""
    environment = {"ANYFLASH_LIBRARY": "", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    code = f"import sys; sys.implementation.name = 'other'; from anyflash import _lib; {code}"
    return python(code, PYTHONPATH=os.pathsep.join(map(str, folders)), **environment)


def test_of_two_copies_the_first_is_used_with_its_own_libraries(tmp_path):
    old, new = copy_of(tmp_path / "old", "0.0.9"), copy_of(tmp_path / "new", "10.2.0")
    code = (
        "from anyflash import __version__ as own; "
        "print(own, _lib._library._name, _lib.bindings._name)"
    )
    for folders, version in (((old, new), "0.0.9"), ((new, old), "10.2.0")):
        done = imported(*[folder.parent for folder in folders], code=code)
        own = [str(folders[0] / f"lib{name}.so") for name in ("anyflash", "anyflash_python")]
        assert done.stdout.split() == [version, *own], done.stderr
    other = str(new / "libanyflash.so")
    said = imported(old.parent, ANYFLASH_LIBRARY=other).stderr.splitlines()[-1]
    assert said.startswith(f"ImportError: anyflash 0.0.9 cannot use its library '{other}', ")
    assert "which is the newer version 10.2.0: " in said


@pytest.mark.parametrize("name", ["libanyflash.so", "libanyflash_python.so"])
def test_a_truncated_library_is_told_at_import(tmp_path, name):
    library = copy_of(tmp_path, "1.0") / name
    whole = library.read_bytes()
    told = 0
    for size in range(0, len(whole), 1 + len(whole) // 40):
        library.write_bytes(whole[:size])
        done = imported(tmp_path)
        assert done.returncode in (0, 1), (size, done)
        if done.returncode == 1:
            said = done.stderr.splitlines()[-1]
            told += "(the file is truncated)" in said
            assert said.startswith(f"ImportError: anyflash cannot load its library '{library}'")
            assert said.endswith("): reinstall anyflash"), said
    assert told >= 30


def test_a_library_for_another_processor_is_told_at_import(tmp_path):
    machine = os.uname().machine
    number, other = {"x86_64": (183, "aarch64")}.get(machine, (62, "x86_64"))
    library = copy_of(tmp_path, "1.0") / "libanyflash.so"
    content = bytearray(library.read_bytes())
    content[18:20] = number.to_bytes(2, "little")
    library.write_bytes(content)
    said = imported(tmp_path).stderr.splitlines()[-1]
    assert f"(built for {other}, but this machine is {machine}): reinstall anyflash" in said


def test_every_function_that_the_package_calls_is_looked_for_at_import():
    from anyflash import _loader

    texts = [path.read_text() for path in (ROOT / "python/anyflash").rglob("*.py")]
    called = {name for text in texts for name in re.findall(r"\.(anyflash_\w+)", text)}
    assert called - {*_loader.ENGINE, *_loader.BINDINGS} == set()
    of_bindings = {
        name for text in texts for name in re.findall(r"bindings\.(anyflash_\w+)", text)
    }
    assert of_bindings - set(_loader.BINDINGS) == set()


def test_the_struct_has_the_size_that_the_header_gives(tmp_path):
    source = tmp_path / "size.c"
    source.write_text(
        '#include <stdio.h>\n#include "anyflash/anyflash.h"\n'
        'int main(void) { printf("%zu %zu", sizeof(struct anyflash_attend_args), '
        "sizeof(struct anyflash_attend_backward_args)); return 0; }\n"
    )
    program = tmp_path / "size"
    subprocess.run(
        ["cc", f"-I{ROOT / 'include'}", str(source), "-o", str(program)], check=True
    )
    sizes = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    done = python("from anyflash import _lib; print(_lib._FORMAT.size, _lib._BACKWARD.size)")
    assert done.stdout.strip() == sizes, done.stderr
