"""The operators of the namespace anyflash: fakes, gradients, errors, and their overhead."""

import itertools

import pytest

torch = pytest.importorskip("torch")
from anyflash import _torch_ops, flash_attn  # noqa: E402

ops = torch.ops.anyflash
INT = torch.int32


def tensors(dtype=torch.float32, rows=9, keys=13):
    torch.manual_seed(0)
    q = torch.randn(2, rows, 4, 32, dtype=dtype)
    k, v = (torch.randn(2, keys, 2, 32, dtype=dtype) for _ in range(2))
    return q, k, v


def packed():
    torch.manual_seed(1)
    x = torch.randn(9, 2, 32)
    starts = torch.tensor([0, 4, 9], dtype=INT)
    options = {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
    return (x, x, x), {**options, "max_seqlen_q": 5, "max_seqlen_k": 5}


def paged():
    q, pages = torch.randn(2, 3, 4, 32), torch.randn(7, 8, 2, 32)
    table = torch.tensor([[0, 3], [6, 1]], dtype=INT)
    used = torch.tensor([16, 9], dtype=INT)
    return (q, pages, pages), {"block_table": table, "seqused_k": used, "causal": True}


CASES = {
    "plain": lambda: (tensors(), {}),
    "bfloat16": lambda: (tensors(torch.bfloat16), {"causal": True}),
    "window": lambda: (tensors(), {"window_left": 3, "window_right": 1, "softcap": 2.0}),
    "slopes": lambda: (tensors(), {"alibi_slopes": torch.rand(4), "sinks": torch.rand(4)}),
    "dropout": lambda: (tensors(), {"dropout": 0.2, "seed": 5, "scale": 0.3}),
    "packed": packed,
    "paged": paged,
}


@pytest.mark.parametrize("case", CASES)
def test_opcheck_of_the_forward(case):
    args, options = CASES[case]()
    results = torch.library.opcheck(ops.attend_forward.default, args, options)
    assert set(results.values()) == {"SUCCESS"}


def test_opcheck_of_the_short_form():
    for short in (ops.attend_forward.dense, ops.attend_forward.only_out):
        results = torch.library.opcheck(short, (*tensors(), 0.3, True))
        assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("case", [name for name in CASES if name != "paged"])
def test_opcheck_with_gradients(case):
    args, options = CASES[case]()
    args = tuple(x.requires_grad_() for x in args)
    results = torch.library.opcheck(ops.attend.default, args, options)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("case", [name for name in CASES if name != "paged"])
def test_opcheck_of_the_backward(case):
    args, options = CASES[case]()
    out, lse = ops.attend_forward(*args, **options)
    given = (torch.randn_like(out), *args, out, lse)
    results = torch.library.opcheck(ops.attend_backward.default, given, options)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("graded", (False, True))
def test_opcheck_of_dropout_that_draws_its_seed(graded):
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    args = [x.requires_grad_(graded) for x in tensors()]
    given = (None, None, 0, 0, None, None, None, None, None, 0.3, True, -1, -1, 0.0, 0.4)
    operator = ops.attend_dropout.default
    results = torch.library.opcheck(operator, (*args, *given), test_utils=checks)
    out, lse, seed = operator(*[x.detach() for x in args], *given)
    arguments = (out, *args, out, lse, seed, *given)
    backward = ops.attend_dropout_backward.default
    results.update(torch.library.opcheck(backward, arguments, test_utils=checks))
    assert set(results.values()) == {"SUCCESS"}


def test_the_short_form_is_the_long_one():
    for causal, dtype in itertools.product((False, True), (torch.float32, torch.float16)):
        args = tensors(dtype)
        have = ops.attend_forward.dense(*args, 0.3, causal)
        want = ops.attend_forward(*args, scale=0.3, causal=causal)
        assert all(torch.equal(a, b) for a, b in zip(have, want))
        assert torch.equal(ops.attend_forward.only_out(*args, 0.3, causal), want[0])


@pytest.mark.parametrize("case", CASES)
def test_the_operators_are_what_python_computes(case):
    args, options = CASES[case]()
    have = ops.attend_forward(*args, **options)
    want = _torch_ops._forward(*args, **options)
    assert all(torch.equal(a, b) for a, b in zip(have, want))


def test_a_gradient_that_is_broadcast_is_copied():
    args = [x.requires_grad_() for x in tensors()]
    have = torch.autograd.grad(ops.attend(*args)[0].sum(), args)
    out = ops.attend(*args)[0]
    want = torch.autograd.grad(out, args, torch.ones_like(out))
    assert all(torch.equal(a, b) for a, b in zip(have, want))


def test_compiled_in_one_graph_with_gradients():
    def loss(q, k, v):
        return (ops.attend(q * 1.5, k, v, causal=True)[0].cos() ** 2).sum()

    args = [x.requires_grad_() for x in tensors()]
    want = torch.autograd.grad(loss(*args), args)
    have = torch.autograd.grad(torch.compile(loss, fullgraph=True)(*args), args)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(have, want))


def test_empty_tensors():
    q, k, v = tensors()
    assert ops.attend_forward(q[:0], k[:0], v[:0])[0].shape == (0, 9, 4, 32)
    out, lse = ops.attend_forward(q, k[:, :0], v[:, :0])
    assert not out.any() and torch.isneginf(lse).all()


@pytest.mark.parametrize(
    "change, words",
    (
        (lambda q, k, v: ((q[0], k, v), {}), "q: has 3 dimensions"),
        (lambda q, k, v: ((q, k[None], v), {}), "k: has (5|more than four) dimensions"),
        (lambda q, k, v: ((q, k.double(), v), {}), "k: .*element type"),
        (lambda q, k, v: ((q, k.half(), v), {}), "q, k and v have"),
        (lambda q, k, v: ((q, k[:, :5], v), {}), "k and v"),
        (lambda q, k, v: ((q, k[..., :16], v[..., :16]), {}), "head sizes 32 and 16"),
        (lambda q, k, v: ((q[..., ::2], k[..., ::2], v), {}), "q: the last dimension"),
        (lambda q, k, v: ((q[:, :, :3], k, v), {}), "heads is 3"),
        (lambda q, k, v: ((q[:1], k, v), {}), "batch"),
        (lambda q, k, v: ((q, k, v), {"sinks": torch.rand(3)}), "sinks"),
        (lambda q, k, v: ((q, k, v), {"sinks": torch.rand(4).double()}), "sinks"),
        (lambda q, k, v: ((q, k, v), {"alibi_slopes": torch.rand(3, 4)}), "alibi_slopes"),
        (lambda q, k, v: ((q, k, v), {"window_left": -7}), "window_left"),
        (lambda q, k, v: ((q, k, v), {"scale": float("inf")}), "scale"),
        (lambda q, k, v: ((q, k, v), {"seqused_k": torch.tensor([1, 2])}), "seqused_k|int"),
        (lambda q, k, v: ((q, k, v), {"seqused_k": torch.tensor([1, 99], dtype=INT)}), "99"),
    ),
)
def test_what_is_wrong_is_named(change, words):
    args, options = change(*tensors())
    with pytest.raises((RuntimeError, ValueError, TypeError), match=words):
        ops.attend_forward(*args, **options)


@pytest.mark.parametrize(
    "options, words",
    (
        ({"cu_seqlens_q": torch.tensor([0, 5, 4], dtype=INT)}, r"cu_seqlens_q\[2\] is 4"),
        ({"cu_seqlens_q": torch.tensor([0, 9], dtype=INT)}, "cu_seqlens_k: has 3"),
        ({"cu_seqlens_k": torch.tensor([0, 4, 10], dtype=INT)}, r"cu_seqlens_k\[2\] is 10"),
        ({"cu_seqlens_q": torch.tensor([0, 4, 9])}, "cu_seqlens_q: .*int"),
        ({"max_seqlen_q": 2}, "cu_seqlens_q|max_seqlen_q"),
    ),
)
def test_lengths_that_lie(options, words):
    args, right = packed()
    with pytest.raises((RuntimeError, ValueError, TypeError), match=words):
        ops.attend_forward(*args, **{**right, **options})


@pytest.mark.parametrize("name", ("dout", "out", "lse"))
def test_a_backward_of_something_else(name):
    q, k, v = tensors()
    out, lse = ops.attend_forward(q, k, v)
    given = {"dout": out, "q": q, "k": k, "v": v, "out": out, "lse": lse}
    given[name] = given[name][:, :2]
    with pytest.raises((RuntimeError, ValueError), match=name):
        ops.attend_backward(*given.values())


def test_the_classes_of_python_come_from_the_package():
    q, k, v = tensors()
    options = (None,) * 2 + (0, 0) + (None,) * 5 + (0.3, False, -1, -1, 0.0, 0.0, 0)
    with pytest.raises(ValueError, match="k and v"):
        _torch_ops.attend(q, k[:, :3], v, *options)
    with pytest.raises(TypeError, match="types"):
        _torch_ops.attend(q, k.half(), v, *options)


def test_a_window_may_be_a_tensor_as_flash_attns_tests_have_it():
    q, k, v = tensors()
    have = flash_attn.flash_attn_func(q, k, v, window_size=torch.tensor([3, 1]))
    assert torch.equal(have, flash_attn.flash_attn_func(q, k, v, window_size=(3, 1)))
    pages, table = k[:, :8].contiguous(), torch.tensor([[0], [1]], dtype=INT)
    starts, ends = torch.tensor([0, 9, 18], dtype=INT), torch.tensor([0, 8, 13], dtype=INT)
    given = (q.flatten(0, 1).requires_grad_(), pages, pages, starts, ends, 9, 8)
    window = torch.tensor([0, 0])
    out = flash_attn.flash_attn_varlen_func(*given, window_size=window, block_table=table)
    assert out.shape == (18, 4, 32)


def test_memory_does_not_grow_with_errors_and_options(resident):
    def work(count):
        for _ in range(count):
            ops.attend_forward(*args, **options)
            try:
                ops.attend_forward(*wrong, **options)
            except (RuntimeError, ValueError):
                pass

    args, options = paged()
    wrong = (args[0], args[1], args[2][:, :3])
    work(500)
    before = resident()
    work(5000)
    assert resident() - before < 4 << 20
