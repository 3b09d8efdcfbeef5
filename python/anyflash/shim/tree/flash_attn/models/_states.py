"""State dicts of other model families in the names of models.gpt, by tables of rules."""

import re

import torch
import torch.nn.functional as F

WORDS = "transformer.embeddings.word_embeddings.weight"
PLACES = "transformer.embeddings.position_embeddings."
LAYER = r"transformer.layers.\1."
MIXER = LAYER + "mixer."


def renamed(state, rules):
    """`rules`: pairs (pattern at the beginning of a name, what stands there then); the first
    that matches counts; None leaves the tensor out. Names that match none stay."""
    found = {}
    for name, tensor in state.items():
        for pattern, new in rules:
            if re.match(pattern, name):
                name = None if new is None else re.sub("^" + pattern, new, name)
                break
        if name is not None:
            found[name] = tensor
    return found


def changed(state, pattern, function):
    """With function(tensor) in place of those whose names end as the pattern says."""
    return {
        name: function(tensor) if re.search(pattern + "$", name) else tensor
        for name, tensor in state.items()
    }


def joined(state, name, parts):
    """The tensors prefix + part, one after the other, as prefix + name; of every prefix."""
    first = re.escape(parts[0]) + r"(weight|bias)$"
    for key in [key for key in state if re.search(first, key)]:
        prefix, kind = re.match(f"(.*){first}", key).groups()
        state[f"{prefix}{name}{kind}"] = torch.cat(
            [state.pop(f"{prefix}{part}{kind}") for part in parts]
        )
    return state


def padded_size(config, rows):
    multiple = getattr(config, "pad_vocab_size_multiple", 1)
    return -(-rows // multiple) * multiple


def padded(tensor, config, rows=None):
    """With rows of zeros up to the multiple that the configuration asks for."""
    size = padded_size(config, tensor.shape[0] if rows is None else rows)
    return F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, size - tensor.shape[0]))


def with_head(state, config, tied, rows=None, head="lm_head."):
    """Words and head, padded; `head`: where the head is that is not the words."""
    state[WORDS] = padded(state[WORDS], config, rows)
    if tied:
        state.pop(head + "weight", None)
        state["lm_head.weight"] = state[WORDS]
        return state
    for kind in ("weight", "bias"):
        if head + kind in state:
            state["lm_head." + kind] = padded(state.pop(head + kind), config, rows)
    return state


def heads_apart(dim):
    """Wqkv of (heads, 3, dim) rows as (3, heads, dim)."""

    def turn(tensor):
        return tensor.unflatten(0, (-1, 3, dim)).transpose(0, 1).flatten(0, 2)

    return turn


def first_of(config, *names):
    """The first of these attributes that the configuration has; newer releases rename."""
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return None


def rope(config, name, default):
    """A parameter of the rotary embedding, which newer releases keep in a table."""
    table = getattr(config, "rope_parameters", None) or {}
    return table.get(name, default)
