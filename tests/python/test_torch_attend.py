"""attend() of torch tensors, by NumPy's way into C where NumPy has the type."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")
import anyflash  # noqa: E402
from anyflash import _attend  # noqa: E402

OPTIONS = (
    {},
    {"causal": True, "scale": 0.3, "window": (5, 3), "softcap": 2.0},
    {"align": "top-left", "causal": True, "return_lse": True},
    {"layout": "bhsd", "scale": 0.0},
    {"seqused_k": torch.tensor([5, 9], dtype=torch.int32)},
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "none")
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_both_ways_give_the_same_tensors(dtype, options, monkeypatch):
    q, k, v = (torch.randn(2, n, 20, 32).transpose(1, 2).to(dtype) for n in (20, 20, 20))
    found = anyflash.attend(q, k, v, **options)
    monkeypatch.setattr(_attend, "_fast", lambda *arguments: None)
    expected = anyflash.attend(q, k, v, **options)
    for have, want in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)]):
        assert type(have) is torch.Tensor and have.dtype == want.dtype
        assert torch.equal(have, want)


def test_a_call_with_plain_options_takes_the_short_way(monkeypatch):
    monkeypatch.setattr(_attend, "_problem", None)
    q = torch.randn(1, 3, 2, 16)
    assert anyflash.attend(q, q, q, causal=True).shape == q.shape


def test_what_numpy_cannot_describe_takes_the_long_way():
    q = torch.randn(1, 3, 2, 16, requires_grad=True)
    with pytest.raises(ValueError, match="q: requires a gradient"):
        anyflash.attend(q, q, q)
    with torch.no_grad():
        expected = anyflash.attend(q, q, q)
    assert torch.equal(anyflash.attend(*[q.detach()] * 3), expected)
    with pytest.raises(ValueError, match="q: is on meta"):
        anyflash.attend(*[q.detach().to("meta")] * 3)
    with pytest.raises(TypeError, match="q: element type torch.float64"):
        anyflash.attend(*[q.detach().double()] * 3)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: anyflash.attend(x, x, x) + 1, backend="aot_eager")
    assert torch.equal(compiled(q.detach()), expected + 1)
