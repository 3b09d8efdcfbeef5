"""Reads wheels in parts: few bytes, and an error if the file changes in between."""
import hashlib
import io
import zipfile

import pytest

from server import File


def member_hash(wheel, name, count):
    content = zipfile.ZipFile(io.BytesIO(wheel)).read(name)
    return hashlib.sha256(content[:count]).hexdigest()


def test_the_start_of_a_member_costs_few_bytes(server, net_try, wheel):
    server.files["a.whl"] = File(wheel)
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1000)
    assert done.json["sha256"] == member_hash(wheel, "flash_cuda.so", 1000), done
    assert done.json["size"] == len(wheel) and done.json["members"] == 4
    assert done.json["read"] < 300_000
    assert len(server.requests) <= 3


def test_a_whole_member_costs_few_requests(server, net_try, wheel):
    server.files["a.whl"] = File(wheel)
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1 << 30)
    assert done.json["sha256"] == member_hash(wheel, "flash_cuda.so", 1 << 30), done
    assert done.json["read"] <= len(wheel)
    assert len(server.requests) <= 6


def test_a_small_wheel_is_read_at_once(server, net_try, wheel, tmp_path):
    with zipfile.ZipFile(tmp_path / "s.whl", "w") as archive:
        archive.writestr("a", "small")
    content = (tmp_path / "s.whl").read_bytes()
    server.files["a.whl"] = File(content)
    done = net_try("remote", server.url("a.whl"), "a", 100)
    assert done.json["read"] == len(content) and len(server.requests) == 1, done


def test_redirects_are_followed_once(server, net_try, wheel):
    server.files["a.whl"] = File(redirect=server.url("store/x?sig=1"))
    server.files["store/x"] = File(wheel)
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1 << 30)
    assert done.code == 0, done
    assert [request.path for request in server.requests].count("/a.whl") == 1


def test_an_expired_address_is_asked_for_anew(server, net_try, wheel):
    class Expiring(File):
        answers = 0

        def tag(self):
            self.answers += 1
            self.status = 403 if self.answers >= 3 and not renewed else None
            return '"same"'

    renewed = []

    class Link(File):
        @property
        def redirect(self):
            if store.answers >= 3:
                renewed.append(True)
                store.status = None
            return server.url("store/x")

        @redirect.setter
        def redirect(self, value):
            pass

    store = Expiring(wheel)
    server.files["store/x"] = store
    server.files["a.whl"] = Link()
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1 << 30)
    assert done.code == 0 and renewed, done


def test_a_server_without_ranges_is_named(server, net_try, wheel):
    server.files["a.whl"] = File(wheel, ranges=False)
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1000)
    assert "whole file must be downloaded" in done.err and "unsupported" in done.err, done


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("content, words", [
    (b"<!DOCTYPE html><html>" + b"x" * 5000, "a web page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS pointer")])
def test_what_is_no_wheel_is_named(server, net_try, ranges, content, words):
    server.files["a.whl"] = File(content, ranges=ranges)
    done = net_try("remote", server.url("a.whl"), "x", 1)
    assert words in done.err and "malformed" in done.err, done


def test_a_file_that_changes_is_noticed(server, net_try, wheel):
    class Changing(File):
        answers = 0

        def tag(self):
            self.answers += 1
            return '"one"' if self.answers == 1 else '"two"'

    server.files["a.whl"] = Changing(wheel)
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1000)
    assert "changed while it was being read" in done.err, done


def test_a_size_that_lies_is_noticed(server, net_try, wheel):
    server.files["a.whl"] = File(wheel, range_total=len(wheel) + 1000)
    assert net_try("remote", server.url("a.whl"), "flash_cuda.so", 1000).code == 3
    server.files["a.whl"] = File(wheel, range_total=len(wheel) - 1000)
    assert net_try("remote", server.url("a.whl"), "flash_cuda.so", 1000).code == 3


def test_cut_connections_are_tried_again(server, net_try, wheel):
    server.files["a.whl"] = File(wheel, cut_after=30_000, cuts=2)
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1 << 30)
    assert done.json["sha256"] == member_hash(wheel, "flash_cuda.so", 1 << 30), done


def test_a_damaged_member_is_noticed(server, net_try, wheel):
    bad = bytearray(wheel)
    bad[len(bad) // 2] ^= 1
    server.files["a.whl"] = File(bytes(bad))
    done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 1 << 30)
    assert "malformed" in done.err, done


def test_every_lack_of_memory_is_told(server, net_try, wheel):
    server.files["a.whl"] = File(wheel)
    for nth in range(1, 300):
        done = net_try("remote", server.url("a.whl"), "flash_cuda.so", 500_000,
                       TRY_MEM_FAIL_NTH=str(nth))
        if "not reached" in done.err:
            break
        assert "out of memory" in done.err, (nth, done)
    assert 5 < nth < 299
