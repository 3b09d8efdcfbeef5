"""Attention backends for vLLM 1 (from 0.32): CPUBackend by the engine, CustomBackend on CUDA.

A step has T packed tokens of several requests: query [T, H, D]. Their keys and values are in
pages: kv_cache [pages, G, page size, 2 D], block_table [requests, pages of each]. On CUDA vLLM
calls do_kv_cache_update() to write new keys and values, then forward() to attend; on the CPU
forward() does both.
"""

import functools
from dataclasses import dataclass
from typing import Optional, Union

import torch
from vllm.logger import init_logger
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadataBuilder,
    AttentionType,
    MultipleOf,
)
from vllm.v1.kv_cache_interface import CrossAttentionSpec, KVCacheLayout

from . import _attend, _paged, _sink_functions, _torch_ops

_F8_TYPES = {
    "fp8": torch.float8_e4m3fn,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}
_ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)
_logger = init_logger("vllm.anyflash")  # vLLM shows only the messages of its own loggers


@dataclass
class Metadata:
    """One step: the tokens of each request, and its pages."""

    num_actual_tokens: int  # without padding
    max_query_len: int
    query_start_loc: torch.Tensor  # int32 [requests + 1]
    max_seq_len: int
    seq_lens: torch.Tensor  # int32 [requests], keys of each, including new ones
    block_table: torch.Tensor  # int32 [requests, pages]
    slot_mapping: torch.Tensor  # int64 [tokens], page * page size + row; -1: none
    causal: Union[bool, torch.Tensor]  # a tensor has one element per request

    def __post_init__(self):
        self._step = None

    def step(self, page_size):
        """What its layers have in common; vLLM makes new metadata when lengths change."""
        if self._step is None or self._step.page_size != page_size:
            self._step = _paged.Step(
                self.num_actual_tokens,
                self.query_start_loc,
                self.max_query_len,
                self.seq_lens,
                self.block_table,
                self.slot_mapping,
                page_size,
            )
        return self._step


class MetadataBuilder(AttentionMetadataBuilder):
    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self.is_cross_attention = isinstance(kv_cache_spec, CrossAttentionSpec)

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        common = common_attn_metadata
        return Metadata(
            num_actual_tokens=common.num_actual_tokens,
            max_query_len=common.max_query_len,
            query_start_loc=common.query_start_loc,
            max_seq_len=common.max_seq_len,
            seq_lens=common.seq_lens,
            block_table=common.block_table_tensor,
            slot_mapping=common.slot_mapping,
            causal=False if self.is_cross_attention else common.causal,
        )


class _Impl(AttentionImpl):
    writes = False  # forward() also does what do_kv_cache_update() does

    def __init__(
        self, num_heads: int, head_size: int, scale: float, num_kv_heads: Optional[int] = None,
        alibi_slopes: Optional[list] = None, sliding_window: Optional[int] = None,
        kv_cache_dtype: str = "auto", logits_soft_cap: Optional[float] = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: Optional[str] = None,
        sinks: Optional[torch.Tensor] = None,
    ):
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.num_queries_per_kv = num_heads // self.num_kv_heads
        self.alibi_slopes = None
        if alibi_slopes is not None:
            self.alibi_slopes = torch.tensor(alibi_slopes, dtype=torch.float32)
        self.left = -1 if sliding_window is None else sliding_window - 1
        self.kv_cache_dtype = kv_cache_dtype
        self.softcap = float(logits_soft_cap or 0.0)
        self.attn_type = attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks
        if sinks is not None and sinks.shape != (num_heads,):
            raise ValueError(f"sinks: shape {tuple(sinks.shape)}, expected ({num_heads},)")

    def f8(self, layer):
        """The type and the factors of an fp8 cache; None for any other."""
        return None

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        """Writes the rows of key and value that have a slot into their pages."""
        if self.attn_type not in _ENCODERS:
            places = _paged.places(slot_mapping, kv_cache.shape[2])
            _paged.write(key, value, self.pages(kv_cache), places, self.f8(layer))

    def forward(
        self, layer, query, key, value, kv_cache, attn_metadata, output,
        output_scale=None, output_block_scale=None,
    ):
        """Writes the attention of query [T, H, D] into output [T, H, D] and returns it.

        With `writes`, key and value [T, G, D] are written to their pages before.
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("output_scale: quantized outputs are not supported")
        if attn_metadata is None:  # vLLM is profiling memory
            return output.fill_(0)
        step = attn_metadata
        if self.attn_type in _ENCODERS:
            self.attend_rows(query, key, value, output, step)
            return output
        if not self.writes or self.kv_sharing_target_layer_name is not None:
            key = None  # another call or another layer writes
        if not torch.is_tensor(step.causal):
            self.attend_pages(layer, query, key, value, kv_cache, output, step)
            return output
        if key is not None:
            self.do_kv_cache_update(layer, key, value, kv_cache, step.slot_mapping)
        for one, begin, end in _requests(step):
            part = query[begin:end], None, None, kv_cache, output[begin:end]
            self.attend_pages(layer, *part, one)
        return output

    def options(self, causal):
        """(causal, window); without causal the window is on both sides."""
        causal = bool(causal)
        return causal, (self.left, -1 if causal else self.left)


def _requests(step):
    """(a step of one request, its first token, the one after its last) for each request."""
    starts = step.query_start_loc.tolist()
    for i, (begin, end) in enumerate(zip(starts, starts[1:])):
        one = Metadata(
            end - begin,
            end - begin,
            step.query_start_loc[i : i + 2] - begin,
            step.max_seq_len,
            step.seq_lens[i : i + 1],
            step.block_table[i : i + 1],
            step.slot_mapping[begin:end],
            bool(step.causal[i]),
        )
        yield one, begin, end


@functools.cache
def _say_once():
    _logger.info("anyflash takes the place of CPU_ATTN")


class CPUImpl(_Impl):
    """Uses the engine, without copies. A page holds all its keys, then all its values."""

    writes = True
    last_f8 = None
    pages = staticmethod(_paged.keys_and_values)

    @functools.cached_property
    def scores(self):
        """The packed options of this layer, first without a causal mask, then with one."""
        options = {"scale": self.scale, "softcap": self.softcap}
        options["alibi_slopes"] = self.alibi_slopes
        return [
            _paged.scores(self.num_heads, causal=causal, window=window, **options)
            for causal, window in map(self.options, (False, True))
        ]

    def float_sinks(self):
        sinks = self.sinks
        if sinks is None or (sinks.dtype == torch.float32 and sinks.is_contiguous()):
            return sinks
        return sinks.detach().float().contiguous()

    def f8(self, layer):
        dtype = _F8_TYPES.get(self.kv_cache_dtype)
        if dtype is None:
            return None
        factors = layer._k_scale_float, layer._v_scale_float
        if self.last_f8 is None or self.last_f8.factors != factors:
            self.last_f8 = _paged.F8(dtype, factors, self.num_kv_heads)
        return self.last_f8

    def attend_pages(self, layer, q, key, value, kv_cache, out, step):
        common, scores = step.step(kv_cache.shape[2]), self.scores[bool(step.causal)]
        sinks, f8 = self.float_sinks(), self.f8(layer)
        common.attend(scores, sinks, q, key, value, kv_cache, out, f8)

    def attend_rows(self, q, k, v, out, step):
        tokens, starts = step.num_actual_tokens, step.query_start_loc
        causal, window = self.options(False)
        sinks = self.float_sinks()
        _attend.attend(
            q[:tokens],
            k[:tokens],
            v[:tokens],
            out=out[:tokens],
            cu_seqlens_q=starts,
            cu_seqlens_k=starts,
            max_seqlen_q=step.max_query_len,
            max_seqlen_k=step.max_query_len,
            scale=self.scale,
            causal=causal,
            window=window,
            softcap=self.softcap,
            alibi_slopes=self.alibi_slopes,
            sinks=sinks if sinks is None else sinks.detach(),
            _threads_of=_torch_ops._threads,
        )


class CustomImpl(_Impl):
    """By this package's flash_attn functions, with the best provider for the device."""

    @staticmethod
    def pages(kv_cache):
        return kv_cache.chunk(2, dim=3)

    def call(self, q, k, v, out, step, starts_k, max_k, causal, table=None):
        slopes, tokens = self.alibi_slopes, step.num_actual_tokens
        causal, window = self.options(causal)
        found = _sink_functions.flash_attn_varlen_func(
            q[:tokens],
            k,
            v,
            step.query_start_loc,
            starts_k,
            step.max_query_len,
            max_k,
            softmax_scale=self.scale,
            causal=causal,
            window_size=window,
            softcap=self.softcap,
            alibi_slopes=None if slopes is None else slopes.to(q.device),
            block_table=table,
            s_aux=self.sinks,
        )
        out[:tokens].copy_(found)

    def attend_pages(self, layer, q, key, value, kv_cache, out, step):
        k, v = (x.transpose(1, 2) for x in self.pages(kv_cache))
        starts = torch.nn.functional.pad(step.seq_lens.cumsum(0), (1, 0)).to(torch.int32)
        self.call(q, k, v, out, step, starts, step.max_seq_len, step.causal, step.block_table)

    def attend_rows(self, q, k, v, out, step):
        tokens, starts = step.num_actual_tokens, step.query_start_loc
        self.call(q, k[:tokens], v[:tokens], out, step, starts, step.max_query_len, False)


class _Backend(AttentionBackend):
    forward_includes_kv_cache_update = False
    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16"]

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        return [MultipleOf(16)]

    @staticmethod
    def get_builder_cls():
        return MetadataBuilder

    @classmethod
    def supports_attn_type(cls, attn_type):
        return attn_type in (*_ENCODERS, AttentionType.DECODER, AttentionType.ENCODER_DECODER)

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_sliding_window(cls):
        return True

    @classmethod
    def supports_non_causal(cls):
        return True


class CPUBackend(_Backend):
    forward_includes_kv_cache_update = True
    supported_dtypes = [torch.float16, torch.bfloat16, torch.float32]
    supported_kv_cache_dtypes = [*_Backend.supported_kv_cache_dtypes, *_F8_TYPES]

    @staticmethod
    def get_name():
        return "CPU_ATTN"  # vLLM looks the name up in its own list

    @staticmethod
    def get_impl_cls():
        _say_once()
        return CPUImpl

    @classmethod
    def supports_head_size(cls, head_size):
        return 1 <= head_size <= 576

    @classmethod
    def supported_kv_cache_layouts(cls):
        return (KVCacheLayout.LBHNC,)


class CustomBackend(_Backend):
    supported_dtypes = [torch.float16, torch.bfloat16]

    @staticmethod
    def get_name():
        return "CUSTOM"

    @staticmethod
    def get_impl_cls():
        return CustomImpl

    @classmethod
    def supports_head_size(cls, head_size):
        return head_size % 8 == 0 and head_size <= 256
