#!/usr/bin/env python3
"""Makes a pack: one file with FlashAttention-2's CUDA kernels as PTX, for every GPU since
compute capability 8.0, every driver since 520, every torch and every Python.

    make_pack.py                                        everything: 90 CPU minutes
    make_pack.py --head-dim 64,128 --dtype bf16         a part
    make_pack.py --sources flash_attn-2.8.3.post2       the unpacked sdist instead of a download
    make_pack.py --nvrtc site-packages --head-dim 64    by NVRTC from there instead of nvcc

It needs ninja, zstd, c++filt, a host compiler for nvcc, and 7 GiB of memory for each compiler
that runs; with --nvrtc nothing but 6 GiB of memory. The sources, compiler and PTX are kept in
--work, so that an interrupted or changed run compiles only what is missing.
"""

import argparse
import gzip
import os
import pathlib
import re
import shutil
import signal
import sys
import time

import compiler
import kernel_names
import nvrtc
import pack_file
import ptx
import sources

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HEAD_DIMS = ("32", "64", "96", "128", "192", "256")
DTYPES = ("bf16", "fp16")
#: The passes, and how the names of their files begin.
PASSES = {"forward": "flash_fwd", "split": "flash_fwd_split", "backward": "flash_bwd"}
OWN = ("members", "small")
#: What can be left out: the template argument behind the traits that says that a kernel has it,
#: of the forward and the backward kernel; that of the split kernel, which has no dropout, is
#: one less.
FEATURES = {"window": 2, "softcap": 6, "alibi": 3, "dropout": 0}
MAIN = {"flash_fwd_kernel": 0, "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": 0,
        "flash_fwd_splitkv_kernel": -1}
PROGRAMS = {"ninja": "ninja-build", "zstd": "zstd", "c++filt": "binutils", "g++": "g++"}


def some_of(known):
    """A type of arguments: comma-separated words of `known`, in its order."""
    def parse(text):
        words = [] if text == "none" else list(known) if text == "all" else text.split(",")
        unknown = [word for word in words if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"'{unknown[0]}' is none of {', '.join(known)}")
        return tuple(word for word in known if word in words)
    return parse


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--head-dim", type=some_of(HEAD_DIMS), default=HEAD_DIMS, metavar="N,...",
        help=f"head dimensions, of {', '.join(HEAD_DIMS)}")
    add("--dtype", type=some_of(DTYPES), default=DTYPES, metavar="TYPE,...",
        help="bf16, fp16 or both")
    add("--pass", dest="passes", type=some_of(tuple(PASSES)), default=tuple(PASSES),
        metavar="PASS,...", help="forward, split (decoding with a KV cache), backward")
    add("--features", type=some_of(tuple(FEATURES)), default=tuple(FEATURES),
        metavar="NAME,...", help="window, softcap, alibi, dropout, or none; with --nvrtc only")
    add("--output", type=pathlib.Path, default=ROOT / "dist", metavar="FOLDER",
        help="where the pack is written (default: dist)")
    add("--work", type=pathlib.Path, default=ROOT / "build" / "kernels", metavar="FOLDER",
        help="where intermediate files are kept (default: build/kernels)")
    add("--sources", type=pathlib.Path, metavar="FOLDER",
        help=f"the unpacked sdist of flash-attn {sources.RELEASE} (default: download it)")
    add("--nvcc", metavar="PATH",
        help="CUDA's compiler (default: nvcc of PATH, else it is downloaded)")
    add("--nvrtc", type=pathlib.Path, action="append", metavar="FOLDER",
        help="compile by NVRTC; it and NVIDIA's headers are packages in these folders")
    add("--quiet", action="store_true", help="do not print what was made")
    add("--jobs", type=int, metavar="N",
        help="compilers at once (default: as many as memory and cores allow)")
    given = parser.parse_args()
    if given.features != tuple(FEATURES) and not given.nvrtc:
        parser.error("nvcc compiles flash-attn's files whole: --features needs --nvrtc")
    return given


def groups(given):
    """The sources whose kernels are compressed together: of one pass and head dimension."""
    for one in given.passes:
        for dim in given.head_dim:
            yield [f"{PASSES[one]}_hdim{dim}_{dtype}{causal}_sm80"
                   for dtype in given.dtype for causal in ("", "_causal")]


def file_name(given):
    """What the pack is called; a part says which one it is."""
    chosen = [(given.head_dim, HEAD_DIMS, "hd"), (given.dtype, DTYPES, ""),
              (given.passes, tuple(PASSES), ""), (given.features, tuple(FEATURES), "")]
    parts = [f"-{prefix}{word}" for words, known, prefix in chosen if words != known
             for word in words or ("plain",)]
    return f"flash-attn-{sources.RELEASE}{''.join(parts)}.kernels"


def sources_of(given):
    """The folder of flash-attn's sources."""
    tree = given.sources or sources.unpacked(sources.download(given.work), given.work)
    tree = tree.absolute()
    sources.check(tree)
    return tree


def compile_sources(given, nvcc, tree, folder):
    """Compiles what was asked for, and our own files, into `folder`."""
    files = {HERE / f"{name}.cu": f"{name}.ptx" for name in OWN}
    files.update({tree / sources.KERNELS / f"{name}.cu": f"{name}.ptx"
                  for group in groups(given) for name in group})
    includes = [sources.TORCH_HEADERS, *(tree / include for include in sources.INCLUDES)]
    headers = [path for path in sources.TORCH_HEADERS.rglob("*") if path.is_file()]
    compiler.compile_all(nvcc, files, includes, headers, folder,
                         given.jobs or compiler.jobs_allowed())


def layout(text):
    """(structs, members) that members.cu has put into its PTX as {offset, size}."""
    found = {"struct": [], "member": []}
    constant = re.compile(r"\.const \.align 4 \.b8 (struct|member)_(\w+)\[8\]"
                          r"(?: = \{([^}]*)\})?;")
    for kind, name, values in constant.findall(text):
        # The compiler leaves out zeros at the end.
        raw = bytes(int(value) for value in values.split(",") if value).ljust(8, b"\0")
        offset, size = (int.from_bytes(raw[i:i + 4], "little") for i in (0, 4))
        found[kind].append((name, size) if kind == "struct" else (name, offset, size))
    if not found["struct"] or not found["member"]:
        raise ptx.Unreadable("it has no layout of the parameters")
    return found["struct"], found["member"]


def kernels_of(texts):
    """[(name, pieces)] of the kernels in PTX files, similar ones side by side."""
    found = {}
    for text in texts:
        modules = dict(ptx.modules(text))
        for mangled, name in kernel_names.names(list(modules)).items():
            pieces = [*modules[mangled][:-1], f"// {name}\n{modules[mangled][-1]}"]
            # Files for causal and other masks share small kernels.
            if found.setdefault(name, pieces) != pieces:
                raise ValueError(f"two files have different kernels '{name}'")
    return sorted(found.items(), key=lambda kernel: kernel_names.with_twins(kernel[0]))


def is_wanted(name, given):
    """Whether a kernel of the full pack belongs into the part that was asked for."""
    if " " not in name:
        return False  # of small.cu
    kind, traits, more = nvrtc.arguments(name)
    side = "backward" if kind.startswith("flash_bwd") else (
        "split" if "splitkv" in kind else "forward")
    has = {word for word, place in FEATURES.items()
           if kind in MAIN and place + MAIN[kind] >= 0 and more[place + MAIN[kind]] == "1"}
    return (side in given.passes and traits[0] in given.head_dim and traits[-1] in given.dtype
            and has <= set(given.features))


def by_nvrtc(given, tree):
    """(what compiled, its folder, groups of kernels as kernels_of() returns them)."""
    found = nvrtc.find(given.nvrtc)
    names = gzip.decompress((HERE / "kernel_names.txt.gz").read_bytes()).decode().splitlines()
    folder = given.work / f"nvrtc-{nvrtc.version(found[0])}"
    programs = nvrtc.write_programs([name for name in names if is_wanted(name, given)], folder)
    what = {path: nvrtc.title(kernels) for path, kernels in programs.items()}
    what |= {HERE / f"{name}.cu": f"our own {name}.cu" for name in OWN}
    includes = [sources.TORCH_HEADERS, *(tree / include for include in sources.INCLUDES)]
    jobs = given.jobs or compiler.jobs_allowed(nvrtc.COMPILER_BYTES)
    nvrtc.compile_all(found, what, includes, folder, jobs)
    groups = [[("small", None)]]
    groups += [[(path.stem, kernels)] for path, kernels in programs.items()]
    made = f"NVRTC {nvrtc.version(found[0])} {' '.join(nvrtc.OPTIONS)}"
    return made, folder, groups


def named_kernels(text, names):
    """[(name, pieces)] of a program whose kernel number i has the name names[i]."""
    modules = dict(ptx.modules(text))
    return [(name, [*modules[f"k{i}"][:-1], f"// {name}\n{modules[f'k{i}'][-1]}"])
            for i, name in enumerate(names)]


def by_nvcc(given, tree):
    """The same, of flash-attn's files."""
    nvcc = compiler.find(given.nvcc, given.work)
    folder = given.work / "ptx"
    compile_sources(given, nvcc, tree, folder)
    made = f"nvcc {compiler.version(nvcc)} {' '.join(compiler.OPTIONS)}"
    return made, folder, [[(name, None) for name in group]
                          for group in [["small"], *groups(given)]]


def kernels_in(folder, group):
    """The kernels of the PTX files of a group."""
    texts = [(folder / f"{stem}.ptx", names) for stem, names in group]
    if any(names for _, names in texts):
        return [one for path, names in texts for one in undamaged(
            path, lambda text, names=names: named_kernels(text, names))]
    return kernels_of(undamaged(path, check_end) for path, _ in texts)


def check_end(text):
    """The text of a PTX file, if its statements are complete."""
    if not list(ptx.statements(text)):
        raise ptx.Unreadable("it is empty")
    return text


def undamaged(path, read):
    """The result of read() for a file of PTX. Removes a file that a crash has cut off."""
    try:
        return read(path.read_text())
    except (KeyError, ptx.Unreadable) as failure:
        path.unlink()
        raise nvrtc.Unusable(f"'{path}' was damaged and is removed: run the same command again"
                             f" ({failure})") from None


def make(given):
    """Makes the pack; returns its path and the writer, which knows what is in it."""
    tree = sources_of(given)
    made, folder, groups_made = (by_nvrtc if given.nvrtc else by_nvcc)(given, tree)
    writer = pack_file.Writer()
    writer.add_licence(sources.licences(tree))
    for group in groups_made:
        writer.add_kernels(kernels_in(folder, group))
    structs, members = undamaged(folder / "members.ptx", layout)
    given.output.mkdir(parents=True, exist_ok=True)
    path = given.output / file_name(given)
    writer.write(path, {"flash-attn": sources.RELEASE,
                        "made": f"{made} sdist sha256 {sources.SDIST_SHA256}",
                        "ptx": (ptx.VERSION, ptx.TARGET), "structs": structs,
                        "members": members})
    return path, writer


def main():
    given = arguments()
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if missing and not given.nvrtc:
        sys.exit(f"error: programs are missing; install {' '.join(missing)}")
    os.umask(os.umask(0) | 0o022)  # later runs use what this one leaves
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    given.work.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    try:
        path, writer = make(given)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except nvrtc.Unusable as failure:
        sys.exit(f"error: {failure}")
    if given.quiet:
        return
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    print(f"{os.path.relpath(path)}: {path.stat().st_size / 1e6:.1f} MB, {len(writer.kernels)}"
          f" kernels; {minutes} min {seconds} s{largest()}")


def largest():
    """What the largest compiler needed, where the system tells."""
    try:
        import resource
    except ImportError:
        return ""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20)
    return f", the largest process had {peak:.1f} GiB"


if __name__ == "__main__":
    main()
