"""anyflash.flash_attn_3: FlashAttention-3's names and signatures over the same providers."""

import inspect

import pytest

torch = pytest.importorskip("torch")

import anyflash  # noqa: E402
from anyflash import flash_attn_3 as fa3  # noqa: E402

#: The parameters in hopper/flash_attn_interface.py (flash-attention, 0251105a).
DESCALE = "q_descale k_descale v_descale"
MASK = f"softmax_scale causal qv {DESCALE} window_size attention_chunk softcap"
SPEED = "num_splits pack_gqa deterministic sm_margin return_attn_probs"
PACKED = "cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k seqused_q seqused_k"
PARAMETERS = {
    "flash_attn_func": f"q k v {MASK} {SPEED}",
    "flash_attn_varlen_func": f"q k v {PACKED} {MASK} {SPEED}",
    "flash_attn_qkvpacked_func": f"qkv softmax_scale causal {DESCALE} window_size "
    "attention_chunk softcap deterministic num_heads_q sm_margin return_attn_probs",
    "flash_attn_with_kvcache": "q k_cache v_cache k v qv rotary_cos rotary_sin cache_seqlens "
    "cache_batch_idx cache_leftpad page_table cu_seqlens_q cu_seqlens_k_new max_seqlen_q "
    f"rotary_seqlens {DESCALE} softmax_scale causal window_size attention_chunk softcap "
    "rotary_interleaved scheduler_metadata num_splits pack_gqa sm_margin return_softmax_lse",
    "flash_attn_combine": "out_partial lse_partial out out_dtype",
}


def tensors(*shapes):
    torch.manual_seed(3)
    return [torch.randn(shape) for shape in shapes]


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_parameters_are_flashattention_3s(name):
    assert list(inspect.signature(getattr(fa3, name)).parameters) == PARAMETERS[name].split()


def test_dense_calls_agree_with_flash_attn_and_have_gradients():
    q, k, v = tensors((2, 9, 4, 16), (2, 11, 2, 16), (2, 11, 2, 16))
    q.requires_grad_()
    out, lse = fa3.flash_attn_func(q, k, v, causal=True, window_size=(5, -1),
                                   return_attn_probs=True)
    want, want_lse, _ = anyflash.flash_attn_func(q, k, v, causal=True, window_size=(5, -1),
                                                 return_attn_probs=True)
    assert torch.equal(out, want) and torch.equal(lse, want_lse)
    assert torch.equal(*(torch.autograd.grad(each.sum(), q)[0] for each in (out, want)))
    assert isinstance(fa3.flash_attn_func(q, k, v), torch.Tensor)


def test_packed_heads_are_split():
    q, k, v = tensors((1, 7, 4, 8), (1, 7, 2, 8), (1, 7, 2, 8))
    want = anyflash.flash_attn_func(q, k, v, causal=True)
    qkv = torch.cat((q, k, v), 2)
    assert torch.equal(fa3.flash_attn_qkvpacked_func(qkv, causal=True, num_heads_q=4), want)
    (same,) = tensors((1, 7, 3, 4, 8))
    want = anyflash.flash_attn_qkvpacked_func(same)
    assert torch.equal(fa3.flash_attn_qkvpacked_func(same), want)
    with pytest.raises(ValueError, match="expected"):
        fa3.flash_attn_qkvpacked_func(qkv)


def test_packed_sequences_and_a_cache_agree_with_flash_attn():
    q, k, v = tensors((12, 4, 16), (12, 2, 16), (12, 2, 16))
    starts = torch.tensor([0, 5, 12], dtype=torch.int32)
    packed = (q, k, v, starts, starts, 7, 7)
    want = anyflash.flash_attn_varlen_func(*packed, causal=True)
    assert torch.equal(fa3.flash_attn_varlen_func(*packed, causal=True), want)
    q, k, v = tensors((2, 1, 4, 16), (6, 16, 2, 16), (6, 16, 2, 16))
    table = torch.tensor([[3, 1], [0, 5]], dtype=torch.int32)
    lengths = torch.tensor([20, 9], dtype=torch.int32)
    plan = fa3.get_scheduler_metadata(2, 1, 32, 4, 2, 16, lengths)
    want = anyflash.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, block_table=table)
    out = fa3.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, page_table=table,
                                      scheduler_metadata=plan)
    assert torch.equal(out, want)


def test_parts_combine_to_the_whole():
    q, k, v = tensors((2, 5, 3, 16), (2, 12, 3, 16), (2, 12, 3, 16))
    want, want_lse = fa3.flash_attn_func(q, k, v, return_attn_probs=True)
    parts = [fa3.flash_attn_func(q, k[:, a:b], v[:, a:b], return_attn_probs=True)
             for a, b in ((0, 4), (4, 12))]
    outs = torch.stack([out for out, _ in parts] + [torch.zeros_like(want)])
    nothing = torch.full_like(want_lse, float("inf"))  # a part without keys
    lses = torch.stack([lse for _, lse in parts] + [nothing]).transpose(2, 3)
    out, lse = fa3.flash_attn_combine(outs, lses)
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(lse.transpose(1, 2), want_lse)


@pytest.mark.parametrize("name, value", [("qv", torch.zeros(1)), ("k_descale", torch.zeros(1)),
                                         ("attention_chunk", 4)])
def test_what_only_flashattention_3_computes_is_refused_by_name(name, value):
    q, k, v = tensors((1, 4, 2, 8), (1, 4, 2, 8), (1, 4, 2, 8))
    with pytest.raises(NotImplementedError, match=f"{name}: FlashAttention-3 alone"):
        fa3.flash_attn_func(q, k, v, **{name: value})


def test_the_shims_module_has_the_same_functions(monkeypatch):
    import pathlib

    tree = pathlib.Path(anyflash.__file__).parent / "shim" / "tree"
    monkeypatch.syspath_prepend(str(tree))
    import flash_attn_interface

    assert flash_attn_interface.flash_attn_func is fa3.flash_attn_func
    assert flash_attn_interface.__anyflash__ == anyflash.__version__
