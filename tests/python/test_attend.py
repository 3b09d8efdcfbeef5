"""attend and attend_backward on NumPy arrays, compared with plain formulas in float64."""

import itertools

import pytest

np = pytest.importorskip("numpy")
import anyflash  # noqa: E402
from anyflash import _attend  # noqa: E402


def reference(q, k, v, causal=False, bias=None):
    """(out, lse) in float64; q, k, v are [B, S, heads, D]."""
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    if causal:
        rows = np.arange(scores.shape[2])[:, None] + scores.shape[3] - scores.shape[2]
        scores = np.where(np.arange(scores.shape[3])[None] <= rows, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return (weights / total @ v).transpose(0, 2, 1, 3), (np.log(total) + top)[..., 0]


def arrays(seed, q_len=33, k_len=70, heads=4, kv_heads=2, dim=64, value_dim=48):
    random = np.random.default_rng(seed)
    shapes = (
        (2, q_len, heads, dim),
        (2, k_len, kv_heads, dim),
        (2, k_len, kv_heads, value_dim),
    )
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


@pytest.mark.parametrize("causal", (False, True))
def test_equals_plain_mathematics(causal):
    q, k, v = arrays(1)
    out, lse = anyflash.attend(q, k, v, causal=causal, return_lse=True)
    expected, expected_lse = reference(q, k, v, causal)
    assert abs(out - expected).max() < 2e-6 and abs(lse - expected_lse).max() < 2e-6


def test_heads_before_rows_is_the_same_without_a_copy():
    q, k, v = arrays(2)
    swapped = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
    out = anyflash.attend(*swapped, layout="bhsd")
    assert np.array_equal(out.transpose(0, 2, 1, 3), anyflash.attend(q, k, v))


@pytest.mark.parametrize("shape", ((33, 70), (2, 1, 33, 70), (1, 4, 1, 70)))
def test_bias_broadcasts(shape):
    q, k, v = arrays(3)
    bias = np.random.default_rng(4).standard_normal(shape, dtype=np.float32)
    assert (
        abs(anyflash.attend(q, k, v, bias=bias) - reference(q, k, v, bias=bias)[0]).max()
        < 2e-6
    )


def test_a_mask_hides_keys_and_a_hidden_row_is_zero():
    q, k, v = arrays(5)
    mask = np.random.default_rng(6).random((33, 70)) < 0.5
    mask[7] = False
    out, lse = anyflash.attend(q, k, v, mask=mask, return_lse=True)
    with np.errstate(invalid="ignore"):
        expected = reference(q, k, v, bias=np.where(mask, 0.0, -np.inf))[0]
    assert not out[:, 7].any() and np.isneginf(lse[:, :, 7]).all()
    rows = [i for i in range(33) if i != 7]
    assert abs(out[:, rows] - expected[:, rows]).max() < 2e-6


def test_packed_sequences_are_their_own():
    q, k, v = (x[0] for x in arrays(7, 40, 40, 2, 2))
    starts = np.array([0, 13, 40], dtype=np.int32)
    out = anyflash.attend(
        q, k, v,
        cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=27, max_seqlen_k=27, causal=True,
    )
    for begin, end in ((0, 13), (13, 40)):
        part = [x[None, begin:end] for x in (q, k, v)]
        assert abs(out[begin:end] - reference(*part, causal=True)[0][0]).max() < 2e-6


def test_gradients_are_those_of_finite_differences():
    q, k, v = (x[:, :9] for x in arrays(8, 9, 9, 2, 1, 16, 16))
    weight = np.random.default_rng(9).standard_normal((2, 9, 2, 16))
    out, lse = anyflash.attend(q, k, v, causal=True, return_lse=True)
    gradients = anyflash.attend_backward(
        weight.astype(np.float32), q, k, v, out, lse, causal=True
    )
    for which, step in itertools.product(range(3), (0, 77)):
        moved = [x.astype(np.float64) for x in (q, k, v)]
        moved[which].reshape(-1)[step] += 1e-5
        up = (reference(*moved, causal=True)[0] * weight).sum()
        moved[which].reshape(-1)[step] -= 2e-5
        down = (reference(*moved, causal=True)[0] * weight).sum()
        assert abs(gradients[which].reshape(-1)[step] - (up - down) / 2e-5) < 1e-4


def test_the_result_goes_where_it_is_wanted():
    q, k, v = arrays(10)
    out = np.empty((2, 33, 4, 48), dtype=np.float32)
    assert anyflash.attend(q, k, v, out=out) is out
    assert np.array_equal(out, anyflash.attend(q, k, v))


def test_an_array_by_dlpack_is_read_without_a_copy():
    class Wrapped:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    q, k, v = arrays(11)
    assert np.array_equal(
        anyflash.attend(Wrapped(q), Wrapped(k), Wrapped(v)), anyflash.attend(q, k, v)
    )


def test_threads_change_nothing_in_the_result():
    q, k, v = arrays(14, 200, 200)
    try:
        results = []
        for count in (1, 2, 3):
            anyflash.set_threads(count)
            results.append(anyflash.attend(q, k, v).tobytes())
    finally:
        anyflash.set_threads(0)
    assert len(set(results)) == 1


@pytest.mark.parametrize("way", ("C", "Python"))
@pytest.mark.parametrize("q_len", (1, 33))
@pytest.mark.parametrize("scale", (0.0, -0.0, 0, np.float32(0), 1e-60))
def test_a_scale_of_0_gives_every_visible_key_the_same_weight(way, q_len, scale, monkeypatch):
    if way == "Python":
        monkeypatch.setattr(_attend, "_fast", lambda *arguments: None)
    q, k, v = arrays(7, q_len=q_len)
    options = {"scale": scale, "causal": True}
    out, lse = anyflash.attend(q, k, v, return_lse=True, **options)
    expected, expected_lse = reference(0 * q, k, v, causal=True)
    assert abs(out - expected).max() < 2e-6 and abs(lse - expected_lse).max() < 2e-6
    dq, dk, dv = anyflash.attend_backward(out, q, k, v, out, lse, **options)
    assert abs(dq).max() < 1e-30 and abs(dk).max() < 1e-30 and abs(dv).max() > 0.01


def test_only_none_is_the_default_scale():
    q, k, v = arrays(8)
    expected = anyflash.attend(q, k, v)
    assert np.array_equal(anyflash.attend(q, k, v, scale=None), expected)
    assert abs(anyflash.attend(q, k, v, scale=0.0) - expected).max() > 0.1
