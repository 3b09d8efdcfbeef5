"""The mask function of transformers for attention that knows causality, windows and padding.

    AttentionMaskInterface.register("anyfa", mask)      # makes the tensor that models pass on
    typed = unpack(attention_mask)                      # what _masked.py takes, in each layer

Models pass masks on as tensors, so mask() packs one of _masked.py's types into a tensor:
  None                     causal or full attention
  bool [B, Sk]             Keys(visible)
  int32 [B, 1, 1, 1 + Sk]  Keys: the window, then for each key 0 where it is hidden, else `used`
  int64 [B, 1, 1, 1 + S]   Sequences: the window, then the numbers
  any other                Scores: what transformers' own sdpa_mask makes of a pattern that is
                           none of these, such as chunks or a prefix, or what a caller passed
"""

import torch
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    packed_sequence_mask_function,
    remap_positions_for_packed_sequence,
    sdpa_mask,
    sliding_window_bidirectional_overlay,
    sliding_window_overlay,
)

from ._masked import Keys, Remembered, Scores, Sequences

# transformers composes masks from closures: a mask's code says which function made it.
_AND = and_masks(causal_mask_function).__code__
_WINDOW = sliding_window_overlay(1).__code__
_WINDOW_BOTH = sliding_window_bidirectional_overlay(1).__code__
_PACKED = packed_sequence_mask_function(None).__code__
_REMAP = remap_positions_for_packed_sequence(causal_mask_function, None).__code__


def _code(function):
    return getattr(function, "__code__", None)


def _captured(function, name):
    """The value of a variable of the function that made `function`."""
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


def _simple(function):
    """(causal, window) of a mask without sequences, window 0 for none; None if unknown."""
    if function is causal_mask_function:
        return True, 0
    if function is bidirectional_mask_function:
        return False, 0
    if _code(function) is not _AND:
        return None
    parts = _captured(function, "mask_functions")
    if len(parts) != 2:
        return None
    if _code(parts[0]) is _WINDOW and parts[1] is causal_mask_function:
        return True, _captured(parts[0], "sliding_window")
    if _code(parts[0]) is _WINDOW_BOTH and parts[1] is bidirectional_mask_function:
        return False, _captured(parts[0], "sliding_window") + 1
    return None


def _pattern(function):
    """(causal, window, numbers of sequences [B, S] or None), or None if unknown."""
    if _code(function) is _AND:
        parts = _captured(function, "mask_functions")
        if len(parts) == 2 and _code(parts[0]) is _PACKED and _code(parts[1]) is _REMAP:
            simple = _simple(_captured(parts[1], "mask_function"))
            numbers = _captured(parts[0], "packed_sequence_mask")
            return None if simple is None else (*simple, numbers)
    simple = _simple(function)
    return None if simple is None else (*simple, None)


def _pack(window, numbers):
    """Of rank 4: generate() passes masks of rank 2 to mask() again, converted to bool."""
    return torch.nn.functional.pad(numbers, (1, 0), value=window)[:, None, None, :]


def _unpack(mask):
    if mask.dtype == torch.bool and mask.dim() == 2:
        return Keys(mask)
    if mask.dtype not in (torch.int32, torch.int64):
        return Scores(mask)
    window, numbers = mask[0, 0, 0, 0], mask[:, 0, 0, 1:]
    if mask.dtype == torch.int64:
        return Sequences(numbers, window)
    return Keys(numbers != 0, numbers.max(), window)


_last = Remembered()


def unpack(mask):
    """The tensor that mask() or a caller made, as a type of _masked.py; None for None."""
    if mask is None or torch.compiler.is_compiling():
        return None if mask is None else _unpack(mask)
    return _last.get((mask,), None, lambda: _unpack(mask))


def _padding(attention_mask, kv_length, kv_offset):
    """bool [B, Sk]: which keys exist; those past the end of attention_mask do not."""
    missing = kv_offset + kv_length - attention_mask.shape[-1]
    if missing > 0:
        attention_mask = torch.nn.functional.pad(attention_mask, (0, missing))
    return attention_mask[:, kv_offset : kv_offset + kv_length]


def with_sequences(mask, position_ids, batch, q_len, k_len):
    """`mask`, or Sequences if positions restart and the mask does not mention sequences.

    Not every model passes its positions to its mask; where flash_attn computes, transformers
    looks at them in each layer, too.
    """
    if position_ids is None or batch != 1 or not 1 < q_len == k_len:
        return mask
    if position_ids.shape != (1, q_len):
        return mask
    if not (mask is None or isinstance(mask, Keys) and mask.window is not None):
        return mask
    numbers = torch.nn.functional.pad((position_ids.diff() != 1).cumsum(-1), (1, 0))
    if not torch.compiler.is_compiling() and numbers[0, -1] == 0:
        return mask
    return Sequences(numbers, None if mask is None else mask.window)


def mask(
    batch_size, q_length, kv_length, q_offset=0, kv_offset=0,
    mask_function=causal_mask_function, attention_mask=None, device="cpu", **kwargs,
):
    """A mask function of transformers: a mask as the head says, packed into a tensor."""
    pattern = _pattern(mask_function)
    if pattern is None:
        kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        return sdpa_mask(
            batch_size,
            q_length,
            kv_length,
            q_offset,
            kv_offset,
            mask_function,
            attention_mask,
            device=device,
            **kwargs,
        )
    causal, window, numbers = pattern
    window = window if window < kv_length else 0
    if numbers is not None:
        return _pack(window, numbers)
    keys = None
    if attention_mask is not None:
        keys = _padding(attention_mask, kv_length, kv_offset)
        if not torch.compiler.is_compiling() and keys.all():
            keys = None
    used = q_offset + q_length - kv_offset
    last = isinstance(used, int) and used == kv_length  # the last query is at the last key
    whole = keys is None or kv_offset == 0  # a mask passed in again must not be cut twice
    if window == 0 and whole and (last or not causal):
        return keys
    codes = torch.arange(kv_length, device=device) < (used if causal else kv_length)
    if keys is not None:
        codes = codes & keys
    codes = torch.where(codes, used, 0).to(torch.int32).expand(batch_size, kv_length)
    return _pack(window, codes)
