"""A package index on the loopback interface, with small but realistic files.

torch is a stand-in with the metadata that matters here. flash-attn comes as wheels like the
official ones (the local version only in the file name), as wheels whose name and metadata
agree, and as a source archive that records which torch it was built with.
"""
import base64
import hashlib
import http.server
import io
import json
import pathlib
import ssl
import subprocess
import tarfile
import threading
import zipfile

LOCAL = "cu12torch2.8cxx11abiTRUE"
SETUP = '''
import pathlib
import setuptools
import torch
pathlib.Path("flash_attn").mkdir(exist_ok=True)
pathlib.Path("flash_attn/__init__.py").write_text(f"torch_of_build = '{torch.__version__}'\\n")
setuptools.setup(name="flash_attn", version="VERSION", packages=["flash_attn"],
                 install_requires=["torch", "einops"])
'''


def record_hash(data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def make_wheel(folder, name, file_version, tag, *, inside=None, requires=(), files=None,
               more=""):
    """Writes a wheel; `inside`: the version in METADATA and dist-info. Returns its path."""
    inside = inside or file_version
    info = f"{name}-{inside}.dist-info"
    members = dict(files or {f"{name}/__init__.py": f"__version__ = '{inside}'\n"})
    lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
    members[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: {name}\nVersion: {inside}\n"
                                   f"{lines}{more}\n")
    members[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: test\n"
                                f"Root-Is-Purelib: false\nTag: {tag}\n")
    rows = [f"{path},{record_hash(text.encode())},{len(text.encode())}"
            for path, text in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{file_version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in members.items():
            archive.writestr(zipfile.ZipInfo(member, (2024, 1, 1, 0, 0, 0)), text)
    return path


def make_sdist(folder, version):
    """flash-attn's source archive: no pyproject.toml, PKG-INFO as written by setuptools 75."""
    folder.mkdir(parents=True, exist_ok=True)
    top = f"flash_attn-{version}"
    members = {
        "PKG-INFO": "Metadata-Version: 2.4\nName: flash-attn\n"
                    f"Version: {version}\nRequires-Dist: torch\nRequires-Dist: einops\n"
                    "Dynamic: requires-dist\n",
        "setup.py": SETUP.replace("VERSION", version),
    }
    path = folder / f"{top}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def make_certificate(folder):
    """Creates a certificate for 127.0.0.1 and its key with openssl; both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-keyout", key, "-out", certificate, "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1",
                    "-addext", "basicConstraints=critical,CA:FALSE"],
                   check=True, capture_output=True)
    return certificate, key


class Index:
    """Serves root/files/NAME/FILE and their index pages over TLS."""

    def __init__(self, root):
        self.root = root
        self.certificate, key = make_certificate(root / "tls")
        self.requests = []
        index = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=str(root))

            def do_GET(self):
                index.requests.append(self.path)
                parts = self.path.strip("/").split("/")
                if parts[0] == "simple" and len(parts) == 2:
                    return self.page(parts[1])
                return super().do_GET()

            def page(self, name):
                folder = root / "files" / name
                if not folder.is_dir():
                    return self.send_error(404)
                links = []
                for path in sorted(folder.iterdir()):
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    url = f"/files/{name}/{path.name.replace('+', '%2B')}#sha256={digest}"
                    links.append(f'<a href="{url}">{path.name}</a><br>')
                body = ("<!DOCTYPE html><html><body>" + "\n".join(links)
                        + "</body></html>").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return None

            def end_headers(self):
                if self.path.startswith("/files/"):
                    self.send_header("Cache-Control", "max-age=365000000, immutable")
                super().end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address = f"https://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def folder(self, name):
        return self.root / "files" / name

    def url(self, path):
        return (f"{self.address}/files/{path.parent.name}/"
                + path.name.replace("+", "%2B"))


def catalog(path, rows):
    """A catalog file of these wheels."""
    lines = [json.dumps({"catalog_date": "2026-08-22"})] + [json.dumps(row) for row in rows]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    return path


def catalog_row(url, filename, version, local, tag, *, honest, torch="2.8", cuda="12"):
    python, abi, platform = tag.split("-")
    return {"source": "Dao-AILab/flash-attention", "kind": "official", "package": "flash_attn",
            "version": version, "local": local, "release_tag": f"v{version}",
            "filename": filename, "url": url, "cuda": cuda, "torch": torch, "cxx11abi": True,
            "cxx11abi_effective": True, "python": python, "abi": abi, "platform": platform,
            "glibc_min": "2.17", "glibc_basis": "observed", "sm": ["8.0", "9.0"],
            "sm_basis": "setup_default", "metadata_has_local": honest, "evidence": "listed",
            "evidence_ref": "E1"}


def machine(path, *, minor, torch="2.8.0+cu128", arch="x86_64", template=None):
    """The record of a machine with an RTX 4090 and Python 3.`minor`."""
    record = json.loads(pathlib.Path(template).read_text())
    text = json.dumps(record)
    text = text.replace("cp312", f"cp3{minor}").replace("3.12.7", f"3.{minor}.7")
    text = text.replace("cpython-312", f"cpython-3{minor}").replace("python3.12",
                                                                   f"python3.{minor}")
    text = text.replace("2.8.0+cu128", torch)
    pathlib.Path(path).write_text(text)
    return path
