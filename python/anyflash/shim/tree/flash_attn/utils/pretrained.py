"""Weights of a folder, or of a name of the Hugging Face hub."""

import json
import os

import torch

#: In the order in which they are looked for: one file, or an index of several.
_FILES = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.safetensors",
    "model.safetensors.index.json",
)


def _found(model_name):
    """(path of the first of _FILES, function from a file's name to its path)."""
    if os.path.isdir(model_name):
        for name in _FILES:
            path = os.path.join(model_name, name)
            if os.path.isfile(path):
                return path, lambda other: os.path.join(model_name, other)
    else:
        from transformers.utils.hub import cached_file

        for name in _FILES:
            path = cached_file(model_name, name, _raise_exceptions_for_missing_entries=False)
            if path is not None:
                return path, lambda other: cached_file(model_name, other)
    raise EnvironmentError(f"model_name: '{model_name}' has no weights that are known")


def _load(path, device):
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file

        return load_file(path, device=str(device or "cpu"))
    return torch.load(path, map_location=device, weights_only=True)


def state_dict_from_pretrained(model_name, device=None, dtype=None):
    """All tensors by name, on the device, in `dtype` (None: as they are)."""
    path, place_of = _found(model_name)
    paths = [path]
    if path.endswith(".json"):
        with open(path) as index:
            names = json.load(index)["weight_map"].values()
        paths = [place_of(name) for name in sorted(set(names))]
    first = device if dtype in (torch.float32, None) else "cpu"  # less memory there
    state = {}
    for path in paths:
        state.update(_load(path, first))
    return {name: x.to(device=device, dtype=dtype) for name, x in state.items()}
