"""Results of known-answer tests and of calibrations, cached for later processes:
known_answers.json.

    >>> _result_cache.put({"torch": "2.8.0"}, "")        # "": no failure
    >>> _result_cache.get({"torch": "2.8.0"})
    ''

In $XDG_CACHE_HOME/anyflash, or ~/.cache/anyflash. If the file cannot be read or written, the
test or the calibration runs again.
"""

import hashlib
import json
import os
import pathlib
import tempfile

_FILE = "known_answers.json"
_MOST_BYTES = 1 << 20
_MOST_ROWS = 200


def _path():
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = pathlib.Path(cache) if os.path.isabs(cache) else pathlib.Path.home() / ".cache"
    return folder / "anyflash" / _FILE


def _read():
    """{"answers": {facts: reason}, "files": {path: [size, time, sha256]}, "times": {facts:
    times}}; a part that is missing or broken is empty."""
    try:
        path = _path()
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise ValueError
        found = json.loads(path.read_text())
    except (OSError, ValueError, RuntimeError):
        found = None
    found = found if isinstance(found, dict) else {}
    parts = ((name, found.get(name)) for name in ("answers", "files", "times"))
    return {name: part if isinstance(part, dict) else {} for name, part in parts}


def _write(part, key, value):
    """Adds one row, atomically; of two processes that write at once, one row may be lost."""
    rows = _read()
    rows[part][key] = value
    for name, all_rows in rows.items():
        rows[name] = dict(list(all_rows.items())[-_MOST_ROWS:])
    try:
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_FILE)
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(rows, file, indent=1)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except (OSError, RuntimeError):
        pass


def sha256(path):
    """SHA-256 of the file, computed again only if its size or time changed. Raises OSError."""
    status = os.stat(path)
    row = _read()["files"].get(str(path))
    if isinstance(row, list) and row[:2] == [status.st_size, status.st_mtime_ns]:
        return str(row[2])
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    _write("files", str(path), [status.st_size, status.st_mtime_ns, digest.hexdigest()])
    return digest.hexdigest()


def _key(facts):
    return json.dumps(facts, sort_keys=True)


def get(facts):
    """The reason that was put, "" for no failure; None if nothing is cached."""
    reason = _read()["answers"].get(_key(facts))
    return reason if isinstance(reason, str) else None


def put(facts, reason):
    _write("answers", _key(facts), reason)


def get_times(facts):
    """What put_times() was given, or None. It is a JSON value from a file: check it."""
    return _read()["times"].get(_key(facts))


def put_times(facts, times):
    _write("times", _key(facts), times)
