"""FlashAttention-3, FlashAttention-4 and hub kernels as providers: packages with their
signatures, made of the formula, are found, tried and called by their own parameter names."""

import importlib
import sys

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import packages, trial  # noqa: E402

#: Attention with a window (None or -1: no limit), and sinks; counts its calls.
PLAIN = """
import torch
calls = []
def plain(q, k, v, scale, causal, window, sinks=None):
    left, right = [-1 if side is None else side for side in window]
    right = 0 if causal else right
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    i = torch.arange(scores.shape[2])[:, None] + scores.shape[3] - scores.shape[2]
    j = torch.arange(scores.shape[3])
    hidden = torch.zeros(scores.shape[2:], dtype=torch.bool)
    if left >= 0:
        hidden |= j < i - left
    if right >= 0:
        hidden |= j > i + right
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        wide = sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, wide), -1)
    lse = scores.logsumexp(-1)
    weights = scores.softmax(-1).nan_to_num(0.0)[..., : k.shape[2]]
    return (weights @ v).transpose(1, 2).half(), lse
"""
FA3 = PLAIN + """
def flash_attn_func(q, k, v, softmax_scale=None, causal=False, qv=None, window_size=(-1, -1),
                    softcap=0.0, num_splits=1, deterministic=False, return_attn_probs=False):
    calls.append(window_size)
    out, lse = plain(q, k, v, softmax_scale, causal, window_size)
    return (out, lse) if return_attn_probs else out
"""
FA4 = PLAIN + """
def flash_attn_func(q, k, v, qv=None, gather_kv_indices=None, softmax_scale=None, causal=False,
                    window_size=(None, None), learnable_sink=None, softcap=0.0,
                    deterministic=False, return_lse=False):
    assert -1 not in window_size
    calls.append(window_size)
    return plain(q, k, v, softmax_scale, causal, window_size, learnable_sink)
"""
HUB = PLAIN + """
def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False,
                    window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False):
    calls.append(window_size)
    out, lse = plain(q, k, v, softmax_scale, causal, window_size)
    return (out, lse, None) if return_attn_probs else out
"""
KERNELS = """
import importlib.util, pathlib
HERE = pathlib.Path(__file__).parent
def install_kernel(repo_id, *, version=None, local_files_only=False, **options):
    assert local_files_only, "would download"
    if repo_id != "kernels-community/flash-attn2" or version != 2:
        raise FileNotFoundError(repo_id)
    return HERE / "hub" / "build" / "torch-universal"
def get_local_kernel(folder):
    path = folder / "build" / "torch-universal" / "__init__.py"
    spec = importlib.util.spec_from_file_location("hub_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""
FILES = {
    "flash_attn_3": {"flash_attn_interface.py": FA3, "flash_attn_3/_C.abi3.so": ""},
    "flash_attn_4": {
        "flash_attn/cute/__init__.py": "from .interface import flash_attn_func",
        "flash_attn/cute/interface.py": FA4,
        "cutlass/__init__.py": "",
    },
    "hub": {"kernels.py": KERNELS, "hub/build/torch-universal/__init__.py": HUB},
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """write(name, files) installs a package's files and lets only it compute."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "DEVICES", ("cuda", "cpu"))
    monkeypatch.setattr(trial, "_known", {})
    sys.path[:] = [entry for entry in sys.path if not entry.endswith("shim/tree")]
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("flash_attn", "kernels", "hub_kernel", "cutlass")
    before = {n: m for n, m in sys.modules.items() if n.startswith(names)}
    for name in before:
        del sys.modules[name]

    def forget():
        for package in ("flash_attn_3", "flash_attn_4", "hub"):
            getattr(packages, package).forget()
        packages._downloaded.cache_clear()
        importlib.invalidate_caches()

    def install(name, files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        forget()
        providers.force(name)

    yield install
    providers.force(None)
    forget()
    for name in [n for n in sys.modules if n.startswith(names)]:
        del sys.modules[name]
    sys.modules.update(before)


def halves(rows=9, keys=17, heads=(4, 2)):
    torch.manual_seed(0)
    shapes = ((2, rows, heads[0], 64), *[(2, keys, heads[1], 64)] * 2)
    return [torch.randn(shape).half().requires_grad_() for shape in shapes]


@pytest.mark.parametrize("name", FILES)
def test_a_package_is_called_by_its_own_parameter_names(write, name):
    write(name, FILES[name])
    q, k, v = halves()
    options = {"causal": True, "window_size": (5, -1), "softmax_scale": 0.2}
    out, lse, _ = anyflash.flash_attn_func(q, k, v, return_attn_probs=True, **options)
    want, want_lse = formula.dense(q, k, v, causal=True, window=(5, -1), scale=0.2)
    assert (out.double() - want).abs().max() < 0.02 and (lse - want_lse).abs().max() < 0.02
    assert anyflash.flash_attn_func(q, k, v, causal=True).shape == q.shape


@pytest.mark.parametrize(
    "name, options, reason",
    (
        ("flash_attn_3", {"dropout_p": 0.1}, "has no dropout"),
        ("flash_attn_3", {"alibi_slopes": torch.ones(4)}, "has no ALiBi"),
        ("flash_attn_4", {"softcap": 2.0}, "misses a known answer"),  # it ignores it
        ("hub", {"cache_seqlens": 3}, "has no flash_attn_with_kvcache in this release"),
    ),
)
def test_what_a_package_lacks_is_declined_with_the_reason(write, name, options, reason):
    write(name, FILES[name])
    q, k, v = (x.detach() for x in halves())
    assert dict(anyflash.explain(q, k, v, **options).declined)[name].startswith(reason)


def test_a_package_that_is_incomplete_is_named_with_what_it_lacks(write):
    q, k, v = halves()
    for name, left_out, reason in (
        ("flash_attn_3", "flash_attn_3/_C.abi3.so", "lacks its extension flash_attn_3._C"),
        ("flash_attn_4", "cutlass/__init__.py", "lacks nvidia-cutlass-dsl"),
    ):
        write(name, {path: text for path, text in FILES[name].items() if path != left_out})
        assert dict(anyflash.explain(q, k, v).declined)[name] == reason
    write("hub", {"kernels.py": KERNELS.replace("version != 2", "True")})
    found = dict(anyflash.explain(q, k, v).declined)["hub"]
    assert found == "has no flash-attn kernel in Hugging Face's cache"


def test_a_package_with_a_wrong_answer_is_declined_by_its_trial(write):
    wrong = FILES["flash_attn_3"]["flash_attn_interface.py"].replace("@ v)", "@ v * 1.2)")
    write("flash_attn_3", {**FILES["flash_attn_3"], "flash_attn_interface.py": wrong})
    q, k, v = halves()
    found = dict(anyflash.explain(q, k, v).declined)["flash_attn_3"]
    assert found.startswith("misses a known answer by 2")
