"""Joins folders of a CUDA toolkit into one: python cuda_home.py TARGET FOLDER...

The wheels of the package index split the toolkit: the compiler in our environment, headers and
libraries beside torch. TARGET gets links to the entries of include and lib of all FOLDERs (the
first FOLDER wins), to the first bin and nvvm, and libcudart.so, which no wheel contains.
"""

import os
import pathlib
import shutil
import sys


def join(target, folders, part):
    """Links the entries of one part; if several folders have a name, the first one wins."""
    (target / part).mkdir(parents=True)
    for folder in folders:
        source = folder / part
        for entry in sorted(source.iterdir()) if source.is_dir() else []:
            link = target / part / entry.name
            if not link.is_symlink() and not link.exists():
                link.symlink_to(entry)


def main():
    final = pathlib.Path(sys.argv[1])
    folders = [pathlib.Path(name).resolve() for name in sys.argv[2:]]
    staged = final.with_name(f"{final.name}.{os.getpid()}")
    for part in ("include", "lib"):
        join(staged, folders, part)
    for part in ("bin", "nvvm"):
        found = [folder / part for folder in folders if (folder / part).is_dir()]
        if not found:
            raise SystemExit(f"no folder '{part}' in {', '.join(map(str, folders))}")
        (staged / part).symlink_to(found[0])
    runtimes = sorted((staged / "lib").glob("libcudart.so.*"))
    if not runtimes:
        raise SystemExit("no libcudart.so beside torch")
    link = staged / "lib" / "libcudart.so"
    if not link.exists():
        link.symlink_to(runtimes[0].name)
    shutil.rmtree(final, ignore_errors=True)
    staged.rename(final)


if __name__ == "__main__":
    main()
