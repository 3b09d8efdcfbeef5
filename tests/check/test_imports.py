"""`anyflash check`: which modules need flash-attn, and what replaces it."""
import importlib.util
import os

import pytest
from conftest import GUARDED, repaired

IMPORT = "import os\nfrom flash_attn import flash_attn_func as attend\nX = 1\n"


def test_the_fallback_can_be_anyflash_once_it_is_published(check):
    done = check({"a.py": IMPORT}, "--fallback", "anyflash", "--write")
    if done.returncode == 2:
        assert "not on the package index" in done.stderr
        return
    assert (check.folder / "a.py").read_text() == (
        "import os\ntry:\n    from flash_attn import flash_attn_func as attend\n"
        "except ImportError:\n"
        "    from anyflash.flash_attn import flash_attn_func as attend\nX = 1\n")


CALL = "from flash_attn import flash_attn_func as f\n\ndef a(q, d):\n    return f(q, q, q, "


@pytest.mark.parametrize("text", [
    CALL + "d[')'], window_size=(1, 1))\n", CALL + "causal=True  # :)\n, window_size=(1, 1))\n",
    CALL + "window_size\n=(1, 1))\n", "from flash_attn import flash_attn_func\n",
    CALL.replace("as f", "as f  # isort: skip") + "0.0)\n",
    "from flash_attn import (\n    flash_attn_func as f,\n    flash_attn_varlen_func,\n)\n",
    "from flash_attn import flash_attn_func\nfrom flash_attn.bert_padding import pad_input\n",
    "from flash_attn import flash_attn_func as f\n\ndef a(q):\n"
    "    return f(q, q, q, window_size=(4, 0))\n",
    "from flash_attn import flash_attn_func\n\ndef a(q):\n"
    "    out, lse, _ = flash_attn_func(q, q, q, 0.0)\n    return out\n",
    "from flash_attn import flash_attn_func\nTABLE = {'flash': flash_attn_func}\n",
    "from flash_attn import flash_attn_func\n\ndef a(*x, **y):\n"
    "    return flash_attn_func(*x, **y)\n"])
def test_a_fallback_that_does_not_serve_all_calls_is_not_offered(check, text):
    done = check({"a.py": text})
    assert "no-fallback" in done.stdout and "+++" not in done.stdout


def test_a_module_whose_importer_catches_it_needs_no_fallback(findings):
    files = {"m/flash_attention.py": IMPORT, "m/model.py":
             "try:\n    from .flash_attention import attend\n"
             "except ImportError:\n    attend = None\n"}
    assert findings(files) == []
    files["m/other.py"] = "from m.flash_attention import attend\n"
    assert findings(files) == ["no-fallback"]
    assert findings({"m/other.py": "x = 1\n"}) == []


def test_a_guard_that_a_broken_build_escapes_is_a_remark(check):
    text = "try:\n    import flash_attn\nexcept ModuleNotFoundError:\n    flash_attn = None\n"
    done = check({"a.py": text}, "--json")
    assert [(row["id"], row["severity"]) for row in done.json["findings"]] == [
        ("narrow-guard", "remark")]
    assert done.returncode == 0
    check({"a.py": text}, "--write")
    assert (check.folder / "a.py").read_text() == text.replace("ModuleNotFound", "Import")


NEEDS = {
    "other handler": "try:\n    import flash_attn\nexcept ImportError:\n    os._exit(1)\n",
    "version": "if sys.version_info >= (3, 8):\n    import flash_attn\n",
    "function": "def main():\n    import flash_attn\nmain()\n",
    "suppress": "with suppress(KeyError):\n    import flash_attn\n",
    "importlib": "importlib.import_module('flash_attn')\n",
    "transformers": "load('x', attn_implementation='flash_attention_2')\n",
    "assert": "assert FLASH_ATTN_2_AVAILABLE\n",
    "nothing": "import os\n"}


@pytest.mark.parametrize("text", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_what_the_code_may_need_stays_required(check, text, name):
    files = {name: "torch\nflash-attn\n" if name.endswith("txt") else
             '[project]\nname = "x"\ndependencies = ["torch", "flash-attn"]\n',
             "scripts/b.py": text, **GUARDED}
    if text == NEEDS["nothing"]:
        del files["a.py"]
    check(files, "--write")
    assert (check.folder / name).read_text() == files[name]


def test_a_handler_that_only_tells_is_a_guard(findings):
    text = ("try:\n    import flash_attn\nexcept ImportError as e:\n"
            "    sys.stderr.write(str(e))\n")
    assert findings({"a.py": text}) == []


@pytest.mark.parametrize("text", [
    "try:\n    import flash_attn\n    try:\n        import foo\n"
    "    except ModuleNotFoundError:\n        foo = None\n"
    "except ModuleNotFoundError:\n    flash_attn = None\n",
    "try:\n    import flash_attn\nexcept ModuleNotFoundError:\n    flash_attn = None\n"
    "except ImportError as e:\n    raise RuntimeError('broken') from e\n"])
def test_only_the_imports_own_handler_is_changed(check, text):
    check({"a.py": text}, "--write")
    made = (check.folder / "a.py").read_text()
    assert made in (text, text.replace("except ModuleNotFoundError:\n    flash_attn",
                                       "except ImportError:\n    flash_attn"))
    assert made.count("except ImportError") <= 1


@pytest.mark.parametrize("name", ["tests/a.py", "a/test_b.py", "conftest.py"])
def test_tests_need_no_fallback(findings, name):
    assert findings({name: IMPORT}) == []


def test_the_project_may_be_flash_attn(findings):
    assert findings({"a/flash_attn/__init__.py": "from flash_attn.x import y\n",
                     "a/flash_attn/x.py": "import flash_attn\n"}) == []


def test_the_repaired_module_is_guarded(check, findings):
    source = IMPORT + "Y = attend(X, X, X, causal=True)\n"
    assert check({"a.py": source}, "--write").returncode == 0
    assert findings({}) == []


def softmax_attention(numpy, q, k, v, scale, causal):
    """flash-attn's definition, row by row: q [B, Sq, H, D], k and v [B, Sk, G, D]."""
    out = numpy.zeros(q.shape)
    batches, rows, heads, _ = q.shape
    for b, i, h in numpy.ndindex(batches, rows, heads):
        group = h // (heads // k.shape[2])
        seen = max(0, i + 1 + k.shape[1] - rows) if causal else k.shape[1]
        if seen:
            scores = k[b, :seen, group] @ q[b, i, h] * scale
            weights = numpy.exp(scores - scores.max())
            out[b, i, h] = weights @ v[b, :seen, group] / weights.sum()
    return out


@pytest.mark.parametrize("rows, keys, groups, causal", [
    (5, 5, 4, False), (5, 5, 4, True), (3, 7, 2, True), (7, 3, 1, True), (1, 6, 4, True)])
def test_the_fallback_computes_what_flash_attn_does(check, rows, keys, groups, causal):
    torch = pytest.importorskip("torch", reason="needs torch")
    numpy = pytest.importorskip("numpy", reason="needs NumPy")
    repaired(check, {"a.py": IMPORT})
    spec = importlib.util.spec_from_file_location("repaired_a", check.folder / "a.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    generator = torch.Generator().manual_seed(rows * 100 + keys)
    q, k, v = (torch.randn(2, length, heads, 8, generator=generator, dtype=torch.float64)
               for length, heads in ((rows, 4), (keys, groups), (keys, groups)))
    for scale in (None, 0.3):
        got = module.attend(q, k, v, softmax_scale=scale, causal=causal)
        want = softmax_attention(numpy, q.numpy(), k.numpy(), v.numpy(), scale or 8 ** -0.5,
                                 causal)
        assert got.shape == q.shape
        assert numpy.abs(got.numpy() - want).max() < 1e-12
