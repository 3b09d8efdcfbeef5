"""PTX files are split into modules that are complete, in the form that old drivers read."""

import random
import re

import kernel_names
import ptx
import pytest

DEFINED = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)"
                     r"|\.(?:param|shared|global|const|local)(?:\s+\.\w+(?:\s+\d+)?)+"
                     r"\s+([\w$]+)")


def symbols_of(text):
    """The words of a PTX text that are names of functions, variables and parameters."""
    words = re.findall(r"[\w$]+", text)
    return [word for word in words if re.match(r"_Z|symbol_|kernel", word)]


def undeclared(module):
    """The symbols that are used in a line before any line that declares them."""
    known, early = set(), []
    for line in module.splitlines(keepends=True):
        known |= {name for found in DEFINED.findall(line) for name in found if name}
        early += [word for word in symbols_of(line) if word not in known]
    return early


def check(pieces):
    """What holds for every module."""
    module = "".join(pieces)
    assert module.startswith(".version 7.8\n.target sm_80\n.address_size 64\n.")
    assert re.findall(r"\.entry (\w+)", module) == ["kernel"]
    assert undeclared(module) == []
    assert module.count("{") == module.count("}")
    assert not re.search(r"^\s*(//.*)?$|used_bytes_mask|\.version 9", module.rstrip("\n"), re.M)
    return module


@pytest.mark.parametrize("name, count", [("split", 5), ("small", 4), ("members", 0)])
def test_every_kernel_becomes_a_complete_module(recorded, name, count):
    modules = [check(pieces) for _, pieces in ptx.modules(recorded[name])]
    assert len(modules) == count


def test_a_module_keeps_every_instruction(recorded):
    """What differs from nvcc's text: the order, the kernel's name, the version, labels."""
    def instructions(text, mangled="kernel"):
        lines = text.replace(mangled, "kernel").splitlines()
        kept = (re.sub(r"BB\d*_", "BB", line) for line in lines
                if line.startswith("\t") and not ptx.IGNORED.match(line))
        return sorted(kept)

    for mangled, pieces in ptx.modules(recorded["small"]):
        start = recorded["small"].index(f".visible .entry {mangled}(")
        original = recorded["small"][start:].partition("\n}\n")[0]
        assert instructions("".join(pieces)) == instructions(original, mangled)


def test_a_module_has_only_the_variables_and_functions_that_it_reaches(recorded):
    for mangled, pieces in ptx.modules(recorded["split"]):
        module = "".join(pieces)
        assert "_INTERNAL_" in recorded["split"] and "_INTERNAL_" not in module
        functions = re.findall(r"\.func (\w+)\s*\(", module)
        # One declaration and one definition, if the kernel calls.
        assert len(functions) == (0 if "combine" in mangled else 2)
        assert len(set(functions)) == len(functions) // 2


def generated(seed):
    """A PTX file with random functions, of which each calls later or earlier ones."""
    rng = random.Random(seed)
    names = [f"symbol_f{i}" for i in range(rng.randint(0, 6))]
    variables = [f"symbol_v{i}" for i in range(rng.randint(0, 3))]
    calls = {name: rng.sample(names, rng.randint(0, len(names))) for name in names}
    entries = {f"symbol_e{i}": rng.sample(names, rng.randint(0, len(names)))
               for i in range(rng.randint(1, 4))}
    uses = {name: rng.sample(variables, rng.randint(0, len(variables)))
            for name in [*names, *entries]}

    def body(name, called):
        lines = [f"mov.u64 %rd1, {one};" for one in uses[name]]
        lines += [f"{{ // callseq\ncall.uni {one}, ();\n}}" for one in called]
        rng.shuffle(lines)
        lines += ["$L__BB7_1:", "@%p1 bra $L__BB7_1;", '.pragma "used_bytes_mask 15";', "ret;"]
        return "{\n" + "".join(f"\t{line}\n" for line in lines) + "}\n\n"

    declared = [name for name in names if rng.random() < 0.5]
    parts = [f".func {name}(\n\t.param .b64 {name}_param_0\n)\n;\n" for name in declared]
    parts += [f".global .align 1 .b8 {name}[1] = {{1}};\n" for name in variables]
    bodies = [f".func {name}(\n\t.param .b64 {name}_param_0\n)\n{body(name, calls[name])}"
              for name in names]
    bodies += [f".visible .entry {name}(\n\t.param .u64 {name}_param_0\n)\n"
               f"{body(name, called)}" for name, called in entries.items()]
    rng.shuffle(bodies)
    head = "//\n// nvcc\n//\n\n.version 9.0\n.target sm_80\n.address_size 64\n\n"
    return head + "".join([*parts, *bodies]), entries, calls


@pytest.mark.parametrize("seed", range(200))
def test_generated_files_become_complete_modules(seed):
    text, entries, calls = generated(seed)
    modules = dict(ptx.modules(text))
    assert modules.keys() == entries.keys()
    for name, pieces in modules.items():
        module = check(pieces)
        wanted, left = set(), list(entries[name])
        while left:
            one = left.pop()
            left += [] if one in wanted else calls[one]
            wanted.add(one)
        assert set(re.findall(r"\.func (\w+)\(", module)) == wanted


@pytest.mark.parametrize("text, said", [
    (".version 9.0\n.target sm_80\nnonsense\n;\n", "unknown statement in PTX: 'nonsense"),
    (".visible .entry e(\n)\n{\n\tret;\n", "the PTX ends inside of a statement: '.visible"),
])
def test_other_texts_are_refused(text, said):
    with pytest.raises(ptx.Unreadable, match=re.escape(said)):
        list(ptx.modules(text))


@pytest.mark.parametrize("demangled, name", [
    ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
     "cutlass::bfloat16_t, Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, "
     "true, false, false, true, true, false, false>(flash::Flash_fwd_params)",
     "flash_fwd_kernel 128 128 64 4 0 0 bf16 0 1 0 0 1 1 0 0"),
    ("void flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 64, 128, 8, 2, "
     "4, 4, true, false, cutlass::half_t, Flash_kernel_traits<64, 64, 128, 8, "
     "cutlass::half_t>>>(flash::Flash_bwd_params)",
     "flash_bwd_dot_do_o_kernel 1 64 64 128 8 2 4 4 1 0 fp16"),
    ("void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4, "
     "false, false, cutlass::half_t, Flash_kernel_traits<64, 64, 256, 4, cutlass::half_t> >, "
     "8, 1, true>(flash::Flash_fwd_params)",
     "flash_fwd_splitkv_combine_kernel 64 64 256 4 0 0 fp16 8 1 1"),
    ("af_fill", "af_fill"),
])
def test_a_name_is_the_function_and_its_template_arguments(demangled, name):
    assert kernel_names.name_of(demangled) == name


@pytest.mark.parametrize("demangled", ["f<float>(int)", "f<g<1> >()", "", "a b"])
def test_unknown_arguments_are_refused(demangled):
    with pytest.raises(ValueError, match="unknown"):
        kernel_names.name_of(demangled)


def test_recorded_names_are_demangled(recorded):
    mangled = [name for name, _ in ptx.modules(recorded["split"])]
    names = set(kernel_names.names(mangled).values())
    assert "flash_fwd_splitkv_combine_kernel 64 64 256 4 0 0 bf16 8 1 1" in names
    assert len(names) == 5
