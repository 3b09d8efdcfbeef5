"""Random sets of the parameters of flash-attn's own tests, through each provider for GPUs, with
stand-ins for torch's kernels and for packages; the formula or the engine is the reference.

PROVIDER_SETS: how many sets each provider has to compute (100); PROVIDER_SEED: which ones.
`tests/run torch` takes 400 others with each release of torch, 2000 together.
"""

import collections
import os
import random
from types import SimpleNamespace as Set

import pytest

torch = pytest.importorskip("torch")
import formula  # noqa: E402
import package_standins  # noqa: E402
import standins  # noqa: E402
import anyflash  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import aten  # noqa: E402

torch.set_num_threads(1)  # the tensors are small

COUNT = int(os.environ.get("PROVIDER_SETS", "100"))
SEED = os.environ.get("PROVIDER_SEED", "1")

#: The head sizes of flash-attn's tests; its lengths divided by 8.
SIZES = (32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256)
LENGTHS = (
    (14, 25), (16, 27), (13, 26), (13, 32), (32, 64), (64, 32), (16, 16), (15, 16), (16, 15),
    (25, 26), (1, 17), (3, 99), (1, 1), (33, 33),
)  # fmt: skip
HEADS = {"mha": (6, 6), "mqa": (6, 1), "gqa": (6, 3)}


def draw(chance, dtypes):
    """One set. Rare features are rare, so that most sets are computed."""
    rows, keys = chance.choice(LENGTHS)
    return Set(
        function=chance.choice(
            ("func", "kvpacked", "qkvpacked", "varlen", "varlen_kvpacked",
             "varlen_qkvpacked", "kvcache", "kvcache")
        ),
        dtype=chance.choice(dtypes),
        mha_type=chance.choice(tuple(HEADS)),
        causal=chance.random() < 0.5,
        local=chance.random() < 0.3,
        alibi=chance.random() < 0.15,
        softcap=50.0 if chance.random() < 0.03 else 0.0,
        deterministic=chance.random() < 0.2,
        d=chance.choice(SIZES),
        rows=rows,
        keys=keys,
        gradient=chance.random() < 0.6,
        window=(chance.randrange(0, keys + 1), chance.randrange(0, keys + 1)),
        new_kv=chance.random() < 0.5,
        rotary_fraction=chance.choice((0.0, 0.5, 1.0)),
        rotary_interleaved=chance.random() < 0.5,
        page_size=chance.choice((None, None, 16, 256)),
        has_batch_idx=chance.random() < 0.3,
        has_leftpad=chance.random() < 0.2,
        seed=chance.randrange(1 << 30),
    )  # fmt: skip


def off(have, want):
    """The largest difference, as part of the largest value, at least of 1."""
    if have.shape != want.shape:
        return float("inf")
    have, want = have.detach().double(), want.detach().double()
    infinite = torch.isinf(want)
    if not torch.equal(have[infinite], want[infinite]):
        return float("inf")
    have, want = (torch.where(infinite, 0.0, x) for x in (have, want))
    if not have.numel():
        return 0.0
    return float((have - want).abs().max()) / max(1.0, float(want.abs().max()))


def made(*shape, dtype, gradient=False):
    return torch.randn(shape).to(dtype).requires_grad_(gradient)


def options_of(s):
    """(options of the function, of the formula)."""
    heads = HEADS[s.mha_type][0]
    slopes = torch.rand(2, heads) * 0.3 if s.alibi else None
    window = s.window if s.local else (-1, -1)
    ours = {"causal": s.causal, "window_size": window, "softcap": s.softcap}
    ours["alibi_slopes"] = slopes
    theirs = {"causal": s.causal, "window": window, "softcap": s.softcap, "slopes": slopes}
    return ours, theirs


def lengths(total, chance):
    """cu_seqlens of two sequences of up to `total` rows, one of them whole."""
    first = torch.tensor([0, total, total + chance.randrange(total + 1)])
    return first.to(torch.int32)


def by_sequences(s, chance):
    """(found, wanted, leaves) of the functions with gradients."""
    heads, groups = HEADS[s.mha_type]
    ours, theirs = options_of(s)
    ours.update(deterministic=s.deterministic, return_attn_probs=True)
    if "qkvpacked" in s.function:
        groups, keys = heads, s.rows
    else:
        keys = s.keys
    rows, gradient = s.rows, {"dtype": s.dtype, "gradient": s.gradient}
    if s.function.startswith("varlen"):
        cu_q = lengths(rows, chance)
        cu_k = cu_q if "qkvpacked" in s.function else lengths(keys, chance)
        q_shape, k_shape = (int(cu_q[-1]),), (int(cu_k[-1]),)
        starts = (cu_q, cu_k, rows, keys)
    else:
        q_shape, k_shape, starts = (2, rows), (2, keys), ()
    prefix = "flash_attn_varlen_" if starts else "flash_attn_"
    function = getattr(anyflash, prefix + (s.function.rpartition("_")[2] + "_func"
                       if "packed" in s.function else "func"))
    if "qkvpacked" in s.function:
        qkv = made(*q_shape, 3, heads, s.d, **gradient)
        leaves, parts = [qkv], qkv.unbind(-3)
        starts = (starts[0], rows) if starts else ()
        given = (qkv,)
    elif "kvpacked" in s.function:
        q = made(*q_shape, heads, s.d, **gradient)
        kv = made(*k_shape, 2, groups, s.d, **gradient)
        leaves, parts, given = [q, kv], (q, *kv.unbind(-3)), (q, kv)
    else:
        given = [made(*q_shape, heads, s.d, **gradient)]
        given += [made(*k_shape, groups, s.d, **gradient) for _ in "kv"]
        leaves = parts = given
    found = function(*given, *starts, **ours)[:2]
    if starts:
        wanted = formula.packed(*parts, cu_q, cu_k, **theirs)
    else:
        wanted = formula.dense(*parts, **theirs)
    return found, wanted, leaves


def by_cache(s, chance):
    """(found, wanted, []) of flash_attn_with_kvcache; wanted is the engine's."""
    heads, groups = HEADS[s.mha_type]
    ours, _ = options_of(s)
    room, slots = s.keys + 40, 3 if s.has_batch_idx and s.page_size is None else 2
    q = made(2, s.rows, heads, s.d, dtype=s.dtype)
    used = torch.tensor([chance.randrange(1, s.keys + 1), s.keys], dtype=torch.int32)
    if s.page_size is None:
        shape = (slots, room, groups, s.d)
    else:
        pages = -(-room // s.page_size)
        shape = (2 * pages + 1, s.page_size, groups, s.d)
        table = torch.randperm(2 * pages + 1)[: 2 * pages].reshape(2, pages)
        ours["block_table"] = table.to(torch.int32)
    if slots == 3:
        ours["cache_batch_idx"] = torch.tensor([2, 0], dtype=torch.int32)
    if s.has_leftpad and s.page_size is None:
        ours["cache_leftpad"] = torch.tensor([0, chance.randrange(s.keys)], dtype=torch.int32)
    caches, news = [made(*shape, dtype=s.dtype) for _ in "kv"], ()
    if s.new_kv:
        count = chance.choice((s.rows, 1)) if s.rows <= 40 else 1
        news = [made(2, count, groups, s.d, dtype=s.dtype) for _ in "kv"]
        size = int(s.rotary_fraction * s.d) // 16 * 16
        if size:
            angles = torch.rand(room + 40, size // 2) * 6
            ours["rotary_cos"] = angles.cos().to(s.dtype)
            ours["rotary_sin"] = angles.sin().to(s.dtype)
            ours["rotary_interleaved"] = s.rotary_interleaved
    ours.update(cache_seqlens=used, return_softmax_lse=True)
    mine = [cache.clone() for cache in caches]
    found = anyflash.flash_attn_with_kvcache(q, *mine, *news, **ours)
    before = providers.force("engine")
    try:
        wanted = anyflash.flash_attn_with_kvcache(q, *caches, *news, **ours)
    finally:
        providers.force(before)
    return (*found, *mine), (*wanted, *caches), []


def run(s):
    """How far the results of one set are from the reference."""
    chance = random.Random(s.seed)
    torch.manual_seed(s.seed)
    kind = by_cache if s.function == "kvcache" else by_sequences
    found, wanted, leaves = kind(s, chance)
    far = [off(*pair) for pair in zip(found, wanted)]
    if leaves and s.gradient:
        weight = torch.randn_like(found[0])
        have = torch.autograd.grad(found[0], leaves, weight)
        want = torch.autograd.grad(wanted[0], leaves, weight.double())
        far += [off(*pair) for pair in zip(have, want)]
    return max(far)


HALVES = (torch.float16, torch.bfloat16)
#: Name: (provider, compute capability, ROCm, element types, least share that it computes).
CASES = {
    "flash": ("torch_flash", (8, 0), None, HALVES, 0.8),
    "flash on ROCm": ("torch_flash", (9, 4), "6.4", HALVES, 0.7),
    "efficient on a T4": ("torch_efficient", (7, 5), None, HALVES, 0.9),
    "efficient in float32": ("torch_efficient", (8, 9), None, (torch.float32,), 0.9),
    "efficient on ROCm": ("torch_efficient", (9, 4), "6.4", HALVES, 0.9),
    "cudnn": ("torch_cudnn", (9, 0), None, HALVES, 0.05),
}


#: The same for the stand-ins of packages, on whatever GPU.
PACKAGES = {"flash_attn": 0.8, "flash_attn_3": 0.5, "flash_attn_4": 0.4, "hub": 0.8}


def compute(case, dtypes, share):
    """Computes COUNT sets by the provider that is forced. A set that it declines is replaced
    by another."""
    chance = random.Random(f"{SEED} {case}")
    declined, computed = collections.Counter(), 0
    while computed < COUNT and declined.total() <= COUNT / share:
        s = draw(chance, dtypes)
        try:
            far = run(s)
        except NotImplementedError as error:
            declined[str(error)] += 1
            continue
        assert far < (0.02 if s.dtype != torch.float32 else 1e-4), (computed, far, s)
        computed += 1
    drawn = computed + declined.total()
    print(f"{case}: {computed} sets computed of {drawn} drawn; declined:")
    for reason, times in declined.most_common():
        print(f"  {times:4} {reason}")
    assert not any("fails its trial" in reason or "misses" in reason for reason in declined)
    assert computed == COUNT and computed >= share * drawn


@pytest.mark.parametrize("case", CASES)
def test_random_sets_through_torchs_operators_agree_with_the_formula(case, monkeypatch):
    provider, capability, rocm, dtypes, share = CASES[case]
    if aten.missing("cudnn") and provider == "torch_cudnn":
        return
    with standins.torchs_kernels(monkeypatch, capability, provider, rocm):
        compute(case, dtypes, share)


@pytest.mark.parametrize("name", PACKAGES)
def test_random_sets_through_packages_agree_with_the_formula(name, monkeypatch):
    with package_standins.package(monkeypatch, name):
        compute(name, HALVES, PACKAGES[name])
