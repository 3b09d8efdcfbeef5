"""The seven functions of flash_attn: signatures, results, gradients, compiled graphs."""

import copy
import functools
import inspect
import json
import pathlib
import pickle

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
from formula import by_formula  # noqa: E402
import anyflash  # noqa: E402
from anyflash import _masked  # noqa: E402
from anyflash import providers  # noqa: E402

SIGNATURES = json.loads(
    pathlib.Path(__file__).with_name("flash_attn_signatures.json").read_text()
)
CU_Q = torch.tensor([0, 5, 5, 23], dtype=torch.int32)
CU_K = torch.tensor([0, 9, 12, 31], dtype=torch.int32)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def forced(name, function, *arguments, **options):
    before = providers.force(name)
    try:
        return function(*arguments, **options)
    finally:
        providers.force(before)


close = functools.partial(formula.close, bound=2e-5)


def tensors(*shapes, dtype=torch.float32):
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_signatures_are_those_of_flash_attn_2_8_3(name):
    ours = inspect.signature(getattr(anyflash, name)).parameters.values()
    found = [[p.name] if p.default is p.empty else [p.name, p.default] for p in ours]
    recorded = [[x if not isinstance(x, list) else tuple(x) for x in p]
                for p in SIGNATURES[name]]
    assert found == recorded
    assert {p.kind for p in ours} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


OPTIONS = (
    {},
    {"causal": True},
    {"window_size": (6, 2)},
    {"causal": True, "window_size": (4, -1)},
    {"softcap": 3.0, "causal": True},
    {"alibi_slopes": torch.tensor([0.1, 0.2, 0.3, 0.4])},
    {"alibi_slopes": torch.rand(3, 4), "causal": True},
    {"softmax_scale": 0.3},
    {"softmax_scale": 0.0, "causal": True},
)


def declined(provider, options):
    return provider == "sdpa" and ("softcap" in options)


@pytest.mark.parametrize("provider", ("engine", "sdpa", "plain"))
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "none")
def test_dense_attention_and_its_gradients(provider, options):
    if declined(provider, options):
        return
    for rows, keys in ((11, 17), (7, 3)):
        q, k, v = tensors((3, rows, 4, 24), (3, keys, 2, 24), (3, keys, 2, 24))
        out = forced(provider, anyflash.flash_attn_func, q, k, v, **options)
        want, want_lse = formula.dense(q, k, v, **by_formula(options))
        close(out, want)
        weight = torch.randn_like(out)
        gradients = torch.autograd.grad(out, (q, k, v), weight)
        for have, wanted in zip(
            gradients, torch.autograd.grad(want, (q, k, v), weight.double())
        ):
            close(have, wanted, bound=1e-4)
        if provider != "sdpa":
            found = forced(
                provider, anyflash.flash_attn_func, q, k, v, return_attn_probs=True, **options
            )
            close(found[1], want_lse)
            assert found[1].dtype == torch.float32 and not found[1].requires_grad


@pytest.mark.parametrize("provider", ("engine", "sdpa", "plain"))
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "none")
def test_packed_attention_and_its_gradients(provider, options):
    if declined(provider, options):
        return
    q, k, v = tensors((23, 4, 24), (31, 2, 24), (31, 2, 24))
    lengths = (CU_Q, CU_K, 18, 19)
    out = forced(provider, anyflash.flash_attn_varlen_func, q, k, v, *lengths, **options)
    want, want_lse = formula.packed(q, k, v, CU_Q, CU_K, **by_formula(options))
    close(out, want)
    weight = torch.randn_like(out)
    for have, wanted in zip(
        torch.autograd.grad(out, (q, k, v), weight),
        torch.autograd.grad(want, (q, k, v), weight.double()),
    ):
        close(have, wanted, bound=1e-4)
    if provider != "sdpa":
        options = {**options, "return_attn_probs": True}
        found = forced(provider, anyflash.flash_attn_varlen_func, q, k, v, *lengths, **options)
        close(found[1], want_lse)


def test_packed_forms_are_views_of_the_others():
    qkv, kv = torch.randn(2, 9, 3, 4, 32), torch.randn(2, 9, 2, 4, 32)
    q = qkv[:, :, 0]
    same = anyflash.flash_attn_func(*qkv.unbind(2), causal=True)
    assert torch.equal(anyflash.flash_attn_qkvpacked_func(qkv, causal=True), same)
    same = anyflash.flash_attn_func(q, *kv.unbind(2))
    assert torch.equal(anyflash.flash_attn_kvpacked_func(q, kv), same)
    cu = torch.tensor([0, 4, 18], dtype=torch.int32)
    qkv, kv = qkv.flatten(0, 1), kv.flatten(0, 1)
    same = anyflash.flash_attn_varlen_func(*qkv.unbind(1), cu, cu, 14, 14)
    assert torch.equal(anyflash.flash_attn_varlen_qkvpacked_func(qkv, cu, 14), same)
    same = anyflash.flash_attn_varlen_func(qkv[:, 0], *kv.unbind(1), cu, cu, 14, 14)
    found = anyflash.flash_attn_varlen_kvpacked_func(qkv[:, 0], kv, cu, cu, 14, 14)
    assert torch.equal(found, same)


def cache_case(batch=3, rows=2, new=3, keys=40, heads=(4, 2), size=32):
    q = torch.randn(batch, rows, heads[0], size)
    caches = [torch.randn(batch, keys, heads[1], size) for _ in range(2)]
    news = [torch.randn(batch, new, heads[1], size) for _ in range(2)]
    return q, caches, news, torch.tensor([5, 0, 31], dtype=torch.int32)


def cache_by_formula(q, caches, news, lengths, cos, sin, options, rotary):
    outs = []
    for b in range(q.shape[0]):
        length = int(lengths[b])
        at = range(length, length + news[0].shape[1])
        keys = [caches[0][b, :length].double(), caches[1][b, :length].double()]
        query = q[b].double()
        new = news[0][b].double()
        if rotary is not None:
            turned = [[formula.rotate(new[i, g], p, cos, sin, rotary) for g in range(2)]
                      for i, p in enumerate(at)]
            new = torch.stack([torch.stack(x) for x in turned])
            local = options.get("causal") or options.get("window_size", (-1, -1)) != (-1, -1)
            turned = [[formula.rotate(query[i, h], length + i * bool(local), cos, sin, rotary)
                       for h in range(4)] for i in range(q.shape[1])]
            query = torch.stack([torch.stack(x) for x in turned])
        keys = [torch.cat((keys[0], new)), torch.cat((keys[1], news[1][b].double()))]
        outs.append(formula.attend(query, *keys, **by_formula(options))[0])
    return torch.stack(outs)


@pytest.mark.parametrize("provider", ("engine", "sdpa", "plain"))
@pytest.mark.parametrize("rotary", (None, True, False))
@pytest.mark.parametrize("options", ({}, {"causal": True}, {"window_size": (7, 3)}))
def test_a_cache_is_appended_to_with_rotary_embedding(provider, rotary, options):
    q, caches, news, lengths = cache_case()
    angles = torch.rand(40, 8)
    cos, sin = angles.cos(), angles.sin()
    want = cache_by_formula(q, caches, news, lengths, cos, sin, options, rotary)
    tables = {} if rotary is None else {
        "rotary_cos": cos, "rotary_sin": sin, "rotary_interleaved": rotary
    }
    before = [cache.clone() for cache in caches]
    out = forced(
        provider, anyflash.flash_attn_with_kvcache, q, *caches, *news,
        cache_seqlens=lengths, **tables, **options,
    )
    close(out, want)
    for b, length in enumerate(lengths.tolist()):
        assert torch.equal(caches[1][b, length : length + 3], news[1][b])
        for cache, old in zip(caches, before):
            assert torch.equal(cache[b, :length], old[b, :length])
            assert torch.equal(cache[b, length + 3 :], old[b, length + 3 :])


@pytest.mark.parametrize("provider", ("engine", "sdpa", "plain"))
def test_a_cache_by_batch_index_and_with_left_padding(provider):
    q, caches, _, lengths = cache_case()
    index = torch.tensor([2, 0, 1], dtype=torch.int32)
    pad = torch.tensor([2, 0, 11], dtype=torch.int32)
    out = forced(
        provider, anyflash.flash_attn_with_kvcache, q, *caches,
        cache_seqlens=lengths + 3, cache_batch_idx=index, cache_leftpad=pad, causal=True,
    )
    for b in range(3):
        keys = [c[index[b], int(pad[b]) : int(lengths[b]) + 3] for c in caches]
        close(out[b], formula.attend(q[b], *keys, causal=True)[0])


@pytest.mark.parametrize("provider", ("engine", "sdpa", "plain"))
@pytest.mark.parametrize("size", (16, 20))
def test_a_cache_in_pages_is_read_and_appended_to(provider, size):
    q, (keys, values), news, lengths = cache_case()
    table = torch.randperm(9)[: 3 * -(-40 // size)].view(3, -1).to(torch.int32)
    pages = [torch.randn(9, size, 2, 32) for _ in range(2)]
    for b in range(3):
        for row in range(int(lengths[b])):
            for page, cache in zip(pages, (keys, values)):
                page[table[b, row // size], row % size] = cache[b, row]
    # Entries after a sequence's last page may have any value.
    table[1, 1:] = 1 << 20
    out = forced(
        provider, anyflash.flash_attn_with_kvcache, q, *pages, *news,
        cache_seqlens=lengths, block_table=table, causal=True,
    )
    caches, options = (keys, values), {"causal": True}
    want = cache_by_formula(q, caches, news, lengths, None, None, options, None)
    close(out, want)
    row = int(lengths[0])
    assert torch.equal(pages[0][table[0, row // size], row % size], news[0][0, 0])


@pytest.mark.parametrize("provider", ("engine", "sdpa", "plain"))
def test_packed_queries_over_pages(provider):
    q = torch.randn(23, 4, 32)
    pages = [torch.randn(7, 8, 2, 32) for _ in range(2)]
    table = torch.tensor([[3, 1, 0], [5, 5, 5], [6, 2, 4]], dtype=torch.int32)
    out = forced(
        provider, anyflash.flash_attn_varlen_func, q, *pages, CU_Q, CU_K, 18, 19,
        causal=True, block_table=table,
    )
    flat = [torch.cat([page[table[b]].flatten(0, 1)[: CU_K[b + 1] - CU_K[b]] for b in range(3)])
            for page in pages]
    close(out, formula.packed(q, *flat, CU_Q, CU_K, causal=True)[0])


@pytest.mark.parametrize("provider", ("engine", "plain"))
def test_dropout_drops_what_the_probabilities_say(provider):
    q, k, v = torch.randn(2, 12, 4, 32), torch.randn(2, 20, 2, 32), torch.randn(2, 20, 2, 32)
    options = {"dropout_p": 0.4, "causal": True, "return_attn_probs": True}
    torch.manual_seed(5)
    out, lse, signed = forced(provider, anyflash.flash_attn_func, q, k, v, **options)
    other = forced(provider, anyflash.flash_attn_func, q, k, v, **options)
    torch.manual_seed(5)
    again = forced(provider, anyflash.flash_attn_func, q, k, v, **options)
    assert torch.equal(out, again[0]) and not torch.equal(out, other[0])
    assert signed.shape == (2, 4, 12, 20)
    weights = signed.double().abs()
    weights = weights / weights.sum(-1, keepdim=True) * (signed > 0) / 0.6
    wide = v.double().repeat_interleave(2, 2).transpose(1, 2)
    close(out, (weights @ wide).transpose(1, 2), bound=1e-4)
    dropped = (signed < 0).sum() / (signed != 0).sum()
    assert 0.3 < dropped < 0.5
    assert torch.equal(lse, forced(provider, anyflash.flash_attn_func, q, k, v, causal=True,
                                   return_attn_probs=True)[1])


def test_without_dropout_the_probabilities_are_empty():
    q = torch.randn(1, 4, 2, 32)
    assert anyflash.flash_attn_func(q, q, q, return_attn_probs=True)[2].numel() == 0


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float64))
def test_other_types_keep_their_type(dtype):
    q, k, v = tensors(*[(2, 9, 2, 32)] * 3, dtype=dtype)
    out = anyflash.flash_attn_func(q, k, v, causal=True)
    assert out.dtype == dtype
    close(out, formula.dense(q, k, v, causal=True)[0], bound=0.02)
    out.sum().backward()
    assert q.grad.dtype == dtype


def test_autocast_changes_nothing():
    q = torch.randn(2, 9, 2, 32)
    for provider in ("engine", "sdpa", "plain"):
        plain = forced(provider, anyflash.flash_attn_func, q, q, q)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = forced(provider, anyflash.flash_attn_func, q, q, q)
        assert found.dtype == torch.float32 and torch.equal(found, plain)


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_every_function_compiles_into_one_graph(name):
    torch._dynamo.reset()
    lengths = (CU_Q, CU_Q, 18, 18)
    x = torch.randn(23, 3, 2, 32)
    arguments = {
        "flash_attn_func": [x[None, :, i] for i in range(3)],
        "flash_attn_kvpacked_func": [x[None, :, 0], x[None, :, 1:]],
        "flash_attn_qkvpacked_func": [x[None]],
        "flash_attn_varlen_func": [*x.unbind(1), *lengths],
        "flash_attn_varlen_kvpacked_func": [x[:, 0], x[:, 1:], *lengths],
        "flash_attn_varlen_qkvpacked_func": [x, CU_Q, 18],
        "flash_attn_with_kvcache": [x[None, :4, i] for i in range(3)],
    }[name]
    function = getattr(anyflash, name)
    differentiable = name != "flash_attn_with_kvcache"

    def run(call):
        given = [
            a.clone().requires_grad_(differentiable)
            if torch.is_tensor(a) and a.is_floating_point()
            else a
            for a in arguments
        ]
        out = call(*given, causal=True)
        if not differentiable:
            return [out]
        leaves = [a for a in given if torch.is_tensor(a) and a.requires_grad]
        return [out, *torch.autograd.grad(out.square().sum(), leaves)]

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for have, want in zip(run(compiled), run(function)):
        assert torch.allclose(have, want, atol=1e-6)


def test_a_cache_that_is_only_read_is_the_same_by_every_way():
    q, cache = torch.randn(2, 1, 4, 32), torch.randn(2, 24, 2, 32)
    keys, values = cache, cache + 1
    lengths = torch.tensor([5, 9], dtype=torch.int32)
    rows = [(q[i], keys[i, :n], values[i, :n]) for i, n in enumerate((5, 9))]
    want = torch.cat([anyflash.flash_attn_func(*(x[None] for x in row)) for row in rows])
    with_cache = anyflash.flash_attn_with_kvcache
    for causal, softcap in ((False, 0.0), (True, 0.0), (True, 1e4)):
        options = {"cache_seqlens": lengths, "causal": causal, "softcap": softcap}
        out, lse = with_cache(q, keys, values, return_softmax_lse=True, **options)
        assert torch.allclose(out, want, atol=1e-5) and lse.shape == (2, 4, 1)
    alike = with_cache(q, keys, values, cache_seqlens=5)
    assert torch.allclose(alike[0], want[0], atol=1e-5)
    pages = [x.reshape(6, 8, 2, 32) for x in (keys, values)]
    table = torch.tensor([[0, 1, 2], [3, 4, 5]], dtype=torch.int32)
    whole = with_cache(q, *pages, block_table=table)
    assert torch.allclose(whole, with_cache(q, keys, values), atol=1e-5)
    with pytest.raises(ValueError, match="cache_seqlens"):
        with_cache(q, keys, values, cache_seqlens=25)
    with pytest.raises(TypeError, match="k_cache"):
        with_cache(q, keys.half(), values.half(), cache_seqlens=lengths)


def test_a_compiled_append_changes_the_cache():
    torch._dynamo.reset()
    q, caches, news, lengths = cache_case()
    mine = [cache.clone() for cache in caches]
    compiled = torch.compile(
        anyflash.flash_attn_with_kvcache, fullgraph=True, backend="aot_eager"
    )
    out = compiled(q, *mine, *news, cache_seqlens=lengths, causal=True)
    want = anyflash.flash_attn_with_kvcache(
        q, *caches, *news, cache_seqlens=lengths, causal=True
    )
    assert torch.allclose(out, want) and torch.equal(mine[0], caches[0])


@pytest.mark.parametrize("packed", (False, True))
def test_compiled_dropout_is_the_engine_s_and_follows_the_seed(packed):
    def attend(q, k, v):
        if not packed:
            return anyflash.flash_attn_func(q, k, v, dropout_p=0.3, causal=True)
        rows = [x.flatten(0, 1) for x in (q, k, v)]
        starts = torch.tensor([0, 9, 18], dtype=torch.int32)
        return anyflash.flash_attn_varlen_func(*rows, starts, starts, 9, 9, dropout_p=0.3)

    def results(function):
        torch.manual_seed(3)
        out = function(*inputs)
        return out, *torch.autograd.grad(out, inputs, torch.ones_like(out).cos())

    torch._dynamo.reset()
    inputs = [torch.randn(2, 9, 2, 16, requires_grad=True) for _ in range(3)]
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    for have, want in zip(results(compiled), results(attend)):
        assert torch.equal(have, want)


def test_meta_tensors_have_the_result_s_shape():
    q = torch.randn(2, 9, 4, 32, device="meta")
    out, lse, _ = anyflash.flash_attn_func(q, q, q, causal=True, return_attn_probs=True)
    assert out.is_meta and out.shape == q.shape and lse.shape == (2, 4, 9)


class Layer(torch.nn.Module):
    """A module that stores the function as a member, as models do."""

    def __init__(self):
        super().__init__()
        self.attend = anyflash.flash_attn_func
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.attend(x * self.weight, x, x)


def test_a_module_that_holds_a_function_is_copied_and_pickled():
    layer, x = Layer(), torch.randn(1, 5, 2, 32)
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(copied(x), layer(x))


def of_the_operator(q, k, v):
    return _masked.attend_masked(
        *(x.transpose(1, 2) for x in (q, k, v)),
        _masked.Keys(torch.ones(2, 24, dtype=torch.bool)),
        *(None, 0.0, False, -1, -1, 0.0, 0.0, 0),
    )


WAYS = {
    "dense": lambda q, k, v: anyflash.flash_attn_func(q, k, v, softmax_scale=0.0),
    "window": lambda q, k, v: anyflash.flash_attn_func(q, k, v, 0.0, 0.0, False, (90, -1)),
    "cache": lambda q, k, v: anyflash.flash_attn_with_kvcache(
        q, k.clone(), v.clone(), k[:, -1:], v[:, -1:], softmax_scale=0.0,
        cache_seqlens=k.shape[1] - 1,
    ),
    "read cache": lambda q, k, v: anyflash.flash_attn_with_kvcache(
        q, k, v, softmax_scale=0.0, cache_seqlens=k.shape[1]
    ),
    "masked": of_the_operator,
    "attend": lambda q, k, v: anyflash.attend(q, k, v, scale=0.0),
    "compiled": lambda q, k, v: torch.compile(
        anyflash.flash_attn_func, fullgraph=True, backend="aot_eager"
    )(q, k, v, softmax_scale=0.0),
}


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
@pytest.mark.parametrize("rows", (1, 20))
@pytest.mark.parametrize("way", WAYS)
def test_a_scale_of_0_averages_the_values(way, rows, dtype):
    q, k, v = (torch.randn(2, n, 4, 64).to(dtype) * 30 for n in (rows, 24, 24))
    want = v.double().mean(1, keepdim=True).expand(q.shape)
    close(WAYS[way](q, k, v), want, bound=0.02 if dtype == torch.bfloat16 else 2e-3)
