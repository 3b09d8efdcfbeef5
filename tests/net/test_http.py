"""Single requests: what is sent, what is rejected, and the messages for responses."""
import hashlib

import pytest

from server import File, Server


def test_a_file_comes_whole(server, net_try):
    server.files["a"] = File(b"content")
    done = net_try("get", server.url("a"))
    assert done.json["sha256"] == hashlib.sha256(b"content").hexdigest(), done
    assert done.json["etag"] == server.files["a"].tag()


def test_plain_http_is_refused_unless_allowed(server, net_try):
    server.files["a"] = File(b"content")
    done = net_try("get", server.url("a"), TRY_HTTP="0")
    assert done.code == 3 and "use an https URL" in done.err
    assert server.requests == []


@pytest.mark.parametrize("url", ["ftp://localhost/a", "file:///etc/passwd", "localhost/a",
                                 "https://", "http://local host/", "https://x/\u00e9"])
def test_what_is_no_address_is_refused(net_try, url):
    done = net_try("get", url)
    assert done.code == 3 and "bad argument" in done.err, done


def test_offline_asks_nothing(server, net_try):
    done = net_try("get", server.url("a"), TRY_OFFLINE="1")
    assert done.code == 3 and "because of --offline" in done.err
    assert server.requests == []


@pytest.mark.parametrize("status, words", [
    (403, "access is refused"), (401, "password"), (410, "was removed"), (500, "failed"),
    (503, "not available now"), (418, "is not a file"), (451, "legal reasons")])
def test_answers_are_named(server, net_try, status, words):
    server.files["a"] = File(b"why", status=status)
    done = net_try("get", server.url("a"))
    assert done.code == 3 and words in done.err and f"HTTP {status}" in done.err, done


def test_404_is_not_found(server, net_try):
    assert "not found: " in net_try("get", server.url("none")).err


def test_a_rate_limit_is_named_with_its_end(server, net_try):
    server.files["a"] = File(b"{}", status=403, headers={"X-RateLimit-Remaining": "0",
                                                         "Retry-After": "600"})
    done = net_try("get", server.url("a"))
    assert "too many requests" in done.err and "in 10 minutes" in done.err, done


def test_redirects_are_followed_to_a_bound(server, net_try):
    server.files["a"] = File(b"there")
    for hop in range(1, 7):
        server.files[f"r{hop}"] = File(redirect=server.url("a" if hop == 1 else f"r{hop - 1}"))
    done = net_try("get", server.url("r5"))
    assert done.json["url"] == server.url("a"), done
    assert "more than 5 redirects" in net_try("get", server.url("r6")).err


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://localhost/", "gopher://x/"])
def test_redirects_to_other_schemes_are_refused(server, net_try, place):
    server.files["a"] = File(redirect=place)
    done = net_try("get", server.url("a"))
    assert done.code == 3 and "without a target URL" in done.err, done


@pytest.mark.parametrize("place", ["there", "/x/there", "//localhost:PORT/x/there"])
def test_the_target_of_a_redirect_may_be_relative(server, net_try, place):
    server.files["x/there"] = File(b"there")
    port = server.url("").rstrip("/").rpartition(":")[2]
    server.files["x/r"] = File(redirect=place.replace("PORT", port))
    done = net_try("get", server.url("x/r") + "?a=/b/c")
    assert done.code == 0 and done.json["url"] == server.url("x/there"), done


def test_an_address_with_braces_is_one_address(server, net_try):
    server.files["r"] = File(redirect="/{a,b}[1-3]")
    server.files["{a,b}[1-3]"] = File(b"there")
    done = net_try("get", server.url("r"))
    assert done.code == 0 and len(server.requests) == 2, done


def test_a_body_has_a_cap_said_or_not(server, net_try):
    server.files["said"] = File(b"x" * 2000)
    server.files["not"] = File(b"x" * 2000, chunked=True)
    for name in ("said", "not"):
        done = net_try("get", server.url(name), TRY_MAX_BYTES="1000")
        assert "limit exceeded" in done.err, done


def test_a_cut_body_is_no_file(server, net_try):
    server.files["a"] = File(b"x" * 1000, cut_after=500)
    assert "connection was cut" in net_try("get", server.url("a")).err


def test_a_length_that_lies_is_no_file(server, net_try):
    server.files["a"] = File(b"x" * 1000, length=2000)
    assert "connection was cut" in net_try("get", server.url("a")).err


def test_a_stalled_server_ends(server, net_try):
    server.files["a"] = File(b"x" * 1000, pause_after=10, pause_s=20)
    done = net_try("get", server.url("a"), TRY_STALL_S="2")
    assert "timed out" in done.err, done


def test_no_server_is_named(net_try):
    assert "no connection" in net_try("get", "http://localhost:9/").err
    answer = net_try("get", "http://nonexistent.invalid/")
    assert "host name could not be resolved" in answer.err


def test_secrets_of_an_address_are_not_shown(server, net_try):
    done = net_try("get", server.url("none?token=secret").replace("//", "//user:word@"))
    assert done.code == 3 and "/none'" in done.err
    assert "secret" not in done.err and "word" not in done.err, done


def test_an_endless_head_is_refused(server, net_try):
    server.files["a"] = File(b"x", headers={f"X-{i}": "y" * 8000 for i in range(60)})
    assert net_try("get", server.url("a")).code == 3


def test_self_signed_certificates_are_refused(certificate, net_try):
    with Server(certificate) as server:
        server.files["a"] = File(b"content")
        done = net_try("get", server.url("a"))
        assert done.code == 3 and "certificate cannot be trusted" in done.err, done
        trusted = net_try("get", server.url("a"), SSL_CERT_FILE=certificate[0], TRY_HTTP="0")
        assert trusted.code == 0, trusted


def test_a_certificate_of_another_host_is_refused(certificate, net_try):
    with Server(certificate) as server:
        server.files["a"] = File(b"content")
        done = net_try("get", server.url("a").replace("localhost", "127.0.0.1"),
                       SSL_CERT_FILE=certificate[0], no_proxy="127.0.0.1")
        assert done.code == 3 and "certificate cannot be trusted" in done.err, done


def test_https_is_never_left_for_http(certificate, server, net_try):
    server.files["a"] = File(b"content")
    with Server(certificate) as secure:
        secure.files["r"] = File(redirect=server.url("a"))
        done = net_try("get", secure.url("r"), SSL_CERT_FILE=certificate[0])
        assert done.code == 3 and "from https to plain http" in done.err, done
    assert server.requests == []


def test_no_curl_is_a_clear_answer(net_try, server, tmp_path):
    done = net_try("get", server.url("a"), PATH=tmp_path)
    assert done.code == 3 and "install the package 'curl'" in done.err, done
    assert server.requests == []


def test_an_old_curl_is_a_clear_answer(net_try, server, program):
    program("cat >/dev/null; echo curl: option --new: is unknown >&2; exit 2")
    done = net_try("get", server.url("a"), PATH=f"{program.folder}:/usr/bin:/bin")
    assert "curl 7.54 or newer is needed: curl: option --new: is unknown" in done.err, done


def test_a_curl_that_dies_is_a_failure(net_try, server, program):
    program("printf 'HTTP/1.1 200 OK\\r\\n\\r\\nbody'; kill -9 $$")
    done = net_try("get", server.url("a"), PATH=f"{program.folder}:/usr/bin:/bin")
    assert done.code == 3 and "the transfer failed: killed by signal 9" in done.err, done


def test_the_user_s_curlrc_and_netrc_are_not_read(net_try, server, tmp_path):
    server.files["a"] = File(b"content")
    (tmp_path / ".curlrc").write_text("url = http://localhost:9/\nnetrc\n")
    (tmp_path / ".netrc").write_text("machine localhost login user password word\n")
    assert net_try("get", server.url("a"), HOME=tmp_path).code == 0
    assert [request.secret for request in server.requests] == [None]


def test_the_password_of_an_address_stays_with_its_host(net_try, server):
    server.files["a"] = File(redirect=server.url("b").replace("localhost", "127.0.0.1"))
    server.files["b"] = File(b"content")
    done = net_try("get", server.url("a").replace("//", "//user:word@"), no_proxy="*")
    assert done.code == 0, done
    assert [request.secret is None for request in server.requests] == [False, True]


def test_the_list_of_processes_shows_no_address(net_try, server, program):
    program(f"echo $0 $* >{program.folder}/arguments; exec /usr/bin/curl $*")
    server.files["a"] = File(b"content")
    done = net_try("get", server.url("a?token=secret"),
                   PATH=f"{program.folder}:/usr/bin:/bin")
    assert done.code == 0, done
    assert "secret" not in (program.folder / "arguments").read_text()


def test_variables_cannot_add_settings(net_try, server):
    server.files["a"] = File(b"content")
    done = net_try("get", server.url("a"), SSL_CERT_DIR='/x"\nurl = "http://localhost:9/')
    assert done.code == 0 and len(server.requests) == 1, done


def test_a_proxy_of_the_environment_is_asked(server, net_try):
    server.files[""] = File(b"from the proxy")
    proxy = server.url("").rstrip("/")
    done = net_try("get", "http://far.invalid/x", http_proxy=proxy, no_proxy="")
    assert [request.path for request in server.requests] == ["http://far.invalid/x"], done
