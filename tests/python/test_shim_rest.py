"""The shim's utils.testing, its Triton activations and linear layer, and triton_og."""

import pytest

torch = pytest.importorskip("torch")

import shim_tree  # noqa: E402, F401
from flash_attn import flash_attn_func, flash_attn_varlen_func  # noqa: E402
from flash_attn.ops.triton import k_activations as activations  # noqa: E402
from flash_attn.ops.triton.linear import triton_dgrad_act, triton_linear_act  # noqa: E402
from flash_attn.utils import testing  # noqa: E402


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def qkv(batch=2, rows=9, keys=13, heads=4, kv_heads=2):
    return (
        torch.randn(batch, rows, heads, 16),
        torch.randn(batch, keys, kv_heads, 16),
        torch.randn(batch, keys, kv_heads, 16),
    )


@pytest.mark.parametrize(
    "mine, theirs",
    [
        ({}, {}),
        ({"causal": True}, {"causal": True}),
        ({"window_size": (3, 1)}, {"window_size": (3, 1)}),
        ({"causal": True, "window_size": (2, -1)}, {"causal": True, "window_size": (2, None)}),
        ({"softcap": 2.0}, {"softcap": 2.0, "reorder_ops": True}),
    ],
    ids=str,
)
def test_the_formula_is_the_functions(mine, theirs):
    q, k, v = qkv()
    out, weights = testing.attention_ref(q, k, v, **theirs)
    assert (out - flash_attn_func(q, k, v, **mine)).abs().max() < 1e-5
    assert weights.shape == (2, 4, 9, 13)


def test_rows_that_see_nothing_are_zero():
    q, k, v = qkv(rows=13, keys=9)
    out, weights = testing.attention_ref(q, k, v, causal=True)
    assert not out[:, :4].any() and not weights[:, :, :4].any()
    assert (out - flash_attn_func(q, k, v, causal=True)).abs().max() < 1e-5


def test_the_formula_with_sinks_is_that_of_one_more_key_of_zeros():
    q, k, v = qkv()
    sinks = torch.randn(4)
    out, _ = testing.attention_ref(q, k, v, learnable_sink=sinks)
    more = [torch.cat([x, torch.zeros(2, 1, 2, 16)], 1) for x in (k, v)]
    bias = torch.zeros(1, 4, 1, 14)
    bias[..., -1] = sinks[:, None]
    want, _ = testing.attention_ref(q, *more, attn_bias=bias)
    assert (out - want).abs().max() < 1e-6


def test_factors_of_heads_and_a_part_of_the_head_size():
    q, k, v = qkv()
    qd, kd, vd = (torch.rand(2, 2) + 0.5 for _ in range(3))
    out, _ = testing.attention_ref(q, k, v, q_descale=qd, k_descale=kd, v_descale=vd)
    want, _ = testing.attention_ref(
        q * qd.repeat_interleave(2, 1)[:, None, :, None],
        k * kd[:, None, :, None],
        v * vd[:, None, :, None],
    )
    assert (out - want).abs().max() < 1e-5
    qv = torch.randn(2, 9, 4, 16)
    out, _ = testing.attention_ref(q, k, v, qv=qv)
    want, _ = testing.attention_ref(torch.cat([q, qv], -1), torch.cat([k, v], -1), v)
    assert (out - want).abs().max() < 1e-5


def test_dropped_weights_are_dropped():
    q, k, v = qkv()
    kept = torch.rand(2, 4, 9, 13) > 0.3
    out, weights = testing.attention_ref(q, k, v, dropout_p=0.3, dropout_mask=kept)
    wide = v.repeat_interleave(2, 2)
    want = torch.einsum("bhij,bjhd->bihd", weights * kept / 0.7, wide)
    assert (out - want).abs().max() < 1e-5


@pytest.mark.parametrize("mode", ("full", "random", "third"))
def test_padding_masks_begin_with_what_is_kept(mode):
    mask = testing.generate_random_padding_mask(40, 6, "cpu", mode)
    lengths = mask.sum(1)
    assert all(row[:n].all() and not row[n:].any() for row, n in zip(mask, lengths))
    least = {"full": 40, "random": 20, "third": 13}[mode]
    assert (lengths >= least).all() and (lengths <= 40).all()
    some = testing.generate_random_padding_mask(40, 6, "cpu", mode, zero_lengths=True)
    assert not some[0].any() and not some[5].any() and some[1].any()


def padding():
    rows = torch.tensor([[True] * 7 + [False] * 2, [True] * 9])
    keys = torch.tensor([[True] * 13, [True] * 10 + [False] * 3])
    return rows, keys


def test_packed_leaves_give_what_padded_ones_give():
    q, k, v = qkv()
    rows, keys = padding()
    found = testing.generate_qkv(q, k, v, rows, keys)
    q_, k_, v_, _, cu_q, cu_k, used_q, used_k, most_q, most_k, *leaves = found
    _, _, _, _, pad, _, pad_k = leaves
    assert used_q.tolist() == [7, 9] and used_k.tolist() == [13, 10]
    out = flash_attn_varlen_func(q_, k_, v_, cu_q, cu_k, most_q, most_k, causal=True)
    want, _ = testing.attention_ref(*leaves[:3], rows, keys, causal=True)
    assert (pad(out) - want).abs().max() < 1e-5
    out.sum().backward()
    (gradient,) = torch.autograd.grad(want.sum(), leaves[1])
    assert (pad_k(k_.grad) - gradient).abs().max() < 1e-5


def test_joint_forms_are_the_same_rows():
    q, k, v = qkv(keys=9, kv_heads=4)
    rows, _ = padding()
    apart = testing.generate_qkv(q, k, v, rows, rows)
    joint, cu, most, whole, pad, _ = testing.generate_qkv(q, k, v, rows, rows, qkvpacked=True)
    assert joint.equal(torch.stack(apart[:3], 1)) and cu.equal(apart[4]) and most == 9
    assert whole.equal(torch.stack([q, k, v], 2)) and pad(joint).shape == whole.shape
    found = testing.generate_qkv(q, k, v, None, None, kvpacked=True)
    assert found[1].equal(torch.stack([k.flatten(0, 1), v.flatten(0, 1)], 1))
    assert found[2].tolist() == [0, 9, 18] and found[-3](found[0]).equal(q)


def test_masks_of_windows_chunks_and_left_padding():
    hidden = testing.construct_local_mask(3, 5, (1, 0))
    assert (~hidden).int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    hidden = testing.construct_local_mask(3, 5, (0, 0), sink_token_length=1)
    assert (~hidden).int().tolist() == [[1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    hidden = testing.construct_chunk_mask(4, 4, 2)
    assert (~hidden).int().tolist() == [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2
    hidden = testing.construct_local_mask(1, 4, (None, 0), key_leftpad=torch.tensor([2]))
    assert (~hidden).int().flatten().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("name", list(activations.Activation))
def test_derivatives_are_those_of_the_functions(name):
    x = torch.linspace(-3, 3, 50, dtype=torch.float64).requires_grad_()
    function = activations.get_triton_activation_kernel(name)
    derivative = activations.get_triton_activation_bwd_kernel(name)
    (want,) = torch.autograd.grad(function(x).sum(), x)
    assert (derivative(x) - want).abs().max() < 1e-6
    assert activations.get_triton_activation_kernel(None) is None


@pytest.mark.parametrize("name", ("id", "gelu", "gelu_approx", "squared_relu"))
def test_a_linear_layer_and_its_gradient(name):
    x, weight, bias = torch.randn(5, 7), torch.randn(4, 7), torch.randn(4)
    out, before = triton_linear_act(x, weight, bias, name, save_act_input=True)
    assert before.equal(torch.nn.functional.linear(x, weight, bias))
    leaf = before.clone().requires_grad_()
    after, g = torch.randn(4, 3), torch.randn(5, 3)
    (triton_linear_act(leaf, torch.eye(4), None, name) @ after).backward(g)
    got = triton_dgrad_act(g, after.t().contiguous(), name, before)
    assert (got - leaf.grad).abs().max() < 1e-4
    with pytest.raises(ValueError, match="activation"):
        triton_linear_act(x, weight, activation="none")


def test_causal_attention_of_heads_first():
    from flash_attn.flash_attn_triton_og import attention

    q, k, v = (torch.randn(2, 3, 9, 16) for _ in range(3))
    want = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), softmax_scale=0.3,
                           causal=True)
    assert (attention(q, k, v, 0.3).transpose(1, 2) - want).abs().max() < 1e-5
