"""torch's own samples for its attention operators (OpInfo), and opcheck, with enable()."""

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing._internal imports it
import anyflash.torch  # noqa: E402
from torch_support import BOUNDS, TORCH, worst  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo.core import SampleInput

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


pytestmark = pytest.mark.usefixtures("enabled")


FOR_CPU = "_scaled_dot_product_flash_attention_for_cpu"


def own_samples(dtype, requires_grad):
    """Samples of the operator behind SDPA, for which older torches have none."""
    operator = getattr(torch.ops.aten, FOR_CPU)
    kinds = ((False, False, None), (True, False, 0.3), (False, True, None))
    for causal, masked, scale in kinds:
        q, k, v = (
            torch.randn(4, 4, rows, 8, dtype=dtype, requires_grad=requires_grad)
            for rows in (3, 6, 6)
        )
        mask = torch.randn(3, 6, dtype=dtype) if masked else None
        options = {"attn_mask": mask, "scale": scale}
        yield operator, SampleInput(q, args=(k, v, 0.0, causal), kwargs=options)


def samples(name, dtype, requires_grad):
    """(function, sample) of torch's operators of this name."""
    found = [op for op in op_db if op.name.split(".")[-1] == name]
    if not found and name == FOR_CPU:
        yield from own_samples(dtype, requires_grad)
    elif not found:
        pytest.skip(f"torch {torch.__version__} has no samples of {name}")
    for op in found:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=requires_grad):
            yield op.op, sample


def tensors_of(values):
    for value in values if isinstance(values, (tuple, list)) else (values,):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            yield value


def results(function, sample):
    """Outputs and gradients of a sample, from the same random numbers each time."""
    torch.manual_seed(0)
    inputs = list(tensors_of([sample.input, *sample.args, *sample.kwargs.values()]))
    outputs = function(sample.input, *sample.args, **sample.kwargs)
    first = next(tensors_of(outputs))
    wanted = [x for x in inputs if x.requires_grad]
    gradients = ()
    if wanted and first.requires_grad:
        gradients = torch.autograd.grad(
            first, wanted, torch.ones_like(first).cos(), allow_unused=True
        )
    return first, *[g for g in gradients if g is not None]


def same_as_stock(name, dtype, requires_grad=True):
    """Compares each sample with and without the engine; how many reached the engine."""
    before = anyflash.torch.counts()[0]
    for function, sample in samples(name, dtype, requires_grad):
        ours = results(function, sample)
        anyflash.torch.disable()
        stock = results(function, sample)
        anyflash.torch.enable()
        assert len(ours) == len(stock)
        for have, want in zip(ours, stock):
            assert have.stride() == want.stride() and have.dtype == want.dtype
            bound = 2 * BOUNDS.get(dtype, 0.0)
            if TORCH < (2, 5) and dtype == torch.float16:
                bound *= 2  # torch 2.4 accumulates in float16
            scale = max(1.0, want.abs().max().item()) if want.numel() else 1.0
            assert torch.allclose(have, want, rtol=0, atol=bound * scale), sample
    return anyflash.torch.counts()[0] - before


@pytest.mark.parametrize("dtype", DTYPES)
def test_sdpa(dtype):
    assert same_as_stock("scaled_dot_product_attention", dtype) > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_operator_behind_it(dtype):
    assert same_as_stock(FOR_CPU, dtype) > 0


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_multi_head_attention(dtype):
    same_as_stock("multi_head_attention_forward", dtype)


CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(operator, *args, **options):
    answers = torch.library.opcheck(operator, args, options, test_utils=CHECKS)
    assert set(answers.values()) == {"SUCCESS"}, answers


def test_opcheck_of_sdpa():
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    q, k = (torch.randn(2, 4, n, 16, requires_grad=True) for n in (5, 9))
    opcheck(operator, q, k, k, 0.0, True, scale=0.3)
    opcheck(operator, q, k, k, attn_mask=torch.randn(5, 9))


def test_opcheck_of_its_backward():
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k = torch.randn(2, 4, 5, 16), torch.randn(2, 4, 9, 16)
    out, lse = operator(q, k, k)
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    opcheck(backward, torch.randn_like(out), q, k, k, out, lse, 0.0, False)
