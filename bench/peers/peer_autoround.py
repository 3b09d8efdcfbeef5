"""Times the attention of auto-round-lib, Intel's kernels for quantized models."""
from common import Decline, inputs


def version_autoround():
    from importlib.metadata import version

    import auto_round_kernel  # noqa: F401
    return version("auto-round-lib")


def attend_autoround(case):
    import auto_round_kernel
    import torch
    if case["operation"] == "backward":
        raise Decline("has no backward")
    if case["dtype"] == "f32":
        raise Decline("computes f32 without vector instructions, 100 times slower than bf16")
    torch.set_num_threads(case["threads"])
    dtype = torch.bfloat16
    q, k, v = (torch.from_numpy(array).to(dtype) for array in inputs(case))
    last = []

    def run():
        last[:] = [auto_round_kernel.sdpa(q, k, v, is_causal=bool(case["causal"]))]

    return case["dtype"], run, lambda: [last[0].float().numpy()]
