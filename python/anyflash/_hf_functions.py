"""flash_attn's functions with attention sinks, as transformers asks for them by `s_aux`.

transformers looks into the signature of the function it is given and leaves out, silently,
what is not there: a model with sinks would compute something else.
"""

import inspect
import math

import torch

from . import flash_attn
from ._hf_elsewhere import with_sinks
from ._masked import attend_masked, seed_of

flash_attn_with_kvcache = flash_attn.flash_attn_with_kvcache


def _on_cpu(q, k, v, cu_q, cu_k, s_aux, asked):
    scale = asked["softmax_scale"]
    rows = [x[None] if x.dim() == 3 else x for x in (q, k, v)]
    out = attend_masked(
        *[x.transpose(1, 2) for x in rows],
        None,
        cu_q,
        cu_k,
        s_aux.float(),
        1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale),
        bool(asked["causal"]),
        *map(int, asked["window_size"]),
        float(asked["softcap"]),
        float(asked["dropout_p"]),
        seed_of(asked["dropout_p"]),
    )
    return out[0] if q.dim() == 3 else out


def _taking_sinks(function):
    """`function` with one more argument, s_aux: float [H], or None."""
    signature = inspect.signature(function)
    sinks = inspect.Parameter("s_aux", inspect.Parameter.KEYWORD_ONLY, default=None)

    def attend(*args, s_aux=None, **kwargs):
        if s_aux is None:
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        asked = bound.arguments
        if asked["return_attn_probs"]:
            raise NotImplementedError("return_attn_probs with s_aux")
        q, k, v = asked["q"], asked["k"], asked["v"]
        simple = asked["alibi_slopes"] is None and asked.get("block_table") is None
        if simple and q.device.type == "cpu":
            cu = asked.get("cu_seqlens_q"), asked.get("cu_seqlens_k")
            return _on_cpu(q, k, v, *cu, s_aux, asked)
        if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, s_aux)):
            raise NotImplementedError(f"s_aux: no gradient on {q.device}; use 'anyfa'")
        asked["return_attn_probs"] = True
        return with_sinks(*function(**asked)[:2], s_aux.float())

    attend.__name__, attend.__doc__ = function.__name__, function.__doc__
    attend.__signature__ = signature.replace(
        parameters=[*signature.parameters.values(), sinks]
    )
    return attend


flash_attn_func = _taking_sinks(flash_attn.flash_attn_func)
flash_attn_varlen_func = _taking_sinks(flash_attn.flash_attn_varlen_func)
