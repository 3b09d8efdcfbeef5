"""Lists of publishers: which wheels they leave, and what is said about them."""
import json

import pytest

from recorded import RECORDS

RTX4090 = str(RECORDS["rtx4090-torch2.8"])


def project(folder, publishers):
    (folder / "pyproject.toml").write_text(
        f"[project]\nname = 'demo'\n\n[tool.anyflash]\npublishers = {publishers}\n")


def user(folder, text):
    path = folder / "home" / ".config" / "anyflash"
    path.mkdir(parents=True)
    (path / "config.toml").write_text(text)


def plan(anyflash, *words, **options):
    answer = anyflash("plan", "-m", RTX4090, *words, "--json", **options)
    assert answer.code in (0, 1), answer
    return json.loads(answer.out)


def publisher(said):
    return said["wheel"]["publisher"] if said["wheel"] else None


def test_without_a_list_everybody_is_considered(anyflash):
    said = plan(anyflash)
    assert said["publishers"] == [] and publisher(said) == "Dao-AILab"
    assert said["steps"][0]["wheel"]["publisher"] == "Dao-AILab"


def test_the_option_limits_the_choice(anyflash):
    said = plan(anyflash, "--publishers", "mjun0812,kingbri1")
    assert said["publishers"] == [{"from": "--publishers", "names": ["mjun0812", "kingbri1"]}]
    assert publisher(said) == "mjun0812"
    assert "publishers-limited" in json.dumps(said["rungs"])


def test_a_project_limits_the_choice_and_the_file_is_named(anyflash, tmp_path):
    project(tmp_path, '["MJun0812"]')
    (tmp_path / "deep").mkdir()
    said = plan(anyflash, cwd=tmp_path / "deep")
    assert said["publishers"][0]["from"] == str(tmp_path / "pyproject.toml")
    assert publisher(said) == "mjun0812"
    answer = anyflash("plan", "-m", RTX4090)
    assert f"note: only wheels of MJun0812 are considered ({tmp_path}/pyproject.toml)" \
        in answer.err, answer


def test_the_users_file_limits_the_choice(anyflash, tmp_path):
    user(tmp_path, 'publishers = ["mjun0812"]\n')
    assert publisher(plan(anyflash)) == "mjun0812"
    other = tmp_path / "other"
    (other / "anyflash").mkdir(parents=True)
    (other / "anyflash" / "config.toml").write_text('publishers = ["official"]\n')
    said = plan(anyflash, env={"XDG_CONFIG_HOME": str(other)})
    assert publisher(said) == "Dao-AILab"


def test_a_project_cannot_widen_the_users_list(anyflash, tmp_path):
    user(tmp_path, 'publishers = ["Dao-AILab"]\n')
    project(tmp_path, '["Dao-AILab", "mjun0812"]')
    assert publisher(plan(anyflash)) == "Dao-AILab"
    assert len(plan(anyflash)["publishers"]) == 2


def test_if_nothing_is_left_the_list_is_named(anyflash, tmp_path):
    user(tmp_path, 'publishers = ["Dao-AILab"]\n')
    said = plan(anyflash, "--publishers", "mjun0812")
    wheel = next(rung for rung in said["rungs"] if rung["name"] == "wheel")
    assert wheel["verdict"] == "no"
    reason = next(row for row in wheel["reasons"] if row["id"] == "no-wheel-of-publisher")
    assert reason["detail"] == "mjun0812 (--publishers); Dao-AILab " \
        f"({tmp_path}/home/.config/anyflash/config.toml)"
    answer = anyflash("plan", "-m", RTX4090, "--publishers", "mjun0812", "-v")
    assert "no allowed publisher has a wheel of this package and version" in answer.out


def test_find_shows_only_allowed_publishers(anyflash, tmp_path):
    project(tmp_path, '["kingbri1/flash-attention"]')
    said = json.loads(anyflash("find", "--json").out)
    assert {wheel["publisher"] for wheel in said["wheels"]} == {"kingbri1"}
    assert said["publishers"][0]["names"] == ["kingbri1/flash-attention"]


def test_config_pins_only_allowed_publishers_and_says_who(anyflash, tmp_path):
    project(tmp_path, '["mjun0812"]')
    answer = anyflash("config", "uv", "-m", RTX4090, "--json")
    assert json.loads(answer.out)["pins"][0]["publisher"] == "mjun0812"
    assert "is a community build by mjun0812" in anyflash("config", "uv", "-m", RTX4090).err


@pytest.mark.parametrize("publishers, error, hint", [
    ('["Dao-AILap"]', "the catalog has no wheel published by 'Dao-AILap'",
     "did you mean 'Dao-AILab'?"),
    ('["lldacing"]', "the catalog has no wheel published by 'lldacing'",
     "names the publisher of each wheel"),
    ("[]", "the list of publishers is empty", ""),
    ('"Dao-AILab"', "publishers is not a list", ""),
    ("[1]", "publishers has an element that is not a text", ""),
    ("[" + "'official'," * 300 + "]", "more than 256 publishers", ""),
    (f"['{'x' * 5000}']", "the catalog has no wheel published by 'xxx", ""),
    (r'["a\u001b[31m"]', r"published by 'a\x1b[31m'", ""),
    ("['a'\nbroken", "line 6", ""),
    ("['Dao-AILab']\npublisher = ['x']", "unknown key 'publisher'", ""),
])
def test_a_list_that_cannot_be_understood_is_an_error(anyflash, tmp_path, publishers, error,
                                                      hint):
    project(tmp_path, publishers)
    for command in ("plan", "find", "install"):
        words = ["-m", RTX4090] if command == "plan" else []
        answer = anyflash(command, *words)
        assert answer.code >= 2 and answer.out == "", answer
        assert "pyproject.toml" in answer.err and error in answer.err, answer
        assert hint in answer.err, answer


def test_other_projects_need_not_be_valid(anyflash, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project\nbroken")
    assert publisher(plan(anyflash)) == "Dao-AILab"
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['anyflash']\n")
    assert publisher(plan(anyflash)) == "Dao-AILab"
