"""Runs flash-attn's own setup.py, unchanged, for a part of its kernels.

    python driver.py SELECTION.json WORDS_OF_SETUP...      in the folder of the sources

SELECTION.json has: keep (names of CUDA files), joined (of generated ones: name, includes),
stubs (for the others: function, type, head_dim, causal, message), macros, std (a C++
standard in place of setup.py's, or null), requires (what the wheel requires), refusals (of
flash_api.cpp's checks: text, advice).

torch.utils.cpp_extension.CUDAExtension is replaced before setup.py imports it: sources are
filtered, one C++ file stands for those that are left out, and the macros go to both
compilers, because flash_api.cpp holds the checks that refuse what the kernels lack.
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
JOINED = "csrc/flash_attn/joined"
API = "flash_api.cpp"

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
    """A generated file, touched only where its text changes: an old object stays good."""
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
    """The C++ file that stands for the kernels left out."""
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


def write_joined(selection):
    """Units that include several of the CUDA files; their paths. They lie beside src, which
    setup.py tells compilers to search, so that flash-attn's own folder stays as it came."""
    paths = []
    for unit in selection["joined"]:
        paths.append(f"{JOINED}/{unit['name']}")
        write(paths[-1], "".join(f'#include "{name}"\n' for name in unit["includes"]))
    return paths


def write_checks(selection):
    """flash_api.cpp as a unit whose refusals tell how to add the feature; its path."""
    rows = "".join(
        f"        {{{json.dumps(row['text'])}, {json.dumps(row['advice'])}}},\n"
        for row in selection["refusals"]
    )
    write(f"{JOINED}/{API}", CHECKS.format(rows=rows))
    return f"{JOINED}/{API}"


def narrowed(make, selection):
    """CUDAExtension for the selection."""
    keep = set(selection["keep"])
    needed = keep.union(*(unit["includes"] for unit in selection["joined"]))

    def extension(name, sources, **options):
        kernels = [path for path in sources if KERNEL.search(path)]
        if not kernels:
            return make(name=name, sources=sources, **options)
        found = {os.path.basename(path) for path in kernels}
        if needed - found:
            raise SystemExit(f"these sources have no {sorted(needed - found)}")
        sources = [p for p in sources if p not in kernels or os.path.basename(p) in keep]
        os.makedirs(JOINED, exist_ok=True)
        sources += write_joined(selection)
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
