"""Times torch's flex_attention(), compiled."""
import os
import shutil

from common import Decline, inputs


def version_flex():
    import torch
    from torch.nn.attention import flex_attention  # noqa: F401: older releases lack it
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        raise Decline("needs a C++ compiler")
    return torch.__version__


def attend_flex(case):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    if case["operation"] == "backward":
        raise Decline("has no backward on CPUs")
    torch.set_num_threads(case["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    q, k, v = (torch.from_numpy(array).to(dtype) for array in inputs(case))
    mask = None
    if case["causal"]:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, case["q_len"],
                                 case["k_len"], device="cpu")
    torch.compiler.reset()  # only so many shapes are compiled for one function
    attend = torch.compile(flex_attention)
    kept = []

    def run():
        with torch.inference_mode():
            kept[:] = [attend(q, k, v, block_mask=mask,
                              enable_gqa=case["heads"] != case["kv_heads"])]

    return case["dtype"], run, lambda: [kept[0].float().numpy()]
