"""anyflash::attend_masked: every form of its mask, compared with plain formulas, and
opcheck."""

import math

import pytest

torch = pytest.importorskip("torch")
from anyflash import _masked  # noqa: E402
from anyflash._masked import Keys, Scores, Sequences, Starts  # noqa: E402

B, H, G, S, D = 2, 4, 2, 12, 16
STARTS = torch.tensor([0, 5, 12, 24], dtype=torch.int32)


def keys(kind):
    """bool [B, S]: padding on one side, or a gap."""
    visible = torch.ones(B, S, dtype=torch.bool)
    visible[0, {"left": slice(0, 4), "right": slice(9, S), "hole": slice(3, 6)}[kind]] = False
    return visible


def number(value):
    return torch.tensor(value, dtype=torch.int32)


def cut(visible, used, window):
    """The mask of a cache that is only partly filled."""
    return Keys(visible & (torch.arange(S) < used), number(used), number(window))


NUMBERS = torch.tensor([[0] * 5 + [1] * 7, [0] * 12])


def window_mask(causal, window, offset=0, rows=S):
    i, j = torch.arange(rows)[:, None] + offset, torch.arange(S)
    seen = torch.ones(rows, S, dtype=torch.bool)
    if causal:
        seen &= j <= i
    if window:
        seen &= j > i - window
        seen &= (j < i + window) | causal
    return seen


#: name: (mask, causal, window, visible keys, number of query rows)
def cases():
    for side in ("left", "right", "hole"):
        seen = keys(side)[:, None, None, :] & window_mask(True, 0)
        yield side, (Keys(keys(side)), True, 0, seen, S)
        seen = keys(side)[:, None, None, :] & window_mask(False, 0)
        yield side + " full", (Keys(keys(side)), False, 0, seen, S)
    seen = keys("left")[:, None, None, :] & window_mask(True, 4, 5, 3)
    yield "cache", (cut(keys("left"), 8, 4), True, 0, seen, 3)
    seen = keys("left")[:, None, None, :] & window_mask(False, 4)
    yield "both sides", (cut(keys("left"), S, 4), False, 0, seen, S)
    same = NUMBERS[:, None, :, None] == NUMBERS[:, None, None, :]
    seen = same & window_mask(True, 3)
    yield "packed", (Sequences(NUMBERS, number(3)), True, 0, seen, S)
    yield "starts", (Starts(STARTS, STARTS), True, 3, seen, S)
    yield "starts with a window", (Starts(STARTS, STARTS, number(3)), True, 0, seen, S)
    seen = torch.rand(B, 1, S, S, generator=torch.Generator().manual_seed(0)) > 0.4
    yield "scores", (Scores(seen), True, 3, seen, S)
    added = torch.where(seen, 0.0, -math.inf)
    yield "scores that are added", (Scores(added), True, 3, seen, S)


CASES = dict(cases())


def problem(rows, dtype):
    torch.manual_seed(1)
    shapes = ((B, rows, H, D), (B, S, G, D), (B, S, G, D))
    made = [torch.randn(s).to(dtype).transpose(1, 2).requires_grad_() for s in shapes]
    return (*made, torch.randn(H).requires_grad_())


def arguments(case, sinks):
    mask, causal, window, _, _ = CASES[case]
    right = -1 if causal else window - 1
    return (mask, sinks, 0.3, causal, window - 1, right, 5.0, 0.0, 0)


def plain(q, k, v, seen, sinks):
    k, v = k.repeat_interleave(H // G, 1), v.repeat_interleave(H // G, 1)
    scores = 5.0 * torch.tanh(q @ k.transpose(2, 3) * 0.3 / 5.0)
    scores = scores.masked_fill(~seen, -math.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.view(1, -1, 1, 1).expand(*q.shape[:3], 1)), -1)
    weights = scores.softmax(-1).nan_to_num(0.0)[..., :S]
    return (weights @ v).transpose(1, 2)


@pytest.mark.parametrize("with_sinks", (False, True))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("case", CASES)
def test_forms_of_the_mask_and_their_gradients(case, dtype, with_sinks):
    seen, rows = CASES[case][3:]
    q, k, v, sinks = problem(rows, dtype)
    tensors = (q, k, v, sinks) if with_sinks else (q, k, v)
    found = _masked.attend_masked(q, k, v, *arguments(case, sinks if with_sinks else None))
    wide = [x.detach().double().requires_grad_() for x in tensors]
    expected = plain(*wide[:3], seen, wide[3] if with_sinks else None)
    weight = torch.randn(found.shape)
    ours = torch.autograd.grad(found, tensors, weight.to(dtype))
    theirs = torch.autograd.grad(expected, wide, weight.double())
    bound = 3e-5 if dtype == torch.float32 else 0.05
    for have, want in zip((found, *ours), (expected.detach(), *theirs)):
        assert (have.double() - want).abs().max() < bound * max(1.0, float(want.abs().max()))
    with torch.no_grad():
        given = arguments(case, sinks if with_sinks else None)
        assert torch.equal(_masked.attend_masked(q, k, v, *given), found)


@pytest.mark.skipif(
    not hasattr(torch.library, "opcheck"), reason="needs torch.library.opcheck: torch 2.4"
)
@pytest.mark.parametrize("case", CASES)
def test_opcheck(case):
    *tensors, sinks = problem(CASES[case][4], torch.float32)
    mask, *rest = arguments(case, sinks)
    given = (*tensors, *_masked.tensors_of(mask), *rest)
    torch.library.opcheck(torch.ops.anyflash.attend_masked, given)


def test_a_mask_that_changes_is_read_again():
    q, k, v, _ = (x.detach() for x in problem(S, torch.float32))
    given = arguments("left", None)[1:]

    def attend(visible, **options):
        return _masked.attend_masked(q, k, v, Keys(visible, **options), *given)

    visible = keys("left")
    before = attend(visible)
    visible.copy_(keys("right"))
    found = attend(visible)
    assert torch.equal(found, attend(keys("right"))) and not torch.equal(found, before)
    width = number(0)
    assert torch.equal(attend(visible, window=width), found)
    width.fill_(3)
    assert not torch.equal(attend(visible, window=width), found)
    with torch.inference_mode():
        visible = keys("left")
        again = attend(visible)
        visible.copy_(keys("right"))
        assert torch.equal(attend(visible), found)
    assert torch.equal(again, before)


def test_dropout_is_that_of_the_seed():
    q, k, v, _ = (x.detach() for x in problem(S, torch.float32))
    given = arguments("left", None)[:-2]
    runs = [_masked.attend_masked(q, k, v, *given, 0.5, seed) for seed in (1, 1, 2)]
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_the_gradient_of_sinks_of_flash_attns_functions():
    from anyflash import _sink_functions

    q, k, v, sinks = problem(S, torch.float32)
    rows = [x.transpose(1, 2) for x in (q, k, v)]
    seen = window_mask(True, 0).expand(B, 1, S, S)
    options = {"softmax_scale": 0.3, "causal": True, "softcap": 5.0}
    starts = torch.tensor([0, S, 2 * S], dtype=torch.int32)
    expected = plain(q, k, v, seen, sinks)
    theirs = torch.autograd.grad(expected.square().sum(), (q, k, v, sinks))
    packed = [x.flatten(0, 1) for x in rows]
    for found in (
        _sink_functions.flash_attn_func(*rows, **options, s_aux=sinks),
        _sink_functions.flash_attn_varlen_func(
            *packed, starts, starts, S, S, **options, s_aux=sinks
        ).unflatten(0, (B, S)),
    ):
        assert (found - expected).abs().max() < 1e-5
        ours = torch.autograd.grad(found.square().sum(), (q, k, v, sinks), retain_graph=True)
        for have, want in zip(ours, theirs):
            assert (have - want).abs().max() < 1e-4
    found = _sink_functions.flash_attn_func(*(x.detach() for x in rows), **options, s_aux=sinks)
    (alone,) = torch.autograd.grad(found.square().sum(), sinks)
    assert (alone - theirs[3]).abs().max() < 1e-4
