#!/usr/bin/env python3
"""Times the web page in Chromium, and prints how many bytes a first visit transfers.

Prints the table of bench/results/page.md. Needs what `tests/run page` makes:

    make page
    ANYFLASH_PAGE=build/page build/page-python/bin/python bench/page.py
"""
import gzip
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))
from chromium import Page, Server, start_driver  # noqa: E402

ROUNDS = 7
LOG_BYTES = 10_000_000
FACTS = [("os", "linux"), ("arch", "x86_64"), ("python", "3.12"), ("torch", "2.9.1"),
         ("torch_cuda", "cu128"), ("gpu", "RTX 4090"), ("libc", "glibc 2.35"),
         ("driver", "580"), ("torch", "2.8.0"), ("torch", "2.15.0"), ("gpu", "T4"),
         ("python", "3.10"), ("os", "windows"), ("gpu", "H100"), ("torch_cuda", "cu126")]
LATEST = """
    const last = (name) => performance.getEntriesByName(name).pop().startTime;
    return last('answered') - last(arguments[0]);"""
FIRST = """
    const first = (name) => performance.getEntriesByName(name)[0].startTime;
    return first('answered') - first('ready');"""
READ_LOG = """
    const [line, count, ending, done] = arguments;
    const blob = new Blob([line.repeat(count), ending]);
    let longest = 0, last = performance.now();
    const beat = setInterval(() => { const now = performance.now();
        longest = Math.max(longest, now - last); last = now; }, 2);
    const begin = performance.now();
    send('paste', {name: 'a.log', blob}).then((answer) => {
        clearInterval(beat);
        done([performance.now() - begin, longest, answer.kind]); });"""
LINES = {"compiler output": "[12/73] c++ -MMD -MF build/temp/flash_api.o.d -O3 -std=c++17 "
                            "-I/usr/include/python3.10 -c csrc/flash_attn/flash_api.cpp\n",
         "training output": "{'loss': 1.2345, 'grad_norm': 0.51, 'learning_rate': 2e-05, "
                            "'epoch': 0.75} 12%|###   | 120/1000 [01:02<07:13, 2.03it/s]\n"}
ENDING = "ImportError: /lib/libc.so.6: version `GLIBC_2.32' not found\n"


def transferred():
    """The size of each file after compression as by a web server, in bytes."""
    folder = pathlib.Path(os.environ["ANYFLASH_PAGE"])
    return {path.name: len(gzip.compress(path.read_bytes(), 9))
            for path in sorted(folder.iterdir())}


def idle(page):
    page.wait("document.getElementById('matrix').dataset.complete")


def row(what, values, target):
    met = "met" if statistics.median(values) <= target else "not met"
    print(f"| {what} | {min(values):.0f} | {statistics.median(values):.0f} | {max(values):.0f} "
          f"| {target} ms: {met} |")


def time_changes(page, wait_for_matrix):
    """Milliseconds from each change of a menu to the answer; every change is to a new value."""
    values = []
    for key, value in FACTS:
        if wait_for_matrix:
            idle(page)
        page.choose(f"fact-{key}", value)
        values.append(page.run(LATEST, "asked"))
    return values


def main():
    server = Server()
    driver = start_driver()
    page = Page(driver, server.url)
    sizes = transferred()
    print(f"Chromium {driver.capabilities['browserVersion']} on {os.cpu_count()} cores, "
          f"load average {os.getloadavg()[0]:.1f}\n")
    print("| file | bytes after gzip -9 |\n|---|---|")
    for name, size in sizes.items():
        print(f"| {name} | {size:,} |")
    total = sum(sizes.values())
    met = "met" if total <= 1_500_000 else "not met"
    print(f"| total, at most 1,500,000 | {total:,}: {met} |\n")
    print("| milliseconds | min | median | max | target |\n|---|---|---|---|---|")
    firsts = []
    for _ in range(ROUNDS):
        page.open()
        firsts.append(page.run(FIRST))
    row("from the loaded module to the first answer", firsts, 300)
    row("from a change in a menu to the answer", time_changes(page, True), 50)
    page.open()
    row("the same, while the matrix is being filled", time_changes(page, False), 50)
    for what, line in LINES.items():
        times, gaps = [], []
        for _ in range(ROUNDS):
            taken, gap, kind = driver.execute_async_script(
                READ_LOG, line, LOG_BYTES // len(line), ENDING)
            assert kind == "log"
            times.append(taken)
            gaps.append(gap)
        row(f"reading a log of 10 MB: {what}", times, 1000)
        row("longest time that the page did not respond", gaps, 50)
    driver.quit()
    server.stop()


if __name__ == "__main__":
    begin = time.monotonic()
    main()
    print(f"\nThe benchmark took {time.monotonic() - begin:.0f} s.", file=sys.stderr)
