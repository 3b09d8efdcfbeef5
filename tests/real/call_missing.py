#!/usr/bin/env python3
"""Calls an installed flash-attn without a GPU and prints what it answers, as JSON lines.

    LD_PRELOAD=libcuda.so.1 LD_LIBRARY_PATH=. python call_missing.py    (stand_in_cuda.c)

Tensors are fake ones of torch on the device 'cuda': they have shapes and no memory. So the
extension's own code runs up to its answer that it lacks a kernel; one that it has would be
launched, which fails here. Each line has: head_dim, dtype, feature, error.
"""

import json

import torch
import flash_attn_2_cuda  # torch brings the libraries that it needs
from torch._subclasses import fake_tensor

CASES = [
    (head_dim, dtype, feature)
    for head_dim in (32, 64, 96, 128, 192, 256)
    for dtype in ("bfloat16", "float16")
    for feature in ("plain", "causal")
] + [(128, "bfloat16", feature) for feature in ("window", "softcap", "alibi", "dropout")]


def call(head_dim, dtype, feature):
    """The first line of the error."""
    with fake_tensor.FakeTensorMode():
        query = torch.empty(1, 16, 4, head_dim, dtype=getattr(torch, dtype), device="cuda")
        slopes = torch.empty(4, dtype=torch.float32, device="cuda")
        window = 4 if feature == "window" else -1
        try:
            flash_attn_2_cuda.fwd(
                *(query, query, query, None),
                slopes if feature == "alibi" else None,
                0.5 if feature == "dropout" else 0.0,
                *(1.0, feature == "causal", window, window),
                1.0 if feature == "softcap" else 0.0,
                *(False, None),
            )
        except RuntimeError as error:
            return str(error).splitlines()[0]
    return None


def main():
    fake_tensor.init_gpu_context = lambda device: None  # it would make a real tensor
    for case in CASES:
        names = ("head_dim", "dtype", "feature", "error")
        print(json.dumps(dict(zip(names, (*case, call(*case))))))


if __name__ == "__main__":
    main()
