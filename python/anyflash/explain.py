"""explain(): which provider computes a call, and why the ones before it declined.

    >>> print(anyflash.explain(q, k, v, causal=True))
    torch_efficient
      ...
      torch_flash: requires compute capability 8.0 to 12.1, not 7.5
      not asked: engine, sdpa, plain
"""

import dataclasses
from typing import TYPE_CHECKING, List, Optional, Tuple, TypedDict, Union

import torch
from torch import Tensor

from . import _command, providers
from ._attend import unexpected
from .providers.call import LSE, OUT, PROBABILITIES, Call

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Options(TypedDict, total=False):
    """The options of explain()."""

    dropout_p: float
    softmax_scale: Optional[float]
    causal: bool
    window_size: Tuple[int, int]
    softcap: float
    alibi_slopes: Optional[Tensor]
    deterministic: bool
    return_attn_probs: bool
    return_softmax_lse: bool
    cu_seqlens_q: Tensor
    cu_seqlens_k: Tensor
    max_seqlen_q: int
    max_seqlen_k: int
    cache_seqlens: Union[int, Tensor, None]
    cache_batch_idx: Optional[Tensor]
    cache_leftpad: Optional[Tensor]
    rotary_interleaved: bool
    block_table: Optional[Tensor]
    sinks: Optional[Tensor]
    k_new: Optional[Tensor]
    v_new: Optional[Tensor]
    rotary_cos: Optional[Tensor]
    rotary_sin: Optional[Tensor]
    num_splits: int


#: Options of the seven functions that a Call's constructor does not take: its attributes.
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
_DEFAULTS = {
    "dropout_p": 0.0,
    "softmax_scale": None,
    "causal": False,
    "window_size": (-1, -1),
    "softcap": 0.0,
    "alibi_slopes": None,
    "deterministic": False,
}
_CACHE = ("cache_seqlens", "cache_batch_idx", "cache_leftpad", "k_new", "v_new", "num_splits")


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Which provider computes a call. `provider`: its name, None if all decline; `declined`:
    (name, reason) of those asked before it; `kernel`: name of the engine's kernel if the engine
    computes, else None."""

    provider: Optional[str]
    declined: List[Tuple[str, str]]
    kernel: Optional[str] = None

    def __str__(self):
        lines = [self.provider or "no provider"]
        if self.kernel:
            lines.append(f"  kernel: {self.kernel}")
        for name, reason in self.declined:
            lines.append(_command.wrapped(f"  {name}: ", reason))
        names = [name for name, _ in providers.PROVIDERS]
        after = names[names.index(self.provider) + 1 :] if self.provider in names else []
        if after:
            lines.append(f"  not asked: {', '.join(after)}")
        return "\n".join(lines)


def _want(options):
    if options.pop("return_attn_probs", False):
        return PROBABILITIES
    return LSE if options.pop("return_softmax_lse", False) else OUT


def explain(q: Tensor, k: Tensor, v: Tensor, **options: "Unpack[Options]") -> Explanation:
    """Which provider would compute attention of q over k, v; computes nothing.

    >>> explain(q, k, v, causal=True).provider
    'engine'

    Options are those of flash_attn_func; with cu_seqlens_q also of flash_attn_varlen_func;
    with cache_seqlens those of flash_attn_with_kvcache, where k, v are the cache and k_new,
    v_new the keys and values to append. Raises TypeError or ValueError for wrong arguments.
    """
    want = _want(options)
    mask = (options.pop(name, default) for name, default in _DEFAULTS.items())
    call = Call(q, k, v, *mask, want)
    call.cache = any(name in options for name in _CACHE)
    for name, value in options.items():
        if name not in _NAMES:
            raise unexpected(name, (*_DEFAULTS, *_NAMES))
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
