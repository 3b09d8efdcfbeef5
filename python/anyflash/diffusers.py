"""The attention backend "anyflash" of diffusers.

    import anyflash.diffusers
    anyflash.diffusers.register()
    model.set_attention_backend("anyflash")     # or: with attention_backend("anyflash"): ...

unregister() undoes it. diffusers' "native" backend is torch's attention, for which on CPUs
anyflash.torch.enable() is enough. DIFFUSERS_ATTN_BACKEND cannot name this backend, because
diffusers checks that variable while it is imported.
"""

import torch
from diffusers.models import attention_dispatch as _dispatch

from . import flash_attn
from ._masked import Scores, attend_masked
from .providers.call import seed

_NAME = "anyflash"
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _whole_mask(attn_mask, query, key):
    """As in diffusers' native backend: [B, Sk] is a mask of keys; any other is broadcast."""
    if attn_mask.dim() == 2 and attn_mask.shape == (query.shape[0], key.shape[1]):
        return attn_mask[:, None, None, :]
    return attn_mask.view(*[1] * (4 - attn_mask.dim()), *attn_mask.shape)


def attention(
    query, key, value, attn_mask=None,
    dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, _parallel_config=None,
):
    """A backend of diffusers: query [B, Sq, H, D], key and value [B, Sk, G, D]; out as query.

    Calls that neither flash_attn's functions nor the engine support go to torch: a mask that is
    learned or on a GPU, float64, causal with unequal lengths (which torch aligns top left).
    """
    if _parallel_config is not None:
        raise NotImplementedError(
            "_parallel_config is not supported; use one of diffusers' own backends"
        )
    aligned = not is_causal or query.shape[1] == key.shape[1]
    plain = query.dtype in _DTYPES and aligned
    if plain and attn_mask is None:
        return flash_attn.flash_attn_func(query, key, value, dropout_p, scale, is_causal)
    mask = None if attn_mask is None else _whole_mask(attn_mask, query, key)
    rows = [x.transpose(1, 2) for x in (query, key, value)]
    known = mask is not None and not mask.requires_grad and mask.shape[-1] == key.shape[1]
    if plain and known and not is_causal and query.device.type == "cpu":
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        numbers = (float(scale), False, -1, -1, 0.0, float(dropout_p), seed(dropout_p))
        return attend_masked(*rows, Scores(mask), None, *numbers)
    options = {"enable_gqa": True} if enable_gqa else {}
    return torch.nn.functional.scaled_dot_product_attention(
        *rows, mask, dropout_p, is_causal, scale=scale, **options
    ).transpose(1, 2)


def register() -> None:
    """Adds the backend "anyflash". Idempotent; unregister() undoes it.

    >>> anyflash.diffusers.register()
    >>> model.set_attention_backend("anyflash")
    """
    names = _dispatch.AttentionBackendName
    if _NAME in names._value2member_map_:
        return
    member = str.__new__(names, _NAME)  # the enum has no way to add a member
    member._name_, member._value_ = _NAME.upper(), _NAME
    member.__objclass__, member._sort_order_ = names, len(names)
    names._member_map_[member._name_] = member
    names._value2member_map_[_NAME] = member
    names._member_names_.append(member._name_)
    type.__setattr__(names, member._name_, member)
    checks = [_dispatch._check_device, _dispatch._check_shape]
    _dispatch._AttentionBackendRegistry.register(member, constraints=checks)(attention)


def unregister() -> None:
    """Undoes register(). Models that use the backend must be set to another one.

    >>> anyflash.diffusers.unregister()
    """
    names, registry = _dispatch.AttentionBackendName, _dispatch._AttentionBackendRegistry
    member = names._value2member_map_.pop(_NAME, None)
    if member is None:
        return
    del names._member_map_[member._name_]
    names._member_names_.remove(member._name_)
    type.__delattr__(names, member._name_)
    for table in (registry._backends, registry._constraints, registry._supported_arg_names):
        del table[member]
    if registry._active_backend is member:
        registry.set_active_backend(names.NATIVE)
