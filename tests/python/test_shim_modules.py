"""The modules that the shim installs: their signatures; padding and rotary embedding."""

import importlib
import importlib.util
import inspect
import json
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

from shim_tree import assert_same, gradients  # noqa: E402

import flash_attn  # noqa: E402
from flash_attn import _left_out  # noqa: E402

#: Names in the modules of flash-attn 2.8.3: parameters of functions, and of __init__ and
#: forward of classes.
UPSTREAM = json.loads(pathlib.Path(__file__).with_name("flash_attn_public.json").read_text())


def is_left_out(module):
    return module.partition(".")[2] in _left_out.MODULES or (
        module.startswith("flash_attn.models.")
    )


PUBLIC = {module: names for module, names in UPSTREAM.items() if not is_left_out(module)}
LEFT_OUT = sorted(set(UPSTREAM) - set(PUBLIC))


def parameters(function, skip_self=False):
    found = list(inspect.signature(function).parameters.values())
    names = []
    for parameter in found[1:] if skip_self else found:
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            name = "*" + name
        elif parameter.kind is parameter.VAR_KEYWORD:
            name = "**" + name
        names.append(name)
    return names


def named(text):
    return [part.split("=")[0].strip() for part in split_top(text)]


def split_top(text):
    """Splits at commas outside brackets."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [*parts, part] if part.strip() else parts


CASES = [(module, name) for module, names in PUBLIC.items() for name in names]


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_module_can_be_imported(module):
    importlib.import_module(module)


@pytest.mark.parametrize("module, name", CASES)
def test_every_public_name_has_its_parameters_or_is_left_out(module, name):
    imported = importlib.import_module(module)
    if name not in vars(imported):
        says_what_to_do(f"from {module} import {name}", module, f"'{name}'")
        return
    there, wanted = getattr(imported, name), UPSTREAM[module][name]
    if isinstance(wanted, dict):
        for method, text in wanted.items():
            assert parameters(getattr(there, method), skip_self=True) == named(text)
    elif wanted != "value":
        assert parameters(there) == named(wanted)


# --- what is left out


def says_what_to_do(statement, *facts):
    with pytest.raises(ImportError) as raised:
        exec(statement, {})
    for fact in (*facts, "anyflash shim remove", "anyflash plan"):
        assert fact in str(raised.value)
    return raised.value


@pytest.mark.parametrize("module", LEFT_OUT)
def test_importing_a_module_that_is_left_out_says_what_to_do(module):
    top = module if module.partition(".")[2] in _left_out.MODULES else "flash_attn.models"
    error = says_what_to_do(f"import {module}", f"'{top}'")
    assert isinstance(error, ModuleNotFoundError) and error.name == top
    parent, _, name = module.rpartition(".")
    if parent == "flash_attn.models":
        parent, name = "flash_attn", "models"
    with pytest.raises(ImportError):
        exec(f"from {parent} import {name}", {})


def test_the_program_gets_its_own_fallback():
    found = {}
    exec(
        "try:\n    from flash_attn.ops.fused_dense import ColumnParallelLinear\n"
        "except ImportError:\n    ColumnParallelLinear = None",
        found,
    )
    assert found["ColumnParallelLinear"] is None


def test_other_names_are_looked_for_as_ever():
    assert importlib.util.find_spec("flash_attn.cute") is None
    for name in ("no_such_name", "__wrapped__"):
        assert not hasattr(importlib.import_module("flash_attn.modules.mha"), name)
    with pytest.raises(ModuleNotFoundError, match="No module named 'flash_attn.nonsense'"):
        importlib.import_module("flash_attn.nonsense")


def test_the_finder_is_last_and_there_once():
    def is_ours(finder):
        return finder.__module__ == _left_out.__name__

    others = [finder for finder in sys.meta_path if not is_ours(finder)]
    sys.meta_path[:] = others  # torch.compile imports setuptools, which adds one
    _left_out.install()
    _left_out.install()
    assert sys.meta_path[:-1] == others and is_ours(sys.meta_path[-1])


def test_einops_comes_with_the_padding():
    """Programs import rearrange from here; without einops the error says that it is missing."""
    bert_padding = importlib.import_module("flash_attn.bert_padding")
    try:
        import einops
    except ImportError:
        with pytest.raises(ImportError, match="einops"):
            bert_padding.rearrange
    else:
        assert bert_padding.rearrange is einops.rearrange


# --- the interface


@pytest.mark.parametrize("name", sorted(PUBLIC["flash_attn.flash_attn_interface"]))
def test_defaults_of_the_interface_are_flash_attns(name):
    wanted = PUBLIC["flash_attn.flash_attn_interface"][name]
    there = getattr(flash_attn.flash_attn_interface, name)
    for text in split_top(wanted) if isinstance(wanted, str) and wanted != "value" else []:
        parameter, _, default = text.strip().partition("=")
        have = inspect.signature(there).parameters[parameter].default
        want = eval(default) if default else inspect.Parameter.empty
        assert have == want or have is want, parameter


def test_it_is_marked_and_has_the_version_that_consumers_take():
    import anyflash

    assert flash_attn.__anyflash__ == anyflash.__version__
    assert flash_attn.__version__ == "2.8.3"
    assert (2, 7, 1) <= tuple(map(int, flash_attn.__version__.split("."))) <= (2, 8, 4)


# --- padding


def test_unpad_and_pad_are_inverse_with_gradients():
    from flash_attn.bert_padding import pad_input, unpad_input

    mask = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0], [1, 1, 1, 1]])
    x = torch.randn(3, 4, 2, 5)
    rows, indices, bounds, longest, used = unpad_input(x, mask)
    assert rows.equal(x[mask.bool()]) and longest == 4 and used.tolist() == [3, 2, 4]
    assert bounds.dtype == torch.int32 and bounds.tolist() == [0, 3, 5, 9]
    assert indices.tolist() == [0, 1, 2, 5, 6, 8, 9, 10, 11]

    def there_and_back(x):
        rows, indices, *_ = unpad_input(x, mask)
        return pad_input(rows, indices, 3, 4)

    assert_same(
        gradients(there_and_back, x), gradients(lambda x: x * mask[:, :, None, None], x)
    )


def test_unused_rows_are_kept_and_not_counted():
    from flash_attn.bert_padding import unpad_input

    mask, unused = torch.tensor([[1, 0, 0], [1, 1, 0]]), torch.tensor([[0, 1, 0], [0, 0, 1]])
    rows, _, bounds, longest, used = unpad_input(torch.arange(6).view(2, 3, 1), mask, unused)
    assert rows.flatten().tolist() == [0, 1, 3, 4, 5] and bounds.tolist() == [0, 2, 5]
    assert longest == 3 and used.tolist() == [1, 2]


def test_concatenated_sequences_get_their_own_bounds():
    from flash_attn.bert_padding import unpad_input_for_concatenated_sequences as unpad

    lengths = torch.tensor([[2, 3, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0]])
    rows, indices, bounds, longest = unpad(torch.arange(12).view(2, 6, 1), lengths)
    assert rows.flatten().tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9] == indices.tolist()
    assert bounds.tolist() == [0, 2, 5, 9] and longest == 4


def test_index_first_axis_residual_adds_both_gradients():
    from flash_attn.bert_padding import index_first_axis_residual

    x = torch.randn(5, 2, requires_grad=True)
    rows, whole = index_first_axis_residual(x, torch.tensor([1, 3]))
    (rows.sum() * 2 + whole.sum()).backward()
    assert x.grad.tolist() == [[1, 1], [3, 3], [1, 1], [3, 3], [1, 1]]


# --- rotary


def rotated(x, cos, sin, interleaved, offset=0):
    """Rotary embedding with complex numbers; x [B, S, H, D]."""
    half = cos.shape[1]
    seqlen = x.shape[1]
    turn = torch.complex(cos, sin)[offset : offset + seqlen, None, :]
    part = x[..., : 2 * half]
    if interleaved:
        a, b = part[..., ::2], part[..., 1::2]
    else:
        a, b = part[..., :half], part[..., half:]
    turned = torch.complex(a, b) * turn
    pairs = (turned.real, turned.imag)
    part = torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)
    return torch.cat((part, x[..., 2 * half :]), -1)


def angles(rows, half):
    table = torch.outer(torch.arange(rows).float(), 1 / 100 ** (torch.arange(half) / half))
    return table.cos(), table.sin()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("offset", [0, 3])
def test_rotary_is_a_complex_product(interleaved, inplace, offset):
    from flash_attn.layers.rotary import apply_rotary_emb

    cos, sin = angles(12, 6)
    x = torch.randn(2, 7, 3, 16)
    got = gradients(
        lambda x: apply_rotary_emb(x.clone(), cos, sin, interleaved, inplace, offset), x
    )
    assert_same(got, gradients(lambda x: rotated(x, cos, sin, interleaved, offset), x), 1e-6)


def test_rotary_with_an_offset_for_each_sequence_and_of_packed_rows():
    from flash_attn.layers.rotary import apply_rotary_emb

    cos, sin = angles(20, 4)
    x, offsets = torch.randn(3, 5, 2, 8), torch.tensor([0, 4, 9])
    want = torch.cat(
        [rotated(x[b : b + 1], cos, sin, False, int(offsets[b])) for b in range(3)]
    )
    assert_same([apply_rotary_emb(x, cos, sin, seqlen_offsets=offsets)], [want], 1e-6)
    bounds = torch.tensor([0, 5, 10, 15], dtype=torch.int32)
    packed = apply_rotary_emb(
        x.flatten(0, 1), cos, sin, seqlen_offsets=offsets, cu_seqlens=bounds, max_seqlen=5
    )
    assert_same([packed], [want.flatten(0, 1)], 1e-6)


def test_rotary_torch_and_conjugate_agree():
    from flash_attn.layers.rotary import apply_rotary_emb, apply_rotary_emb_torch
    from flash_attn.ops.triton.rotary import apply_rotary

    cos, sin = angles(6, 4)
    x = torch.randn(2, 6, 3, 12)
    for interleaved in (False, True):
        turned = apply_rotary_emb(x, cos, sin, interleaved)
        assert_same([turned], [apply_rotary_emb_torch(x, cos, sin, interleaved)], 1e-6)
        back = apply_rotary(turned, cos, sin, interleaved=interleaved, conjugate=True)
        assert_same([back], [x], 1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_rotary_of_qkv_turns_q_and_k_in_place(grouped):
    from flash_attn.layers.rotary import apply_rotary_emb_qkv_

    cos, sin = angles(6, 4)
    cos_k, sin_k = cos * 0.5, sin * 0.5

    def ours(qkv):
        heads = 2 if grouped else None
        return apply_rotary_emb_qkv_(
            qkv.clone(), cos, sin, cos_k, sin_k, num_heads_q=heads
        )

    def plain(qkv):
        q, k, v = qkv.unbind(2) if not grouped else qkv.split((2, 1, 1), 2)
        parts = (rotated(q, cos, sin, False), rotated(k, cos_k, sin_k, False), v)
        return torch.cat(parts, 2) if grouped else torch.stack(parts, 2)

    qkv = torch.randn(2, 6, 4, 8) if grouped else torch.randn(2, 6, 3, 2, 8)
    assert_same(gradients(ours, qkv), gradients(plain, qkv), 1e-6)


def test_a_leaf_with_gradient_may_be_turned_in_place():
    from flash_attn.layers.rotary import apply_rotary_emb_kv_, apply_rotary_emb_qkv_

    cos, sin = angles(6, 4)
    for function, parts in ((apply_rotary_emb_qkv_, 3), (apply_rotary_emb_kv_, 2)):
        x = torch.randn(2, 6, parts, 2, 8, requires_grad=True)
        function(x, cos, sin).sum().backward()
        assert x.grad[:, :, -1].eq(1).all() and not x.grad[:, :, 0].eq(1).all()


def test_the_rotary_module_keeps_its_tables_in_float32_precision():
    from flash_attn.layers.rotary import RotaryEmbedding

    module = RotaryEmbedding(8)
    q, kv = torch.randn(1, 300, 2, 8), torch.randn(1, 300, 2, 1, 8)
    want = rotated(q, *(t[:300] for t in module_angles(module, 300)), False)
    turned, turned_kv = module(q.clone(), kv.clone())
    assert_same([turned], [want], 1e-5)
    assert turned_kv[:, :, 1].equal(kv[:, :, 1])
    assert RotaryEmbedding(8).bfloat16()(
        torch.randn(1, 300, 3, 2, 8, dtype=torch.bfloat16)
    ).dtype == torch.bfloat16
    xpos = RotaryEmbedding(8, scale_base=512)
    qkv = torch.randn(1, 9, 3, 2, 8)
    scores = torch.einsum("bihd,bjhd->bhij", *xpos(qkv.clone()).unbind(2)[:2])
    assert torch.isfinite(scores).all()


def module_angles(module, rows):
    table = torch.outer(torch.arange(rows).float(), module.inv_freq)
    return table.cos(), table.sin()
