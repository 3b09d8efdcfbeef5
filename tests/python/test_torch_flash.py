"""Torch's FlashAttention operators on the CPU with enable(): packed, paged, windowed."""

import itertools
import math
import threading

import pytest

torch = pytest.importorskip("torch")
import anyflash.torch  # noqa: E402
from torch_support import DTYPES, TORCH, check  # noqa: E402

forward = torch.ops.aten._flash_attention_forward
backward = torch.ops.aten._flash_attention_backward
LENGTHS = (((5, 5), (1, 1), (40, 40)), ((3, 70), (0, 4), (33, 33)), ((9, 4), (64, 65), (2, 0)))
WINDOWS = ((-1, -1), (-1, 0), (7, 0), (3, 5))


pytestmark = pytest.mark.usefixtures("enabled")


def one_sequence(q, k, v, window=(-1, -1), slopes=None, scale=None):
    """Attention of [S, H, D] in float64, aligned bottom-right; also the logsumexp [H, S]."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * (scale or 1 / math.sqrt(q.shape[-1]))
    at = torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
    key = torch.arange(k.shape[0])[None]
    if slopes is not None:
        scores = scores - slopes[:, None, None].double() * (at - key).abs()
    seen = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool)
    if window[0] >= 0:
        seen &= key >= at - window[0]
    if window[1] >= 0:
        seen &= key <= at + window[1]
    scores = scores.masked_fill(~seen, -torch.inf)
    blind = ~seen.any(-1)
    weights = scores.masked_fill(blind[None, :, None], 0.0).softmax(-1)
    weights = weights * ~blind[None, :, None]
    lse = scores.logsumexp(-1).masked_fill(blind[None], torch.inf)
    return torch.einsum("hqk,khd->qhd", weights, v), lse


def packed_reference(q, k, v, lengths, **options):
    """For packed tensors: output, logsumexp, and a function that computes the gradients."""
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    parts = [
        one_sequence(a, b, c, **options)
        for a, b, c in zip(
            wide[0].split([n for n, _ in lengths]),
            wide[1].split([n for _, n in lengths]),
            wide[2].split([n for _, n in lengths]),
        )
    ]
    out, lse = torch.cat([o for o, _ in parts]), torch.cat([x for _, x in parts], 1)
    return out, lse, lambda dout: torch.autograd.grad(out, wide, dout.double())


def cumulative(counts):
    return torch.tensor([0, *itertools.accumulate(counts)], dtype=torch.int32)


def packed_problem(lengths, dtype, heads=4, groups=2, dim=64):
    queries, keys = [n for n, _ in lengths], [n for _, n in lengths]
    q = torch.randn(sum(queries), heads, dim).to(dtype).requires_grad_()
    k, v = (torch.randn(sum(keys), groups, dim).to(dtype).requires_grad_() for _ in range(2))
    return q, k, v, cumulative(queries), cumulative(keys), max(queries), max(keys)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_packed_sequences_and_their_gradients(dtype, window):
    torch.manual_seed(0)
    for lengths, groups in itertools.product(LENGTHS, (1, 2, 4)):
        q, k, v, *bounds = packed_problem(lengths, dtype, groups=groups)
        out, lse, *_ = forward(
            q, k, v, *bounds, 0.0, window == (-1, 0), False,
            window_size_left=window[0], window_size_right=window[1],
        )  # fmt: skip
        want, want_lse, gradients_of = packed_reference(q, k, v, lengths, window=window)
        check(out, want, dtype, lengths)
        assert torch.allclose(lse.double(), want_lse, atol=1e-4)
        dout = torch.randn(out.shape).to(dtype)
        gradients = torch.autograd.grad(out, (q, k, v), dout)
        for name, have, wanted in zip("qkv", gradients, gradients_of(dout)):
            check(have, wanted, dtype, f"d{name}", lengths, groups)


@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_tensors_in_either_order_of_memory(dtype, causal):
    torch.manual_seed(1)
    for (q_len, k_len), heads_first in itertools.product(((7, 7), (33, 70), (9, 4)), (0, 1)):
        shapes = ((2, q_len, 4, 64), (2, k_len, 2, 64), (2, k_len, 2, 64))
        q, k, v = (torch.randn(shape).to(dtype) for shape in shapes)
        if heads_first:
            q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
        for x in (q, k, v):
            x.requires_grad_()
        out, lse, *_ = forward(
            q, k, v, None, None, q_len, k_len, 0.0, causal, False, scale=0.2
        )
        window = (-1, 0) if causal else (-1, -1)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        parts = [one_sequence(*one, window=window, scale=0.2) for one in zip(*wide)]
        want = torch.stack([o for o, _ in parts])
        check(out, want, dtype)
        assert torch.allclose(lse.double(), torch.stack([x for _, x in parts]), atol=1e-4)
        assert out.stride() == torch.empty_like(q).stride()
        dout = torch.randn(out.shape).to(dtype)
        for x, have, wanted in zip(
            (q, k, v),
            torch.autograd.grad(out, (q, k, v), dout),
            torch.autograd.grad(want, wide, dout.double()),
        ):
            check(have, wanted, dtype)
            assert have.stride() == torch.empty_like(x).stride()


def test_alibi():
    torch.manual_seed(2)
    q, k, v, *bounds = packed_problem(LENGTHS[1], torch.float32)
    slopes = torch.rand(4)
    out = forward(q, k, v, *bounds, 0.0, False, False, alibi_slopes=slopes)[0]
    want, _, _ = packed_reference(q, k, v, LENGTHS[1], slopes=slopes)
    check(out, want, torch.float32)


def test_used_keys():
    torch.manual_seed(3)
    q, k = torch.randn(2, 3, 4, 64), torch.randn(2, 20, 2, 64)
    used = torch.tensor([20, 7], dtype=torch.int32)
    out = forward(q, k, k, None, None, 3, 20, 0.0, True, False, seqused_k=used)[0]
    for b in range(2):
        keys = k[b, : used[b]].double()
        check(out[b], one_sequence(q[b].double(), keys, keys, (-1, 0))[0], torch.float32)


def test_dropout_follows_torchs_seed_and_its_gradient_the_same_mask():
    q, k, v, *bounds = packed_problem(LENGTHS[0], torch.float32)
    outs = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        outs.append(forward(q, k, v, *bounds, 0.4, False, False)[0])
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])
    dout = torch.randn(outs[0].shape)
    (dv,) = torch.autograd.grad(outs[0], v, dout)
    # The output is linear in v.
    assert torch.allclose((dout * outs[0]).sum(), (dv * v).sum(), rtol=1e-4)


def test_results_that_nobody_uses_have_the_meta_kernels_types():
    if not torch._C._dispatch_has_kernel_for_dispatch_key(
        "aten::_flash_attention_forward", "Meta"
    ):
        pytest.skip(f"torch {torch.__version__} has no Meta kernel for it")
    q = torch.randn(1, 5, 2, 16)
    ours = forward(q, q, q, None, None, 5, 5, 0.0, False, False)
    meta = forward(*[q.to("meta")] * 3, None, None, 5, 5, 0.0, False, False)
    for have, want in zip(ours, meta):
        assert (have.shape, have.dtype) == (want.shape, want.dtype)


def test_nothing_to_do():
    q, k = torch.randn(0, 2, 16), torch.randn(3, 2, 16)
    none, some = cumulative([0]), cumulative([3])
    assert forward(q, k, k, none, some, 0, 3, 0.0, False, False)[0].shape == (0, 2, 16)
    out, lse, *_ = forward(k, q, q, some, none, 3, 0, 0.0, False, False)
    assert not out.any() and torch.isposinf(lse).all()


def wrong(match, **changes):
    q = torch.randn(6, 4, 16)
    cu = cumulative([2, 4])
    arguments = {
        "query": q, "key": q, "value": q, "cum_seq_q": cu, "cum_seq_k": cu, "max_q": 4,
        "max_k": 4, "dropout_p": 0.0, "is_causal": False, "return_debug_mask": False,
    }  # fmt: skip
    arguments.update(changes)
    with pytest.raises((RuntimeError, ValueError, TypeError), match=match):
        forward(**arguments)


def test_wrong_arguments_are_exceptions_that_name_them():
    q, cu = torch.randn(6, 4, 16), cumulative([2, 4])
    wrong("q", query=q[0])
    wrong("k", key=torch.randn(6, 3, 16), value=torch.randn(6, 3, 16))
    wrong("type", key=q.half())
    wrong("query|q:|dtype|type", query=q.double(), key=q.double(), value=q.double())
    wrong("contiguous|strid", value=torch.randn(6, 16, 4).mT)
    wrong("int32|cu", cum_seq_q=cu.long())
    wrong("cu", cum_seq_q=cu[:2], cum_seq_k=cu)
    wrong("cu", cum_seq_q=torch.tensor([0, 9, 6], dtype=torch.int32))
    wrong("total|cu", cum_seq_k=torch.tensor([0, 2, 60], dtype=torch.int32), max_k=99)
    wrong("max|len", max_q=1)
    wrong("dropout", dropout_p=1.5)
    wrong("debug", return_debug_mask=True)
    wrong("alibi", alibi_slopes=torch.ones(3))
    wrong("seqused_k", seqused_k=torch.tensor([1, 99], dtype=torch.int32))


def test_without_the_engine_the_cpu_has_none_of_it(monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # compiling leaves threads behind
    q = torch.randn(1, 5, 2, 16)
    for _ in range(2):
        anyflash.torch.disable()
        with pytest.raises(NotImplementedError, match="CPU"):  # torch's own message
            forward(q, q, q, None, None, 5, 5, 0.0, False, False)
        anyflash.torch.enable()
        assert forward(q, q, q, None, None, 5, 5, 0.0, False, False)[0].shape == q.shape


def test_beside_other_threads_the_kernels_stay_and_say_that_they_are_disabled():
    q, done = torch.randn(1, 5, 2, 16), threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    anyflash.torch.disable()
    with pytest.raises(RuntimeError, match="disabled"):
        forward(q, q, q, None, None, 5, 5, 0.0, False, False)
    done.set()
    other.join()


# torch.nn.attention.varlen, from torch 2.10 on

varlen = pytest.importorskip("torch.nn.attention.varlen") if TORCH >= (2, 10) else None
needs_varlen = pytest.mark.skipif(varlen is None, reason="needs torch 2.10")
needs_pages = pytest.mark.skipif(
    not hasattr(varlen, "varlen_attn_out"), reason="needs varlen_attn_out: torch 2.15 has it"
)


@needs_varlen
@pytest.mark.parametrize("compiled", (False, True))
def test_varlen_attn(compiled):
    torch.manual_seed(4)
    run = torch.compile(varlen.varlen_attn, fullgraph=True) if compiled else varlen.varlen_attn
    lengths = LENGTHS[0]
    for dtype in (torch.float32, torch.bfloat16)[: 1 if compiled else 2]:
        q, k, v, *bounds = packed_problem(lengths, dtype, groups=4)
        aux = varlen.AuxRequest(lse=True)
        out, lse = run(q, k, v, *bounds, window_size=(-1, 0), return_aux=aux)
        want, want_lse, gradients_of = packed_reference(q, k, v, lengths, window=(-1, 0))
        check(out, want, dtype)
        assert torch.allclose(lse.double(), want_lse, atol=1e-4)
        dout = torch.randn(out.shape).to(dtype)
        for have, wanted in zip(torch.autograd.grad(out, (q, k, v), dout), gradients_of(dout)):
            check(have, wanted, dtype)


def paged(k, lengths, size=8):
    """Packed keys as pages in a random order, and their block table."""
    counts = [-(-n // size) for n in lengths]
    order = torch.randperm(sum(counts) + 2)
    pages = torch.full((len(order), size, *k.shape[1:]), torch.nan, dtype=k.dtype)
    table = torch.zeros(len(lengths), max(counts) + 1, dtype=torch.int32)
    at = 0
    for b, (rows, count) in enumerate(zip(k.split(lengths), counts)):
        for t in range(count):
            page = order[at]
            piece = rows[t * size : (t + 1) * size]
            pages[page, : len(piece)], table[b, t], at = piece, page, at + 1
    return pages, table


@needs_pages
@pytest.mark.parametrize("compiled", (False, True))
def test_varlen_attn_over_pages(compiled):
    torch.manual_seed(5)
    lengths = ((1, 30), (5, 5), (3, 17))
    q, k, v, cu_q, _, max_q, max_k = packed_problem(lengths, torch.float32)
    keys = [n for _, n in lengths]
    with torch.no_grad():
        state = torch.get_rng_state()
        pages, table = paged(k, keys)
        torch.set_rng_state(state)
        values, _ = paged(v, keys)
        run = varlen.varlen_attn
        run = torch.compile(run, fullgraph=True) if compiled else run
        options = {
            "window_size": (-1, 0),
            "enable_gqa": True,
            "seqused_k": torch.tensor(keys, dtype=torch.int32),
            "block_table": table,
        }
        out = run(q, pages, values, cu_q, None, max_q, max_k, **options)
        want, _, _ = packed_reference(q, k, v, lengths, window=(-1, 0))
        check(out, want, torch.float32)
        if not compiled:
            given = torch.empty_like(q)
            varlen.varlen_attn_out(
                given, q, pages, values, cu_q, None, max_q, max_k, **options
            )
            assert torch.equal(given, out)
        options["block_table"] = table + 1000
        with pytest.raises(RuntimeError, match="block_table"):
            run(q, pages, values, cu_q, None, max_q, max_k, **options)


# torch's registry, from torch 2.11 on


@pytest.mark.skipif(TORCH < (2, 11), reason="needs torch 2.11")
def test_the_registry_and_enable_do_not_take_from_each_other():
    from torch.nn.attention import (
        activate_flash_attention_impl,
        list_flash_attention_impls,
        restore_flash_attention_impl,
    )

    assert "ANYFLASH" in list_flash_attention_impls()
    x = torch.randn(1, 2, 8, 64)

    def is_asked():
        before = anyflash.torch.counts()[0]
        torch.nn.functional.scaled_dot_product_attention(x, x, x)
        assert (anyflash.torch.counts()[0] > before) == anyflash.torch.is_enabled()
        return anyflash.torch.is_enabled()

    anyflash.torch.disable()
    assert not is_asked()
    activate_flash_attention_impl("ANYFLASH")
    assert is_asked()
    anyflash.torch.enable()
    restore_flash_attention_impl()
    assert is_asked()
    activate_flash_attention_impl("ANYFLASH")
    anyflash.torch.disable()
    assert is_asked()
    activate_flash_attention_impl("ANYFLASH")
    restore_flash_attention_impl()
    assert not is_asked()
