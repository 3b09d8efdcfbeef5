"""The layers that the shim installs, compared with torch's own: values and gradients."""

import math
import types

import pytest

torch = pytest.importorskip("torch")
from shim_tree import assert_same, gradients  # noqa: E402

import flash_attn  # noqa: E402

F = torch.nn.functional


# --- norms


@pytest.mark.parametrize("is_rms", [False, True])
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("prenorm", [False, True])
def test_norms_match_torchs_own(is_rms, has_residual, prenorm):
    from flash_attn.ops.triton.layer_norm import layer_norm_fn, rms_norm_fn

    x, weight, bias, residual = (torch.randn(*s) for s in ((3, 5, 8), (8,), (8,), (3, 5, 8)))

    def ours(x, weight, bias, residual):
        function = rms_norm_fn if is_rms else layer_norm_fn
        y = function(
            x, weight, bias, residual if has_residual else None, eps=1e-5, prenorm=prenorm
        )
        return torch.cat((y[0], y[1] + residual * 0)) if prenorm else y + residual * 0

    def plain(x, weight, bias, residual):
        total = x + residual if has_residual else x
        if is_rms:
            y = total / (total.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias
        else:
            y = F.layer_norm(total, (8,), weight, bias, 1e-5)
        y = y + residual * 0
        return torch.cat((y, total + residual * 0)) if prenorm else y

    inputs = (x, weight, bias, residual)
    assert_same(gradients(ours, *inputs), gradients(plain, *inputs), 1e-4)


def test_norms_keep_types_and_masks():
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    x = torch.randn(4, 6, 16, dtype=torch.bfloat16)
    weight, bias = torch.ones(16), torch.zeros(16)
    y, total = layer_norm_fn(x, weight, bias, prenorm=True, residual_in_fp32=True)
    assert (y.dtype, total.dtype) == (torch.bfloat16, torch.float32)
    assert layer_norm_fn(x, weight, bias, out_dtype=torch.float32).dtype == torch.float32
    y, y1, mask, mask1 = layer_norm_fn(
        x, weight, bias,
        x1=x, weight1=weight, bias1=bias, dropout_p=0.3, return_dropout_mask=True,
    )
    total = (x.float() * mask + x.float() * mask1) / 0.7
    want = F.layer_norm(total, (16,), weight, bias, 1e-6)
    assert y.equal(y1) and (y.float() - want).abs().max() < 0.05
    assert 0.1 < 1 - mask.float().mean() < 0.5


def test_zero_centered_weights_and_row_scales():
    from flash_attn.ops.triton.layer_norm import RMSNorm, rms_norm_fn

    x, scale = torch.randn(3, 5, 8), torch.rand(3, 5)
    got = rms_norm_fn(x, torch.zeros(8), None, zero_centered_weight=True, rowscale=scale)
    total = x * scale[..., None]
    want = total / (total.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert_same([got], [want])
    assert_same([RMSNorm(8, eps=1e-6, zero_centered_weight=True)(total)], [want])


def test_the_old_norms_are_the_same_functions():
    from flash_attn.ops.layer_norm import DropoutAddLayerNorm, dropout_add_layer_norm
    from flash_attn.ops.rms_norm import DropoutAddRMSNorm, RMSNorm, dropout_add_rms_norm

    x, residual = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    weight, bias, layerscale = torch.randn(8), torch.randn(8), torch.randn(8)
    want = F.layer_norm(x * layerscale + residual, (8,), weight, bias, 1e-5)
    z, total, mask = dropout_add_layer_norm(
        x, residual, weight, bias, 0.0, 1e-5,
        layerscale=layerscale, prenorm=True, return_dropout_mask=True,
    )
    assert_same([z, total], [want, x * layerscale + residual])
    assert mask.all()
    module = DropoutAddLayerNorm(8, prenorm=True, p=0.5).eval()
    assert_same([module(x, residual)[1]], [x + residual])
    rms = (x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt())
    assert_same([RMSNorm(8)(x)], [rms])
    assert_same([dropout_add_rms_norm(x, None, torch.ones(8), None, 0.0, 1e-5)], [rms])
    assert_same([DropoutAddRMSNorm(8)(x)], [rms])


def test_sums_of_the_old_norms_have_the_type_that_is_asked_for():
    from flash_attn.ops.layer_norm import dropout_add_layer_norm
    from flash_attn.ops.rms_norm import DropoutAddRMSNorm

    x = torch.randn(3, 8, dtype=torch.bfloat16)
    for residual, fp32, wanted in (
        (None, False, torch.bfloat16),
        (None, True, torch.float32),
        (x.float(), False, torch.float32),
        (x.clone(), True, torch.bfloat16),
    ):
        options = {"layerscale": torch.ones(8), "prenorm": True, "residual_in_fp32": fp32}
        y, total = dropout_add_layer_norm(
            x, residual, torch.ones(8), torch.zeros(8), 0.0, 1e-5, **options
        )
        assert (y.dtype, total.dtype) == (torch.bfloat16, wanted)
    module = DropoutAddRMSNorm(8, p=0.5, prenorm=True)
    assert module.bias is None and (module(torch.ones(50, 8))[1] == 0).any()
    assert not (module.eval()(torch.ones(50, 8))[1] == 0).any()


# --- losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("inplace", [False, True])
def test_cross_entropy_matches_torchs_own(smoothing, inplace):
    from flash_attn.losses.cross_entropy import CrossEntropyLoss

    logits, labels = torch.randn(9, 11) * 3, torch.randint(0, 11, (9,))
    labels[2] = -100
    for reduction in ("mean", "sum", "none"):
        ours = CrossEntropyLoss(
            label_smoothing=smoothing, inplace_backward=inplace, reduction=reduction
        )

        def plain(logits):
            return F.cross_entropy(
                logits, labels, label_smoothing=smoothing, reduction=reduction
            )

        got = gradients(lambda x: ours(x.clone(), labels), logits)
        assert_same(got, gradients(plain, logits))


def test_cross_entropy_with_scale_and_z_loss():
    from flash_attn.ops.triton.cross_entropy import cross_entropy_loss

    logits, labels = torch.randn(6, 7), torch.randint(0, 7, (6,))
    logits[0, (labels[0] + 1) % 7] = -math.inf

    def plain(x):
        lse = torch.logsumexp(x * 2.0, -1)
        return F.cross_entropy(x * 2.0, labels, reduction="none") + 0.1 * lse**2

    def ours(x):
        return cross_entropy_loss(x, labels, logit_scale=2.0, lse_square_scale=0.1)[0]

    assert_same(gradients(ours, logits), gradients(plain, logits))
    z = cross_entropy_loss(logits, labels, logit_scale=2.0, lse_square_scale=0.1)[1]
    assert_same([z], [0.1 * torch.logsumexp(logits * 2.0, -1) ** 2])


# --- activations and layers


def test_activations_match_torchs_own():
    from flash_attn.ops import activations as a

    x, y = torch.randn(4, 6), torch.randn(4, 6)
    assert_same(gradients(a.swiglu, x, y), gradients(lambda x, y: F.silu(x) * y, x, y))
    assert_same(gradients(a.sqrelu_fwd, x), gradients(lambda x: F.relu(x) ** 2, x))
    assert a.swiglu(x.bfloat16(), y.bfloat16()).dtype == torch.bfloat16


def test_mlps_are_two_linear_layers():
    from flash_attn.modules.mlp import FusedMLP, GatedMlp, Mlp
    from flash_attn.ops.fused_dense import FusedDense

    x = torch.randn(3, 8)
    for module, activation in (
        (Mlp(8, 12), F.gelu),
        (FusedMLP(8, 12), lambda x: F.gelu(x, approximate="tanh")),
        (FusedMLP(8, 12, activation="relu", checkpoint_lvl=1), F.relu),
        (FusedMLP(8, 12, activation="sqrelu"), lambda x: F.relu(x) ** 2),
        (GatedMlp(8, 12, activation=F.silu, multiple_of=4), None),
    ):

        def plain(x):
            inner = module.fc1(x)
            if activation is None:
                a, b = inner.chunk(2, -1)
                return module.fc2(a * F.silu(b))
            return module.fc2(activation(inner))

        assert_same(gradients(module, x), gradients(plain, x))
    dense = FusedDense(8, 5, return_residual=True)
    out, residual = dense(x)
    assert_same([out], [F.linear(x, dense.weight, dense.bias)])
    assert residual is x


# --- attention


def test_alibi_slopes():
    from flash_attn.modules.mha import get_alibi_slopes

    assert get_alibi_slopes(8) == [2.0 ** -(i + 1) for i in range(8)]
    assert get_alibi_slopes(3) == [2.0**-4, 2.0**-8, 2.0**-2]


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("rotary", [0, 16])
def test_mha_by_flash_and_by_matrix_products_agree(kv_heads, rotary):
    from flash_attn.modules.mha import MHA

    torch.manual_seed(5)
    options = dict(num_heads_kv=kv_heads, causal=True, rotary_emb_dim=rotary, layer_idx=0)
    flash = MHA(64, 4, use_flash_attn=True, **options)
    plain = MHA(64, 4, use_flash_attn=False, **options)
    plain.load_state_dict(flash.state_dict())
    x = torch.randn(2, 9, 64)
    assert_same(gradients(flash, x), gradients(plain, x), 1e-4)


def generation_state(max_seqlen, max_batch_size):
    """The attributes of flash-attn's InferenceParams."""
    return types.SimpleNamespace(
        max_seqlen=max_seqlen, max_batch_size=max_batch_size, seqlen_offset=0,
        batch_size_offset=0, key_value_memory_dict={}, lengths_per_sample=None,
    )


def test_a_cache_that_is_too_small_is_named():
    from flash_attn.modules.mha import MHA

    module = MHA(64, 4, causal=True, layer_idx=0, use_flash_attn=True)
    with pytest.raises(ValueError, match=r"cache of \[2, 4\], but it is \[2, 3\]"):
        module(torch.randn(2, 4, 64), inference_params=generation_state(3, 2))


def test_mha_decodes_step_by_step_to_the_same():
    from flash_attn.modules.mha import MHA

    torch.manual_seed(6)
    x = torch.randn(2, 9, 64)
    for rotary, window in ((0, (-1, -1)), (16, (-1, -1))):
        module = MHA(
            64, 4,
            num_heads_kv=2, causal=True, rotary_emb_dim=rotary, layer_idx=0,
            use_flash_attn=True, window_size=window,
        )
        with torch.no_grad():
            whole = module(x)
            state = generation_state(9, 2)
            parts = [module(x[:, :4], inference_params=state)]
            for step in range(4, 9):
                state.seqlen_offset = step
                parts.append(module(x[:, step : step + 1], inference_params=state))
        assert_same([torch.cat(parts, 1)], [whole], 1e-4)


def test_mha_across_and_packed():
    from flash_attn.modules.mha import MHA

    torch.manual_seed(7)
    flash = MHA(32, 4, cross_attn=True, use_flash_attn=True)
    plain = MHA(32, 4, cross_attn=True)
    plain.load_state_dict(flash.state_dict())
    x, other = torch.randn(2, 5, 32), torch.randn(2, 7, 32)
    assert_same([flash(x, other)], [plain(x, other)])
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    masked = plain(x, other, key_padding_mask=mask)
    assert_same([masked[1:]], [plain(x[1:], other[1:, :4])])
    module = MHA(32, 4, num_heads_kv=2, use_flash_attn=True)
    bounds = torch.tensor([0, 3, 5], dtype=torch.int32)
    packed = module(x[0], cu_seqlens=bounds, max_seqlen=3)
    assert_same([packed[:3]], [module(x[:1, :3])[0]])


@pytest.mark.parametrize("prenorm", [False, True])
def test_blocks_are_sublayers_norms_and_additions(prenorm):
    from functools import partial

    from flash_attn.modules.block import Block
    from flash_attn.modules.mha import MHA

    mixer = partial(MHA, num_heads=4, causal=True, use_flash_attn=True)
    block = Block(32, mixer, prenorm=prenorm, drop_path1=0.5).eval()

    def plain(x, residual):
        if not prenorm:
            x = block.norm1(block.mixer(x) + x)
            return block.norm2(block.mlp(x) + x) + residual * 0
        residual = residual + x
        residual = residual + block.mixer(block.norm1(residual))
        return torch.cat((block.mlp(block.norm2(residual)), residual))

    def ours(x, residual):
        if not prenorm:
            return block(x) + residual * 0
        return torch.cat(block(x, residual))

    inputs = (torch.randn(2, 5, 32), torch.randn(2, 5, 32))
    assert_same(gradients(ours, *inputs), gradients(plain, *inputs), 1e-4)


def test_the_functions_beneath_take_a_foreign_logsumexp():
    """Two halves of the keys, merged by their logsumexps as in ring attention."""
    from flash_attn.flash_attn_interface import _flash_attn_backward, _flash_attn_forward

    q, k, v, dout = (torch.randn(2, 6, 2, 16) for _ in range(4))

    def part(k, v):
        args = (q, k, v, 0.0, 0.25, False, -1, -1, 0.0, None, False)
        return _flash_attn_forward(*args)[:2]

    halves = [part(k[:, s], v[:, s]) for s in (slice(0, 2), slice(2, 6))]
    lse = torch.logaddexp(halves[0][1], halves[1][1])
    out = sum(o * torch.exp(l - lse).transpose(1, 2)[..., None] for o, l in halves)
    want = gradients(
        lambda q, k, v: (flash_attn.flash_attn_func(q, k, v, softmax_scale=0.25) * dout).sum(),
        q, k, v,
    )[1:]
    dq = torch.zeros_like(q)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    for s in (slice(0, 2), slice(2, 6)):
        new = torch.empty_like(q)
        _flash_attn_backward(
            dout, q, k[:, s], v[:, s], out, lse, new, dk[:, s], dv[:, s], 0.0, 0.25, False, -1,
            -1, 0.0, None, True,
        )
        dq += new
    assert_same([out], [flash_attn.flash_attn_func(q, k, v, softmax_scale=0.25)])
    weight = want[0].abs().max() / dq.abs().max()  # gradients() multiplies its scalar by -1
    assert_same([-dq * weight.sign(), -dk, -dv], want, 1e-4)


def test_the_extensions_functions_take_their_arguments_by_position():
    from flash_attn.flash_attn_interface import flash_attn_gpu

    q, k, v = (torch.randn(1, 5, 2, 16) for _ in range(3))
    out, lse, _, state = flash_attn_gpu.fwd(
        q, k, v, None, None, 0.0, 0.25, True, -1, -1, 0.0, False, None
    )
    want = flash_attn.flash_attn_func(q, k, v, softmax_scale=0.25, causal=True)
    assert out.equal(want) and lse.shape == (1, 2, 5) and state.dtype == torch.int64
    bounds = torch.tensor([0, 2, 5], dtype=torch.int32)
    given = torch.empty(5, 2, 16)
    packed = flash_attn_gpu.varlen_fwd(
        *(x[0] for x in (q, k, v)), given, bounds, bounds, None, None, None, None, 3, 3, 0.0,
        0.25, False, True, -1, -1, 0.0, False, None,
    )
    assert packed[0] is given
    assert_same([given[:2]], [want[0, :2]])
    out, lse = flash_attn_gpu.fwd_kvcache(
        q, k, v, *[None] * 10, 0.25, True, -1, -1, 0.0, True, 0
    )
    assert_same([out], [want])


def has_flash_operators():
    returns = torch.ops.aten._flash_attention_forward.default._schema.returns
    return returns[2].name == "rng_state"


@pytest.mark.skipif(not has_flash_operators(), reason="needs torch 2.8")
def test_on_other_devices_torchs_operators_get_their_arguments(monkeypatch):
    """Replaces a GPU's operators with the engine."""
    import standins
    from flash_attn.flash_attn_interface import flash_attn_gpu

    q, k, v, dout = (torch.randn(1, 6, 2, 32, dtype=torch.bfloat16) for _ in range(4))
    bounds = torch.tensor([0, 2, 6], dtype=torch.int32)
    tail = (0.0, 0.25, True, 3, 0, 0.0, True, None, None)
    packed_tail = (0.0, 0.25, False, True, 3, 0, 0.0, True, None, None)
    out, lse, *_ = flash_attn_gpu.fwd(
        q, k, v, None, None, 0.0, 0.25, True, 3, 0, 0.0, False, None
    )
    rows = [x[0] for x in (dout, q, k, v, out)]

    def both():
        none = (None, None, None)
        dense = flash_attn_gpu.bwd(dout, q, k, v, out, lse, *none, None, *tail)
        packed = flash_attn_gpu.varlen_bwd(
            *rows, lse[0].contiguous(), *none, bounds, bounds, None, 4, 4, *packed_tail
        )
        return [*dense, *packed]

    want = both()
    monkeypatch.setattr(flash_attn_gpu, "_is_engines", lambda q: False)
    with standins.flash_by_engine():
        got = both()
    assert_same(got, want, 2e-2)
