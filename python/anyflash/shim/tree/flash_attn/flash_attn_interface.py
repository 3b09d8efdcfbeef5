"""The functions of flash_attn by anyflash, and those beneath them that other programs call.

    from flash_attn.flash_attn_interface import _flash_attn_forward
    out, lse, _, _ = _flash_attn_forward(q, k, v, 0.0, scale, True, -1, -1, 0.0, None, False)
"""

from typing import Optional, Tuple

import flash_attn_2_cuda as flash_attn_gpu
import torch

from anyflash.flash_attn import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

__all__ = [
    "flash_attn_func",
    "flash_attn_gpu",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]


def maybe_contiguous(x):
    """x with a contiguous last dimension; None stays None."""
    if x is None or x.stride(-1) == 1:
        return x
    return x.contiguous()


def round_multiple(x, m):
    """The smallest multiple of m that is at least x."""
    return -(-x // m) * m


def _get_block_size_n(device, head_dim, is_dropout, is_causal):
    """The keys of one block of the kernel, by which flash-attn's tests read S_dmask. Larger
    than any sequence, because anyflash scales whole rows."""
    return 1 << 30


def _flash_attn_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    dropout_p: float, softmax_scale: float, causal: bool,
    window_size_left: int, window_size_right: int, softcap: float,
    alibi_slopes: Optional[torch.Tensor], return_softmax: bool,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(out, lse, S_dmask, rng_state), without a gradient."""
    mask = (causal, window_size_left, window_size_right)
    options = (dropout_p, softmax_scale, *mask, softcap, return_softmax, None)
    return tuple(flash_attn_gpu.fwd(q, k, v, None, alibi_slopes, *options))


def _flash_attn_varlen_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float, softmax_scale: float, causal: bool,
    window_size_left: int = -1, window_size_right: int = -1, softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None, return_softmax: bool = False,
    block_table: Optional[torch.Tensor] = None, leftpad_k: Optional[torch.Tensor] = None,
    seqused_k: Optional[torch.Tensor] = None, zero_tensors: bool = False,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(out, lse, S_dmask, rng_state), without a gradient."""
    keys = (cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table)
    mask = (zero_tensors, causal, window_size_left, window_size_right)
    options = (max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, *mask, softcap)
    return tuple(
        flash_attn_gpu.varlen_fwd(
            q, k, v, None, *keys, alibi_slopes, *options, return_softmax, None
        )
    )


def _flash_attn_backward(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    out: torch.Tensor, softmax_lse: torch.Tensor,
    dq: Optional[torch.Tensor], dk: Optional[torch.Tensor], dv: Optional[torch.Tensor],
    dropout_p: float, softmax_scale: float, causal: bool,
    window_size_left: int, window_size_right: int, softcap: float,
    alibi_slopes: Optional[torch.Tensor], deterministic: bool,
    rng_state: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Writes dq, dk, dv and returns softmax_d."""
    tensors = (dout, q, k, v, out, softmax_lse, dq, dk, dv, alibi_slopes)
    mask = (causal, window_size_left, window_size_right)
    options = (dropout_p, softmax_scale, *mask, softcap, deterministic, None, rng_state)
    return flash_attn_gpu.bwd(*tensors, *options)[3]


def _flash_attn_varlen_backward(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    out: torch.Tensor, softmax_lse: torch.Tensor,
    dq: Optional[torch.Tensor], dk: Optional[torch.Tensor], dv: Optional[torch.Tensor],
    cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int, max_seqlen_k: int,
    dropout_p: float, softmax_scale: float, causal: bool,
    window_size_left: int, window_size_right: int, softcap: float,
    alibi_slopes: Optional[torch.Tensor], deterministic: bool,
    rng_state: Optional[torch.Tensor] = None, zero_tensors: bool = False,
) -> torch.Tensor:
    """Writes dq, dk, dv and returns softmax_d."""
    tensors = (dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k)
    options = (alibi_slopes, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale)
    mask = (zero_tensors, causal, window_size_left, window_size_right)
    last = (softcap, deterministic, None, rng_state)
    return flash_attn_gpu.varlen_bwd(*tensors, *options, *mask, *last)[3]


_wrapped_flash_attn_forward = _flash_attn_forward
_wrapped_flash_attn_varlen_forward = _flash_attn_varlen_forward
_wrapped_flash_attn_backward = _flash_attn_backward
_wrapped_flash_attn_varlen_backward = _flash_attn_varlen_backward
