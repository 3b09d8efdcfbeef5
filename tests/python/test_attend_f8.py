"""attend() with fp8 keys and values, which NumPy has only with other packages' types."""

import types

import pytest

np = pytest.importorskip("numpy")
import anyflash  # noqa: E402

#: Bits of the mantissa, bias of the exponent, the first code of 127 that is no finite number.
FORMATS = {"float8_e4m3fn": (3, 7, 0x7F), "float8_e5m2": (2, 15, 0x7C)}


class Array:
    """Bytes as an array with an fp8 type, as ml_dtypes makes them."""

    def __init__(self, codes, name):
        self.codes, self.__array_interface__ = codes, codes.__array_interface__
        self.dtype = types.SimpleNamespace(name=name, isnative=True)
        self.shape, self.strides = codes.shape, codes.strides

    def numbers(self):
        bits, bias, _ = FORMATS[self.dtype.name]
        magnitude = (self.codes & 0x7F).astype(int)
        exponent, mantissa = magnitude >> bits, magnitude % (1 << bits)
        normal = np.ldexp(1 + mantissa / (1 << bits), exponent - bias)
        small = np.ldexp(mantissa / (1 << bits), 1 - bias)
        found = np.where(exponent == 0, small, normal)
        return np.where(self.codes & 0x80, -found, found).astype(np.float32)


def random_f8(random, shape, name):
    """Numbers of at most about 2."""
    magnitude = random.integers(0, 0x42, shape)
    return Array((magnitude | random.integers(0, 2, shape) << 7).astype(np.uint8), name)


def problem(name, batch=2, keys=70, heads=4, kv_heads=2, dim=64):
    random = np.random.default_rng(3)
    q = random.standard_normal((batch, 3, heads, dim), dtype=np.float32)
    k, v = (random_f8(random, (batch, keys, kv_heads, dim), name) for _ in "kv")
    return q, k, v


@pytest.mark.parametrize("name", FORMATS)
def test_equals_attention_of_the_same_numbers(name):
    q, k, v = problem(name)
    found = anyflash.attend(q, k, v, causal=True)
    expected = anyflash.attend(q, k.numbers(), v.numbers(), causal=True)
    assert abs(found - expected).max() < 2e-6


@pytest.mark.parametrize("shape", ((2,), (2, 2)))
def test_scales_multiply_keys_and_values(shape):
    q, k, v = problem("float8_e4m3fn")
    k_scales = np.array([0.5, 0.75, 1.5, 2], np.float32)[: np.prod(shape)].reshape(shape)
    v_scales = k_scales * 3
    found = anyflash.attend(q, k, v, k_scales=k_scales, v_scales=v_scales)
    k_factors, v_factors = (np.broadcast_to(x, (2, 2)) for x in (k_scales, v_scales))
    k, v = k.numbers() * k_factors[:, None, :, None], v.numbers() * v_factors[:, None, :, None]
    expected = anyflash.attend(q, k, v)
    assert abs(found - expected).max() < 2e-5


def test_pages_have_scales_and_take_new_rows():
    random = np.random.default_rng(5)
    q = random.standard_normal((2, 1, 4, 64), dtype=np.float32)
    k, v = (random_f8(random, (6, 16, 2, 64), "float8_e5m2") for _ in "kv")
    k_new, v_new = (random.standard_normal((2, 1, 2, 64), dtype=np.float32) for _ in "kv")
    table = np.array([[4, 0, 2], [1, 5, 3]], np.int32)
    used = np.array([40, 17], np.int32)
    scales = (1 + random.random((6, 2), dtype=np.float32)).astype(np.float32)
    options = dict(k_scales=scales, v_scales=scales, scale_per_page=True)
    found = anyflash.attend(q, k, v, k_new=k_new, v_new=v_new, block_table=table,
                            seqused_k=used, **options)  # fmt: skip
    for b in range(2):
        page, row = table[b, used[b] // 16], used[b] % 16
        for cache, new in ((k, k_new), (v, v_new)):
            written = cache.numbers()[page, row] * scales[page][:, None]
            assert (abs(written - new[b, 0]) <= abs(new[b, 0]) / 8 + 1e-4).all()
        rows = [(x.numbers() * scales[:, None, :, None])[table[b]].reshape(1, 48, 2, 64)
                for x in (k, v)]  # fmt: skip
        expected = anyflash.attend(q[b : b + 1], *rows, seqused_k=used[b : b + 1] + 1)
        assert abs(found[b] - expected[0]).max() < 2e-5


@pytest.mark.parametrize(
    "change, error, words",
    (
        (dict(k_scales=np.zeros(2, np.float32)), ValueError, r"k_scales\[0\] is 0"),
        (dict(v_scales=np.full(2, np.nan, np.float32)), ValueError, r"v_scales\[0\] is nan"),
        (dict(k_scales=-np.ones((2, 2), np.float32)), ValueError, r"k_scales\[0\] is -1"),
        (dict(k_scales=np.ones(3, np.float32)), ValueError, r"k_scales: shape \(3,\)"),
        (dict(k_scales=np.ones(2)), TypeError, "k_scales: "),
        (dict(k_scales=np.ones((2, 4), np.float32)[:, ::2]), ValueError, "contiguous"),
        (
            dict(k_scales=np.ones(2, np.float32), v_scales=np.ones((2, 2), np.float32)),
            ValueError,
            "k_scales and v_scales: ",
        ),
        (dict(scale_per_page=True), ValueError, "scale_per_page is set"),
        (dict(dropout=0.5), ValueError, "dropout is set"),
    ),
)
def test_refuses(change, error, words):
    q, k, v = problem("float8_e4m3fn")
    with pytest.raises(error, match=words):
        anyflash.attend(q, k, v, **change)


def test_refuses_types_that_do_not_belong_together():
    q, k, v = problem("float8_e4m3fn")
    with pytest.raises(TypeError, match="float8_e4m3fn and float32"):
        anyflash.attend(q, k, v.numbers())
    with pytest.raises(TypeError, match="float8_e4m3fn and float8_e5m2"):
        anyflash.attend(q, k, Array(v.codes, "float8_e5m2"))
    with pytest.raises(TypeError, match="q: element type float8_e4m3fn"):
        anyflash.attend(k, k, v)
    with pytest.raises(ValueError, match="k_scales is set, but k is not fp8"):
        anyflash.attend(q, k.numbers(), v.numbers(), k_scales=np.ones(2, np.float32))


def test_there_is_no_gradient():
    q, k, v = problem("float8_e4m3fn")
    out, lse = anyflash.attend(q, k, v, return_lse=True)
    with pytest.raises((TypeError, NotImplementedError), match="fp8|float8"):
        anyflash.attend_backward(out, q, k, v, out, lse)
