"""What a call asks for beyond plain attention, and what each provider can do: Limits.

    >>> features(call)
    ['causal', 'packed sequences']

declines(), the trials and docs/reference/providers.md use the same words for features.
"""

from typing import NamedTuple, Optional, Tuple, Union

import torch

from .call import LSE, PROBABILITIES, needs_gradient

#: Every feature, in the order in which tables name them.
FEATURES = (
    "gradient",
    "causal",
    "window",
    "packed sequences",
    "cache",
    "pages",
    "dropout",
    "softcap",
    "ALiBi",
    "sinks",
    "deterministic gradient",
    "logsumexp",
    "probabilities",
)

HALVES = (torch.float16, torch.bfloat16)


def features(call):
    """The features of FEATURES that the call uses."""
    gradient, left, right = needs_gradient(call), *call.limits
    asked = {
        "gradient": gradient,
        "causal": right == 0,
        "window": left >= 0 or right > 0,
        "packed sequences": call.cu_q is not None,
        "cache": call.cache or call.seqused_k is not None,
        "pages": call.block_table is not None,
        "dropout": call.dropout > 0,
        "softcap": call.softcap > 0,
        "ALiBi": call.alibi_slopes is not None,
        "sinks": call.sinks is not None,
        "deterministic gradient": gradient and call.deterministic,
        "logsumexp": call.want >= LSE,
        "probabilities": call.want >= PROBABILITIES and call.dropout > 0,
    }
    return [name for name in FEATURES if asked[name]]


class Limits(NamedTuple):
    """What a provider supports. `types`: element types; `size`: largest head size;
    `capability`: lowest and highest compute capability; `lacks`: the features that it declines,
    or pairs that it declines together; `empty`: whether it supports tensors without
    elements."""

    types: Tuple[torch.dtype, ...]
    size: Optional[int] = None
    capability: Optional[Tuple[Tuple[int, int], Tuple[int, int]]] = None
    lacks: Tuple[Union[str, Tuple[str, str]], ...] = ()
    empty: bool = False


def _named(dtypes):
    return " and ".join(str(x).partition(".")[2] for x in dtypes)


def outside(call, limits, asked):
    """Text that names the limit that the call with the features `asked` exceeds, else None."""
    q, size = call.q, max(call.q.shape[-1], call.v.shape[-1])
    if q.dtype not in limits.types:
        return f"takes {_named(limits.types)}, but q is {_named((q.dtype,))}"
    if limits.size is not None and size > limits.size:
        return f"takes head sizes up to {limits.size}, but this is {size}"
    for lack in limits.lacks:
        if isinstance(lack, str):
            if lack in asked:
                return f"has no {lack}"
        elif lack[0] in asked and lack[1] in asked:
            return f"has no {lack[0]} with {lack[1]}"
    if not limits.empty and (q.numel() == 0 or call.k.numel() == 0):
        return "does not take empty tensors"
    return None


def too_old_or_new(capability, limits):
    """None, or why a GPU of this compute capability is not supported, as text."""
    if limits.capability is None:
        return None
    low, high = limits.capability
    if low <= capability <= high:
        return None
    text = ".".join(map(str, capability))
    return f"requires compute capability {low[0]}.{low[1]} to {high[0]}.{high[1]}, not {text}"
