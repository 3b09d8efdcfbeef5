"""Bad input of attend and attend_backward: an exception that names the argument.

Every case runs twice, with and without the builtin function in C.
"""

import re

import pytest

np = pytest.importorskip("numpy")
import anyflash  # noqa: E402
from anyflash import _attend, _lib  # noqa: E402
from anyflash._messages import in_python  # noqa: E402


@pytest.fixture(params=("C", "Python"), autouse=True)
def path(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(_attend, "_fast", lambda *arguments: None)


def arrays(**changes):
    """q, k, v by name; functions may change some of them."""
    random = np.random.default_rng(1)
    shapes = {"q": (2, 9, 4, 32), "k": (2, 13, 2, 32), "v": (2, 13, 2, 32)}
    made = {n: random.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}
    return {name: changes.get(name, lambda x: x)(x) for name, x in made.items()}


def integers(*values):
    return np.array(values, dtype=np.int32)


def refused(error, words, q, k, v, **options):
    with pytest.raises(error, match=words):
        anyflash.attend(q, k, v, **options)


def misaligned(x):
    memory = np.zeros(x.nbytes + 1, dtype=np.uint8)
    return memory[1:].view(x.dtype).reshape(x.shape)


@pytest.mark.parametrize("name", ("q", "k", "v"))
@pytest.mark.parametrize(
    "change, error, words",
    (
        (lambda x: x[0], ValueError, "3 dimensions"),
        (lambda x: x[None], ValueError, "5 dimensions"),
        (lambda x: np.float32(1), (TypeError, ValueError), "dimensions|no array"),
        (lambda x: x.astype(np.float64), TypeError, "float64"),
        (lambda x: x.astype(np.int32), TypeError, "int32"),
        (lambda x: x.astype(object), TypeError, "object"),
        (lambda x: x.astype(np.complex64), TypeError, "complex64"),
        (lambda x: x.astype(x.dtype.newbyteorder()), TypeError, "f4|float32"),
        (lambda x: x.tolist(), TypeError, "list is not an array"),
        (lambda x: None, TypeError, "NoneType is not an array"),
        (lambda x: x[..., ::-1], ValueError, "stride -1"),
        (lambda x: np.repeat(x, 2, -1)[..., ::2], ValueError, "stride 2"),
        (misaligned, ValueError, "align|multiple|address"),
    ),
)
def test_an_array_that_is_none_for_it(name, change, error, words):
    refused(error, f"{name}\\b.*({words})", **arrays(**{name: change}))


def test_a_byte_of_stride_too_few():
    wide = np.zeros((2, 9, 4, 33 * 4 + 2), dtype=np.uint8)
    strides = (9 * 4 * 134, 4 * 134, 134, 4)
    q = np.ndarray((2, 9, 4, 32), np.float32, wide, strides=strides)
    refused(ValueError, "q: (strides|.*multiple)", **{**arrays(), "q": q})


@pytest.mark.parametrize(
    "changes, words",
    (
        ({"k": lambda x: x[:1]}, "k and v"),
        ({"q": lambda x: x[:1]}, "q|batch"),
        ({"k": lambda x: x[:, :5]}, "k and v"),
        ({"v": lambda x: x[:, :, :1]}, "k and v"),
        ({"k": lambda x: x[..., :16]}, "q and k: head sizes 32 and 16"),
        ({"q": lambda x: x[:, :, :3]}, "heads is 3; it must be a multiple of that of k, 2"),
    ),
)
def test_shapes_that_do_not_agree(changes, words):
    refused(ValueError, words, **arrays(**changes))


@pytest.mark.parametrize(
    "make, error, words",
    (
        (lambda: np.zeros((2, 9, 4, 31), np.float32), ValueError, "out: shape"),
        (lambda: np.zeros((2, 9, 4), np.float32), ValueError, "out: has 3"),
        (lambda: np.zeros((2, 9, 4, 32), np.float64), TypeError, "out: .*float64"),
        (lambda: np.zeros((2, 9, 4, 64), np.float32)[..., ::2], ValueError, "out: .*stride 2"),
        (lambda: np.broadcast_to(np.float32(0), (2, 9, 4, 32)), ValueError, "out: "),
        (lambda: [], TypeError, "out: list is not an array"),
    ),
)
def test_an_output_that_cannot_take_the_result(make, error, words):
    refused(error, words, **arrays(), out=make())


def test_a_read_only_output_stays_as_it_is():
    out = np.full((2, 9, 4, 32), 7, np.float32)
    out.flags.writeable = False
    refused(ValueError, "out: is read-only", **arrays(), out=out)
    assert (out == 7).all()


def test_read_only_inputs_are_fine():
    given = arrays()
    for x in given.values():
        x.flags.writeable = False
    assert np.isfinite(anyflash.attend(**given)).all()


@pytest.mark.parametrize("name", ("q", "k", "v"))
def test_an_output_over_an_input(name):
    given = arrays(k=lambda x: x[:, :9].repeat(2, 2), v=lambda x: x[:, :9].repeat(2, 2))
    before = given[name].copy()
    words = f"out overlaps {name}; an output must not overlap"
    refused(ValueError, words, **given, out=given[name])
    assert np.array_equal(given[name], before)


def test_an_output_over_itself():
    out = np.lib.stride_tricks.as_strided(
        np.zeros(4096, np.float32), (2, 9, 4, 32), (0, 512, 128, 4)
    )
    refused(ValueError, "out overlaps itself; its strides are", **arrays(), out=out)


def test_negative_strides_of_rows_are_read_as_they_lie():
    given = arrays()
    turned = {n: x[:, ::-1].copy()[:, ::-1] for n, x in given.items()}
    assert np.array_equal(anyflash.attend(**turned), anyflash.attend(**given))


def test_nothing_to_compute_is_an_empty_result():
    given = arrays(q=lambda x: x[:, :0])
    assert anyflash.attend(**given).shape == (2, 0, 4, 32)
    given = arrays(**{n: lambda x: x[:0] for n in "qkv"})
    assert anyflash.attend(**given).shape == (0, 9, 4, 32)


def test_no_keys_give_zeros_and_minus_infinity():
    given = arrays(k=lambda x: x[:, :0], v=lambda x: x[:, :0])
    out, lse = anyflash.attend(**given, return_lse=True)
    assert not out.any() and np.isneginf(lse).all()


@pytest.mark.parametrize("changes", ({"q": -1, "k": -1}, {"v": -1}, {"q": 2}, {"k": 2, "v": 2}))
def test_no_heads_or_no_head_size(changes):
    def cut(axis):
        return lambda x: x[..., :0] if axis == -1 else x[:, :, :0]

    made = {name: cut(axis) for name, axis in changes.items()}
    refused(ValueError, "head|value_dim", **arrays(**made))


def test_shapes_beyond_any_memory():
    def huge(x):
        return np.broadcast_to(x[:1, :1, :1], (2**20, 2**20, 2**10, 32))

    with pytest.raises((ValueError, MemoryError)):
        anyflash.attend(**arrays(q=huge, k=huge, v=huge))

    def long(x):
        return np.broadcast_to(x[:, :1], (2, 2**40, *x.shape[2:]))

    words = r"the length of k \(max_seqlen_k\) is 1099511627776"
    refused(ValueError, words, **arrays(k=long, v=long))


PACKED = {"max_seqlen_q": 9, "max_seqlen_k": 9}


def packed(starts=(0, 4, 9), **options):
    random = np.random.default_rng(2)
    x = random.standard_normal((9, 2, 32), dtype=np.float32)
    starts = starts if hasattr(starts, "dtype") else integers(*starts)
    named = {"cu_seqlens_q": starts, "cu_seqlens_k": integers(0, 4, 9), **PACKED, **options}
    return {"q": x, "k": x, "v": x, **named}


@pytest.mark.parametrize(
    "options, error, words",
    (
        ({"starts": (0, 5, 4)}, ValueError, r"cu_seqlens_q\[2\] is 4"),
        ({"starts": (-1, 5, 9)}, ValueError, r"cu_seqlens_q\[0\] is -1"),
        ({"starts": (0, 5, 10)}, ValueError, r"cu_seqlens_q\[2\] is 10"),
        ({"starts": (0, 9)}, ValueError, "cu_seqlens_k: has 3 elements, expected 2"),
        ({"starts": ()}, ValueError, "cu_seqlens_q|batch"),
        ({"starts": np.array([0, 4, 9])}, TypeError, "cu_seqlens_q: .*int64|int64"),
        ({"starts": np.zeros((3, 1), np.int32)}, ValueError, "cu_seqlens_q: .*one"),
        ({"starts": np.zeros(6, np.int32)[::2]}, ValueError, "cu_seqlens_q: .*contiguous"),
        ({"max_seqlen_q": 3}, ValueError, "max_seqlen_q|cu_seqlens_q"),
        ({"max_seqlen_q": None}, ValueError, "max_seqlen_q: is required"),
        ({"max_seqlen_q": "9"}, TypeError, "max_seqlen_q: must be an integer, not '9'"),
        ({"max_seqlen_k": -5}, ValueError, "max_seqlen_k.* is -5"),
        ({"seqused_k": integers(5, 5)}, ValueError, r"seqused_k\[0\] is 5"),
        ({"leftpad_k": integers(1)}, ValueError, "leftpad_k: has 1 elements, expected 2"),
        ({"leftpad_k": integers(0, 7)}, ValueError, r"leftpad_k\[1\] is 7"),
    ),
)
def test_lengths_that_lie(options, error, words):
    with pytest.raises(error, match=words):
        anyflash.attend(**packed(**options))


@pytest.mark.parametrize(
    "table, used, words",
    (
        (integers(0, 1, 2, 7).reshape(2, 2), integers(8, 8), r"block_table\[3\] is 7"),
        (integers(0, 1, 2, -1).reshape(2, 2), integers(8, 8), "block_table"),
        (integers(0, 1, 2, 3).reshape(2, 2), integers(8, 9), r"seqused_k\[1\] is 9"),
        (integers(0, 1), integers(8, 8), "block_table: shape"),
        (np.zeros((2, 2), np.int64), integers(8, 8), "block_table: .*int64"),
    ),
)
def test_pages_that_are_not_there(table, used, words):
    given = arrays()
    pages = np.zeros((7, 4, 2, 32), np.float32)
    with pytest.raises((ValueError, TypeError), match=words):
        anyflash.attend(given["q"], pages, pages, block_table=table, seqused_k=used)


@pytest.mark.parametrize(
    "options, error, words",
    (
        ({"layout": "bhd"}, ValueError, "layout"),
        ({"align": "middle"}, ValueError, "align"),
        ({"scale": float("nan")}, ValueError, "scale"),
        ({"scale": "one"}, TypeError, "scale: must be a number, not 'one'"),
        ({"softcap": None}, TypeError, "softcap: must be a number, not None"),
        ({"window": (1, 2, 3)}, ValueError, r"window: must be .*, not \(1, 2, 3\)"),
        ({"window": (1.5, 2)}, TypeError, r"window: must be .*, not \(1.5, 2\)"),
        ({"dropout": "x"}, TypeError, "dropout: must be a number, not 'x'"),
        ({"dropout": 0.1, "philox": 7}, TypeError, r"philox: must be \(seed, offset\), two"),
        ({"rotary_sin": np.zeros((9, 4), np.float32)}, ValueError, "rotary_cos: is missing"),
        ({"softcap": -1.0}, ValueError, "softcap"),
        ({"window": (-2, 0)}, ValueError, r"window\[0\] is -2"),
        ({"window": (1,)}, ValueError, r"window: must be \(left, right\), two integers, not "),
        ({"window": 5}, TypeError, r"window: must be \(left, right\), two integers, not "),
        ({"dropout": 1.5}, ValueError, "dropout"),
        ({"casual": True}, TypeError, "option 'casual'; did you mean 'causal'\\?"),
        ({"window_size": (1, 1)}, TypeError, "did you mean 'window'\\?"),
        ({"qqq": 1}, TypeError, "option 'qqq'$"),
        ({"sinks": np.zeros(3, np.float32)}, ValueError, "sinks: shape"),
        ({"sinks": np.zeros(4, np.float64)}, TypeError, "sinks: .*float64"),
        ({"alibi_slopes": np.zeros(3, np.float32)}, ValueError, "alibi_slopes: shape"),
        ({"alibi_slopes": np.zeros(8, np.float32)[::2]}, ValueError, "alibi_slopes: .*contig"),
        ({"bias": np.zeros((9, 12), np.float32)}, ValueError, "bias: "),
        ({"bias": np.zeros((9, 13), bool)}, TypeError, "bias: element type bool"),
        ({"mask": np.zeros((9, 13), np.float32)}, TypeError, "mask: element type float32"),
        ({"mask": np.zeros((1, 1, 1, 9, 13), bool)}, ValueError, "mask: .*5 dimensions"),
        ({"mask": np.zeros((9, 1), bool)}, ValueError, "mask: "),
        ({"k_new": np.zeros((2, 1, 2, 32), np.float32)}, (TypeError, ValueError), "v_new"),
    ),
)
def test_options_that_mean_nothing(options, error, words):
    refused(error, words, **arrays(), **options)


FLOATS = "float32, float16 or bfloat16$"


@pytest.mark.parametrize(
    "name, change, words",
    (
        ("q", lambda x: x.astype("f8"), f"q: element type float64, expected {FLOATS}"),
        ("q", lambda x: x.astype(">f4"), f"q: .* float32 in the byte order .* {FLOATS}"),
        ("q", lambda x: x.astype("i4"), f"q: element type int32, expected {FLOATS}"),
        ("k", lambda x: x.astype("f8"), "k: .* float64, expected .*bfloat16, float8_e4m3fn or"),
        ("k", lambda x: x.astype("f2"), "q, k and v have types float32, float16 and float32"),
    ),
)
def test_a_wrong_element_type_is_named_beside_those_that_work(name, change, words):
    refused(TypeError, words, **arrays(**{name: change}))


def test_a_number_that_is_no_float_is_taken_as_one():
    class Third:
        def __float__(self):
            return 0.3

    given = arrays()
    expected = anyflash.attend(**given, scale=0.3)
    assert np.array_equal(anyflash.attend(**given, scale=Third()), expected)


class Hostile:
    """Claims to be an array, but raises or gives wrong values when it is used."""

    def __init__(self, answer):
        self.answer = answer

    @property
    def __array_struct__(self):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", (RuntimeError("no"), 5, None, "text", object()))
def test_an_object_that_lies_is_no_array(answer):
    refused(TypeError, "q: Hostile is not an array", **{**arrays(), "q": Hostile(answer)})


@pytest.mark.parametrize("name", (5, None, "bfloat16", "float64", b"bfloat16"))
def test_a_type_that_lies_is_not_believed(name):
    class Liar:
        class dtype:
            pass

        def __init__(self, array):
            self.array = array
            self.dtype.name = name

        @property
        def __array_struct__(self):
            return self.array.view("V2").__array_struct__

    given = {n: Liar(x.astype(np.float16)) for n, x in arrays().items()}
    with pytest.raises((TypeError, ValueError, AttributeError)):
        anyflash.attend(**given)


def backward(**changes):
    given = arrays()
    out, lse = anyflash.attend(**given, return_lse=True)
    named = {"dout": np.ones_like(out), **given, "out": out, "lse": lse}
    named.update({name: change(named[name]) for name, change in changes.items()})
    return anyflash.attend_backward(**named)


@pytest.mark.parametrize(
    "changes, error, words",
    (
        ({"dout": lambda x: x[:, :5]}, ValueError, "dout"),
        ({"dout": lambda x: x.astype(np.float16)}, (TypeError, ValueError), "dout"),
        ({"dout": lambda x: np.broadcast_to(np.float32(1), x.shape)}, ValueError, "dout"),
        ({"out": lambda x: x[..., :16]}, ValueError, "out"),
        ({"lse": lambda x: x[:, :1]}, ValueError, "lse"),
        ({"lse": lambda x: x.astype(np.float64)}, TypeError, "lse"),
        ({"lse": lambda x: None}, TypeError, "lse"),
        ({"q": lambda x: x[:, :5]}, ValueError, "lse|out|q"),
    ),
)
def test_what_is_no_gradient(changes, error, words):
    with pytest.raises(error, match=words):
        backward(**changes)


def test_a_gradient_of_a_bias_that_is_not_there():
    given = arrays()
    out, lse = anyflash.attend(**given, return_lse=True)
    with pytest.raises(ValueError, match="return_dbias: there is no bias"):
        anyflash.attend_backward(out, **given, out=out, lse=lse, return_dbias=True)


def new_rows(**options):
    new = np.zeros((2, 1, 2, 32), np.float32)
    return {**arrays(), "k_new": new, "v_new": new, "seqused_k": integers(5, 5), **options}


@pytest.mark.parametrize(
    "given, words",
    (
        (new_rows(seqused_k=None), "seqused_k: is missing; appending needs the lengths"),
        (new_rows(seqused_k=integers(5, 13)), r"seqused_k\[1\] is 13; with 1 rows of k_new"),
        (new_rows(v_new=None), "v_new: is missing; k_new and v_new belong together"),
        (
            {**arrays(), "rotary_cos": np.ones((9, 4), np.float32),
             "rotary_sin": np.ones((9, 4), np.float32)},
            "rotary_cos is set; .* and k_new is missing",
        ),
    ),
)  # fmt: skip
def test_a_wrong_way_to_append(given, words):
    refused(ValueError, words, **given)


def test_too_many_threads_are_named_as_in_python():
    with pytest.raises(ValueError, match="^threads is 99999"):
        anyflash.set_threads(99999)


#: Plain words, and members that Python sets with the arrays that they belong to.
UNSEEN = """batch heads struct_size align reserved
    alibi_batch_stride lse_batch_stride lse_head_stride scale_stride"""


@pytest.mark.parametrize(
    "member", sorted({n for n, _ in _lib._MEMBERS} - {*_attend._OPTIONS} - {*"qkv", "lse"})
)
def test_no_name_of_c_alone_is_in_a_message(member):
    sentences = (f"{member} is 5; it must be 6", f"{member} is NULL; it is needed",
                 f"x[1] is 2; {member} is 5", f"{member} is set; it needs x")  # fmt: skip
    if member not in UNSEEN.split():
        for sentence in sentences:
            assert not re.search(rf"(?<!of )\b{member}\b(?! of)", in_python(sentence))
