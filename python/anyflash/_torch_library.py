"""enable() for torch 2.4 to 2.6, whose C shim cannot register kernels: Python kernels.

    register()          # by anyflash.torch.enable()

They call the same C code and stay registered: torch's dispatcher cannot remove a kernel while
other threads call it.
"""

import warnings

import torch

from ._libtorch import SDPA, SDPA_BACKWARD, caller

_SDPA = "_scaled_dot_product_flash_attention_for_cpu"

_registered = None  # torch.library.Library; lives as long as the process


def _result(results):
    if results is None:
        raise RuntimeError("anyflash: torch's attention on the CPU refused the arguments")
    return results


def register():
    """Registers the kernels, once. Raises RuntimeError if this torch is too old."""
    global _registered
    if _registered is not None:
        return
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
