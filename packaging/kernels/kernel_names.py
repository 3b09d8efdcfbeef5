"""Names of kernels in a pack: the function and its template arguments, one blank between them.

    names(["_ZN5flash16flash_fwd_kernelI..."])   # {mangled: "flash_fwd_kernel 128 ..."}

The arguments of Kernel_traits stand in the place of the traits, without their base class; a
bool is 0 or 1; a type is fp16 or bf16. c++filt demangles.
"""

import re
import subprocess

WORDS = {"false": "0", "true": "1", "cutlass::half_t": "fp16", "cutlass::bfloat16_t": "bf16"}
DEMANGLED = re.compile(r"(?:void )?(?:[A-Za-z]\w*::)*([A-Za-z]\w*)(?:<(.*)>)?(?:\(.*\))?")
TEMPLATE = re.compile(r"((?:\w+::)*\w+)<(.*)>")


def split(arguments):
    """The arguments between the outermost < and >."""
    found, depth, start = [], 0, 0
    for i, c in enumerate(arguments):
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            found.append(arguments[start:i].strip())
            start = i + 1
    return [*found, arguments[start:].strip()] if arguments.strip() else []


def flattened(arguments):
    """The words of a list of template arguments."""
    for argument in split(arguments):
        traits = TEMPLATE.fullmatch(argument)
        if traits and traits[1].endswith("wd_kernel_traits"):
            yield from flattened(", ".join(one for one in split(traits[2])
                                           if not one.startswith("Flash_kernel_traits<")))
            continue
        word = WORDS.get(argument, argument)
        if not re.fullmatch(r"\d+|fp16|bf16", word):
            raise ValueError(f"unknown template argument '{argument}'")
        yield word


def name_of(demangled):
    """The name in a pack of a kernel with this demangled name."""
    found = DEMANGLED.fullmatch(demangled)
    if not found:
        raise ValueError(f"unknown kernel '{demangled}'")
    return " ".join([found[1], *flattened(found[2] or "")])


def names(mangled):
    """{mangled: name} of kernels."""
    if all(not name.startswith("_Z") for name in mangled):
        return {name: name for name in mangled}  # of functions of C
    done = subprocess.run(["c++filt"], input="\n".join(mangled), text=True, check=True,
                          capture_output=True)
    return dict(zip(mangled, map(name_of, done.stdout.splitlines())))


def with_twins(name):
    """Sorts kernels so that the bf16 and the fp16 one with otherwise equal arguments adjoin."""
    words = name.split()
    return [word for word in words if word not in ("bf16", "fp16")], words
