"""flash-attn's own Python package over our module: its operators, autograd and torch.compile.

The operators are registered for CUDA; here the same functions are registered for the CPU,
too, and the kernels only keep their parameters (record.cpp).
"""

import sys

import pytest
import torch

from test_launches import FOLDER, Generator, sides

OPERATORS = ("_flash_attn_forward", "_flash_attn_backward", "_flash_attn_varlen_forward",
             "_flash_attn_varlen_backward")


@pytest.fixture(scope="module", name="flash_attn")
def fixture_flash_attn(sides):
    sys.modules["flash_attn_2_cuda"] = sides[0].module
    sys.path.insert(0, f"{FOLDER}/package")
    import flash_attn
    from flash_attn import flash_attn_interface
    for name in OPERATORS:
        operator = getattr(flash_attn_interface, name)
        operator.register_kernel("cpu")(operator._init_fn)
    return flash_attn


def tensors(*shape):
    return [torch.zeros(shape, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv"]


def passes(side):
    return [name.split()[0] for name, _ in side.launches()]


def test_gradients_reach_the_backward_kernel(sides, flash_attn):
    q, k, v = tensors(2, 16, 4, 64)
    flash_attn.flash_attn_func(q, k, v, causal=True).sum().backward()
    assert passes(sides[0]) == ["forward", "backward"]
    assert q.grad.shape == q.shape and v.grad.shape == v.shape


def test_a_head_size_of_60_is_padded(sides, flash_attn):
    q, k, v = tensors(1, 300, 4, 60)
    out = flash_attn.flash_attn_func(q, k, v)
    out.sum().backward()
    assert out.shape == q.shape and q.grad.shape == q.shape
    assert len(passes(sides[0])) == 2


def test_packed_sequences(sides, flash_attn):
    q, k, v = tensors(20, 4, 64)
    ends = torch.tensor([0, 8, 20], dtype=torch.int32)
    flash_attn.flash_attn_varlen_func(q, k, v, ends, ends, 12, 12).sum().backward()
    assert passes(sides[0]) == ["forward", "backward"]


def test_a_cache(sides, flash_attn):
    q, cache, new = (torch.zeros(2, rows, 4, 64).half() for rows in (1, 32, 1))
    lengths = torch.tensor([3, 5], dtype=torch.int32)
    out = flash_attn.flash_attn_with_kvcache(q, cache, cache, new, new, cache_seqlens=lengths)
    assert out.shape == q.shape and passes(sides[0]) == ["split"]


def test_torch_compile_makes_one_graph(sides, flash_attn):
    q, k, v = tensors(2, 16, 4, 64)
    compiled = torch.compile(lambda *all: flash_attn.flash_attn_func(*all, causal=True) * 2,
                             backend="aot_eager", fullgraph=True)
    compiled(q, k, v).sum().backward()
    assert passes(sides[0]) == ["forward", "backward"] and q.grad is not None


@pytest.mark.parametrize("change, message", [
    ({"q": torch.zeros(1, 4, 2, 64)}, "FlashAttention only support fp16 and bf16 data type"),
    ({"k": torch.zeros(1, 4, 2, 64).half()}, "query and key must have the same dtype"),
    ({"k": torch.zeros(1, 4, 3, 64).bfloat16()}, "v must have shape"),
    ({"softcap": 1.0, "dropout": 0.1}, "Softcapping does not support dropout for now"),
    ({"window": (3, 4), "dim": 60}, "head_size should be a multiple of 8"),
], ids=lambda each: each if isinstance(each, str) else "")
def test_errors_are_those_of_the_extension(sides, change, message):
    q, k, v = (torch.zeros(1, 4, 2, change.get("dim", 64)).bfloat16() for _ in "qkv")
    q, k = change.get("q", q), change.get("k", k)
    with pytest.raises(RuntimeError, match=message):
        sides[0].module.fwd(q, k, v, None, None, change.get("dropout", 0.0), 0.1, False,
                            *change.get("window", (-1, -1)), change.get("softcap", 0.0), False,
                            Generator(1, 0))


def test_tensors_on_the_cpu_reach_no_kernel(sides, monkeypatch):
    monkeypatch.setattr(sides[0].module, "_ON_CPU", False)
    q = torch.zeros(1, 4, 2, 64).half()
    with pytest.raises(RuntimeError, match="q must be on CUDA"):
        sides[0].module.fwd(q, q, q, None, None, 0.0, 0.1, False, -1, -1, 0.0, False, None)
    assert sides[0].launches() == []


def call_fwd(side, q, k, v, **changes):
    values = {"out": None, "slopes": None, "dropout": 0.0, "scale": 0.1, "causal": False,
              "left": -1, "right": -1, "softcap": 0.0, "scores": False, "generator": None}
    return side.module.fwd(q, k, v, *{**values, **changes}.values())


@pytest.mark.parametrize("q", [
    torch.zeros(2, 4, 16, 64).half().transpose(1, 2),
    torch.zeros(2, 16, 12, 64).half()[:, :, 4:8],
    torch.zeros(1, 1, 4, 64).half(),
    torch.zeros(2, 16, 4, 64).half().expand(2, 16, 4, 64),
], ids=["transposed", "slice", "one row", "contiguous"])
def test_results_are_laid_out_like_their_tensors(sides, q):
    out, lse, scores, rng_state = call_fwd(sides[0], q, q, q)
    assert out.stride() == torch.empty_like(q).stride()
    assert lse.is_contiguous() and scores.shape == (0,) and rng_state.dtype == torch.int64
    gradients = sides[0].module.bwd(q, q, q, q, out, lse, *[None] * 4, 0.0, 0.1, False, -1, -1,
                                    0.0, False, None, rng_state)
    assert all(each.stride() == out.stride() for each in gradients[:3])
    sides[0].launches()


def test_given_results_are_returned_themselves(sides):
    q, out = (torch.zeros(1, 4, 2, 64).half() for _ in "qo")
    before = sys.getrefcount(q), sys.getrefcount(out)
    for _ in range(10):
        assert call_fwd(sides[0], q, q, q, out=out)[0] is out
    assert (sys.getrefcount(q), sys.getrefcount(out)) == before
    sides[0].launches()


def test_without_memory_torch_says_so(sides):
    q = torch.zeros(1).half().expand(1 << 22, 1 << 20, 8, 64)
    with pytest.raises(RuntimeError, match="memory"):
        call_fwd(sides[0], q, q, q)
    assert sides[0].launches() == []


@pytest.mark.parametrize("change, kind", [
    ({"left": "x"}, TypeError), ({"scale": None}, TypeError), ({"out": 1}, RuntimeError),
    ({"slopes": torch.zeros(3)}, RuntimeError), ({"more": 1}, RuntimeError)],
    ids=["integer", "float", "tensor", "shape", "count"])
def test_arguments_of_a_wrong_kind_are_refused(sides, change, kind):
    q = torch.zeros(1, 4, 2, 64).half()
    with pytest.raises(kind):
        call_fwd(sides[0], q, q, q, **change)
    with pytest.raises(RuntimeError, match="q must be a tensor"):
        call_fwd(sides[0], None, q, q)
    assert sides[0].launches() == []
