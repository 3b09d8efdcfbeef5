"""Times vLLM's attention on CPUs. Filling its paged cache is not timed."""
from common import Decline, inputs

PAGE = 128  # vLLM's default on CPUs


def version_vllm():
    import vllm
    from vllm.platforms import current_platform
    if not current_platform.is_cpu():
        raise Decline("not installed: this vLLM was not built for CPUs")
    return vllm.__version__


def attend_vllm(case):
    import torch
    from vllm import _custom_ops
    from vllm.platforms import current_platform
    if case["operation"] == "backward":
        raise Decline("has no backward")
    current_platform.import_kernels()
    torch.set_num_threads(case["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    # Packed tokens: [S, H, D].
    q, k, v = (torch.from_numpy(array)[0].transpose(0, 1).to(dtype).contiguous()
               for array in inputs(case))
    rows, keys, dim = case["q_len"], case["k_len"], case["head_dim"]
    isa = "vec"
    if dtype == torch.bfloat16 and torch.cpu._is_amx_tile_supported():
        isa = "amx"
    # Each page holds all its keys of a head, then all its values.
    pages = -(-keys // PAGE)
    cache = torch.zeros(pages, case["kv_heads"], 2 * PAGE, dim, dtype=dtype)
    pages_of_k, pages_of_v = cache.chunk(2, dim=2)
    slots = torch.arange(keys)
    _custom_ops.cpu_attn_reshape_and_cache(k, v, pages_of_k, pages_of_v, slots, isa)
    starts = torch.tensor([0, rows], dtype=torch.int32)
    lengths = torch.tensor([keys], dtype=torch.int32)
    plan = _custom_ops.cpu_attn_get_scheduler_metadata(
        num_reqs=1, num_heads=case["heads"], num_kv_heads=case["kv_heads"], head_dim=dim,
        seq_lens=lengths, dtype=dtype, query_start_loc=starts, causal=case["causal"],
        sliding_window_size=-1, isa=isa, enable_kv_split=True)
    table = torch.arange(pages, dtype=torch.int32)[None]
    o = torch.empty_like(q)

    def run():
        _custom_ops.cpu_attention_with_kv_cache(
            query=q, key_cache=pages_of_k, value_cache=pages_of_v, output=o,
            query_start_loc=starts, seq_lens=lengths, scale=dim ** -0.5, causal=case["causal"],
            alibi_slopes=None, sliding_window=-1, block_table=table, softcap=0.0,
            scheduler_metadata=plan, s_aux=None)

    return case["dtype"], run, lambda: [o.transpose(0, 1).float().contiguous().numpy()]
