"""The names of all tests can be read where a failure prints them."""
import pytest

PARAMETER_CHARACTERS = 24
NAME_CHARACTERS = 120


def pytest_make_parametrize_id(val):
    """Long texts and bytes are named by how they begin; pytest numbers those alike."""
    if isinstance(val, bytes):
        val = val.decode("ascii", "backslashreplace")
    if not isinstance(val, str):
        return None
    plain = "".join(one if one.isprintable() else "." for one in val)
    if len(plain) <= PARAMETER_CHARACTERS:
        return plain
    return plain[:PARAMETER_CHARACTERS - 3] + "..."


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.nodeid.partition("::")[2]
        if len(name) > NAME_CHARACTERS or not name.isprintable():
            raise pytest.UsageError(f"the name of a test is longer than {NAME_CHARACTERS} "
                                    f"characters or cannot be printed: {ascii(name)[:300]}")
