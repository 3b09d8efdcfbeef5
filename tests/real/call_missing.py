#!/usr/bin/env python3
"""Calls an installed flash-attn without a GPU and prints its answers as JSON lines.

    LD_PRELOAD=libcuda.so.1 LD_LIBRARY_PATH=. python call_missing.py    (stand_in_cuda.c)

Tensors are torch's fake tensors on the device 'cuda', which have shapes but no memory. So the
extension's own code runs until it reports that it lacks a kernel. A kernel that it has would be
launched, which fails here. Each line has: pass, head_dim, dtype, feature, error.
"""

import json

import torch
import flash_attn_2_cuda  # torch loads the libraries that the extension needs
from torch._subclasses import fake_tensor

NAMES = ("pass", "head_dim", "dtype", "feature")
CASES = [
    (which, head_dim, dtype, feature)
    for which in ("forward", "backward")
    for head_dim in (32, 64, 96, 128, 192, 256)
    for dtype in ("bfloat16", "float16")
    for feature in ("plain", "causal")
] + [
    (which, head_dim, "bfloat16", feature)
    for which in ("forward", "backward")
    for head_dim in (64, 128)
    for feature in ("window", "softcap", "alibi", "dropout")
]


def call(which, head_dim, dtype, feature):
    """The first line of the error."""
    with fake_tensor.FakeTensorMode():
        query = torch.empty(1, 16, 4, head_dim, dtype=getattr(torch, dtype), device="cuda")
        floats = torch.empty(1, 4, 16, dtype=torch.float32, device="cuda")
        slopes = floats[0, :, 0].contiguous() if feature == "alibi" else None
        drop = 0.5 if feature == "dropout" else 0.0
        window = 4 if feature == "window" else -1
        manner = (1.0, feature == "causal", window, window, float(feature == "softcap"))
        try:
            if which == "forward":
                flash_attn_2_cuda.fwd(query, query, query, None, slopes, drop, *manner,
                                      False, None)
            else:
                flash_attn_2_cuda.bwd(query, query, query, query, query, floats, None, None,
                                      None, slopes, drop, *manner, False, None, floats)
        except RuntimeError as error:
            return str(error).splitlines()[0]
    return None


def main():
    fake_tensor.init_gpu_context = lambda device: None  # it would create a real tensor
    for case in CASES:
        print(json.dumps({**dict(zip(NAMES, case)), "error": call(*case)}))


if __name__ == "__main__":
    main()
