"""Runs flash-attn's own setup.py, unchanged, for some of its kernels.

    python driver.py SELECTION.json SETUP_ARGUMENTS...      in the folder of the sources

SELECTION.json has: keep (names of CUDA files), joined (generated files: name, includes),
stubs (for the files left out: function, type, head_dim, causal, message), macros, std (a C++
standard instead of setup.py's, or null), requires (requirements of the wheel), refusals
(error messages of flash_api.cpp: text, advice), gpu (properties that all GPUs of this build
share: the launchers' variable and its value as C++).

torch.utils.cpp_extension.CUDAExtension is replaced before setup.py imports it: sources are
filtered, one C++ file replaces those that are left out, and both compilers get the macros,
because flash_api.cpp has the checks for features that the kernels lack.
"""

import json
import os
import re
import runpy
import sys

import setuptools
import torch.utils.cpp_extension as cpp_extension

KERNEL = re.compile(r"flash_(fwd_split|fwd|bwd)_hdim\d+_(fp16|bf16)(_causal)?_sm80\.cu$")
STUBS = "csrc/flash_attn/kernels_left_out.cpp"
GENERATED = "csrc/flash_attn/generated"
SOURCES = "csrc/flash_attn/src"
LAUNCHERS = ("flash_fwd_launch_template.h", "flash_bwd_launch_template.h")
API = "flash_api.cpp"

# "if (condition) {", with parentheses in the condition two deep.
IF = re.compile(r"\bif \(((?:[^(){}]|\((?:[^(){}]|\([^(){}]*\))*\))*)\) \{")
WORD = re.compile(r"[A-Za-z_]\w*")

HEAD = """\
// Generated: the kernels that this build leaves out.
#include <c10/util/Exception.h>
#include <cutlass/numeric_types.h>
#include "namespace_config.h"
#include "flash.h"
namespace FLASH_NAMESPACE {
"""

STUB = """\
template <>
void {function}<{type}, {head_dim}, {causal}>({parameters} &, cudaStream_t)
{{
    TORCH_CHECK(false, {message});
}}
"""


CHECKS = """\
// Generated: flash-attn's checks, with advice where this build lacks a feature.
#include <string>
#include <torch/python.h>
#include <torch/nn/functional.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

static std::string with_advice(std::string message)
{{
    static const char *const advice[][2] = {{
{rows}    }};
    for (const auto &row : advice) {{
        if (message.find(row[0]) != std::string::npos)
            return message + " " + row[1];
    }}
    return message;
}}

#undef TORCH_CHECK
#define TORCH_CHECK(condition, ...) \\
    if (!(condition)) {{ \\
        C10_THROW_ERROR(Error, with_advice(::c10::str(__VA_ARGS__))); \\
    }}
#include "../flash_api.cpp"
"""


def write(path, text):
    """Writes a generated file only if its text changes, so that its object stays current."""
    try:
        with open(path) as file:
            if file.read() == text:
                return
    except OSError:
        pass
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def write_stubs(selection):
    """The C++ file that replaces the kernels left out."""
    parts = [HEAD]
    for stub in selection["stubs"]:
        backward = stub["function"] == "run_mha_bwd_"
        parts.append(
            STUB.format(
                function=stub["function"],
                type=stub["type"],
                head_dim=stub["head_dim"],
                causal="true" if stub["causal"] else "false",
                parameters="Flash_bwd_params" if backward else "Flash_fwd_params",
                message=json.dumps(stub["message"]),
            )
        )
    parts.append("}\n")
    write(STUBS, "".join(parts))


def settled(text, gpu):
    """A launcher's text in which conditions on these GPU properties, numbers and the head size
    alone are evaluated at compile time: branches that never run are not instantiated."""

    def replace(match):
        words = set(WORD.findall(match[1]))
        if not words & gpu.keys() or words - gpu.keys() - {"Headdim"}:
            return match[0]
        condition = WORD.sub(lambda word: gpu.get(word[0], word[0]), match[1])
        return f"if constexpr ({condition}) {{"

    return IF.sub(replace, text)


def copy(name, change=lambda text: text):
    try:
        with open(f"{SOURCES}/{name}") as file:
            text = file.read()
    except FileNotFoundError:
        raise SystemExit(f"these sources have no {SOURCES}/{name}") from None
    write(f"{GENERATED}/{name}", change(text))


def write_units(selection):
    """Writes the CUDA files to compile; returns their paths. They are copies, which find the
    changed launchers beside them first; setup.py lets compilers search src, which stays
    unchanged."""
    joined = {unit["name"]: unit["includes"] for unit in selection["joined"]}
    for name in LAUNCHERS:
        copy(name, lambda text: settled(text, selection["gpu"]))
    for name in [*selection["keep"], *sum(joined.values(), [])]:
        copy(name)
    for name, includes in joined.items():
        write(f"{GENERATED}/{name}", "".join(f'#include "{each}"\n' for each in includes))
    return [f"{GENERATED}/{name}" for name in [*selection["keep"], *joined]]


def write_checks(selection):
    """Wraps flash_api.cpp: its error messages say how to add a feature; returns the path."""
    rows = "".join(
        f"        {{{json.dumps(row['text'])}, {json.dumps(row['advice'])}}},\n"
        for row in selection["refusals"]
    )
    write(f"{GENERATED}/{API}", CHECKS.format(rows=rows))
    return f"{GENERATED}/{API}"


def narrowed(make, selection):
    """CUDAExtension for the selection."""
    needed = set(selection["keep"]).union(*(unit["includes"] for unit in selection["joined"]))

    def extension(name, sources, **options):
        kernels = [path for path in sources if KERNEL.search(path)]
        if not kernels:
            return make(name=name, sources=sources, **options)
        found = {os.path.basename(path) for path in kernels}
        if needed - found:
            raise SystemExit(f"these sources have no {sorted(needed - found)}")
        os.makedirs(GENERATED, exist_ok=True)
        sources = [path for path in sources if path not in kernels] + write_units(selection)
        if selection["refusals"]:
            checks = write_checks(selection)
            sources = [checks if os.path.basename(p) == API else p for p in sources]
        if selection["stubs"]:
            write_stubs(selection)
            sources.insert(1, STUBS)
        for words in options["extra_compile_args"].values():
            if selection["std"]:
                words[:] = [
                    f"-std={selection['std']}" if re.match(r"-std=c\+\+\d", word) else word
                    for word in words
                ]
            words.extend(selection["macros"])
        return make(name=name, sources=sources, **options)

    return extension


def with_requirements(setup, selection):
    """setuptools.setup that states what this wheel requires, and only flash_attn's packages."""

    def replaced(**options):
        options["install_requires"] = selection["requires"]
        options["packages"] = [
            name for name in options["packages"] if name.split(".")[0] == "flash_attn"
        ]
        return setup(**options)

    return replaced


def main():
    with open(sys.argv[1]) as file:
        selection = json.load(file)
    sys.argv = ["setup.py", *sys.argv[2:]]
    sys.path.insert(0, os.getcwd())
    cpp_extension.CUDAExtension = narrowed(cpp_extension.CUDAExtension, selection)
    setuptools.setup = with_requirements(setuptools.setup, selection)
    runpy.run_path("setup.py", run_name="__main__")


if __name__ == "__main__":
    main()
