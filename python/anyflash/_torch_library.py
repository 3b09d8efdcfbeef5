"""enable() for torch 2.4 to 2.6, whose C shim cannot register kernels: Python kernels.

    enable_in_python(is_enabled)        # by anyflash.torch.enable()

The kernels of F.scaled_dot_product_attention call the same C code and stay registered: torch's
dispatcher cannot remove a kernel while other threads call it.
"""

import warnings

import torch

from . import _torch_ops
from ._libtorch import SDPA, SDPA_BACKWARD, caller

_SDPA = "_scaled_dot_product_flash_attention_for_cpu"


def _laid_out_as(model, result):
    """The result with the strides of torch's Meta kernels."""
    if result.stride() == torch.empty_like(model).stride():
        return result
    return torch.empty_like(model).copy_(result)


def _options(query, scale, is_causal, left, right, dropout_p):
    """The options of anyflash::attend from the scale on, without the seed."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    window = (-1 if side is None else side for side in (left, right))
    return scale, is_causal, *window, 0.0, dropout_p


def _flash_forward(
    query,
    key,
    value,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    return_debug_mask,
    *,
    scale=None,
    window_size_left=None,
    window_size_right=None,
    seqused_k=None,
    alibi_slopes=None,
):
    """aten::_flash_attention_forward of torch 2.4 to 2.6."""
    if return_debug_mask:
        raise RuntimeError("anyflash: return_debug_mask is not supported on the CPU")
    seed = torch.randint(2**62, ()) if dropout_p > 0 else torch.zeros((), dtype=torch.long)
    packed = (cum_seq_q, cum_seq_k, max_q, max_k, seqused_k, None, None, alibi_slopes, None)
    options = _options(query, scale, is_causal, window_size_left, window_size_right, dropout_p)
    with torch.no_grad():
        out, lse = _torch_ops.attend(query, key, value, *packed, *options, int(seed))
    lse.masked_fill_(lse == -torch.inf, torch.inf)
    unused = torch.zeros((), dtype=torch.long)
    return _laid_out_as(query, out), lse, seed, unused, query.new_empty(0)


def _flash_backward(
    grad_out,
    query,
    key,
    value,
    out,
    logsumexp,
    cum_seq_q,
    cum_seq_k,
    max_q,
    max_k,
    dropout_p,
    is_causal,
    philox_seed,
    philox_offset,
    *,
    scale=None,
    window_size_left=None,
    window_size_right=None,
):
    """aten::_flash_attention_backward of torch 2.4 to 2.6."""
    packed = (cum_seq_q, cum_seq_k, max_q, max_k, *[None] * 5)
    options = _options(query, scale, is_causal, window_size_left, window_size_right, dropout_p)
    seed = int(philox_seed) if dropout_p > 0 else 0
    tensors = (grad_out, query, key, value, out, logsumexp)
    with torch.no_grad():
        gradients = torch.ops.anyflash.attend_backward(*tensors, *packed, *options, seed)
    return tuple(_laid_out_as(*pair) for pair in zip((query, key, value), gradients))


def _only_when_on(kernel, is_enabled):
    """The kernel; while the engine is disabled, it raises the error of torch without one."""

    def guarded(*args, **options):
        if not is_enabled():
            raise NotImplementedError(
                "anyflash is disabled, and torch has no FlashAttention for the CPU"
            )
        return kernel(*args, **options)

    return guarded


# Objects of torch.library.Library: that of SDPA lives as long as the process, that of
# FlashAttention until withdraw().
_registered = _flash = None


def _register_flash(is_enabled):
    global _flash
    if _flash is None:
        library = torch.library.Library("aten", "IMPL")
        forward = _only_when_on(_flash_forward, is_enabled)
        backward = _only_when_on(_flash_backward, is_enabled)
        library.impl("_flash_attention_forward", forward, "CPU")
        library.impl("_flash_attention_backward", backward, "CPU")
        _flash = library


def withdraw():
    """Removes FlashAttention's kernels from the dispatcher; no other thread may call them."""
    global _flash
    if _flash is not None:
        _flash._destroy()
        _flash = None


def _result(results):
    if results is None:
        raise RuntimeError("anyflash: torch's attention on the CPU refused the arguments")
    return results


def _register_sdpa():
    global _registered
    forward, backward = caller(SDPA), caller(SDPA_BACKWARD)

    def attend(
        query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None
    ):
        return _result(forward(query, key, value, dropout_p, is_causal, attn_mask, scale))

    def attend_backward(*tensors_and_numbers, attn_mask=None, scale=None):
        return _result(backward(*tensors_and_numbers, attn_mask, scale))

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():  # about a replaced kernel, which is intended
        warnings.simplefilter("ignore")
        library.impl(_SDPA, attend, "CPU")
        library.impl(f"{_SDPA}_backward", attend_backward, "CPU")
    _registered = library


def enable_in_python(is_enabled):
    """Registers what is not registered yet; is_enabled(): whether kernels of operators that
    torch itself lacks may run. Raises RuntimeError if this torch is too old."""
    if _registered is None:
        _register_sdpa()
    _register_flash(is_enabled)
