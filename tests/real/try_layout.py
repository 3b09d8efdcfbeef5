"""Run by the interpreter under test: compares what layoutprobe.cpp reads from tensors with
what torch reports.

Arguments: builds of the probe. Prints one JSON object per line: path, end ("right", or what
went wrong). Each one runs in a child process, because it may crash if the layout differs.
"""
import importlib.machinery
import importlib.util
import json
import os
import sys

import torch

SCALAR_TYPES = {torch.float32: 6, torch.float64: 7, torch.int64: 4}


def expected(tensor):
    storage = tensor.untyped_storage()
    return {"dim": tensor.dim(), "numel": tensor.numel(), "size": tensor.size(0),
            "stride": tensor.stride(0), "storage_offset": tensor.storage_offset(),
            "scalar_type": SCALAR_TYPES[tensor.dtype], "element_size": tensor.element_size(),
            "is_contiguous": tensor.is_contiguous(), "is_dense": tensor.is_contiguous(),
            "is_cpu": True, "device_index": -1, "is_sparse": False,
            "requires_grad": tensor.requires_grad, "storage_nbytes": storage.nbytes(),
            "data_ptr": tensor.data_ptr(), "has_python_object": True,
            "version": tensor._version}


def check(path):
    """What the probe gets wrong with this torch, or "right"."""
    name = os.path.basename(path).split(".")[0]
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        return f"does not import: {str(error)[:200]}"
    changed = torch.zeros(3, dtype=torch.float64)
    changed += 1
    for tensor in (torch.arange(24).reshape(4, 6)[1:, ::2], changed,
                   torch.ones(2, 5, requires_grad=True)):
        found = module.facts(tensor)
        for key, value in expected(tensor).items():
            if found[key] != value:
                return f"wrong: {key} is {found[key]}, not {int(value)}"
    try:
        module.refuse(changed)
    except RuntimeError as error:
        if "no CUDA tensor but double" in str(error):
            return "right"
        return f"wrong: it says {str(error)[:80]!r}"
    return "wrong: a CPU tensor was taken for one of CUDA"


def attempt(path):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            said = check(path)
        except BaseException as error:
            said = f"wrong: {type(error).__name__}: {str(error)[:200]}"
        os.write(writer, said.encode(errors="replace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return said or f"crash: status {status}"


for argument in sys.argv[1:]:
    print(json.dumps({"path": argument, "end": attempt(os.path.abspath(argument))}), flush=True)
