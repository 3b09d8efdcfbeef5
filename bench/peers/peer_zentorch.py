"""Times the attention operator of zentorch, AMD's extension of torch."""
from common import Decline, inputs


def version_zentorch():
    import zentorch
    return zentorch.__version__


def attend_zentorch(case):
    import torch
    import zentorch  # noqa: F401: registers the operator
    if case["operation"] == "backward":
        raise Decline("has no backward")
    torch.set_num_threads(case["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    q, k, v = (torch.from_numpy(array).to(dtype) for array in inputs(case))
    kept = []

    def run():
        with torch.inference_mode():
            kept[:] = torch.ops.zentorch.zentorch_sdpa(q, k, v, 0.0, case["causal"])

    return case["dtype"], run, lambda: [kept[0].float().numpy()]
