"""enable() in a running process: threads, fork and spawn, exit, copies of models, MXCSR."""

import concurrent.futures
import copy
import pickle
import textwrap
import threading

import pytest
from conftest import python

torch = pytest.importorskip("torch")
import anyflash.torch  # noqa: E402
from torch_support import TORCH, check, in_float64, sdpa  # noqa: E402


@pytest.fixture(autouse=True)
def enabled():
    threads = torch.get_num_threads()
    anyflash.torch.enable()
    yield
    anyflash.torch.disable()
    torch.set_num_threads(threads)


def script(text, stream="stdout"):
    """Runs the code in a new Python process; returns its output."""
    head = (
        "import torch, anyflash.torch\n"
        "sdpa = torch.nn.functional.scaled_dot_product_attention\n"
    )
    done = python(head + textwrap.dedent(text))
    assert done.returncode == 0, done.stderr
    return getattr(done, stream)


def test_enabling_prints_nothing_and_leaves_torchs_log_as_it_was():
    code = """
        import ctypes
        from anyflash._libtorch import libtorch_cpu
        level = ctypes.c_int.in_dll(libtorch_cpu(), "FLAGS_caffe2_log_level")
        for wanted in (level.value, 0, 3):
            level.value = wanted
            with anyflash.torch.enabled():
                sdpa(*[torch.rand(1, 2, 4, 16)] * 3)
            assert level.value == wanted
    """
    assert "registered kernel" not in script(code, stream="stderr")


@pytest.mark.parametrize("flush", (False, True))
def test_flush_to_zero_stays_as_it_was_set(flush):
    torch.set_num_threads(2)
    torch.set_flush_denormal(False)  # code that was compiled earlier may have set it
    tiny = torch.full((100000,), 1e-39)  # a subnormal number, on both threads
    q = torch.randn(1, 4, 256, 64)
    if not torch.set_flush_denormal(flush):
        pytest.skip("this processor cannot flush denormal numbers")
    try:
        before = (tiny * 0.5).count_nonzero()
        sdpa(q, q, q)
        assert (tiny * 0.5).count_nonzero() == before
        assert ((tiny[:8] * 0.5).count_nonzero() == 0) == flush
    finally:
        torch.set_flush_denormal(False)


def test_the_same_bits_for_every_number_of_threads():
    q = torch.randn(1, 4, 300, 64)
    torch.set_num_threads(1)
    one = sdpa(q, q, q)
    for count in (2, 3, 1):
        torch.set_num_threads(count)
        assert torch.equal(sdpa(q, q, q), one)


def test_memory_does_not_grow(resident):
    def work(count):
        for _ in range(count):
            sdpa(q, q, q, attn_mask=mask, scale=0.2).sum().backward()

    q, mask = torch.randn(1, 2, 8, 64, requires_grad=True), torch.randn(8, 8)
    work(500)
    before = resident()
    work(3000)
    assert resident() - before < 2 << 20


def test_threads_of_python():
    torch.set_num_threads(2)
    inputs = [torch.randn(1, 2, 50 + i, 64, requires_grad=True) for i in range(8)]
    wanted = [in_float64(x, x, x)[0] for x in inputs]

    def work(i):
        for _ in range(20):
            x = inputs[i].detach().requires_grad_()
            out = sdpa(x, x, x)
            check(out, wanted[i], torch.float32)
            out.sum().backward()
            assert x.grad is not None
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_a_backward_in_another_thread():
    q = torch.randn(1, 2, 40, 64, requires_grad=True)
    out = sdpa(q, q, q)
    thread = threading.Thread(target=lambda: out.sum().backward())
    thread.start()
    thread.join()
    want, gradients_of = in_float64(q, q, q)
    check(q.grad, sum(gradients_of(torch.ones_like(want))), torch.float32)


def test_a_new_thread_has_as_many_threads_as_torch_was_set_to():
    script(
        """
        import ctypes, threading
        torch.set_num_threads(1)
        anyflash.torch.enable()
        x = torch.randn(1, 8, 256, 64)
        def tasks():
            sdpa(x, x, x)
            return len(__import__("os").listdir("/proc/self/task"))
        counts = []
        thread = threading.Thread(target=lambda: counts.append(tasks()))
        before = len(__import__("os").listdir("/proc/self/task"))
        thread.start(); thread.join()
        assert counts[0] <= before + 1, (counts, before)
        """
    )


def test_switching_while_other_threads_compute():
    x = torch.randn(1, 2, 16, 64)
    want = in_float64(x, x, x)[0]
    stop, failures = threading.Event(), []

    def work():
        torch.set_num_threads(1)
        while not stop.is_set():
            try:
                check(sdpa(x, x, x), want, torch.float32)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)
                return

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for _ in range(2000):
        anyflash.torch.disable()
        anyflash.torch.enable()
    stop.set()
    for worker in workers:
        worker.join()
    assert not failures


def test_blocks_that_overlap_keep_each_other_on():
    anyflash.torch.disable()
    first, second = anyflash.torch.enabled(), anyflash.torch.enabled()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert anyflash.torch.is_enabled()
    second.__exit__(None, None, None)
    assert not anyflash.torch.is_enabled()


@pytest.mark.skipif(TORCH < (2, 11), reason="needs torch 2.11")
def test_the_registry_and_enable_do_not_take_from_each_other():
    from torch.nn.attention import (
        activate_flash_attention_impl,
        list_flash_attention_impls,
        restore_flash_attention_impl,
    )

    assert "ANYFLASH" in list_flash_attention_impls()
    x = torch.randn(1, 2, 8, 64)

    def is_asked():
        before = anyflash.torch.counts()[0]
        sdpa(x, x, x)
        assert (anyflash.torch.counts()[0] > before) == anyflash.torch.is_enabled()
        return anyflash.torch.is_enabled()

    anyflash.torch.disable()
    assert not is_asked()
    activate_flash_attention_impl("ANYFLASH")
    assert is_asked()
    anyflash.torch.enable()
    restore_flash_attention_impl()
    assert is_asked()
    activate_flash_attention_impl("ANYFLASH")
    anyflash.torch.disable()
    assert is_asked()
    activate_flash_attention_impl("ANYFLASH")
    restore_flash_attention_impl()
    assert not is_asked()


FORKS = """
    import os
    torch.set_num_threads(2)
    anyflash.torch.enable()
    x = torch.randn(1, 8, 300, 64)
    want = sdpa(x, x, x) if {used} else None
    pid = os.fork()
    if pid == 0:
        out = sdpa(x, x, x)
        again = sdpa(x, x, x)
        torch.set_num_threads(1)  # torch's own operators would wait for the parent's threads
        good = torch.equal(out, again) and (want is None or torch.equal(out, want))
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert want is None or torch.equal(sdpa(x, x, x), want)
    """


@pytest.mark.parametrize("used", (False, True))
def test_a_forked_child_computes(used):
    script(FORKS.format(used=used))


def child(x):
    anyflash.torch.enable()
    return sdpa(x, x, x).sum().item()


def test_a_spawned_child_computes():
    import multiprocessing

    x = torch.ones(1, 2, 8, 16)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(child, x).result(timeout=240) == x.sum().item()


def test_the_end_of_the_interpreter():
    out = script(
        """
        anyflash.torch.enable()
        y = torch.randn(1, 2, 64, 64, requires_grad=True)
        sdpa(y, y, y).sum().backward()
        print("done")
        """
    )
    assert out == "done\n"


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:-1], 3, 2, 16).permute(2, 0, 3, 1, 4)
        return sdpa(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def test_copies_of_a_model():
    torch.manual_seed(0)
    model, x = Layer(), torch.randn(2, 9, 32)
    want = model(x)
    assert torch.equal(copy.deepcopy(model)(x), want)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), want)


def test_compiled_forward_and_backward():
    torch.manual_seed(0)
    model, x = Layer(), torch.randn(2, 33, 32)
    compiled = torch.compile(model, fullgraph=True)
    before = anyflash.torch.counts()
    compiled(x).sum().backward()
    assert anyflash.torch.counts()[0] == before[0] + 2
    have = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    anyflash.torch.disable()
    model(x).sum().backward()
    for ours, stock in zip(have, model.parameters()):
        assert torch.allclose(ours, stock.grad, atol=1e-4)


@pytest.mark.skipif(TORCH < (2, 7), reason="Python kernels need the interpreter")
def test_kernels_are_c_and_take_no_lock_of_python():
    out = script("""
        import sys
        anyflash.torch.enable()
        print("anyflash._torch_library" in sys.modules)
        """)
    assert out.split() == ["False"]


def test_a_torch_that_lacks_a_function_is_an_error_and_no_crash():
    said = script(
        """
        import ctypes
        from anyflash import _libtorch
        _libtorch.libtorch_cpu = lambda: ctypes.CDLL("libm.so.6")
        try:
            _libtorch.caller(_libtorch.ATTEND)
        except RuntimeError as error:
            print(error)
        """
    )
    assert "this torch does not export" in said
