"""anyflash.diffusers in a tiny Flux, compared with diffusers' own native backend."""

import subprocess
import sys

import pytest
import torch
from diffusers import FluxTransformer2DModel
from diffusers.models import attention_dispatch

import anyflash.diffusers
import anyflash.torch


@pytest.fixture
def registered():
    anyflash.diffusers.register()
    yield
    anyflash.diffusers.unregister()


def flux():
    torch.manual_seed(0)
    model = FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
    )
    inputs = {
        "hidden_states": torch.randn(1, 16, 4),
        "encoder_hidden_states": torch.randn(1, 8, 32),
        "pooled_projections": torch.randn(1, 32),
        "timestep": torch.tensor([1.0]),
        "img_ids": torch.zeros(16, 3),
        "txt_ids": torch.zeros(8, 3),
    }
    return model.eval(), inputs


@pytest.fixture
def calls(monkeypatch):
    """Counts the calls of the engine's functions."""
    count = []
    before = anyflash.diffusers.flash_attn.flash_attn_func
    monkeypatch.setattr(
        anyflash.diffusers.flash_attn,
        "flash_attn_func",
        lambda *a: (count.append(1), before(*a))[1],
    )
    return count


def test_a_model_set_to_the_backend(registered, calls):
    model, inputs = flux()
    with torch.no_grad():
        expected = model(**inputs)[0]
        assert not calls
        model.set_attention_backend("anyflash")
        assert (model(**inputs)[0] - expected).abs().max() < 1e-5
        assert len(calls) == 2
        model.set_attention_backend("native")
        model(**inputs)
    assert len(calls) == 2


def test_the_context_manager(registered, calls):
    model, inputs = flux()
    with torch.no_grad(), attention_dispatch.attention_backend("anyflash"):
        model(**inputs)
    assert len(calls) == 2


def test_gradients(registered):
    gradients = []
    for backend in ("native", "anyflash"):
        model, inputs = flux()
        model.train().set_attention_backend(backend)
        model(**inputs)[0].square().mean().backward()
        gradients.append({k: p.grad for k, p in model.named_parameters()})
    for name, expected in gradients[0].items():
        if expected is not None:
            assert (gradients[1][name] - expected).abs().max() < 1e-6


def test_one_graph_under_compile(registered):
    model, inputs = flux()
    model.set_attention_backend("anyflash")
    with torch.no_grad():
        expected = model(**inputs)[0]
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        assert (compiled(**inputs)[0] - expected).abs().max() < 1e-5


def test_native_is_the_engine_when_torch_is_enabled():
    model, inputs = flux()
    with torch.no_grad():
        expected = model(**inputs)[0]
        before = anyflash.torch.counts()
        with anyflash.torch.enabled():
            assert (model(**inputs)[0] - expected).abs().max() < 1e-5
    assert anyflash.torch.counts()[0] == before[0] + 2


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("case", ("plain", "keys", "bool", "added", "learned", "causal"))
def test_every_call_is_what_native_computes(registered, case, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, n, 4, 16, dtype=dtype) for n in (12, 20, 20))
    options = {
        "plain": {},
        "keys": {"attn_mask": torch.rand(2, 20) > 0.4},
        "bool": {"attn_mask": torch.rand(2, 1, 12, 20) > 0.4},
        "added": {"attn_mask": torch.randn(12, 20, dtype=dtype)},
        "learned": {"attn_mask": torch.randn(12, 20, dtype=dtype, requires_grad=True)},
        "causal": {"is_causal": True},
    }[case]
    a, b = (
        attention_dispatch.dispatch_attention_fn(q, k, v, **options, backend=backend)
        for backend in ("native", "anyflash")
    )
    assert a.shape == b.shape and (a - b).abs().max() < 1e-5


def test_unregister_leaves_nothing():
    names = attention_dispatch.AttentionBackendName
    before = list(names), list(attention_dispatch._AttentionBackendRegistry._backends)
    anyflash.diffusers.register()
    anyflash.diffusers.register()
    assert names("anyflash") is names.ANYFLASH and len(names) == len(before[0]) + 1
    anyflash.diffusers.unregister()
    anyflash.diffusers.unregister()
    after = list(names), list(attention_dispatch._AttentionBackendRegistry._backends)
    assert after == before and not hasattr(names, "ANYFLASH")
    with pytest.raises(ValueError):
        flux()[0].set_attention_backend("anyflash")


def test_importing_registers_nothing():
    code = (
        "import sys; sys.path[:0] = %r; import anyflash.diffusers; "
        "from diffusers.models import attention_dispatch as d; "
        "assert 'anyflash' not in d.AttentionBackendName._value2member_map_"
    )
    subprocess.run([sys.executable, "-c", code % sys.path], check=True)
