#!/usr/bin/env python3
"""Times `anyflash doctor LOG` on large logs that it makes, and writes a Markdown table.

Each log ends with one failure, so that the doctor must read all of it. The logs are the same in
every run. Times the whole process; the first round, which loads the file into the page cache,
is not counted.

    python3 bench/doctor_logs.py --program build/release/anyflash > doctor_logs.md
    python3 bench/doctor_logs.py --write FOLDER --megabytes 5     # writes the logs only
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile

from decide import describe_machine, run_once

REPO = pathlib.Path(__file__).resolve().parents[1]
TARGET_SECONDS = 2.0  # for 100 MB
TARGET_MIB = 60 * 10**6 / 2**20
FAILURE = ("ImportError: /srv/v/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-"
           "x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi\n")
BUILD = [
    "[1/73] /usr/local/cuda/bin/nvcc --generate-dependencies-with-compile --dependency-output "
    "/tmp/pip-install-abc/flash-attn_1/build/temp.linux-x86_64-cpython-310/csrc/flash_attn/src/"
    "flash_bwd_hdim128_bf16_sm80.o.d -I/tmp/x/csrc/flash_attn -I/usr/lib/python3/dist-packages/"
    "torch/include -c -c /tmp/pip/csrc/flash_attn/src/flash_bwd_hdim128_bf16_sm80.cu -O3 "
    "-std=c++17",
    "ptxas info    : Compiling entry function '_Z16flash_fwd_kernel' for 'sm_80'",
    "ptxas info    : Used 255 registers, 432 bytes cmem[0]",
    "\x1b[32m   Downloading\x1b[0m torch-2.4.0-cp310-cp310-manylinux1_x86_64.whl (797.2 MB)",
    "/tmp/x/csrc/flash_attn/src/softmax.h(120): warning #177-D: variable \"tidx\" was declared "
    "but never referenced",
    "2026-01-01T00:00:00.0000000Z step=100 loss=2.345 lr=1e-4 throughput=1234 tokens/s\r"
    " 50%|█████     | 50/100 [00:10<00:10, 4.9it/s]\r 51%|█████     | 51/100 [00:10<00:10]",
    "    from transformers.modeling_flash_attention_utils import _flash_attention_forward",
]


def rows_of(name):
    with open(REPO / name, encoding="utf-8") as rows:
        return [json.loads(row) for row in rows]


def build_log(out, size):
    """Output of pip, ninja, nvcc and a training program."""
    pick = random.Random(1)
    lines = [(line + "\n").encode() for line in BUILD]
    while out.tell() < size:
        out.write(b"".join(pick.choices(lines, k=1000)))


def repeat(out, size, text):
    """The text repeated up to the wanted size, with the last copy complete."""
    while out.tell() < size:
        out.write(text.encode())


def same_failure(out, size):
    """One failure, repeated."""
    repeat(out, size, FAILURE * 1000)


def message(pattern):
    """A line that the pattern (kit/doctor/log/pattern.h) matches."""
    text = re.sub(r"\{\w+:version\}", "2.4.0", re.sub(r"^\^|(?<!\\)\$$", "", pattern))
    text = re.sub(r"\{\w+\}", "name", text)
    text = re.sub(r"(?<!\\)\*", " some words ", text)
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)\?", "x", text))


def all_messages():
    rows = rows_of("data/signatures.jsonl")
    return [message(pattern) for row in rows for pattern in row.get("any", ())]


def signatures(out, size):
    """A message of each pattern of each signature, in a cycle."""
    repeat(out, size, "".join(text + "\n" for text in all_messages()))


def cases(out, size):
    """The recorded cases, which people pasted into reports, in a cycle."""
    repeat(out, size, "".join(row["symptom"] + "\n" for name in ("cases", "threads")
                              for row in rows_of(f"tests/doctor/{name}.jsonl")))


def real_logs(out, size):
    """The recorded logs of failures and of healthy runs, in a cycle."""
    repeat(out, size, "".join(row["text"] for row in rows_of("tests/doctor/logs.jsonl")))


def traceback(out, size):
    """The same traceback of 30 lines, again and again."""
    site = "/srv/v/lib/python3.10/site-packages"
    frames = "".join(
        f'  File "{site}/{package}/{name}.py", line {40 + 7 * i}, in {function}\n'
        f"    {code}\n"
        for i, (package, name, function, code) in enumerate([
            ("transformers/utils", "import_utils", "__getattr__",
             "module = self._get_module(self._class_to_module[name])"),
            ("transformers/utils", "import_utils", "_get_module", "raise RuntimeError("),
            ("transformers/models/llama", "modeling_llama", "<module>",
             "from ...modeling_flash_attention_utils import _flash_attention_forward"),
            ("transformers", "modeling_flash_attention_utils", "<module>",
             "from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input"),
            ("flash_attn", "__init__", "<module>",
             "from flash_attn.flash_attn_interface import ("),
            ("flash_attn", "flash_attn_interface", "<module>",
             "import flash_attn_2_cuda as flash_attn_cuda"),
        ] * 2 + [("vllm", "worker", "load_model", "self.model_runner.load_model()"),
                 ("vllm", "loader", "get_model", "return loader.load_model(config)")]))
    repeat(out, size, "Traceback (most recent call last):\n" + frames + FAILURE)


def near_misses(out, size):
    """Lines with a pattern's longest literal that do not match; no two are alike."""
    words = []
    for row in rows_of("data/signatures.jsonl"):
        for pattern in row["any"]:
            parts = re.split(r"\{[\w:]+\}|(?<!\\)[*?]", pattern)
            if len(parts) > 1:
                words.append(re.sub(r"\\(.)", r"\1", max(parts, key=len)))
    for number in itertools.count():
        if out.tell() >= size:
            return
        out.write("".join(f"{number}.{i} {word} {number}\n"
                          for i, word in enumerate(words)).encode())


def ninja(out, size):
    """ninja's lines with nvcc's commands, each for a different file."""
    flags = " ".join(
        ["--threads=4", "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__",
         "-U__CUDA_NO_HALF2_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
         "--expt-relaxed-constexpr", "--expt-extended-lambda", "--use_fast_math",
         *(f"-gencode arch=compute_{sm},code=sm_{sm}" for sm in (80, 90, 100, 120)),
         "-DTORCH_API_INCLUDE_EXTENSION_H '-DPYBIND11_COMPILER_TYPE=\"_gcc\"'",
         "-DTORCH_EXTENSION_NAME=flash_attn_2_cuda -D_GLIBCXX_USE_CXX11_ABI=1"])
    temp = "/tmp/pip-install-k3v9x_2w/flash-attn_0b1c"
    objects = f"{temp}/build/temp.linux-x86_64-cpython-311/csrc/flash_attn/src"
    torch = "/tmp/pip-build-env-7d/overlay/lib/python3.11/site-packages/torch/include"
    includes = " ".join(
        [f"-I{temp}/csrc/flash_attn", f"-I{temp}/csrc/cutlass/include", f"-I{torch}",
         f"-I{torch}/torch/csrc/api/include", "-I/usr/local/cuda/include",
         "-I/usr/include/python3.11"])
    for number in itertools.count():
        if out.tell() >= size:
            return
        name = f"flash_fwd_hdim{32 * (number % 8 + 1)}_bf16_split{number}_sm80"
        out.write(f"[{number % 73 + 1}/73] /usr/local/cuda/bin/nvcc "
                  f"--generate-dependencies-with-compile --dependency-output "
                  f"{objects}/{name}.o.d {includes} -c -c {temp}/csrc/flash_attn/src/{name}.cu "
                  f"-o {objects}/{name}.o -D__CUDA_NO_HALF__ "
                  f"--compiler-options -fPIC -O3 -std=c++17 {flags}\n".encode())


def one_line(out, size):
    """One line without a newline."""
    repeat(out, size, "flash-attn torch 0123456789 " * 1000)


def progress(out, size):
    """The states of progress bars, each of which returns to the start of its line."""
    for number in itertools.count():
        if out.tell() >= size:
            return
        percent = number % 100
        bar = "█" * (percent // 10) + " " * (10 - percent // 10)
        end = "\n" if percent == 99 else "\r"
        out.write(f"Downloading flash_attn-2.8.3.tar.gz {percent:3}%|{bar}| {number}/100000 "
                  f"[00:{number % 60:02}<00:10, {number % 97}.9it/s]{end}".encode())


def noise(out, size):
    """Random bytes."""
    pick = random.Random(2)
    while out.tell() < size:
        out.write(pick.randbytes(1 << 20))


# name: the function that writes it, and its size as a multiple of --megabytes
KINDS = {
    "a build and a training": (build_log, 1),
    "ninja and nvcc, each line of another file": (ninja, 1),
    "one failure repeated": (same_failure, 1),
    "a traceback of 30 lines repeated": (traceback, 1),
    "a message of each pattern, in a cycle": (signatures, 1),
    "the recorded cases in a cycle": (cases, 1),
    "the recorded logs in a cycle": (real_logs, 1),
    "lines that nearly match, all different": (near_misses, 1),
    "progress bars": (progress, 1),
    "random bytes": (noise, 1),
    "one line": (one_line, 1),
    "one line, ten times as long": (one_line, 10),
}


def write_log(path, kind, megabytes):
    """Makes the log; returns its size in MB."""
    write, factor = KINDS[kind]
    with path.open("wb") as out:
        write(out, megabytes * factor * 10**6)
        out.write(b"\n" + FAILURE.encode())
    return path.stat().st_size / 10**6


def table_row(options, path, kind, sink):
    """Times one log; returns its line of the table."""
    size = write_log(path, kind, options.megabytes)
    rows = [run_once([options.program, "doctor", str(path)], sink)
            for _ in range(options.rounds + 1)][1:]
    if any(code not in (0, 1) for _, _, code in rows):
        sys.exit(f"error: {options.program} failed on: {kind}")
    walls = sorted(wall / 1000 for wall, _, _ in rows)
    median = statistics.median(walls)
    peak = max(peak for _, peak, _ in rows)
    met = median <= TARGET_SECONDS * size / 100 and peak <= TARGET_MIB
    return (f"| {kind} | {size:.0f} | {median:.2f} ({walls[0]:.2f} to {walls[-1]:.2f}) | "
            f"{size / median:.0f} | {peak:.0f} | {'met' if met else 'missed'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="anyflash")
    parser.add_argument("--megabytes", type=int, default=100, help="size of each log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only logs whose name contains this")
    parser.add_argument("--write", type=pathlib.Path, help="write the logs into this folder")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.only in kind]
    if options.write is not None:
        options.write.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            name = re.sub(r"\W+", "-", kind) + ".log"
            write_log(options.write / name, kind, options.megabytes)
        return
    if options.program is None:
        parser.error("give --program to time it, or --write to write the logs only")
    print("# Diagnosing large logs\n")
    print("Written by `bench/doctor_logs.py`. Seconds for the whole process: median (fastest\n"
          "to slowest), with the file in the page cache.\n")
    print(f"Machine: {describe_machine()}; load average at the start "
          f"{os.getloadavg()[0]:.1f}.\n")
    print("| log | MB | s | MB/s | peak MiB | 2 s per 100 MB, 60 MB of memory |\n"
          "|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, \
            open(os.devnull, "w", encoding="utf-8") as sink:
        path = pathlib.Path(folder) / "test.log"
        for kind in kinds:
            print(table_row(options, path, kind, sink), flush=True)


if __name__ == "__main__":
    main()
