"""The types of the package as mypy --strict sees them in a user's program."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

import anyflash
from anyflash import _attend

#: As much of torch as the program needs: the real one takes mypy a minute.
TORCH = {
    "torch/__init__.pyi": """
from typing import Any, Iterator
class dtype: ...
class SymInt: ...
int32: dtype
class Tensor:
    shape: tuple[int, ...]
    def __dlpack__(self, stream: Any = ...) -> Any: ...
    def __iter__(self) -> Iterator[Tensor]: ...
def rand(*shape: int) -> Tensor: ...
def tensor(values: list[int], dtype: dtype = ...) -> Tensor: ...
""",
    "torch/distributed.pyi": "class ProcessGroup: ...",
}
RIGHT = """
import numpy as np
import torch
from torch import Tensor

import anyflash
import anyflash.diffusers
import anyflash.distributed as ring
import anyflash.flash_attn_3 as fa3
import anyflash.hf_kernels
import anyflash.providers
import anyflash.torch
import anyflash.transformers
import anyflash.vllm
from anyflash import flash_attn_func, shim

a = np.zeros((1, 4, 2, 8), np.float32)
lengths = np.zeros(1, np.int32)
out = anyflash.attend(a, a, a, causal=True, window=(3, 0), scale=0.5, seqused_k=lengths)
print(out.shape, out.sum())
out, lse = anyflash.attend(a, a, a, layout="bhsd", return_lse=True, align="top-left")
dq, dk, dv = anyflash.attend_backward(out, a, a, a, out, lse, scale=None, philox=(1, 2))
print(dq.mean())
anyflash.set_threads(anyflash.threads())
print(anyflash.explain_kernel().upper(), anyflash.__version__.upper())

q, starts = torch.rand(1, 4, 2, 8), torch.tensor([0, 4], dtype=torch.int32)


def one(q: Tensor) -> Tensor:
    return flash_attn_func(q, q, q, softmax_scale=None, causal=True, window_size=(3, 0))


one(anyflash.attend(q, q, q))
t, lse_t, p = flash_attn_func(q, q, q, return_attn_probs=True)
one(anyflash.flash_attn_kvpacked_func(q, q, softcap=1.0))
one(anyflash.flash_attn_qkvpacked_func(q, 0.1))
one(anyflash.flash_attn_varlen_func(q, q, q, starts, starts, 4, 4, deterministic=True))
one(anyflash.flash_attn_varlen_kvpacked_func(q, q, starts, starts, 4, 4))
one(anyflash.flash_attn_varlen_qkvpacked_func(q, starts, 4))
one(anyflash.flash_attn_with_kvcache(q, q, q, cache_seqlens=4, num_splits=1))
one(fa3.flash_attn_func(q, q, q, num_splits=2))
one(fa3.flash_attn_qkvpacked_func(q))
one(fa3.flash_attn_varlen_func(q, q, q, starts, starts, 4, 4))
one(fa3.flash_attn_with_kvcache(q, q, q, page_table=None))
one(fa3.flash_attn_combine(q, q)[0])
fa3.get_scheduler_metadata(1, 2, 3, 4, 5, 6, starts)
found = anyflash.explain(q, q, q, causal=True, cache_seqlens=3)
print(found.provider, found.declined, found.kernel)
before = anyflash.providers.force("plain")
anyflash.providers.force(before)

anyflash.torch.enable(calibrate=False)
with anyflash.torch.enabled():
    calls, passed_on = anyflash.torch.counts()
print(anyflash.torch.explain().upper(), anyflash.torch.is_enabled(), calls + passed_on)
anyflash.torch.disable()
anyflash.transformers.register("name")
anyflash.transformers.unregister()
anyflash.transformers.enable_flash_attention_2()
anyflash.transformers.disable_flash_attention_2()
anyflash.diffusers.register()
anyflash.diffusers.unregister()
anyflash.vllm.register(cpu=True)
anyflash.vllm.unregister()
anyflash.hf_kernels.write("folder").name
print(shim.install("python", fa3=True), shim.status(), shim.remove(None))
one(ring.ring_attention(ring.shard(q), q, q, causal=True))
one(ring.ring_attention_varlen(ring.shard_varlen(q, starts), q, q, starts, 4))
one(ring.unshard(ring.unshard_varlen(ring.positions(3), starts)))
"""
HEAD = """
import numpy as np
import torch
import anyflash
import anyflash.torch
import anyflash.transformers
a, q = np.zeros((1, 4, 2, 8), np.float32), torch.rand(1, 4, 2, 8)
"""
WRONG = """
anyflash.attend(a, a, a, casual=True)
anyflash.attend(a, a, a, window="x")
anyflash.attend(a, a, a, window=4)
anyflash.attend(a, a, a, window=(1, 2, 3))
anyflash.attend(a, a, a, scale="a")
anyflash.attend(a, a, a, layout="bdsh")
anyflash.attend(a, a)
anyflash.attend(a, a, [1.0])
anyflash.attend_backward(a, a, a, a, a, a, windows=(1, 1))
anyflash.attended(a, a, a)
anyflash.flash_attn_func(q, q, q, casual=True)
anyflash.flash_attn_func(q, q, q, window_size="x")
anyflash.flash_attn_func(a, a, a)
anyflash.flash_attn_with_kvcache(q, q, q, block_tables=q)
anyflash.explain(q, q, q, casual=True)
anyflash.explain(q, q, q, softcap="x")
anyflash.set_threads("4")
anyflash.torch.enable(calibrate=1.5)
anyflash.transformers.register(3)
""".strip().splitlines()


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """complaints(text): {line: what mypy says of it}."""
    pytest.importorskip("mypy")
    pytest.importorskip("numpy")
    folder = tmp_path_factory.mktemp("typing")
    for name, text in TORCH.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def check(text):
        (folder / "program.py").write_text(text)
        options = ("--strict", "--follow-imports=silent", "--no-error-summary")
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *options, "program.py"],
            cwd=folder,
            env={**os.environ, "MYPYPATH": f"{folder}{os.pathsep}{ROOT / 'python'}"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stderr == ""
        found = re.findall(r"^program.py:(\d+): error: (.*)$", done.stdout, re.M)
        return {int(line): words for line, words in found}

    return check


def test_a_right_program_has_no_complaint(complaints):
    assert complaints(RIGHT) == {}


def test_each_wrong_argument_has_a_complaint(complaints):
    first = HEAD.count("\n") + 1
    found = complaints(HEAD + "\n".join(WRONG))
    assert set(found) == set(range(first, first + len(WRONG))), found


def test_the_program_uses_every_public_function():
    used = {node.attr for node in ast.walk(ast.parse(RIGHT)) if isinstance(node, ast.Attribute)}
    assert set(anyflash.__all__) <= used | {"flash_attn_func"}


def names_in(path, declaration):
    """The names of the members of a class."""
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))
    (found,) = (n for n in tree.body if getattr(n, "name", None) == declaration)
    return [node.target.id for node in found.body if isinstance(node, ast.AnnAssign)]


def test_the_types_of_options_are_those_of_attend():
    assert names_in(ROOT / "python/anyflash/_types.py", "Options") == list(_attend._OPTIONS)


def test_the_options_of_the_function_in_c_are_options_of_attend():
    source = (ROOT / "bindings/numpy/numpy.c").read_text(encoding="utf-8")
    table = source.partition("} options[] = {")[2].partition("\n};")[0]
    names = re.findall(r'^    \{"(\w+)"', table, re.M)
    assert len(names) > 15 and set(names) <= set(_attend._OPTIONS)


def test_the_types_of_explain_are_its_options():
    pytest.importorskip("torch")
    from anyflash.explain import _DEFAULTS, _NAMES

    known = {*_DEFAULTS, *_NAMES, "return_attn_probs", "return_softmax_lse"}
    assert set(names_in(ROOT / "python/anyflash/explain.py", "Options")) == known
