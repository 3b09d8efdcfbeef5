"""Attention by one other library, a case at a time: python -B main.py LIBRARY THREADS.

compare_peers.py keeps one such process for each library and stops it (SIGSTOP) while others
take their turn. Each line on stdin is answered by one line of JSON on stdout:

  {}        `version` of the library
  a case    computes it once: `dtype`, the type it computed in, and `results`, the numbers at
            the probed positions. A case has the members of bench/cases.h
  "turn"    computes the case again: `milliseconds` of one run

or by `decline`, the reason why there is no such answer.
"""
import importlib
import json
import os
import sys


class Peer:
    def __init__(self, library, threads):
        self.library, self.threads, self.turns = library, threads, None
        # First of all, because a module may start the interpreter again.
        self.common = importlib.import_module("common")
        self.module = importlib.import_module(f"peer_{library}")

    def call(self, name, *arguments):
        return getattr(self.module, f"{name}_{self.library}")(*arguments)

    def answer(self, question):
        if question == {}:
            return {"version": self.call("version")}
        if question == "turn":
            return {"milliseconds": self.turns.take()}
        self.turns = None  # frees the tensors of the last case
        dtype, run, results = self.call("attend", {**question, "threads": self.threads})
        self.turns = self.common.Turns(run)
        probed = [self.common.probe(question, array) for array in results()]
        return {"dtype": dtype, "results": probed}


def reason(error):
    """Why there is no answer, in one line."""
    if isinstance(error, ModuleNotFoundError):
        return f"not installed: there is no module {error.name}"
    if type(error).__name__ == "Decline":
        return str(error)
    return f"{type(error).__name__}: {error}".splitlines()[0][:150]


def attempt(call, *arguments):
    """(the result, None), or (None, why there is none), whatever goes wrong in a library."""
    try:
        return call(*arguments), None
    except Exception as error:
        return None, {"decline": reason(error)}


def main(library, threads):
    # Each library reads its own variable when it is loaded.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DPCPP_CPU_NUM_CUS"):
        os.environ.setdefault(name, threads)
    peer, decline = attempt(Peer, library, int(threads))
    # What a library prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answer = decline
        if peer is not None:
            answer, decline = attempt(peer.answer, json.loads(line))
        print(json.dumps(answer or decline), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
