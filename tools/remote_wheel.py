"""Opens a wheel of the Python package index, and downloads only the bytes that are read."""
import io
import re
import urllib.error
import urllib.request
import zipfile

from refresh import TIMEOUT_S, Index, Unreadable

BLOCK_BYTES = 16 << 20


class Remote(io.RawIOBase):
    """A file on a server that answers range requests; the last block that was read is kept."""

    def __init__(self, address):
        super().__init__()
        self.address, self.at, self.kept = address, 0, (-1, b"")
        _, headers = self.fetch(0, 0)
        self.size = int(headers["Content-Range"].rpartition("/")[2])

    def fetch(self, first, last):
        request = urllib.request.Request(self.address,
                                         headers={"Range": f"bytes={first}-{last}"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                if answer.status != 206:
                    raise Unreadable(f"the server ignores range requests: {self.address}")
                return answer.read(), answer.headers
        except (urllib.error.URLError, OSError) as error:
            raise Unreadable(f"{self.address}: {error}") from error

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        self.at = start + offset
        return self.at

    def readinto(self, buffer):
        if self.at >= self.size:
            return 0
        block = self.at // BLOCK_BYTES
        first = block * BLOCK_BYTES
        if self.kept[0] != block:
            last = min(self.size, first + BLOCK_BYTES) - 1
            self.kept = block, self.fetch(first, last)[0]
        part = self.kept[1][self.at - first:][:len(buffer)]
        buffer[:len(part)] = part
        self.at += len(part)
        return len(part)


def open_wheel(requirement, platform, python="cp311"):
    """(file name, ZipFile) of the newest build of "torch==2.9.1" for "linux_aarch64"."""
    project, _, version = requirement.partition("==")
    system, _, machine = platform.partition("_")
    form = re.compile(rf"{re.escape(project.replace('-', '_'))}-{re.escape(version)}(-\d+)?-"
                      rf"({python}-{python}|py3-none|{python[:2]}\d+-abi3)-"
                      rf"(many)?{system}\S*_{machine}\.whl", re.IGNORECASE)
    index = Index(None)
    names = [name for name in index.files(project) if form.fullmatch(name)]
    if not names:
        raise Unreadable(f"the package index has no {requirement} for {python} on {platform}")
    name = max(names, key=lambda one: int((form.fullmatch(one)[1] or "-0")[1:]))
    stream = io.BufferedReader(Remote(index.addresses[project, name]), 1 << 20)
    return name, zipfile.ZipFile(stream)
