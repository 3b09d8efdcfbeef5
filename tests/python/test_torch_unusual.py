"""Unusual uses of torch's attention with enable(): the same result as without it, or an
error."""

import pytest

torch = pytest.importorskip("torch")

import anyflash.torch  # noqa: E402
from torch_support import sdpa  # noqa: E402


@pytest.fixture(autouse=True)
def switched():
    torch.manual_seed(0)
    anyflash.torch.enable()
    yield
    anyflash.torch.disable()


def stock(function):
    anyflash.torch.disable()
    try:
        return function()
    finally:
        anyflash.torch.enable()


def test_vmap_gives_what_a_loop_gives():
    q, k, v = (torch.randn(3, 2, 4, 9, 16) for _ in range(3))
    out = torch.func.vmap(lambda *x: sdpa(*x, is_causal=True))(q, k, v)
    want = torch.stack([sdpa(*x, is_causal=True) for x in zip(q, k, v)])
    assert (out - want).abs().max() < 1e-6
    gradient = torch.func.grad(lambda x: sdpa(x, k[0], v[0]).square().sum())(q[0])
    wanted = stock(lambda: torch.func.grad(lambda x: sdpa(x, k[0], v[0]).square().sum())(q[0]))
    assert (gradient - wanted).abs().max() < 1e-5


def test_a_second_derivative_is_torchs_own_error():
    q = torch.randn(1, 2, 5, 16, requires_grad=True)

    def twice():
        (first,) = torch.autograd.grad(sdpa(q, q, q).sum(), q, create_graph=True)
        with pytest.raises(RuntimeError) as raised:
            torch.autograd.grad(first.sum(), q)
        return str(raised.value)

    assert twice() == stock(twice)


def test_meta_tensors_stay_meta():
    q = torch.randn(2, 4, 9, 16, device="meta", requires_grad=True)
    out = sdpa(q, q, q)
    out.sum().backward()
    assert out.is_meta and out.shape == q.shape and q.grad.is_meta


@pytest.mark.parametrize(
    "change",
    [
        {"q": torch.randn(9, 16)},
        {"q": torch.randn(2, 4, 9, 16, dtype=torch.float64)},
        {"k": torch.randn(2, 4, 9, 8)},
        {"k": torch.randn(2, 3, 9, 16)},
        {"v": torch.randn(2, 4, 8, 16)},
        {"mask": torch.zeros(9, 8)},
        {"mask": torch.zeros(9, 9, dtype=torch.int32)},
    ],
    ids=str,
)
def test_what_torch_refuses_is_refused_alike(change):
    given = {name: torch.randn(2, 4, 9, 16) for name in "qkv"}
    given.update(change)
    mask = given.pop("mask", None)

    def outcome():
        try:
            return sdpa(*given.values(), attn_mask=mask).shape
        except Exception as error:
            return type(error), str(error).splitlines()[0]

    assert outcome() == stock(outcome)


def test_a_last_dimension_that_is_not_contiguous():
    q, k, v = (torch.randn(2, 4, 16, 9).transpose(2, 3) for _ in range(3))
    assert torch.allclose(sdpa(q, k, v), stock(lambda: sdpa(q, k, v)), atol=1e-5)
    leaf = q.clone().requires_grad_()
    sdpa(leaf, k, v).sum().backward()
    assert torch.isfinite(leaf.grad).all()
