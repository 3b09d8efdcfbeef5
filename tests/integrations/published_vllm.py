"""vLLM's published interface without vLLM, from the source of the modules that define it.

The modules in SOURCES run as they are in the wheel. Their other imports are replaced by modules
whose names are empty classes, so that base classes and annotations work. What the attention
interface calls at run time is defined here.
"""

import ast
import importlib.abc
import importlib.machinery
import logging
import pathlib
import sys
import types
from unittest import mock

SOURCES = {
    "vllm.v1.attention.backend": "vllm/v1/attention/backend.py",
    "vllm.v1.attention.backends.registry": "vllm/v1/attention/backends/registry.py",
    "vllm.v1.attention.backends.cpu_attn": "vllm/v1/attention/backends/cpu_attn.py",
}


def _no_group():
    raise AssertionError("there is no group")


def _resolve(path):
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


_GIVEN = {
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.config": {
        "get_current_vllm_config": mock.MagicMock,
        "get_current_vllm_config_or_none": lambda: None,
    },
    "vllm.distributed.parallel_state": {
        "get_dcp_world_size_and_rank": lambda enabled: (1, 0),
        "get_pcp_group": _no_group,
    },
    "vllm.utils.import_utils": {"resolve_obj_by_qualname": _resolve},
    "vllm.v1.attention.backends.zentorch_sdpa": {
        "should_use_zentorch_sdpa": lambda *arguments: False,
        "zentorch_sdpa_attn": None,
    },
    "vllm.v1.kv_cache_interface": {
        "KVCacheLayout": types.SimpleNamespace(LBHNC="LBHNC"),
        "is_quantized_kv_cache": lambda kind: kind.startswith("fp8"),
    },
}


class _StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def find_spec(self, name, path=None, target=None):
        if name != "vllm" and not name.startswith("vllm."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        if spec.name in SOURCES:
            return types.ModuleType(spec.name)
        module = _StandIn(spec.name)
        vars(module).update(_GIVEN.get(spec.name, {}))
        return module

    def exec_module(self, module):
        name = module.__name__
        if name in SOURCES:
            path = self.folder / SOURCES[name]
            exec(compile(path.read_text(), str(path), "exec"), vars(module))
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, module)


def definition(path, name):
    """The ast of a function or class, `Class.method` or `function`, in a source file."""
    body = ast.parse(pathlib.Path(path).read_text()).body
    for part in name.split("."):
        found = next(x for x in body if getattr(x, "name", None) == part)
        body = found.body
    return found


def parameters(function):
    arguments = function.args
    return [x.arg for x in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
