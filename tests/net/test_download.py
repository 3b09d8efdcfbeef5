"""Downloads are complete and checked, or fail; they go on after a cut connection."""
import hashlib
import os
import subprocess
import threading
import time

import pytest

from conftest import PROGRAM, environment
from server import File


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def left(folder):
    return sorted(os.listdir(folder))


def test_a_wheel_arrives_whole(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel)
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), len(wheel))
    assert done.json == {"sha256": sha256(wheel), "size": len(wheel), "received": len(wheel),
                         "attempts": 1}, done
    assert (tmp_path / "a.whl").read_bytes() == wheel
    assert left(tmp_path) == ["a.whl"]
    assert f"progress {len(wheel)} {len(wheel)}" in done.err


def test_a_file_that_is_there_is_not_asked_for(server, net_try, wheel, tmp_path):
    (tmp_path / "a.whl").write_bytes(wheel)
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    assert done.json["attempts"] == 0 and server.requests == [], done


def test_another_file_of_that_name_is_replaced(server, net_try, wheel, tmp_path):
    (tmp_path / "a.whl").write_bytes(b"stale")
    server.files["a.whl"] = File(wheel)
    assert net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-").code == 0
    assert (tmp_path / "a.whl").read_bytes() == wheel


def test_cut_connections_are_continued(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel, cut_after=700_000)
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    assert done.code == 0 and done.json["attempts"] == 5, done
    assert done.json["received"] == len(wheel)
    assert server.requests[1].range.startswith("bytes=700000-")
    assert server.requests[1].if_range == server.files["a.whl"].tag()


def test_without_ranges_a_cut_download_begins_anew(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel, cut_after=1000, cuts=2, ranges=False)
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    assert done.code == 0 and done.json["received"] == len(wheel) + 2000, done
    assert (tmp_path / "a.whl").read_bytes() == wheel


def test_without_validators_a_cut_download_begins_anew(server, net_try, wheel):
    server.files["a.whl"] = File(wheel, cut_after=1000, cuts=1, etag="")
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    assert done.code == 0 and server.requests[1].range is None, done


def test_a_server_that_always_cuts_ends(server, net_try, wheel):
    server.files["a.whl"] = File(wheel, cut_after=0)
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    assert "connection was cut" in done.err and len(server.requests) == 5, done


def test_a_busy_server_is_asked_again(server, net_try, wheel):
    server.files["a.whl"] = File(wheel, fail_first=2)
    assert net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-").code == 0


def test_a_killed_download_begins_anew(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel, pause_after=700_000, pause_s=5)
    process = subprocess.Popen(
        [PROGRAM, "download", server.url("a.whl"), "a.whl", sha256(wheel), "-"],
        env=environment(), cwd=tmp_path, stderr=subprocess.DEVNULL)
    part = tmp_path / "a.whl.part"
    for _ in range(200):
        if part.exists() and part.stat().st_size == 700_000:
            break
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert part.stat().st_size == 700_000
    server.files["a.whl"] = File(wheel)
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    assert done.code == 0 and done.json["received"] == len(wheel), done
    assert left(tmp_path) == ["a.whl"]


@pytest.mark.parametrize("if_range", [True, False])
def test_parts_of_a_changed_file_do_not_mix(server, net_try, wheel, tmp_path, if_range):
    other = wheel[:100] + bytes(len(wheel) - 100)
    server.files["a.whl"] = File(wheel, cut_after=700_000, cuts=1,
                                 next=File(other, if_range=if_range))
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(other), "-")
    assert done.code == 0 and server.requests[1].range is not None, done
    assert (tmp_path / "a.whl").read_bytes() == other


def test_a_wrong_hash_leaves_nothing(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel)
    done = net_try("download", server.url("a.whl"), "a.whl", "0" * 64, "-")
    assert "0" * 64 in done.err and sha256(wheel) in done.err, done
    assert left(tmp_path) == []


def test_a_wrong_size_is_refused_before_the_body(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel)
    done = net_try("download", server.url("a.whl"), "a.whl", "-", len(wheel) + 1)
    assert "were expected" in done.err and left(tmp_path) == [], done


def test_a_cap_holds_said_or_not(server, net_try, wheel, tmp_path):
    for chunked in (False, True):
        server.files["a.whl"] = File(wheel, chunked=chunked)
        done = net_try("download", server.url("a.whl"), "a.whl", "-", "-",
                       TRY_MAX_BYTES="100000")
        assert "limit exceeded" in done.err and "a.whl" not in left(tmp_path), done


@pytest.mark.parametrize("content, words", [
    (b"<!DOCTYPE html><html>Sign in</html>", "a web page"),
    (b"\n <html><body>moved</body></html>", "a web page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "Git LFS pointer"),
    (b'{"message": "Not Found"}', "JSON"),
    (b"\x7fELF" + bytes(100), "does not start as a zip"),
    (b"", "only 0 bytes"), (b"PK", "only 2 bytes")])
def test_what_is_no_wheel_is_named(server, net_try, tmp_path, content, words):
    server.files["a.whl"] = File(content)
    done = net_try("download", server.url("a.whl"), "a.whl", "-", "-")
    assert done.code == 3 and words in done.err, done
    assert left(tmp_path) == []


def test_redirects_lead_to_the_file(server, net_try, wheel):
    server.files["a.whl"] = File(redirect=server.url("store/x?sig=1"))
    server.files["store/x"] = File(wheel, cut_after=700_000, cuts=1)
    done = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    assert done.code == 0 and done.json["received"] == len(wheel), done


def test_404_leaves_nothing(server, net_try, tmp_path):
    done = net_try("download", server.url("a.whl"), "a.whl", "-", "-")
    assert "there is no such file" in done.err and left(tmp_path) == [], done


def test_two_downloads_to_one_place_do_not_mix(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel, pause_after=700_000, pause_s=3)
    first = []
    thread = threading.Thread(target=lambda: first.append(
        net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")))
    thread.start()
    while not (tmp_path / "a.whl.part").exists():
        time.sleep(0.01)
    second = net_try("download", server.url("a.whl"), "a.whl", sha256(wheel), "-")
    thread.join()
    assert "by another process" in second.err and first[0].code == 0, second


def test_a_folder_that_is_not_there_is_named(server, net_try, wheel):
    server.files["a.whl"] = File(wheel)
    done = net_try("download", server.url("a.whl"), "none/a.whl", "-", "-")
    assert "cannot write 'none/a.whl'" in done.err and server.requests == [], done


def test_links_in_place_of_the_part_are_not_followed(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel)
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "a.whl.part").symlink_to("precious")
    done = net_try("download", server.url("a.whl"), "a.whl", "-", "-")
    assert done.code == 3 and (tmp_path / "precious").read_text() == "keep", done


@pytest.mark.parametrize("owner", [0, 1])
def test_a_part_of_somebody_else_is_not_used(server, net_try, wheel, tmp_path, owner):
    if owner != os.geteuid() and os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    server.files["a.whl"] = File(wheel)
    (tmp_path / "precious").write_text("keep")
    if owner == os.geteuid():
        os.link(tmp_path / "precious", tmp_path / "a.whl.part")
    else:
        (tmp_path / "a.whl.part").write_text("")
        os.chown(tmp_path / "a.whl.part", owner, owner)
    done = net_try("download", server.url("a.whl"), "a.whl", "-", "-")
    assert done.code == 3 and "a.whl.part' belongs to another user" in done.err, done
    assert (tmp_path / "precious").read_text() == "keep"


def test_a_body_without_length_leaves_no_part(server, net_try, wheel, tmp_path):
    server.files["a.whl"] = File(wheel, chunked=True, etag="")
    done = net_try("download", server.url("a.whl"), "a.whl", "-", "-", TRY_MAX_BYTES="500000")
    assert done.code == 3 and os.listdir(tmp_path) == [], done


def test_a_full_disk_says_how_much_is_needed(server, net_try, wheel):
    if not os.path.ismount("/dev/shm"):
        pytest.skip("needs a tmpfs that can be full: mount one at /dev/shm")
    disk = os.statvfs("/dev/shm")
    server.files["a.whl"] = File(b"PK\3\4", length=disk.f_bavail * disk.f_frsize + (1 << 30))
    done = net_try("download", server.url("a.whl"), "/dev/shm/anyflash-test.whl", "-", "-",
                   TRY_MAX_BYTES=str(1 << 50))
    assert "not enough disk space" in done.err and "MB more" in done.err, done
    assert not os.path.exists("/dev/shm/anyflash-test.whl.part")


def test_a_disk_that_fills_up_is_named(server, net_try, wheel):
    server.files["a.whl"] = File(wheel)
    limited = subprocess.run(
        ["sh", "-c", 'ulimit -f 1000; trap "" XFSZ; exec "$0" "$@"', PROGRAM, "download",
         server.url("a.whl"), "a.whl", "-", "-"], env=environment(), cwd=net_try.folder,
        capture_output=True, timeout=60)
    assert limited.returncode == 3 and b"cannot write" in limited.stderr, limited
