"""Compiles six real files of flash-attn in limited memory: governor or static job count.

    python bench/governor_real.py --build FOLDER --anyflash PROGRAM --govern GOVERN_REAL \
        --work FOLDER --out bench/results/governor_real.json [--cases ours,static1] [--gib 8]

--build is a folder that `anyflash build` made (flags, sources and toolkit are taken from the
build.ninja that torch wrote there); objects and logs go to --work. Each case runs in a control
group of version 1 with that limit and no swap, as the child of a Python that has imported
torch, as setup.py does. A static case ends at its first kill, or after a minute without
progress. Results are added to the file --out; --table prints its contents as a table.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

FEATURES = ("DROPOUT", "ALIBI", "SOFTCAP", "LOCAL")
OFF = {name: f"-DFLASHATTENTION_DISABLE_{name}" for name in FEATURES}

# In setup.py's order: file, and the features that it keeps. "slim" is what one model of head
# size 128 and one of 64 need. In "apart" the two backward files never meet at their peaks when
# two run at a time, although a forward one may; in "meeting" they do.
SETS = {
    "slim": [
        ("flash_fwd_hdim64_bf16_sm80", []),
        ("flash_fwd_hdim64_bf16_causal_sm80", []),
        ("flash_fwd_hdim128_bf16_causal_sm80", []),
        ("flash_bwd_hdim64_bf16_sm80", []),
        ("flash_bwd_hdim64_bf16_causal_sm80", []),
        ("flash_bwd_hdim128_bf16_causal_sm80", []),
    ],
    "apart": [
        ("flash_fwd_hdim64_bf16_sm80", ["SOFTCAP"]),
        ("flash_fwd_hdim96_fp16_causal_sm80", []),
        ("flash_fwd_hdim128_bf16_causal_sm80", ["LOCAL"]),
        ("flash_bwd_hdim256_fp16_sm80", []),
        ("flash_bwd_hdim128_bf16_causal_sm80", []),
        ("flash_fwd_split_hdim64_bf16_sm80", []),
    ],
    "meeting": [
        ("flash_fwd_hdim64_bf16_sm80", ["SOFTCAP"]),
        ("flash_fwd_hdim128_bf16_causal_sm80", ["LOCAL"]),
        ("flash_bwd_hdim64_bf16_sm80", []),
        ("flash_bwd_hdim256_fp16_sm80", []),
        ("flash_bwd_hdim128_bf16_causal_sm80", []),
        ("flash_fwd_split_hdim64_bf16_sm80", []),
    ],
}
GATED = "ours"
HOLDER = (
    "import subprocess, sys, torch.utils.cpp_extension\n"
    "sys.exit(subprocess.call(sys.argv[1:]))\n"
)


def defaults():
    """MAX_JOBS and NVCC_THREADS as setup.py of 2.8.3 computes them (NinjaBuildExtension)."""
    with open("/proc/meminfo") as file:
        available = int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) / 1024**2
    return max(1, min(max(1, os.cpu_count() // 2), int(available / 9))), 4


def variable(text, name):
    return re.search(rf"^{name} = (.*)$", text, re.M)[1]


class Case:
    def __init__(self, name, options):
        self.name = name
        self.options = options
        self.folder = pathlib.Path(options.work).resolve() / name
        self.group = pathlib.Path(f"/sys/fs/cgroup/memory/anyflash-bench-{os.getpid()}-{name}")
        self.files = SETS[options.set]
        self.jobs, self.threads, self.archs = len(self.files) + 8, 1, ["90"]
        if name.startswith("static"):
            self.jobs = int(name[6:])
        elif name == "defaults":
            self.jobs, self.threads = defaults()
            self.archs = ["80", "90", "100", "120"]

    def compiler(self, nvcc):
        """The compiler wrapper as `anyflash build` writes it, or nvcc itself."""
        if self.name != GATED:
            return nvcc
        gate = self.folder / "nvcc"
        gate.write_text(f'#!/bin/sh\nexec "{self.options.anyflash}" gate \'{nvcc}\' "$@"\n')
        gate.chmod(0o755)
        return str(gate)

    def write_ninja(self):
        base = pathlib.Path(self.options.build).resolve()
        (found,) = base.glob("objects/temp*/build.ninja")
        text = found.read_text()
        flags = variable(text, "cuda_cflags")
        post = variable(text, "cuda_post_cflags")
        post = re.sub(r"-DFLASHATTENTION_DISABLE_\w+ ", "", post)
        post = re.sub(r"-gencode \S+ ", "", post).replace("--threads 1 ", "")
        codes = "".join(f"-gencode arch=compute_{a},code=sm_{a} " for a in self.archs)
        home = re.search(r"-I(\S+/cuda)/include", flags)[1]
        nvcc = self.compiler(f"{home}/bin/nvcc")
        lines = [
            "rule cuda",
            "  depfile = $out.d",
            "  deps = gcc",
            f"  command = {nvcc} -MD -MF $out.d {flags} -c $in -o $out {post} {codes}"
            f"--threads {self.threads} $macros",
        ]
        for name, kept in self.files:
            macros = " ".join(word for feature, word in OFF.items() if feature not in kept)
            source = base / "flash-attn/csrc/flash_attn/src" / f"{name}.cu"
            lines += [f"build {self.folder}/{name}.o: cuda {source}", f"  macros = {macros}"]
        (self.folder / "build.ninja").write_text("\n".join(lines) + "\n")

    def command(self):
        python = next(pathlib.Path(self.options.build).parent.glob("tools-*/bin/python"))
        ninja = [str(python.parent / "ninja"), "-C", str(self.folder), "-j", str(self.jobs)]
        holder = [str(python), "-c", HOLDER, *ninja]
        if self.name != GATED:
            return holder
        return [self.options.govern, "0", str(self.folder / "output"), *holder]

    def stat(self):
        stat = dict(
            line.split() for line in (self.group / "memory.stat").read_text().splitlines()
        )
        kills = 0
        for path in [self.group, *self.group.glob("anyflash-build-*")]:
            try:
                text = (path / "memory.oom_control").read_text()
            except OSError:
                continue
            kills += int(re.search(r"oom_kill (\d+)", text)[1])
        return int(stat["total_rss"]), kills, int((self.group / "memory.failcnt").read_text())

    def user_seconds(self):
        """User time of all processes in the group."""
        total = 0.0
        for path in self.group.rglob("cgroup.procs"):
            for pid in path.read_text().split():
                try:
                    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()
                except OSError:
                    continue
                total += int(words[11]) / os.sysconf("SC_CLK_TCK")
        return total

    def watch(self, process):
        """(largest rss, kills, why it was ended)"""
        most, kills, user, since = 0, 0, 0.0, time.monotonic()
        failures = 0
        while process.poll() is None:
            time.sleep(0.5)
            rss, kills, failcnt = self.stat()
            most = max(most, rss)
            now_user = self.user_seconds()
            if now_user > user + 3 or now_user < user or failcnt == failures:
                user, since, failures = now_user, time.monotonic(), failcnt
            if self.name == GATED:
                continue
            if kills:
                return most, kills, "the kernel killed a compiler"
            if time.monotonic() - since > 60:
                return most, kills, "stands still at the limit: under 3 s of user time in 60 s"
        return most, max(kills, self.stat()[1]), None

    def end(self, process):
        for _ in range(200):
            pids = [p for f in self.group.rglob("cgroup.procs") for p in f.read_text().split()]
            for pid in pids:
                try:
                    os.kill(int(pid), 9)
                except ProcessLookupError:
                    pass
            process.poll()
            if not pids:
                break
            time.sleep(0.05)
        process.wait()
        for path in [*self.group.glob("anyflash-build-*"), self.group]:
            path.rmdir()

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.write_ninja()
        self.group.mkdir()
        (self.group / "memory.limit_in_bytes").write_text(str(int(self.options.gib * 2**30)))
        enter = self.group / "cgroup.procs"
        start = time.monotonic()
        with open(self.folder / "log", "w") as log:
            process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self.folder)},
                preexec_fn=lambda: enter.write_text(str(os.getpid())),
            )
            try:
                most, kills, ended = self.watch(process)
                seconds = time.monotonic() - start
                made = len(list(self.folder.glob("*.o")))
            finally:
                self.end(process)
        return {
            "set": self.options.set,
            "case": self.name,
            "jobs": self.jobs if self.name != GATED else "as memory allows",
            "nvcc_threads": self.threads,
            "archs": self.archs,
            "seconds": round(seconds, 1),
            "objects": made,
            "kills": kills,
            "rss_peak_gib": round(most / 2**30, 2),
            "ended": ended or f"exit code {process.returncode}",
            "survived": ended is None and process.returncode == 0 and kills == 0,
        }


def table(results):
    """The table of one set."""
    lines = [
        "| case | jobs | nvcc threads | targets | s | objects | kills | peak GiB | end |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        lines.append(
            f"| {r['case']} | {r['jobs']} | {r['nvcc_threads']} | {len(r['archs'])} | "
            f"{r['seconds']:.0f} | {r['objects']} of 6 | {r['kills']} | "
            f"{r['rss_peak_gib']:.2f} | {r['ended']} |"
        )
    best = [r["seconds"] for r in results if r["case"].startswith("static") and r["survived"]]
    ours = [r["seconds"] for r in results if r["case"] == GATED and r["survived"]]
    if best and ours:
        lines += ["", f"Ours / best static job count that survives: {ours[0] / min(best):.2f}"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("build", "anyflash", "govern", "work"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--out", required=True)
    parser.add_argument("--cases", default="ours,static1,static2,defaults")
    parser.add_argument("--set", default="slim", choices=SETS)
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    out = pathlib.Path(options.out)
    results = json.loads(out.read_text()) if out.exists() else []
    for name in [] if options.table else options.cases.split(","):
        result = Case(name, options).run()
        print(json.dumps(result), flush=True)
        results = [r for r in results if (r["set"], r["case"]) != (options.set, name)]
        results.append(result)
        out.write_text(json.dumps(results, indent=1) + "\n")
    for name in SETS:
        print(f"\n{name}:\n" + table([r for r in results if r["set"] == name]))


if __name__ == "__main__":
    main()
