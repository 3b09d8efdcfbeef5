"""flash-attn's launchers as C++ for the CPU: `templates(SOURCES, FOLDER)` writes their two
headers to FOLDER with recorders in place of the kernels. Nothing of how a kernel is chosen is
changed: the template arguments, the grid, the block and the shared memory are what the
launcher computes."""
import re

HEADERS = ("flash_fwd_launch_template.h", "flash_bwd_launch_template.h")
KERNEL_HEADERS = ("flash_fwd_kernel.h", "flash_bwd_kernel.h", "flash_bwd_preprocess_kernel.h")
#: kernel<<<grid, threads, shared, stream>>>(params...);
LAUNCH = re.compile(r"([\w:]+(?:<[^;]*?>)?)<<<(.*?), stream>>>\((.*?)\);", re.DOTALL)
MACRO_KERNEL = re.compile(r"^(DEFINE_FLASH_\w+_KERNEL\(flash_\w+,.*?\)) \{\n.*?^\}$",
                          re.DOTALL | re.MULTILINE)
PLAIN_KERNEL = re.compile(r"^(__global__ void flash_\w+\((const Flash_bwd_params params)"
                          r"(, const int nsplits)?\)) \{\n.*?^\}$", re.DOTALL | re.MULTILINE)


def for_cpu(text):
    for name in KERNEL_HEADERS:
        text = text.replace(f'#include "{name}"', '#include "kernel_traits.h"')
    text, macros = MACRO_KERNEL.subn(
        r"\1 {\n    record_launch(__PRETTY_FUNCTION__, &params, sizeof params, 0);\n}", text)
    text, plain = PLAIN_KERNEL.subn(
        lambda found: f"{found[1]} {{\n    record_launch(__PRETTY_FUNCTION__, &params, "
        f"sizeof params, {'nsplits' if found[3] else '0'});\n}}", text)
    text, launches = LAUNCH.subn(r"(configure_launch(\2), \1(\3));", text)
    assert macros + plain >= 2 and launches >= 2, (macros, plain, launches)
    return text.replace("__global__", "").replace("cudaFuncSetAttribute(", "set_attribute(")


def templates(sources, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in HEADERS:
        (folder / name).write_text(for_cpu((sources / name).read_text()))


def canonical(pretty):
    """The name in the pack, from g++'s text of an instantiation."""
    function = re.search(r"flash::(flash_\w+)\(", pretty)[1]
    arguments = re.search(r"\[with (.*)\]$", pretty)[1]
    words = []
    for one in re.split(r"; ", arguments):
        value = one.split(" = ", 1)[1]
        if "kernel_traits<" in value:
            inner = re.search(r"kernel_traits<(.*)", value)[1]
            words += re.sub(r",? ?Flash_kernel_traits.*", "", inner).rstrip("> ").split(", ")
        else:
            words.append(value)
    names = {"true": "1", "false": "0", "cutlass::half_t": "fp16",
             "cutlass::bfloat16_t": "bf16"}
    return " ".join([function, *(names.get(word, word) for word in words)])
