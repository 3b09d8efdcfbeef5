#!/usr/bin/env python3
"""Times `anyflash doctor LOG` on large logs that it makes, and writes a Markdown table.

Each log ends with one failure, so that the whole of it must be read. Whole processes; the first
round, which brings the file into the page cache, is not counted.

    python3 bench/doctor_logs.py --program build/release/anyflash > bench/results/doctor_logs.md
"""
import argparse
import os
import pathlib
import random
import statistics
import tempfile

from decide import describe_machine, run_once

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


def build_log(out, size):
    """Output of pip, ninja, nvcc and a training program."""
    pick = random.Random(1)
    lines = [(line + "\n").encode() for line in BUILD]
    while out.tell() < size:
        out.write(b"".join(pick.choices(lines, k=1000)))


def same_failure(out, size):
    """One failure over and over."""
    while out.tell() < size:
        out.write(FAILURE.encode() * 1000)


def one_line(out, size):
    """A line without an end."""
    while out.tell() < size:
        out.write(b"flash-attn torch 0123456789 " * 1000)


def noise(out, size):
    """Random bytes."""
    pick = random.Random(2)
    while out.tell() < size:
        out.write(pick.randbytes(1 << 20))


KINDS = {"a build and a training": build_log, "one failure repeated": same_failure,
         "one line": one_line, "random bytes": noise}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="anyflash")
    parser.add_argument("--megabytes", type=int, default=100, help="size of each log")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("# Diagnosing large logs\n")
    print("Written by `bench/doctor_logs.py`. Seconds for the whole process: median (fastest\n"
          "to slowest), with the file in the page cache.\n")
    print(f"Machine: {describe_machine()}.\n")
    print("| log | MB | s | peak MiB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, \
            open(os.devnull, "w", encoding="utf-8") as sink:
        path = pathlib.Path(folder) / "test.log"
        for name, write in KINDS.items():
            with path.open("wb") as out:
                write(out, options.megabytes * 10**6)
                out.write(b"\n" + FAILURE.encode())
            rows = [run_once([options.program, "doctor", str(path)], sink)
                    for _ in range(options.rounds + 1)][1:]
            walls = sorted(wall / 1000 for wall, _, _ in rows)
            peak = max(peak for _, peak, _ in rows)
            print(f"| {name} | {options.megabytes} | {statistics.median(walls):.2f} "
                  f"({walls[0]:.2f} to {walls[-1]:.2f}) | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
