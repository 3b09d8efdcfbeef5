"""Attention backends for vLLM 1 (from 0.32): CPUBackend by the engine, CustomBackend on CUDA.

A step has T packed tokens of several requests: query [T, H, D]. Their keys and values are in
pages: kv_cache [pages, G, page size, 2 D], block_table [requests, pages of each]. vLLM calls
do_kv_cache_update() to write new keys and values, then forward() to attend.
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

from . import _attend, _sink_functions

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
    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: Optional[int] = None,
        alibi_slopes: Optional[list] = None,
        sliding_window: Optional[int] = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: Optional[float] = None,
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

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        """Writes the rows of key and value that have a slot into their pages."""
        if self.attn_type in _ENCODERS:
            return
        pages_of_k, pages_of_v = self.pages(kv_cache)  # [pages, G, page size, D]
        token = (slot_mapping >= 0).nonzero().flatten()
        slot = slot_mapping[token]
        page, row = slot // kv_cache.shape[2], slot % kv_cache.shape[2]
        pages_of_k[page, :, row] = key[token].to(kv_cache.dtype)
        pages_of_v[page, :, row] = value[token].to(kv_cache.dtype)

    def forward(
        self,
        layer,
        query,
        key,
        value,
        kv_cache,
        attn_metadata,
        output,
        output_scale=None,
        output_block_scale=None,
    ):
        """Writes the attention of query [T, H, D] into output [T, H, D] and returns it."""
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("output_scale: quantized outputs are not supported")
        if attn_metadata is None:  # vLLM is profiling memory
            return output.fill_(0)
        step, tokens = attn_metadata, attn_metadata.num_actual_tokens
        q, out = query[:tokens], output[:tokens]
        if self.attn_type in _ENCODERS:
            self.attend_rows(q, key[:tokens], value[:tokens], out, step)
        elif not torch.is_tensor(step.causal):
            self.attend_pages(q, kv_cache, out, step, self.options(step.causal))
        else:
            for one, begin, end in _requests(step):
                options = self.options(one.causal)
                self.attend_pages(q[begin:end], kv_cache, out[begin:end], one, options)
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

    @staticmethod
    def pages(kv_cache):
        pages, heads, rows, _ = kv_cache.shape
        return kv_cache.view(pages, heads, 2 * rows, -1).chunk(2, dim=2)

    def call(self, q, k, v, out, step, causal, window, **options):
        from ._torch_ops import _threads

        sinks = None if self.sinks is None else self.sinks.detach().float()
        _attend.attend(
            q,
            k,
            v,
            out=out,
            cu_seqlens_q=step.query_start_loc,
            max_seqlen_q=step.max_query_len,
            scale=self.scale,
            causal=causal,
            window=window,
            softcap=self.softcap,
            alibi_slopes=self.alibi_slopes,
            sinks=sinks,
            _threads_of=_threads,
            **options,
        )

    def attend_pages(self, q, kv_cache, out, step, options):
        self.call(
            q,
            *self.pages(kv_cache),
            out,
            step,
            *options,
            layout="bhsd",
            seqused_k=step.seq_lens,
            block_table=step.block_table,
        )

    def attend_rows(self, q, k, v, out, step):
        lengths = {"cu_seqlens_k": step.query_start_loc, "max_seqlen_k": step.max_query_len}
        self.call(q, k, v, out, step, *self.options(False), **lengths)


class CustomImpl(_Impl):
    """By this package's flash_attn functions, with the best provider for the device."""

    @staticmethod
    def pages(kv_cache):
        return kv_cache.chunk(2, dim=3)

    def call(self, q, k, v, out, step, starts_k, max_k, causal, window, table):
        slopes = self.alibi_slopes
        found = _sink_functions.flash_attn_varlen_func(
            q,
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
        out.copy_(found)

    def attend_pages(self, q, kv_cache, out, step, options):
        k, v = (x.transpose(1, 2) for x in self.pages(kv_cache))
        starts = torch.nn.functional.pad(step.seq_lens.cumsum(0), (1, 0)).to(torch.int32)
        table = step.block_table
        self.call(q, k, v, out, step, starts, step.max_seq_len, *options, table)

    def attend_rows(self, q, k, v, out, step):
        starts, longest = step.query_start_loc, step.max_query_len
        self.call(q, k, v, out, step, starts, longest, *self.options(False), None)


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
    supported_dtypes = [torch.float16, torch.bfloat16, torch.float32]

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
