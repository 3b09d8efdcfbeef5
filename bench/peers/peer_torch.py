"""Times torch's scaled_dot_product_attention()."""
from common import DOUT, fill, inputs


def version_torch():
    import torch
    return torch.__version__


def attend_torch(case):
    import torch
    torch.set_num_threads(case["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    backward = case["operation"] == "backward"
    q, k, v = (torch.from_numpy(array).to(dtype).requires_grad_(backward)
               for array in inputs(case))

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=case["causal"], enable_gqa=case["heads"] != case["kv_heads"])

    kept = []
    if backward:
        dout = torch.from_numpy(fill(DOUT, case["heads"], case["q_len"], case["head_dim"]))
        o, dout = forward(), dout.to(dtype)

        def run():
            kept[:] = torch.autograd.grad(o, (q, k, v), dout, retain_graph=True)
    else:
        def run():
            with torch.inference_mode():
                kept[:] = [forward()]

    return case["dtype"], run, lambda: [tensor.float().numpy() for tensor in kept]
