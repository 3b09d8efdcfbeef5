"""F.scaled_dot_product_attention with enable(), compared with torch's own formulas in
float64."""

import itertools

import pytest

torch = pytest.importorskip("torch")
import anyflash.torch  # noqa: E402
from torch_support import DTYPES, ORDERS, TORCH, check, in_float64, sdpa, tensor  # noqa: E402

LENGTHS = ((1, 77), (33, 33), (70, 129), (65, 5))
MASKS = (None, "causal", "rows", "bool4", "float2", "float4", "keys", "heads", "column")
HEADS = ((4, 4), (4, 2), (4, 1))


def mask_of(kind, heads, q_len, k_len, dtype):
    """Bool and float masks in every broadcast shape; most hide all keys of some row."""
    if kind == "rows":
        mask = torch.rand(q_len, k_len) > 0.3
        mask[0] = False
    elif kind == "bool4":
        mask = torch.rand(2, heads, q_len, k_len) > 0.5
        mask[1, 0] = False
    elif kind == "float2":
        mask = torch.randn(q_len, k_len).to(dtype)
        mask[-1] = -torch.inf
    elif kind == "float4":
        mask = torch.randn(2, 1, q_len, k_len).to(dtype)
    elif kind == "keys":
        mask = torch.rand(2, 1, 1, k_len) > 0.3
    elif kind == "heads":
        mask = torch.randn(1, heads, q_len, k_len).to(dtype)
    elif kind == "column":  # broadcast over keys: torch's own kernel
        mask = torch.rand(2, 1, q_len, 1) > 0.3
    else:
        return None
    return mask


def attend(q, k, v, **options):
    """sdpa() with fewer key heads than query heads; torch 2.4 has no option for it."""
    group = q.shape[1] // k.shape[1]
    if TORCH >= (2, 5):
        return sdpa(q, k, v, enable_gqa=group > 1, **options)
    return sdpa(q, *(x.repeat_interleave(group, 1) for x in (k, v)), **options)


def test_there_are_a_thousand_combinations():
    problems = (DTYPES, ORDERS, MASKS, LENGTHS, HEADS)
    assert len(list(itertools.product(*problems))) >= 1000


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_output_and_gradients(enabled, dtype, order, kind):
    if kind == "column" and TORCH < (2, 5):
        pytest.skip("torch 2.4's own kernel, which takes these, reads behind such a mask")
    torch.manual_seed(0)
    for (q_len, k_len), (heads, groups) in itertools.product(LENGTHS, HEADS):
        dim = 80 if q_len == k_len else 64
        where = (q_len, k_len, heads, groups, dim)
        q = tensor(heads, q_len, dim, dtype, order)
        k, v = (tensor(groups, k_len, dim, dtype, order) for _ in range(2))
        mask, causal = mask_of(kind, heads, q_len, k_len, dtype), kind == "causal"
        before = anyflash.torch.counts()
        out = attend(q, k, v, attn_mask=mask, is_causal=causal)
        dout = torch.randn(2, heads, q_len, dim).to(dtype)
        gradients = torch.autograd.grad(out, (q, k, v), dout)
        after = anyflash.torch.counts()
        want, gradients_of = in_float64(q, k, v, mask, causal)
        check(out, want, dtype, "out", *where)
        for name, have, wanted in zip("qkv", gradients, gradients_of(dout)):
            check(have, wanted, dtype, f"d{name}", *where)
        # torch 2.5 to 2.8 compute GQA with the math backend.
        if groups == heads or not (2, 5) <= TORCH < (2, 9):
            assert after[0] == before[0] + 2, where
            assert after[1] - before[1] == (2 if kind == "column" and k_len > 1 else 0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_are_those_of_torchs_meta_kernels(enabled, dtype, order):
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    with torch.no_grad():
        q, k = tensor(4, 33, 64, dtype, order), tensor(4, 70, 64, dtype, order)
        out, lse = forward(q, k, k)
        gradients = backward(out, q, k, k, out, lse, 0.0, False)
        mq = torch.empty_strided(q.shape, q.stride(), dtype=dtype, device="meta")
        mk = torch.empty_strided(k.shape, k.stride(), dtype=dtype, device="meta")
        mout, mlse = forward(mq, mk, mk)
        meta = (mout, mlse, *backward(mout, mq, mk, mk, mout, mlse, 0.0, False))
    for have, want in zip((out, lse, *gradients), meta):
        assert have.stride() == want.stride() and have.dtype == want.dtype


@pytest.mark.parametrize("dim", (1, 33, 128, 256, 512))
def test_head_sizes(enabled, dim):
    q, k = tensor(2, 40, dim, torch.float32), tensor(2, 50, dim, torch.float32)
    want, _ = in_float64(q, k, k)
    check(sdpa(q, k, k), want, torch.float32)


def test_a_scale(enabled):
    q = tensor(2, 40, 64, torch.float32)
    for scale in (0.3, -0.3, 0.0):
        want, _ = in_float64(q, q, q, scale=scale)
        check(sdpa(q, q, q, scale=scale), want, torch.float32, scale)


def test_the_gradient_of_a_sum_is_the_engines(enabled):
    q = tensor(2, 40, 64, torch.float32)
    before = anyflash.torch.counts()
    sdpa(q, q, q).sum().backward()
    want, gradients_of = in_float64(q, q, q)
    check(q.grad, sum(gradients_of(torch.ones_like(want))), torch.float32)
    assert anyflash.torch.counts() == (before[0] + 2, before[1])


def stock(call):
    """What torch's own kernels give."""
    torch.manual_seed(0)
    anyflash.torch.disable()
    try:
        return call()
    finally:
        anyflash.torch.enable()


def equals_stock(call):
    """Bit-identical results with and without the engine."""
    torch.manual_seed(0)
    assert torch.equal(call(), stock(call))


def test_what_the_engine_declines_is_torchs(enabled):
    x = torch.randn(2, 4, 8, 64)
    equals_stock(lambda: sdpa(x.double(), x.double(), x.double()))
    equals_stock(lambda: sdpa(x, x, x, dropout_p=0.3))
    equals_stock(lambda: sdpa(x, x, x[..., :32]))
    equals_stock(lambda: sdpa(x.mT.contiguous().mT, x, x))
    equals_stock(lambda: sdpa(x[:, :, :0], x, x))
    equals_stock(lambda: sdpa(x, x[:, :, :0], x[:, :, :0]))
    mask = torch.randn(8, 8, requires_grad=True)
    equals_stock(lambda: sdpa(x, x, x, attn_mask=mask))


def test_the_kernels_are_called_and_taken_back():
    x = torch.randn(1, 2, 8, 64)
    before = anyflash.torch.counts()
    with anyflash.torch.enabled():
        sdpa(x, x, x)
    during = anyflash.torch.counts()
    sdpa(x, x, x)
    assert during[0] == before[0] + 1 and during[1] == before[1]
    assert anyflash.torch.counts() == during and not anyflash.torch.is_enabled()


def test_three_dimensions(enabled):
    x = torch.randn(4, 8, 64)
    want, _ = in_float64(x[:, None], x[:, None], x[:, None])
    check(sdpa(x, x, x), want[:, 0], torch.float32)


def test_arguments_that_torchs_kernel_refuses_are_an_exception(enabled):
    x = torch.randn(1, 2, 8, 64)
    with pytest.raises(RuntimeError, match="refused"):
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x[..., :5], x)


def test_masked_values_that_are_not_finite_are_as_in_torchs_mathematics(enabled):
    q, v = torch.randn(1, 1, 4, 16), torch.randn(1, 1, 4, 16)
    v[..., 2, :] = torch.nan
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = sdpa(q, q, v, attn_mask=mask)
    assert torch.equal(sdpa(q, q, v, attn_mask=mask).isnan(), want.isnan())


def test_autocast_and_inference_mode(enabled):
    x = torch.randn(1, 2, 40, 64)
    want, _ = in_float64(x, x, x)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        out = sdpa(x, x, x)
    assert out.dtype == torch.bfloat16
    check(out, want, torch.bfloat16)


def test_vmap_and_grad_of_torch_func(enabled):
    x = torch.randn(3, 1, 2, 9, 64)
    want = torch.stack([sdpa(one, one, one) for one in x])
    with pytest.warns(UserWarning, match="batching rule"):  # torch's own
        out = torch.func.vmap(lambda one: sdpa(one, one, one))(x)
    assert torch.allclose(out, want, atol=1e-5)
    gradient = torch.func.grad(lambda q: sdpa(q, x[1], x[2]).square().sum())
    assert torch.allclose(gradient(x[0]), stock(lambda: gradient(x[0])), atol=1e-5)


def test_a_second_derivative_is_torchs_own_error(enabled):
    q = torch.randn(1, 2, 5, 16, requires_grad=True)

    def twice():
        (first,) = torch.autograd.grad(sdpa(q, q, q).sum(), q, create_graph=True)
        with pytest.raises(RuntimeError) as raised:
            torch.autograd.grad(first.sum(), q)
        return str(raised.value)

    assert twice() == stock(twice)


def test_meta_tensors_stay_meta(enabled):
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
    ids=lambda change: " ".join(f"{name} {tuple(t.shape)} {t.dtype}"
                                for name, t in change.items()),
)
def test_what_torch_refuses_is_refused_alike(enabled, change):
    given = {name: torch.randn(2, 4, 9, 16) for name in "qkv"}
    given.update(change)
    mask = given.pop("mask", None)

    def outcome():
        try:
            return sdpa(*given.values(), attn_mask=mask).shape
        except Exception as error:
            return type(error), str(error).splitlines()[0]

    assert outcome() == stock(outcome)


def test_a_last_dimension_that_is_not_contiguous(enabled):
    q, k, v = (torch.randn(2, 4, 16, 9).transpose(2, 3) for _ in range(3))
    assert torch.allclose(sdpa(q, k, v), stock(lambda: sdpa(q, k, v)), atol=1e-5)
    leaf = q.clone().requires_grad_()
    sdpa(leaf, k, v).sum().backward()
    assert torch.isfinite(leaf.grad).all()


NEVER_ASKED = {
    "head size of v": lambda q: sdpa(q, q, q[..., :16].contiguous()),
    "dropout": lambda q: sdpa(q, q, q, dropout_p=0.5),
    "gradient": lambda q: sdpa(q, q, q, torch.zeros(9, 9, requires_grad=True)),
    "3 dimensions": lambda q: sdpa(q, q, q, torch.zeros(4, 9, 9)),
    "stride": lambda q: sdpa(*[torch.randn(2, 4, 32, 9).transpose(2, 3)] * 3),
}


@pytest.mark.parametrize("name", NEVER_ASKED)
def test_calls_that_explain_names_never_arrive(name, enabled):
    before, q = anyflash.torch.counts(), torch.randn(2, 4, 9, 32)
    NEVER_ASKED[name](q)
    assert anyflash.torch.counts() == before and name in anyflash.torch.explain()
    sdpa(q, q, q)
    assert anyflash.torch.counts()[0] == before[0] + 1


def nonfinite(case, dtype):
    """(q, k, v, options) of [2, 4, 37, 64]."""
    q, k, v = (torch.randn(2, 4, 37, 64).to(dtype) for _ in range(3))
    mask = torch.zeros(37, 37, dtype=dtype)
    if case == "query":
        q[0, 0, 3], mask[3] = torch.nan, -torch.inf
    elif case == "hidden value":
        v[0, 0, 20, 5] = torch.nan
        return q, k, v, {"is_causal": True}
    elif case == "masked key":
        k[0, 0, 20], mask[:, 20] = torch.nan, -torch.inf
    elif case == "mask":
        mask[3, 5] = torch.inf
    else:
        k[0, 0, 20, 5] = torch.inf
    return q, k, v, {"attn_mask": mask}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", ("query", "hidden value", "masked key", "mask", "key"))
def test_nonfinite_results_that_the_guide_lists(case, dtype, enabled):
    q, k, v, options = nonfinite(case, dtype)
    rows = sdpa(q, k, v, **options).isnan().any(-1)
    expected = torch.zeros(2, 4, 37, dtype=torch.bool)
    if case == "hidden value":
        expected[0, 0, 20:] = True
    elif case == "mask":
        expected[:, :, 3] = True
    elif case == "key":  # inf in a score, where q is positive there
        expected[0, 0] = q[0, 0, :, 5] > 0
    assert torch.equal(rows, expected)
