"""A web server on the loopback interface whose faults the tests choose.

    with Server() as server:
        server.files["a.whl"] = File(content, cut_after=1000, cuts=1)
        ... server.url("a.whl") ...
        server.requests      # the requests so far: Request(path, range, ...)
"""
import collections
import dataclasses
import hashlib
import http.server
import re
import socket
import ssl
import threading
import time

Request = collections.namedtuple("Request", "path range if_range secret")


@dataclasses.dataclass
class File:
    """One path and how it is served. Sizes are bytes of a response's body."""
    content: bytes = b""
    ranges: bool = True
    if_range: bool = True       # False: ignores If-Range and always sends parts
    etag: str = None            # None: computed from the content; "": no ETag
    last_modified: str = None
    status: int = None          # send this instead of the file
    headers: dict = dataclasses.field(default_factory=dict)
    redirect: str = None        # URL to redirect to
    cut_after: int = None       # close the connection after this many bytes ...
    cuts: int = 10**9           # ... in this many responses
    fail_first: int = 0         # send 503 this many times
    next: "File" = None         # takes this one's place after the first response
    pause_after: int = None     # pause for pause_s after this many bytes
    pause_s: float = 0
    length: int = None          # a wrong Content-Length
    chunked: bool = False
    content_type: str = "application/octet-stream"
    range_total: int = None     # a wrong Content-Range
    accepted: dict = dataclasses.field(default_factory=dict)  # other files, by Accept

    def tag(self):
        if self.etag is None:
            return '"' + hashlib.sha256(self.content).hexdigest()[:16] + '"'
        return self.etag


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.server.owner.requests.append(
            Request(self.path, self.headers.get("Range"), self.headers.get("If-Range"),
                    self.headers.get("Authorization")))
        file = self.server.owner.files.get(self.path.split("?")[0].lstrip("/"))
        if file is not None:
            file = file.accepted.get(self.headers.get("Accept"), file)
        if file is None:
            self.answer(404, b"no such file", {})
        elif file.fail_first > 0:
            file.fail_first -= 1
            self.answer(503, b"later", {})
        elif file.redirect is not None:
            self.answer(file.status or 302, b"", {"Location": file.redirect})
        elif file.status is not None:
            self.answer(file.status, file.content, file.headers)
        else:
            if file.next is not None:
                self.server.owner.files[self.path.split("?")[0].lstrip("/")] = file.next
            self.serve(file)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def wanted(self, file):
        """First byte and end of the requested range, or None."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        condition = self.headers.get("If-Range")
        if not asked or not file.ranges:
            return None
        same = condition is None or condition in (file.tag(), file.last_modified)
        if file.if_range and not same:
            return None
        first = int(asked[1])
        end = min(int(asked[2]) + 1 if asked[2] else len(file.content), len(file.content))
        return first, end

    def serve(self, file):
        wanted = self.wanted(file)
        total = len(file.content) if file.range_total is None else file.range_total
        if wanted and wanted[0] >= len(file.content):
            self.answer(416, b"", {"Content-Range": f"bytes */{total}"})
            return
        first, end = wanted or (0, len(file.content))
        body = file.content[first:end]
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{total}")
        tag = file.tag()
        if tag:
            self.send_header("ETag", tag)
        if file.last_modified:
            self.send_header("Last-Modified", file.last_modified)
        for name, value in file.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", file.content_type)
        if file.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        else:
            length = len(body) if file.length is None else file.length
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.send_body(file, body)

    def send_body(self, file, body):
        if file.pause_after is not None:
            self.wfile.write(body[:file.pause_after])
            self.wfile.flush()
            time.sleep(file.pause_s)
            body = body[file.pause_after:]
        if file.cut_after is not None and file.cuts > 0 and len(body) > file.cut_after:
            file.cuts -= 1
            self.wfile.write(body[:file.cut_after])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(body)
        if file.length is not None:
            self.close_connection = True


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # the tests include clients that disconnect


class Server:
    """Serves `files` until the block ends; https where `certificate` names PEM files."""

    def __init__(self, certificate=None):
        self.files = {}
        self.requests = []
        self.scheme = "https" if certificate else "http"
        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.server.owner = self
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,),
                                       daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.server.shutdown()
        self.server.server_close()

    def url(self, name=""):
        return f"{self.scheme}://localhost:{self.server.server_address[1]}/{name}"
