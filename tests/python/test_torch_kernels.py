"""torch's own CUDA kernels, with their operators replaced on the CPU: they get the arguments
that this torch's schemas require; features that they lack are composed or declined."""

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
from formula import by_formula  # noqa: E402
import standins  # noqa: E402
import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import aten  # noqa: E402

CU_Q = torch.tensor([0, 5, 23], dtype=torch.int32)
CU_K = torch.tensor([0, 9, 31], dtype=torch.int32)


def halves(*shapes, dtype=torch.bfloat16):
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def close_with_gradients(found, wanted, leaves):
    formula.close(found, wanted)
    weight = torch.randn_like(found)
    for have, want in zip(
        torch.autograd.grad(found, leaves, weight),
        torch.autograd.grad(wanted, leaves, weight.double(), retain_graph=True),
    ):
        formula.close(have, want)


@pytest.fixture
def kernels(monkeypatch):
    with standins.torchs_kernels(monkeypatch) as seen:
        yield seen


def version(text):
    return tuple(int(part) for part in text.split(".")[:2])


def test_the_table_of_schemas_is_that_of_this_torch():
    ours = version(torch.__version__)
    rows = [row for row in aten.SCHEMAS if version(row[0]) <= ours <= version(row[1])]
    if not rows:  # a release between two known ones is like one of them
        rows = aten.SCHEMAS
    found = (aten.RANDOM_STATE, aten.TAKES_PAGES, meta_layout())
    assert found in [row[2:] for row in rows]


def meta_layout():
    if not aten.TRACED:
        return "padded"  # torch 2.4
    q = torch.empty(23, 2, 32, dtype=torch.float16, device="meta")
    lse = torch.ops.aten._flash_attention_forward(
        q, q, q, CU_Q.to("meta"), CU_Q.to("meta"), 18, 18, 0.0, False, False
    )[1]
    return "packed" if lse.dim() == 2 else "padded"


OPTIONS = (
    {},
    {"causal": True},
    {"window_size": (6, 2)},
    {"causal": True, "window_size": (4, 9)},
    {"softmax_scale": 0.3},
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "none")
def test_flash_computes_dense_and_packed_attention(kernels, options):
    leaves = halves((2, 11, 4, 60), (2, 17, 2, 60), (2, 17, 2, 60))
    out, lse, _ = anyflash.flash_attn_func(*leaves, return_attn_probs=True, **options)
    want, want_lse = formula.dense(*leaves, **by_formula(options))
    formula.close(lse, want_lse)
    close_with_gradients(out, want, leaves)
    leaves = halves((23, 4, 64), (31, 2, 64), (31, 2, 64))
    out, lse, _ = anyflash.flash_attn_varlen_func(
        *leaves, CU_Q, CU_K, 18, 22, return_attn_probs=True, **options
    )
    want, want_lse = formula.packed(*leaves, CU_Q, CU_K, **by_formula(options))
    formula.close(lse, want_lse)
    close_with_gradients(out, want, leaves)
    assert {name for name, _ in kernels.calls} == {"flash", "flash backward"}


def test_flash_is_given_heads_as_they_are_and_sizes_in_eights(kernels):
    leaves = halves((1, 9, 6, 20), (1, 9, 2, 20), (1, 9, 2, 12))
    out = anyflash.flash_attn_func(*leaves, causal=True)
    close_with_gradients(out, formula.dense(*leaves, causal=True)[0], leaves)
    given = kernels.calls[-1][1]
    assert given["query"].shape == (1, 9, 6, 24) and given["value"].shape == (1, 9, 2, 24)


def test_a_window_without_a_limit_is_not_given(kernels):
    leaves = halves((1, 9, 2, 32), (1, 9, 2, 32), (1, 9, 2, 32))
    anyflash.flash_attn_func(*leaves, causal=True)
    given = kernels.calls[-1][1]
    assert given["is_causal"] and given.get("window_size_left") is None
    assert given["window_size_right"] == 0 and given["scale"] == pytest.approx(32**-0.5)


@pytest.mark.parametrize("shapes", ("dense", "packed"))
def test_sinks_and_their_gradient(kernels, shapes):
    from anyflash.providers.call import LSE, Call

    sinks = torch.randn(4).requires_grad_()
    if shapes == "dense":
        leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64))
    else:
        leaves = halves((23, 4, 64), (31, 2, 64), (31, 2, 64))
    call = Call(*leaves, 0.0, None, True, (5, -1), 0.0, None, False, LSE)
    call.sinks = sinks
    options = {"causal": True, "window": (5, -1), "sinks": sinks}
    if shapes == "dense":
        want, want_lse = formula.dense(*leaves, **options)
    else:
        call.cu_q, call.cu_k, call.max_q, call.max_k = CU_Q, CU_K, 18, 22
        want, want_lse = formula.packed(*leaves, CU_Q, CU_K, **options)
    for provider in ("torch_flash", "plain"):
        providers.force(provider)
        out, lse, _ = providers.attend(call)
        formula.close(lse, want_lse)
        close_with_gradients(out, want, [*leaves, sinks])


def test_alibi_is_computed_forward_and_declined_with_gradients(kernels):
    leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.1])
    with torch.no_grad():
        out = anyflash.flash_attn_func(*leaves, causal=True, alibi_slopes=slopes)
    formula.close(out, formula.dense(*leaves, causal=True, slopes=slopes)[0])
    with pytest.raises(NotImplementedError, match="no gradient with ALiBi"):
        anyflash.flash_attn_func(*leaves, alibi_slopes=slopes)


def test_a_deterministic_gradient_is_asked_for_while_it_is_computed(kernels):
    switches = []
    leaves = halves((1, 9, 2, 32), (1, 9, 2, 32), (1, 9, 2, 32))
    for exact in (False, True):  # also runs the trials of the kernel
        anyflash.flash_attn_func(*leaves, deterministic=exact)
    kernels.watch = lambda: switches.append(torch.are_deterministic_algorithms_enabled())
    anyflash.flash_attn_func(*leaves, deterministic=True).sum().backward()
    anyflash.flash_attn_func(*leaves).sum().backward()
    assert switches == [True, False]
    assert not torch.are_deterministic_algorithms_enabled()


def cache_case(keys=40):
    q, k, v = halves((2, 3, 4, 32), (2, keys, 2, 32), (2, keys, 2, 32))
    news = halves((2, 3, 2, 32), (2, 3, 2, 32))
    lengths = torch.tensor([5, 31], dtype=torch.int32)
    return q.detach(), [k.detach(), v.detach()], [n.detach() for n in news], lengths


@pytest.mark.parametrize("interleaved", (True, False))
def test_a_cache_is_appended_to_before_the_kernel(kernels, interleaved):
    q, caches, news, lengths = cache_case()
    angles = torch.rand(40, 8)
    tables = {"rotary_cos": angles.cos(), "rotary_sin": angles.sin(),
              "rotary_interleaved": interleaved, "causal": True, "cache_seqlens": lengths}
    ours = [cache.clone() for cache in caches]
    found = anyflash.flash_attn_with_kvcache(
        q, *ours, *news, **tables, return_softmax_lse=True
    )
    providers.force("engine")
    want = anyflash.flash_attn_with_kvcache(
        q, *caches, *news, **tables, return_softmax_lse=True
    )
    for have, wanted in zip((*found, *ours), (*want, *caches)):
        formula.close(have, wanted)
    assert torch.equal(ours[1], caches[1])
    given = [x for name, x in kernels.calls if name == "flash"][-1]
    assert given["seqused_k"].tolist() == [8, 34] and given["seqused_k"].dtype == torch.int32


def test_a_cache_by_batch_index_with_left_padding(kernels):
    q, caches, _, lengths = cache_case()
    options = {
        "cache_seqlens": lengths,
        "cache_batch_idx": torch.tensor([1, 0], dtype=torch.int32),
        "cache_leftpad": torch.tensor([2, 7], dtype=torch.int32),
        "causal": True,
    }
    found = anyflash.flash_attn_with_kvcache(q, *caches, **options)
    providers.force("engine")
    formula.close(found, anyflash.flash_attn_with_kvcache(q, *caches, **options))


@pytest.mark.parametrize("size", (16, 256))
def test_pages_are_given_to_the_kernel_or_gathered(kernels, size):
    q, _, news, lengths = cache_case()
    pages = [x.detach() for x in halves((7, size, 2, 32), (7, size, 2, 32))]
    table = torch.tensor([[3, 0, 1], [6, 2, 5]], dtype=torch.int32)
    options = {"cache_seqlens": lengths, "block_table": table, "causal": True}
    ours = [page.clone() for page in pages]
    found = anyflash.flash_attn_with_kvcache(q, *ours, *news, **options)
    given = kernels.calls[-1][1]
    assert (given.get("block_table") is not None) == (aten.TAKES_PAGES and size == 256)
    providers.force("engine")
    formula.close(found, anyflash.flash_attn_with_kvcache(q, *pages, *news, **options))
    assert torch.equal(ours[0], pages[0]) and torch.equal(ours[1], pages[1])


def test_packed_queries_over_pages(kernels):
    (q,) = halves((23, 4, 32))
    q, pages = q.detach(), [x.detach() for x in halves((7, 16, 2, 32), (7, 16, 2, 32))]
    table = torch.tensor([[3, 0], [6, 2]], dtype=torch.int32)
    given = (q, *pages, CU_Q, CU_K, 18, 22)
    options = {"block_table": table, "causal": True, "return_attn_probs": True}
    found = anyflash.flash_attn_varlen_func(*given, **options)
    providers.force("engine")
    want = anyflash.flash_attn_varlen_func(*given, **options)
    formula.close(found[0], want[0])
    formula.close(found[1], want[1])


@pytest.mark.parametrize("kind", ("dense", "packed"))
def test_flash_compiles_into_one_graph(kernels, kind):
    if not aten.TRACED:
        return
    torch._dynamo.reset()
    if kind == "dense":
        leaves = halves((2, 11, 4, 64), (2, 17, 2, 64), (2, 17, 2, 64))
        more = ()
        function = anyflash.flash_attn_func
    else:
        leaves, more = halves((23, 4, 64), (31, 2, 64), (31, 2, 64)), (CU_Q, CU_K, 18, 22)
        function = anyflash.flash_attn_varlen_func
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    out, want = compiled(*leaves, *more, causal=True), function(*leaves, *more, causal=True)
    weight = torch.randn_like(out)
    assert torch.equal(out, want)
    for have, wanted in zip(
        torch.autograd.grad(out, leaves, weight), torch.autograd.grad(want, leaves, weight)
    ):
        assert torch.equal(have, wanted)


def test_what_flash_lacks_is_declined_with_the_reason(kernels):
    (q,) = halves((1, 9, 2, 32))
    wide = q.new_zeros(1, 9, 2, 264)
    for words, options, tensor in (
        ("has no softcap", {"softcap": 2.0}, q),
        ("takes head sizes up to 256, but this is 264", {"causal": True}, wide),
        ("takes float16 and bfloat16, but q is float32", {}, q.float()),
        ("has no probabilities", {"dropout_p": 0.1, "return_attn_probs": True}, q),
        ("does not take empty tensors", {}, q[:, :0]),
    ):
        with pytest.raises(NotImplementedError, match=words):
            anyflash.flash_attn_func(tensor, tensor, tensor, **options)


def test_a_trial_leaves_the_random_state_alone(kernels):
    (q,) = halves((1, 9, 2, 32))
    torch.manual_seed(3)
    state = torch.get_rng_state()
    anyflash.flash_attn_func(q, q, q)
    assert torch.equal(torch.get_rng_state(), state)
