"""Attention by torch: scaled_dot_product_attention, and flex_attention compiled."""
import os

from common import DOUT, Decline, fill, inputs, measure, probe


def run_torch(case):
    import torch
    if not case:
        return {"version": torch.__version__}
    torch.set_num_threads(case["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    backward = case["operation"] == "backward"
    q, k, v = (torch.from_numpy(array).to(dtype).requires_grad_(backward)
               for array in inputs(case))

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=case["causal"], enable_gqa=case["heads"] != case["kv_heads"])

    if not backward:
        with torch.inference_mode():
            times = measure(case, forward)
            results = [forward()]
    else:
        dout = torch.from_numpy(fill(DOUT, case["heads"], case["q_len"], case["head_dim"]))
        dout = dout.to(dtype)
        o = forward()
        results = []

        def run():
            results[:] = torch.autograd.grad(o, (q, k, v), dout, retain_graph=True)

        times = measure(case, run)
    return {"milliseconds": times, "dtype": case["dtype"],
            "results": [probe(case, tensor.float().numpy()) for tensor in results]}


def run_flex(case):
    import shutil
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        raise Decline("not installed: it needs a C++ compiler")
    if not case:
        return {"version": torch.__version__}
    if case["operation"] == "backward":
        raise Decline("has no backward on CPUs")
    torch.set_num_threads(case["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    q, k, v = (torch.from_numpy(array).to(dtype) for array in inputs(case))
    mask = None
    if case["causal"]:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, case["q_len"],
                                 case["k_len"], device="cpu")
    attend = torch.compile(flex_attention)
    with torch.inference_mode():
        def run():
            return attend(q, k, v, block_mask=mask,
                          enable_gqa=case["heads"] != case["kv_heads"])
        times = measure(case, run)
        result = run()
    return {"milliseconds": times, "dtype": case["dtype"],
            "results": [probe(case, result.float().numpy())]}
