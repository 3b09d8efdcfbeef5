"""flash_attn's functions with attention sinks, in an additional argument `s_aux`.

    out = flash_attn_func(q, k, v, causal=True, s_aux=sinks)

transformers inspects the signature of the function and silently drops arguments that are not in
it: without s_aux a model with sinks would compute wrong results.
"""

import inspect

import torch

from . import flash_attn
from .providers import attend
from .providers.call import OUT, Call

flash_attn_with_kvcache = flash_attn.flash_attn_with_kvcache


def _call(asked, sinks):
    """The Call of the bound arguments of flash_attn_func or flash_attn_varlen_func."""
    names = "dropout_p softmax_scale causal window_size softcap alibi_slopes deterministic"
    options = (asked[name] for name in names.split())
    call = Call(asked["q"], asked["k"], asked["v"], *options, OUT)
    call.sinks = sinks
    if "cu_seqlens_q" not in asked:
        return call
    call.cu_q, call.cu_k = asked["cu_seqlens_q"], asked["cu_seqlens_k"]
    call.max_q, call.max_k = int(asked["max_seqlen_q"]), int(asked["max_seqlen_k"])
    if asked["block_table"] is not None:
        call.block_table, call.cu_k = asked["block_table"], None
        call.seqused_k = asked["cu_seqlens_k"].diff().to(torch.int32)
    return call


def _taking_sinks(function):
    """`function` with an additional argument s_aux: sinks [H] of any float type, or None."""
    signature = inspect.signature(function)
    sinks = inspect.Parameter("s_aux", inspect.Parameter.KEYWORD_ONLY, default=None)

    def attend_with_sinks(*args, s_aux=None, **kwargs):
        if s_aux is None:
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.arguments["return_attn_probs"]:
            raise NotImplementedError("return_attn_probs cannot be used with s_aux")
        return attend(_call(bound.arguments, s_aux.float()))[0]

    attend_with_sinks.__name__, attend_with_sinks.__doc__ = function.__name__, function.__doc__
    attend_with_sinks.__signature__ = signature.replace(
        parameters=[*signature.parameters.values(), sinks]
    )
    return attend_with_sinks


flash_attn_func = _taking_sinks(flash_attn.flash_attn_func)
flash_attn_varlen_func = _taking_sinks(flash_attn.flash_attn_varlen_func)
