"""Servers and wheels for these tests, and the program in $NET_TRY."""
import io
import json
import os
import random
import subprocess
import zipfile

import pytest

from server import Server

PROGRAM = os.environ.get("NET_TRY", "net_try")


@pytest.fixture
def server():
    with Server() as running:
        yield running


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A self-signed certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    files = [str(folder / "cert.pem"), str(folder / "key.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


class Done:
    def __init__(self, done):
        self.code = done.returncode
        self.err = done.stderr.decode()
        self.json = json.loads(done.stdout) if done.stdout else None

    def __repr__(self):
        return f"exit {self.code}\n{self.json}\n{self.err}"


def environment(**more):
    base = {"PATH": "/usr/bin:/bin", "no_proxy": "localhost", "TRY_HTTP": "1"}
    base.update(more)
    return base


@pytest.fixture
def net_try(tmp_path):
    """net_try("get", url, TRY_HTTP="0"): runs the program in an empty folder."""

    def run(*words, **variables):
        done = subprocess.run([PROGRAM, *map(str, words)], env=environment(**variables),
                              capture_output=True, timeout=60, cwd=tmp_path)
        return Done(done)
    run.folder = tmp_path
    return run


@pytest.fixture
def program(tmp_path_factory):
    """program(SCRIPT) puts a shell script called curl into program.folder."""
    folder = tmp_path_factory.mktemp("bin")

    def write(script):
        (folder / "curl").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "curl").chmod(0o755)
    write.folder = folder
    return write


@pytest.fixture(scope="session")
def wheel():
    """A wheel of 3 MB: small members, then one that does not compress."""
    noise = random.Random(5)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("flash/__init__.py", "x = 1\n" * 100)
        archive.writestr("flash_cuda.so", b"\x7fELF" + noise.randbytes(3_000_000))
        archive.writestr("flash-1.0.dist-info/METADATA", "Name: flash\n")
        archive.writestr("flash-1.0.dist-info/RECORD", "")
    return out.getvalue()
