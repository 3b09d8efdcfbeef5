"""explain(): which provider a call takes, and why the others declined.

    >>> print(anyflash.explain(q, k, v, causal=True))
    sdpa
      engine: computes on the CPU, q is on cuda:0
"""

import dataclasses
from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor

from . import providers
from .providers.call import LSE, OUT, PROBABILITIES, Call

#: Options of the seven functions that are not Call's own names, and what they are there.
_NAMES = {
    "cu_seqlens_q": "cu_q",
    "cu_seqlens_k": "cu_k",
    "max_seqlen_q": "max_q",
    "max_seqlen_k": "max_k",
    "cache_seqlens": "seqused_k",
    "cache_batch_idx": "batch_idx",
    "cache_leftpad": "leftpad",
    "rotary_interleaved": "interleaved",
    **{name: name for name in ("block_table", "sinks", "k_new", "v_new")},
    **{name: name for name in ("rotary_cos", "rotary_sin", "num_splits")},
}
_CACHE = ("cache_seqlens", "cache_batch_idx", "cache_leftpad", "k_new", "v_new", "num_splits")


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Who computes a call. `provider`: its name, None where every one declines; `declined`:
    (name, reason) of each that was asked before it; `kernel`: the engine's for this call, else
    None."""

    provider: Optional[str]
    declined: List[Tuple[str, str]]
    kernel: Optional[str] = None

    def __str__(self):
        lines = [self.provider or "no provider"]
        if self.kernel:
            lines.append(f"  kernel: {self.kernel}")
        return "\n".join(lines + [f"  {name}: {reason}" for name, reason in self.declined])


def _want(options):
    if options.pop("return_attn_probs", False):
        return PROBABILITIES
    return LSE if options.pop("return_softmax_lse", False) else OUT


def explain(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Explanation:
    """Which provider computes attention of q over k, v; nothing is computed.

    Options are those of flash_attn_func; with cu_seqlens_q also of flash_attn_varlen_func;
    with cache_seqlens of flash_attn_with_kvcache, where k, v are the cache and k_new, v_new
    what is appended. Raises TypeError or ValueError for arguments that are wrong.
    """
    want = _want(options)
    call = Call(
        q,
        k,
        v,
        options.pop("dropout_p", 0.0),
        options.pop("softmax_scale", None),
        options.pop("causal", False),
        options.pop("window_size", (-1, -1)),
        options.pop("softcap", 0.0),
        options.pop("alibi_slopes", None),
        options.pop("deterministic", False),
        want,
    )
    call.cache = any(name in options for name in _CACHE)
    for name, value in options.items():
        if name not in _NAMES:
            raise TypeError(f"explain() got an unexpected option '{name}'")
        setattr(call, _NAMES[name], value)
    if isinstance(call.seqused_k, int):
        call.seqused_k = torch.full(
            (q.shape[0],), call.seqused_k, dtype=torch.int32, device=q.device
        )
    if call.block_table is not None and call.cu_k is not None:
        call.seqused_k, call.cu_k = call.cu_k.diff().to(torch.int32), None
    provider, declined = providers.explain(call)
    if provider is None:
        return Explanation(None, declined)
    kernel = provider.kernel(call) if hasattr(provider, "kernel") else None
    return Explanation(provider.name, declined, kernel)
