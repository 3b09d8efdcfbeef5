"""The engine as torch's CPU attention, and the flash_attn functions, compared with torch
itself."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")
import anyflash.torch  # noqa: E402
from anyflash import flash_attn  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def tensor(heads, rows, dim, dtype, order):
    if order == "bhsd":
        x = torch.randn(2, heads, rows, dim)
    elif order == "bshd":
        x = torch.randn(2, rows, heads, dim).transpose(1, 2)
    else:  # one of three in a packed projection
        x = torch.randn(2, rows, 3, heads, dim)[:, :, 1].transpose(1, 2)
    return x.to(dtype).requires_grad_()


def masks(kind, q_len, k_len, dtype):
    if kind == "bool":
        mask = torch.rand(q_len, k_len) > 0.3
        mask[0] = False  # a row that sees no key
        return mask
    if kind == "bias":
        return torch.randn(2, 1, q_len, k_len).to(dtype)
    return torch.rand(2, 1, 1, k_len) > 0.3 if kind == "keys" else None


def plain(q, k, v, mask, causal):
    """Copies in float64 that require gradients."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask.double()
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ("bhsd", "bshd", "packed"))
def test_sdpa_and_its_gradients(enabled, dtype, order):
    torch.manual_seed(0)
    lengths = ((1, 7), (33, 33), (70, 129))
    for (q_len, k_len), case in itertools.product(
        lengths, (None, "causal", "bool", "bias", "keys")
    ):
        q = tensor(4, q_len, 64, dtype, order)
        k, v = tensor(4, k_len, 64, dtype, order), tensor(4, k_len, 64, dtype, order)
        mask = masks(case, q_len, k_len, dtype)
        weight = torch.randn(2, 4, q_len, 64).to(dtype)
        out = sdpa(q, k, v, attn_mask=mask, is_causal=case == "causal")
        gradients = torch.autograd.grad(out, (q, k, v), weight)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        expected = plain(*wide, mask, case == "causal")
        wanted = torch.autograd.grad(expected, wide, weight.double())
        bound = 2e-5 if dtype == torch.float32 else 0.05
        for have, want in zip((out, *gradients), (expected, *wanted)):
            assert (have.double() - want).abs().max() < bound * max(1.0, want.abs().max())


def test_the_kernels_are_called_and_taken_back():
    x = torch.randn(1, 2, 8, 64)
    before = anyflash.torch.counts()
    with anyflash.torch.enabled():
        sdpa(x, x, x)
    during = anyflash.torch.counts()
    sdpa(x, x, x)
    assert during[0] == before[0] + 1 and during[1] == before[1]
    assert anyflash.torch.counts() == during and not anyflash.torch.is_enabled()


def test_what_the_engine_declines_goes_to_torch_unchanged(enabled):
    x = torch.randn(1, 2, 8, 64, dtype=torch.float64)
    out, counts = sdpa(x, x, x), anyflash.torch.counts()
    anyflash.torch.disable()
    assert torch.equal(out, sdpa(x, x, x))
    anyflash.torch.enable()
    sdpa(x, x, x)
    assert anyflash.torch.counts()[1] == counts[1] + 1


def test_strides_are_those_that_torch_promises_the_compiler(enabled):
    for order in ("bhsd", "bshd", "packed"):
        q = tensor(4, 33, 64, torch.float32, order)
        ours = sdpa(q, q, q).stride()
        anyflash.torch.disable()
        assert ours == sdpa(q, q, q).stride()
        anyflash.torch.enable()


@pytest.mark.parametrize("causal", (False, True))
def test_flash_attn_func_is_aligned_bottom_right(causal):
    torch.manual_seed(1)
    q = torch.randn(2, 33, 4, 64, requires_grad=True)
    k, v = (torch.randn(2, 70, 2, 64, requires_grad=True) for _ in range(2))
    out, lse, _ = flash_attn.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
    wide = [x.detach().double().transpose(1, 2) for x in (q, k, v)]
    mask = torch.ones(33, 70, dtype=torch.bool).tril(37) if causal else None
    assert (out.transpose(1, 2) - plain(*wide, mask, False)).abs().max() < 1e-5
    assert lse.shape == (2, 4, 33) and lse.dtype == torch.float32
    out.sum().backward()
    assert q.grad.shape == q.shape and k.grad.abs().sum() > 0


def test_a_row_without_keys_has_an_infinite_logsumexp():
    q, k = torch.randn(1, 5, 1, 32), torch.randn(1, 3, 1, 32)
    out, lse, _ = flash_attn.flash_attn_func(q, k, k, causal=True, return_attn_probs=True)
    assert not out[0, :2].any() and torch.isposinf(lse[0, 0, :2]).all()


def test_a_cache_is_appended_to_in_place():
    cache = torch.zeros(2, 16, 2, 64)
    new = torch.randn(2, 3, 2, 64)
    q = torch.randn(2, 3, 4, 64)
    length = torch.tensor([5, 0], dtype=torch.int32)
    keys, values = cache.clone(), cache.clone()
    flash_attn.flash_attn_with_kvcache(
        q, keys, values, new, new, cache_seqlens=length, causal=True
    )
    assert torch.equal(keys[0, 5:8], new[0]) and torch.equal(values[1, :3], new[1])
    assert not keys[1, 3:].any()


def test_dropout_follows_torchs_seed():
    q = torch.randn(1, 64, 2, 64)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(flash_attn.flash_attn_func(q, q, q, dropout_p=0.3))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_wrong_arguments_are_python_errors():
    q = torch.randn(1, 8, 4, 64)
    with pytest.raises(ValueError, match="heads"):
        flash_attn.flash_attn_func(q, q[:, :, :3], q[:, :, :3])
    with pytest.raises(TypeError, match="type"):
        flash_attn.flash_attn_func(q, q.half(), q.half())
