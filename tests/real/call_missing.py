#!/usr/bin/env python3
"""Calls an installed wheel of `anyflash build` and prints its answers as JSON lines.

    CUDA_VISIBLE_DEVICES= python call_missing.py

What a wheel lacks is refused before a device is looked for, so no GPU is needed: a kernel that
it has would be started, and then the answer is CUDA's, that there is no device. Each line has:
pass, head_dim, dtype, feature, error.
"""

import json

import flash_attn_2_cuda
import torch

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


class Generator:
    """A generator of random numbers, as flash_attn_2_cuda uses it."""

    initial_seed = get_offset = lambda self: 0
    set_offset = lambda self, offset: None


def call(which, head_dim, dtype, feature):
    """The error."""
    query = torch.zeros(1, 16, 4, head_dim, dtype=getattr(torch, dtype))
    floats = torch.zeros(1, 4, 16)
    slopes = floats[0, :, 0].contiguous() if feature == "alibi" else None
    drop = 0.5 if feature == "dropout" else 0.0
    window = 4 if feature == "window" else -1
    manner = (1.0, feature == "causal", window, window, float(feature == "softcap"))
    try:
        if which == "forward":
            flash_attn_2_cuda.fwd(query, query, query, None, slopes, drop, *manner, False,
                                  Generator())
        else:
            flash_attn_2_cuda.bwd(query, query, query, query, query, floats, None, None, None,
                                  slopes, drop, *manner, False, Generator(),
                                  torch.zeros(2, dtype=torch.int64))
    except RuntimeError as error:
        return str(error)
    return None


def main():
    flash_attn_2_cuda._ON_CPU = True
    for case in CASES:
        print(json.dumps({**dict(zip(NAMES, case)), "error": call(*case)}))


if __name__ == "__main__":
    main()
