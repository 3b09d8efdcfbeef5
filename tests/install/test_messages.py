"""What `install` says when it fails, and about hashes."""
import hashlib
import signal
import socket

import pytest

from conftest import make_wheel


def test_a_hash_without_another_one_promises_nothing(quick_place, tmp_path):
    wheel = make_wheel(tmp_path, name="one", requires=())
    done = quick_place.run("install", wheel)
    assert "(no published hash is known to compare it with)" in done.stderr, done.all
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    done = quick_place.run("install", wheel, "--sha256", digest)
    assert f"sha256 {digest}  {wheel.name} (as stated by --sha256)" in done.stderr, done.all


def test_a_package_by_its_name_gets_a_hint(quick_place):
    done = quick_place.run("install", "flash-attn")
    assert done.returncode == 2, done.all
    assert "hint: `anyflash install` alone installs the one that fits" in done.stderr


@pytest.mark.parametrize("word", ["uninstall", "remove"])
def test_the_opposite_of_install_is_undo(quick_place, word):
    done = quick_place.run(word)
    assert done.returncode == 2 and "did you mean `anyflash undo`?" in done.stderr, done.all


def test_a_requirement_that_the_folder_lacks_changes_nothing(place, tmp_path):
    wheel = make_wheel(tmp_path, name="one", requires=("two",))
    before = place.tree()
    done = place.run("install", wheel, "--from", tmp_path)
    assert done.returncode == 3, done.all
    assert "note: nothing was changed" in done.stderr
    assert "hint: put the wheel of two into the folder of --from" in done.stderr
    assert place.tree() == before


def test_an_interrupted_download_has_no_hint_about_the_network(quick_place):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/one-2.8.3-py3-none-any.whl"
        server.settimeout(60)
        child = quick_place.start("install", url, "--allow-http")
        with server.accept()[0]:
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
    assert child.returncode == 130 and "hint" not in err, out + err


def test_an_interruption_while_it_is_tried_says_that_nothing_was_changed(quick_place, tmp_path):
    place = quick_place
    wheel = make_wheel(tmp_path, name="one", requires=(),
                       text="import time; print(1, flush=True); time.sleep(60)")
    before = place.tree()
    child = place.start("install", wheel)
    for line in child.stderr:
        if "checking that it loads" in line:
            child.send_signal(signal.SIGINT)
            break
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, out + err
    assert "interrupted" in err and "took too long" not in err
    assert "note: nothing was changed" in err
    assert place.tree() == before
