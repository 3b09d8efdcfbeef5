"""Loads compiled parts of packages, each named by a word, after torch.

A word is package:NAME or module:NAME, which are imported, or library:FILE,
which is loaded as torch loads libraries of operators. Prints "begin N" before
each, "fault N sentence" after one that fails, and "done" at the end, each line
after MARK.
"""
import sys

sys.path[:] = [folder for folder in sys.path if folder]  # not the current folder

import importlib  # noqa: E402

MARK = "anyflash-verify"


def say(*words):
    print(f"\n{MARK}", *words, flush=True)


def main():
    try:
        import torch
    except ImportError:
        torch = None
    for number, word in enumerate(sys.argv[1:]):
        say("begin", number)
        kind, _, name = word.partition(":")
        try:
            if kind in ("package", "module"):
                importlib.import_module(name)
            elif torch is not None:
                torch.ops.load_library(name)
        except BaseException as error:
            say("fault", number, " ".join(f"{type(error).__name__}: {error}"[:400].split()))
    say("done")


main()
