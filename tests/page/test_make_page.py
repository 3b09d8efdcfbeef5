"""What tools/make_page.sh and `make page` put together."""
import base64
import hashlib
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def made(tmp_path, url):
    (tmp_path / "anyflash.wasm").write_bytes(b"\0asm")
    subprocess.run(["sh", ROOT / "tools/make_page.sh", tmp_path / "anyflash.wasm",
                    tmp_path / "page"], check=True, env={**os.environ, "URL": url})
    return (tmp_path / "page/index.html").read_text(encoding="utf-8")


def test_page__links_to_its_project(tmp_path):
    text = made(tmp_path, "https://example.org/anyflash")
    for path in ("", "/issues", "/blob/main/LICENSE", "/blob/main/docs/guide/install.md"):
        assert f'href="https://example.org/anyflash{path}"' in text


def test_page__names_the_files_of_its_release(tmp_path):
    version = subprocess.run(["python3", ROOT / "packaging/version.py"], text=True, check=True,
                             capture_output=True).stdout.strip()
    release = f"https://example.org/anyflash/releases/download/v{version}/anyflash-{version}"
    assert f'data-release="{release}"' in made(tmp_path, "https://example.org/anyflash")


def test_page__has_no_dead_link_without_a_project(tmp_path):
    text = made(tmp_path, "")
    assert "@URL@" not in text and 'class="links"' not in text


def test_page__linked_files_exist():
    text = (ROOT / "page/index.html").read_text(encoding="utf-8")
    paths = [part.split('"')[0] for part in text.split("@URL@/blob/main/")[1:]]
    assert len(paths) == 3 and all((ROOT / path).is_file() for path in paths)


def test_page__can_be_shown_before_it_is_opened(tmp_path):
    text = made(tmp_path, "")
    assert all(f'property="og:{name}"' in text for name in ("title", "description", "type"))


def test_page__one_file_has_everything_and_allows_no_request(tmp_path):
    made(tmp_path, "")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    [policy] = re.findall(r'Content-Security-Policy" content="(.*)"', text)
    script = text.split("<script>")[1].split("</script>")[0].encode()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "'self'" not in policy
    assert 'id="module">AGFzbQ==</script>' in text
    assert not re.search(r'<(script|link|img)[^>]* (src|href)=', text)


def test_make_page__builds_the_module_and_not_the_program():
    lines = subprocess.run(["make", "-n", "page"], cwd=ROOT, text=True, check=True,
                           capture_output=True).stdout
    assert "--target wasm" in lines and "--target all" not in lines
