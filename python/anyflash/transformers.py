"""Attention for transformers 5 models, under the name "anyfa".

    import anyflash.transformers
    anyflash.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="anyfa")

Causal and full attention, padding on either side, packed sequences, sliding windows, softcap,
sinks, dynamic and static caches; gradients; torch.compile(fullgraph=True) on the CPU. Only
other patterns need a mask of S x S.

enable_flash_attention_2() makes "flash_attention_2" work on every device, including CPUs. Both
functions have one that undoes them. The name "anyfa" avoids "flash", because transformers takes
any name with "flash" in it for a kernel to import.
"""

import math

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers import modeling_flash_attention_utils as _fa_utils
from transformers.generation.continuous_batching import PagedAttentionCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from . import _hf_masks, _sink_functions, flash_attn
from ._hf_elsewhere import attend_elsewhere, visible_mask
from ._masked import Scores, Starts, attend_masked
from .providers.call import seed

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _one_dtype(query, key, value):
    """Converts to one type, autocast's or that of the values: a norm may have made q and k
    float32."""
    device = query.device.type
    dtype = value.dtype
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _with_sdpa(module, query, key, value, mask, causal, window, **options):
    """By torch's sdpa: for a learned bias on the scores, and float64."""
    if isinstance(mask, Scores):
        mask = mask.values
    elif mask is not None:
        mask = visible_mask(mask, causal, window, query.shape[2], key.shape[2])
    return sdpa_attention_forward(
        module, query, key, value, mask, is_causal=causal, **options
    )


def attention(
    module, query, key, value, attention_mask,
    dropout=0.0, scaling=None, sliding_window=None, softcap=None, s_aux=None,
    is_causal=None, position_bias=None,
    cu_seq_lens_q=None, cu_seq_lens_k=None, position_ids=None, **kwargs,
):
    """An attention function of transformers: query [B, H, Sq, D], key and value [B, G, Sk, D].

    attention_mask: None, or a tensor as _hf_masks.mask() makes it.
    Returns out [B, Sq, H, D] and None: there are no attention weights.
    """
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    left = sliding_window - 1 if sliding_window else -1
    window = (left, -1 if causal else left)
    query, key, value = _one_dtype(query, key, value)
    mask = _hf_masks.unpack(attention_mask)
    if cu_seq_lens_q is None:
        sizes = query.shape[0], query.shape[2], key.shape[2]
        mask = _hf_masks.with_sequences(mask, position_ids, *sizes)
    if position_bias is not None or query.dtype not in _DTYPES:
        options = {"dropout": dropout, "scaling": scaling, "softcap": softcap}
        options["position_bias"] = position_bias
        return _with_sdpa(module, query, key, value, mask, causal, window, **options)
    scale = scaling if scaling is not None else 1.0 / math.sqrt(query.shape[-1])
    softcap = softcap or 0.0
    if mask is None and cu_seq_lens_q is None and s_aux is None:
        rows = (x.transpose(1, 2) for x in (query, key, value))
        return flash_attn.flash_attn_func(
            *rows, dropout, scale, causal, window, softcap
        ), None
    sinks = None if s_aux is None else s_aux.float()
    if cu_seq_lens_q is not None and not isinstance(mask, Scores):
        starts = cu_seq_lens_q.to(torch.int32), cu_seq_lens_k.to(torch.int32)
        mask = Starts(*starts, getattr(mask, "window", None))
    attend = attend_masked if query.device.type == "cpu" else attend_elsewhere
    options = (float(softcap), float(dropout), seed(dropout))
    out = attend(query, key, value, mask, sinks, float(scale), bool(causal), *window, *options)
    return out, None


def register(name: str = "anyfa") -> None:
    """Makes attn_implementation=name use this package. Idempotent; unregister() undoes it.

    >>> anyflash.transformers.register()
    >>> model.set_attn_implementation("anyfa")

    Raises ValueError for a name that transformers would take for something else.
    """
    if "flash" in name or "/" in name or name in ("eager", "sdpa", "flex_attention"):
        raise ValueError(
            f"name: transformers uses {name!r} for something else; choose another one"
        )
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, _hf_masks.mask)


def unregister(name: str = "anyfa") -> None:
    """Undoes register(name). Models that use `name` must be set to another implementation.

    >>> anyflash.transformers.unregister()
    """
    if AttentionInterface._global_mapping.get(name) is attention:
        del AttentionInterface._global_mapping[name]
        del AttentionMaskInterface._global_mapping[name]


def _functions(implementation, *args, **kwargs):
    if implementation != "flash_attention_2":
        return _before["_lazy_imports"](implementation, *args, **kwargs)
    return (
        _sink_functions.flash_attn_func,
        _sink_functions.flash_attn_varlen_func,
        _sink_functions.flash_attn_with_kvcache,
        _fa_utils._pad_input,
        _fa_utils._unpad_input,
    )


def _attention_or_paged(module, query, key, value, attention_mask, **kwargs):
    """`attention`, or for continuous batching transformers' own function, without the mask:
    its requests are packed, with their lengths in kwargs."""
    if isinstance(kwargs.get("cache"), PagedAttentionCache):
        return _before["attention"](module, query, key, value, None, **kwargs)
    return attention(module, query, key, value, attention_mask, **kwargs)


_FA2 = "flash_attention_2"
_before = {}  # what enable_flash_attention_2() replaced; empty if it is not enabled


def enable_flash_attention_2() -> None:
    """Makes attn_implementation="flash_attention_2" work on every device, including CPUs.

    >>> anyflash.transformers.enable_flash_attention_2()

    For code that cannot choose another name; flash_attn need not be installed. Applies to the
    whole process. Idempotent; disable_flash_attention_2() undoes it.
    """
    if _before:
        return
    entry = _fa_utils.FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]
    _before.update(
        _lazy_imports=_fa_utils._lazy_imports,
        entry=dict(entry),
        attention=AttentionInterface._global_mapping[_FA2],
        mask=AttentionMaskInterface._global_mapping[_FA2],
    )
    _fa_utils._lazy_imports = _functions
    _fa_utils._loaded_implementation = None
    entry["general_availability_check"] = lambda *args, **kwargs: True
    entry["supported_devices"] = (*entry["supported_devices"], (lambda: True, "cpu"))
    AttentionInterface.register(_FA2, _attention_or_paged)
    AttentionMaskInterface.register(_FA2, _hf_masks.mask)


def disable_flash_attention_2() -> None:
    """Undoes enable_flash_attention_2().

    >>> anyflash.transformers.disable_flash_attention_2()
    """
    if not _before:
        return
    entry = _fa_utils.FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]
    entry.clear()
    entry.update(_before["entry"])
    _fa_utils._lazy_imports = _before["_lazy_imports"]
    _fa_utils._loaded_implementation = None
    AttentionInterface.register(_FA2, _before["attention"])
    AttentionMaskInterface.register(_FA2, _before["mask"])
    _before.clear()
