"""attend with threads, after fork and at exit of the interpreter; no memory leaks."""

import gc
import sys
import threading

import pytest
from conftest import python

np = pytest.importorskip("numpy")
import anyflash  # noqa: E402
from anyflash import _attend, _lib  # noqa: E402


def arrays(rows=33, seed=1):
    random = np.random.default_rng(seed)
    return [random.standard_normal((1, rows, 2, 32), dtype=np.float32) for _ in range(3)]


def test_this_interpreter_has_the_builtin():
    free_threaded = "t" in getattr(sys, "abiflags", "")
    expected = sys.implementation.name == "cpython" and not free_threaded
    assert (type(_lib.fast_attend).__name__ == "builtin_function_or_method") == expected


def int32(*values):
    return np.array(values, np.int32)


def pages():
    return {"block_table": int32(0, 0, 0, 0, 0).reshape(1, 5), "seqused_k": int32(140)}


@pytest.mark.parametrize(
    "options",
    (
        {},
        {"causal": True, "scale": 0.3, "softcap": 2.0, "window": (5, 3)},
        {"causal": True, "align": "top-left", "scale": None},
        {"causal": True, "causal_offsets": int32(-3)},
        {"mask": np.tri(33, dtype=bool)},
        {"mask": np.ones((1, 2, 1, 33), bool), "bias": np.full((33, 33), 0.5, np.float16)},
        {"bias": np.linspace(0, 1, 33, dtype=np.float32)},
        {"seqused_q": int32(20), "seqused_k": int32(30), "leftpad_k": int32(2)},
        {"cache_batch_idx": int32(0)},
        {"sinks": np.ones(2, np.float32), "alibi_slopes": np.ones((1, 2), np.float32)},
        pages(),
    ),
)
def test_the_builtin_computes_what_python_does(options, monkeypatch):
    q, k, v = arrays()
    anyflash.attend(q, k, v)
    given = {**options}
    done = _lib.fast_attend(q, k, v, "bshd", None, True, _lib._context.address, given)
    monkeypatch.setattr(_attend, "_fast", lambda *arguments: None)
    expected = anyflash.attend(q, k, v, return_lse=True, **options)
    assert done is not None and all(np.array_equal(a, b) for a, b in zip(done, expected))


@pytest.mark.parametrize("count", range(8))
def test_the_builtin_with_too_few_arguments_takes_nothing(count):
    assert _lib.fast_attend(*[None] * count) is None


def test_many_threads_at_once_get_their_own_results():
    given = [arrays(40 + i, i) for i in range(8)]
    expected = [anyflash.attend(*x, causal=True) for x in given]
    wrong = []

    def work(i):
        for _ in range(50):
            if not np.array_equal(anyflash.attend(*given[i], causal=True), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(20):  # contexts change during the calls
        anyflash.set_threads(1 + _ % 3)
    for thread in threads:
        thread.join()
    anyflash.set_threads(0)
    assert not wrong


def test_other_threads_run_while_the_engine_computes():
    random = np.random.default_rng(3)
    q = random.standard_normal((1, 3000, 4, 128), dtype=np.float32)
    done = threading.Event()
    ticks = 0

    def work():
        anyflash.attend(q, q, q)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 3


def test_a_fork_among_calls_leaves_both_sides_working():
    done = python(
        "import os, sys, threading, numpy as np, anyflash\n"
        "x = np.ones((1, 64, 2, 32), np.float32); want = anyflash.attend(x, x, x)\n"
        "stop = False\n"
        "def work():\n"
        "    while not stop: anyflash.attend(x, x, x)\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "[t.start() for t in threads]\n"
        "codes = []\n"
        "for _ in range(10):\n"
        "    child = os.fork()\n"
        "    if child == 0: os._exit(not np.array_equal(anyflash.attend(x, x, x), want))\n"
        "    codes.append(os.waitpid(child, 0)[1])\n"
        "stop = True; [t.join() for t in threads]; print(codes)"
    )
    assert done.stdout.strip() == str([0] * 10), done.stderr


@pytest.mark.parametrize("daemon", (False, True))
def test_the_interpreter_ends_while_a_call_runs(daemon):
    done = python(
        "import threading, numpy as np, anyflash\n"
        "x = np.ones((1, 4000, 8, 64), np.float32); started = threading.Event()\n"
        "def work():\n"
        "    while True:\n"
        "        started.set(); anyflash.attend(x, x, x)\n"
        f"        if not {daemon}: return\n"
        f"threading.Thread(target=work, daemon={daemon}).start(); started.wait()\n"
        "print('end')"
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def references():
    gc.collect()
    return [sys.getrefcount(x) for x in (None, np.float32, np.dtype("float32"), np.empty)]


def test_no_reference_is_lost_or_kept():
    q, k, v = arrays()
    out = np.empty_like(q)
    table = np.zeros((1, 1), np.int32)
    calls = (
        {},
        {"causal": True, "scale": 0.3, "window": (3, 5), "softcap": 1.5},
        {"return_lse": True},
        {"out": out, "return_lse": True},
        {"layout": "bhsd", "align": "top-left"},
        {"sinks": np.zeros(2, np.float32), "alibi_slopes": np.zeros(2, np.float32)},
        {"block_table": table, "seqused_k": np.ones(1, np.int32), "scale": None},
    )
    refused = ({"window": (-2, 0)}, {"scale": "one"}, {"out": out[:, :3]}, {"sinks": 5})

    def all_of_them():
        for options in calls:
            anyflash.attend(q, k, v, **options)
        for options in refused:
            with pytest.raises((ValueError, TypeError)):
                anyflash.attend(q, k, v, **options)

    kept = (q, k, v, out, table)
    for _ in range(3):
        all_of_them()
    gc.collect()  # what earlier tests left would fall away during the loop
    before, counts = references(), [sys.getrefcount(x) for x in kept]
    for _ in range(200):
        all_of_them()
    assert [sys.getrefcount(x) for x in kept] == counts
    assert all(abs(a - b) < 150 for a, b in zip(references(), before))


def test_memory_does_not_grow(resident):
    q, k, v = arrays(200)

    for _ in range(200):
        anyflash.attend(q, k, v, return_lse=True)
    before = resident()
    for _ in range(3000):
        anyflash.attend(q, k, v, return_lse=True)
    assert resident() - before < 4 << 20


def test_bfloat16_is_taken_in_c_and_stays_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = (x.astype(ml_dtypes.bfloat16) for x in arrays())
    out = anyflash.attend(q, k, v)
    done = _lib.fast_attend(q, k, v, "bshd", None, False, _lib._context.address, {})
    assert out.dtype == ml_dtypes.bfloat16 and out.tobytes() == done.tobytes()
