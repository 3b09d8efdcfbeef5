"""Wrong arguments raise an exception that names the argument; unusual ones work."""

import multiprocessing
import threading

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402

PROVIDERS = (None, "sdpa", "plain")


@pytest.fixture(params=PROVIDERS, ids=str, autouse=True)
def provider(request):
    torch.manual_seed(0)
    before = providers.force(request.param)
    yield request.param
    providers.force(before)


def x(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def integers(*numbers, dtype=torch.int32):
    return torch.tensor(numbers, dtype=dtype)


Q, K = x(2, 5, 4, 32), x(2, 7, 2, 32)
PACKED_Q, PACKED_K = x(10, 4, 32), x(14, 2, 32)
CU_Q, CU_K = integers(0, 5, 10), integers(0, 7, 14)


def dense(q=Q, k=K, v=K, **options):
    return anyflash.flash_attn_func(q, k, v, **options)


def packed(q=PACKED_Q, k=PACKED_K, v=PACKED_K, cu_q=CU_Q, cu_k=CU_K, max_q=5, max_k=7, **more):
    return anyflash.flash_attn_varlen_func(q, k, v, cu_q, cu_k, max_q, max_k, **more)


def cached(q=Q, k_cache=None, v_cache=None, *news, **options):
    k_cache = K.clone() if k_cache is None else k_cache
    v_cache = K.clone() if v_cache is None else v_cache
    return anyflash.flash_attn_with_kvcache(q, k_cache, v_cache, *news, **options)


PAGES = x(4, 8, 2, 32)
WRONG = (
    ("q: must be a torch tensor", TypeError, lambda: dense(q=[1.0])),
    ("k: must be a torch tensor", TypeError, lambda: dense(k=None)),
    ("q: has 3 dimensions", ValueError, lambda: dense(q=Q[0])),
    ("v: has 5 dimensions", ValueError, lambda: dense(v=K[None])),
    ("k: has type torch.float16", TypeError, lambda: dense(k=K.half())),
    ("q: element type torch.int64", TypeError, lambda: dense(q=Q.long())),
    ("k: head size 16", ValueError, lambda: dense(k=K[..., :16], v=K[..., :16])),
    ("k: batch 1", ValueError, lambda: dense(k=K[:1], v=K[:1])),
    ("v: shape", ValueError, lambda: dense(v=K[:, :6])),
    ("k: 3 heads", ValueError, lambda: dense(k=x(2, 7, 3, 32), v=x(2, 7, 3, 32))),
    ("head size is 0", ValueError, lambda: dense(Q[..., :0], K[..., :0], K[..., :0])),
    ("window_size", ValueError, lambda: dense(window_size=3)),
    ("window_size", TypeError, lambda: dense(window_size=(1.5, 0))),
    ("dropout_p", ValueError, lambda: dense(dropout_p=1.0)),
    ("softcap", ValueError, lambda: dense(softcap=-1.0)),
    ("alibi_slopes: shape", ValueError, lambda: dense(alibi_slopes=x(3))),
    ("k: is on meta", ValueError, lambda: dense(k=K.to("meta"))),
    ("cu_seqlens_q: must be int32", TypeError, lambda: packed(cu_q=CU_Q.long())),
    ("cu_seqlens_k: is on meta", ValueError, lambda: packed(cu_k=CU_K.to("meta"))),
    ("cu_seqlens_k: shape", ValueError, lambda: packed(cu_k=CU_K[:2])),
    ("cu_seqlens_q: must be a torch tensor", TypeError, lambda: packed(cu_q=[0, 5, 10])),
    ("cu_seqlens_q", ValueError, lambda: packed(cu_q=integers(0, 5, 11))),
    ("cu_seqlens_q", ValueError, lambda: packed(cu_q=integers(5, 0, 10))),
    ("cu_seqlens_k", ValueError, lambda: packed(cu_k=integers(-1, 7, 14))),
    ("max_seqlen_q", ValueError, lambda: packed(max_q=3)),
    ("max_seqlen_k", ValueError, lambda: packed(max_k=3)),
    ("q: has 4 dimensions", ValueError, lambda: packed(q=Q)),
    ("qkv: shape", ValueError, lambda: anyflash.flash_attn_qkvpacked_func(Q)),
    ("kv: shape", ValueError, lambda: anyflash.flash_attn_kvpacked_func(Q, x(2, 7, 3, 2, 32))),
    ("kv: must be a torch tensor", TypeError, lambda: anyflash.flash_attn_kvpacked_func(Q, 1)),
    ("k_cache: head size", ValueError, lambda: cached(Q, K[..., :8], K[..., :8])),
    ("v_cache: shape", ValueError, lambda: cached(Q, None, K[:, :3])),
    ("k and v", ValueError, lambda: cached(Q, None, None, K[:, :2], cache_seqlens=1)),
    ("cache_seqlens: is required", ValueError, lambda: cached(Q, None, None, K, K)),
    ("cache_seqlens: is 6", ValueError,
     lambda: cached(Q, None, None, K[:, :2], K[:, :2], cache_seqlens=6)),
    ("cache_seqlens: is 9", ValueError, lambda: cached(cache_seqlens=9)),
    ("cache_seqlens: is -1", ValueError, lambda: cached(cache_seqlens=-1)),
    ("cache_seqlens: must be int32", TypeError,
     lambda: cached(cache_seqlens=integers(1, 2, dtype=torch.int64))),
    ("k: shape", ValueError,
     lambda: cached(Q, None, None, K[:1, :2], K[:1, :2], cache_seqlens=1)),
    ("rotary_cos: requires k and v", ValueError,
     lambda: cached(cache_seqlens=1, rotary_cos=x(9, 8), rotary_sin=x(9, 8))),
    ("rotary_cos and rotary_sin", ValueError,
     lambda: cached(Q, None, None, K[:, :2], K[:, :2], x(9, 8), cache_seqlens=1)),
    ("rotary_cos", ValueError,
     lambda: cached(Q, None, None, K[:, :2], K[:, :2], x(2, 8), x(2, 8), cache_seqlens=5)),
    ("cache_batch_idx", ValueError, lambda: cached(cache_batch_idx=integers(0, 2))),
    ("cache_leftpad", ValueError,
     lambda: cached(cache_seqlens=2, cache_leftpad=integers(0, 3))),
    ("block_table", ValueError,
     lambda: cached(Q, PAGES, PAGES, cache_seqlens=9, block_table=integers([0, 1], [2, 9]))),
    ("block_table", ValueError,
     lambda: cached(Q, PAGES, PAGES, cache_seqlens=9, block_table=integers([0, -1], [2, 3]))),
    ("block_table: shape", ValueError,
     lambda: cached(Q, PAGES, PAGES, cache_seqlens=9, block_table=integers([0, 1]))),
    ("block_table: must be int32", TypeError,
     lambda: cached(Q, PAGES, PAGES, cache_seqlens=9,
                    block_table=integers([0, 1], [2, 3], dtype=torch.int64))),
)


@pytest.mark.parametrize("words, error, call", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_a_wrong_argument_is_named(words, error, call):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_a_last_dimension_that_is_not_contiguous_is_taken():
    q, k = x(2, 32, 4, 5).transpose(1, 3), x(2, 32, 2, 7).transpose(1, 3)
    want = formula.dense(q, k, k)[0]
    assert (dense(q, k, k) - want).abs().max() < 1e-5


def test_empty_tensors_have_empty_or_zero_results(provider):
    if provider == "sdpa":
        return
    assert dense(Q[:, :0], K, K).shape == (2, 0, 4, 32)
    assert dense(Q[:0], K[:0], K[:0]).shape == (0, 5, 4, 32)
    out, lse, _ = dense(Q, K[:, :0], K[:, :0], return_attn_probs=True)
    assert not out.any() and torch.isposinf(lse).all()


def test_a_row_that_sees_no_key_is_zero_and_has_no_gradient():
    q = Q.clone().requires_grad_()
    k = K[:, :2].clone().requires_grad_()
    out = dense(q, k, k, causal=True)
    assert not out[:, :3].any()
    out.sum().backward()
    assert not q.grad[:, :3].any() and torch.isfinite(k.grad).all()


def test_there_is_no_gradient_through_a_cache():
    q = Q.clone().requires_grad_()
    out = cached(q, cache_seqlens=5)
    assert not out.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        out.sum().backward()


def test_vmap_and_grad_of_torch_func():
    q, k = x(3, 2, 5, 4, 32), x(3, 2, 7, 2, 32)
    out = torch.func.vmap(lambda q, k: dense(q, k, k, causal=True))(q, k)
    want = torch.stack([dense(a, b, b, causal=True) for a, b in zip(q, k)])
    assert (out - want).abs().max() < 1e-5
    found = torch.func.grad(lambda q: dense(q, K, K).square().sum())(Q)
    leaf = Q.clone().requires_grad_()
    dense(leaf).square().sum().backward()
    assert (found - leaf.grad).abs().max() < 1e-4


def test_a_second_derivative_is_right_or_an_error():
    q = x(1, 3, 1, 8, dtype=torch.float64).requires_grad_()
    k = x(1, 4, 1, 8, dtype=torch.float64)
    (first,) = torch.autograd.grad(dense(q, k, k).square().sum(), q, create_graph=True)
    want = formula.dense(q, k, k)[0].square().sum()
    (want,) = torch.autograd.grad(want, q, create_graph=True)
    try:
        (second,) = torch.autograd.grad(first.square().sum(), q)
    except RuntimeError as error:
        assert "deriv" in str(error) or "differentiate" in str(error)
        return
    (want,) = torch.autograd.grad(want.square().sum(), q)
    assert (second - want).abs().max() < 1e-9


def test_a_second_derivative_of_the_engine_is_an_error(provider):
    if provider is not None:
        return
    q = x(1, 3, 1, 8).requires_grad_()
    (first,) = torch.autograd.grad(dense(q, K[:1, :, :1, :8], K[:1, :, :1, :8]).sum(), q,
                                   create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        torch.autograd.grad(first.sum(), q)


def _in_child(pipe, q, k, threads):
    if threads:
        torch.set_num_threads(threads)
    pipe.send(anyflash.flash_attn_func(q, k, k, causal=True).sum().item())


@pytest.mark.parametrize("method", ("fork", "spawn"))
def test_a_child_process_computes_too(method, provider):
    if provider is not None and method == "spawn":
        return
    want = dense(causal=True).sum().item()
    # The threads of torch's own kernels do not survive a fork, and a child that calls them
    # waits for ever, with or without anyflash. Workers of a DataLoader use one thread, too.
    threads = None if provider is None else 1
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(there, Q, K, threads), daemon=True)
    child.start()
    assert here.poll(120) and here.recv() == pytest.approx(want, abs=1e-3)
    child.join(60)
    assert child.exitcode == 0


def test_threads_compute_at_a_time():
    want, wrong = dense(causal=True), []

    def work():
        for _ in range(20):
            if not torch.equal(dense(causal=True), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
