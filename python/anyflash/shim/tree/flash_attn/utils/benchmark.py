"""Timing of functions and of their gradients by torch.utils.benchmark."""

import torch


def _device(inputs):
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    return tensors[0].device.type if tensors else "cpu"


def _timed(step, name, repeats, desc, verbose):
    from torch.utils import benchmark  # older torches import setuptools for it

    if verbose:
        print(desc, f"- {name}")
    timer = benchmark.Timer(
        stmt="step()", globals={"step": step}, num_threads=torch.get_num_threads()
    )
    measured = timer.timeit(repeats)
    if verbose:
        print(measured)
    return timer, measured


def _caller(fn, inputs, kwinputs, amp, amp_dtype):
    device = _device(inputs)

    def call():
        with torch.autocast(device_type=device, dtype=amp_dtype, enabled=amp):
            y = fn(*inputs, **kwinputs)
        return y[0] if isinstance(y, tuple) else y

    return call


def _clear(inputs):
    for x in inputs:
        if isinstance(x, torch.Tensor):
            x.grad = None


def _gradient(y, grad):
    if grad is None:
        return torch.randn_like(y)
    if grad.shape != y.shape:
        raise RuntimeError(f"grad: shape {tuple(grad.shape)}, the output has {tuple(y.shape)}")
    return grad


def benchmark_forward(
    fn,
    *inputs,
    repeats=10,
    desc="",
    verbose=True,
    amp=False,
    amp_dtype=torch.float16,
    **kwinputs,
):
    """(the timer, the measurement) of fn(*inputs, **kwinputs)."""
    call = _caller(fn, inputs, kwinputs, amp, amp_dtype)
    return _timed(call, "Forward pass", repeats, desc, verbose)


def benchmark_backward(
    fn,
    *inputs,
    grad=None,
    repeats=10,
    desc="",
    verbose=True,
    amp=False,
    amp_dtype=torch.float16,
    **kwinputs,
):
    """(the timer, the measurement) of the backward of fn(*inputs, **kwinputs)."""
    y = _caller(fn, inputs, kwinputs, amp, amp_dtype)()
    grad = _gradient(y, grad)

    def step():
        _clear(inputs)
        y.backward(grad, retain_graph=True)

    return _timed(step, "Backward pass", repeats, desc, verbose)


def benchmark_combined(
    fn,
    *inputs,
    grad=None,
    repeats=10,
    desc="",
    verbose=True,
    amp=False,
    amp_dtype=torch.float16,
    **kwinputs,
):
    """(the timer, the measurement) of both together."""
    call = _caller(fn, inputs, kwinputs, amp, amp_dtype)
    grad = _gradient(call(), grad)

    def step():
        _clear(inputs)
        call().backward(grad, retain_graph=True)

    return _timed(step, "Forward + Backward pass", repeats, desc, verbose)


def benchmark_fwd_bwd(
    fn,
    *inputs,
    grad=None,
    repeats=10,
    desc="",
    verbose=True,
    amp=False,
    amp_dtype=torch.float16,
    **kwinputs,
):
    """benchmark_forward() and benchmark_backward()."""
    options = {"repeats": repeats, "desc": desc, "verbose": verbose, "amp": amp}
    options.update(amp_dtype=amp_dtype, **kwinputs)
    return (
        benchmark_forward(fn, *inputs, **options),
        benchmark_backward(fn, *inputs, grad=grad, **options),
    )


def benchmark_all(
    fn,
    *inputs,
    grad=None,
    repeats=10,
    desc="",
    verbose=True,
    amp=False,
    amp_dtype=torch.float16,
    **kwinputs,
):
    """benchmark_forward(), benchmark_backward() and benchmark_combined()."""
    options = {"repeats": repeats, "desc": desc, "verbose": verbose, "amp": amp}
    options.update(amp_dtype=amp_dtype, **kwinputs)
    return (
        benchmark_forward(fn, *inputs, **options),
        benchmark_backward(fn, *inputs, grad=grad, **options),
        benchmark_combined(fn, *inputs, grad=grad, **options),
    )


def pytorch_profiler(
    fn,
    *inputs,
    trace_filename=None,
    backward=False,
    amp=False,
    amp_dtype=torch.float16,
    cpu=False,
    verbose=True,
    **kwinputs,
):
    """torch.profiler over one call after a warm-up; prints its table, or writes a trace."""
    call = _caller(fn, inputs, kwinputs, amp, amp_dtype)
    grad = torch.randn_like(call()) if backward else None
    activity = torch.profiler.ProfilerActivity
    is_cuda = _device(inputs) == "cuda"
    activities = [activity.CPU] * (cpu or not is_cuda) + [activity.CUDA] * is_cuda
    with torch.profiler.profile(activities=activities) as profile:
        _clear(inputs)
        y = call()
        if backward:
            y.backward(grad, retain_graph=True)
    if verbose:
        print(profile.key_averages().table(row_limit=50))
    if trace_filename is not None:
        profile.export_chrome_trace(trace_filename)


def benchmark_memory(fn, *inputs, desc="", verbose=True, **kwinputs):
    """The most CUDA memory that fn(*inputs, **kwinputs) holds, in GiB."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    fn(*inputs, **kwinputs)
    torch.cuda.synchronize()
    most = torch.cuda.max_memory_allocated() / 2**30
    if verbose:
        print(f"{desc} max memory: {most} GiB")
    torch.cuda.empty_cache()
    return most
