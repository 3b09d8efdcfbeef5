"""Checks and times each provider of flash_attn's functions on this machine's GPU, and times
torch's scaled_dot_product_attention for comparison.

    python bench/gpu_providers.py [--device cuda] [--quick]

Prints Markdown tables: whether each provider can be used, and why not; how far its outputs and
gradients are from the formula in float64; and median times of repeated calls, measured with
CUDA events, for forward, training and decode with 2k to 32k keys. Exits 1 if an answer is
wrong. --device cpu does the same with the providers that run on CPUs, up to 2k keys.
"""

import argparse
import functools
import statistics
import sys
import time

import torch

import anyflash
from anyflash import providers
from anyflash.providers import table as provider_table
from anyflash.providers.call import LSE, Call

#: (name, sizes (B, Sq, Sk, H, G, D), type, options of Call)
CHECKS = (
    ("bf16", (2, 113, 203, 8, 2, 64), torch.bfloat16, {}),
    ("f16 causal", (2, 113, 203, 8, 2, 128), torch.float16, {"causal": True}),
    ("more queries than keys", (1, 203, 113, 4, 4, 64), torch.bfloat16, {"causal": True}),
    ("window", (2, 256, 256, 8, 8, 96), torch.bfloat16, {"window": (50, 20)}),
    ("D 256", (1, 130, 130, 4, 1, 256), torch.bfloat16, {"causal": True}),
    ("D 60", (1, 130, 130, 4, 1, 60), torch.float16, {"causal": True}),
    ("softcap", (1, 130, 130, 4, 2, 64), torch.bfloat16, {"softcap": 5.0, "causal": True}),
    ("ALiBi", (2, 130, 150, 4, 2, 64), torch.bfloat16, {"alibi_slopes": True}),
    ("sinks", (2, 130, 150, 4, 2, 64), torch.bfloat16, {"sinks": True, "causal": True}),
    ("packed", (3, 90, 120, 4, 2, 64), torch.bfloat16, {"packed": True, "causal": True}),
    ("deterministic", (2, 128, 128, 4, 2, 64), torch.float16, {"deterministic": True}),
    ("f32", (2, 64, 90, 4, 2, 64), torch.float32, {"causal": True}),
)
#: (name, sizes, causal, with the gradient)
TIMES = tuple(
    (f"{what} {keys // 1024}k", sizes, causal, gradient)
    for keys in (2048, 4096, 8192, 16384, 32768)
    for what, sizes, causal, gradient in (
        ("forward", (32768 // keys, keys, keys, 16, 16, 128), True, False),
        ("forward, GQA", (32768 // keys, keys, keys, 32, 8, 128), True, False),
        ("training", (32768 // keys, keys, keys, 16, 16, 128), True, True),
        ("decode", (16, 1, keys, 32, 8, 128), False, False),
    )
)
#: With --device cpu only the cases with at most this many keys are run.
CPU_KEYS = 2048
BOUND = {torch.float32: 1e-3, torch.float16: 4e-3, torch.bfloat16: 2e-2}


def inputs(sizes, dtype, device, packed=False):
    torch.manual_seed(0)
    batch, rows, keys, heads, groups, dim = sizes
    shapes = [(batch, rows, heads, dim)] + [(batch, keys, groups, dim)] * 2
    made = [torch.randn(s, device=device).to(dtype) for s in shapes]
    if packed:
        made = [x.flatten(0, 1) for x in made]
    return [x.requires_grad_() for x in made]


def call_of(leaves, sizes, options):
    options, device = dict(options), leaves[0].device
    heads = sizes[3]
    slopes = torch.linspace(0.5, 0.05, heads, device=device)
    call = Call(
        *leaves,
        0.0,
        None,
        options.get("causal", False),
        options.get("window", (-1, -1)),
        options.get("softcap", 0.0),
        slopes if "alibi_slopes" in options else None,
        options.get("deterministic", False),
        LSE,
    )
    if "sinks" in options:
        call.sinks = slopes
    if "packed" in options:
        every = torch.arange(sizes[0] + 1, dtype=torch.int32, device=device)
        call.cu_q, call.cu_k = every * sizes[1], every * sizes[2]
        call.max_q, call.max_k = sizes[1], sizes[2]
    return call


def results(provider, call, leaves):
    """Output, logsumexp, gradients."""
    before = providers.force(provider)
    try:
        out, lse, _ = providers.attend(call)
    finally:
        providers.force(before)
    weight = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)
    return out, lse, *torch.autograd.grad(out, leaves, weight.to(out.dtype))


def distance(found, wanted):
    """The largest difference, as a fraction of the largest wanted value."""
    far = 0.0
    for have, want in zip(found, wanted):
        have, want = have.detach().double(), want.detach().double()
        finite = torch.isfinite(want)
        if not torch.equal(finite, torch.isfinite(have)):
            return float("inf")
        have, want = have[finite], want[finite]
        far = max(far, float((have - want).abs().max() / want.abs().max().clamp_min(1e-9)))
    return far


def check(name, device):
    """{case: text} for one provider, and whether one is wrong."""
    row, wrong = {}, False
    for case, sizes, dtype, options in CHECKS:
        leaves = inputs(sizes, dtype, device, "packed" in options)
        wide = [x.detach().double().requires_grad_() for x in leaves]
        wanted = results("plain", call_of(wide, sizes, options), wide)
        call = call_of(leaves, sizes, options)
        if name == "sdpa":
            call.want = 0
        try:
            found = results(name, call, leaves)
        except NotImplementedError as error:
            row[case] = f"declines: {error}"[:90]
            continue
        pairs = [p for p in zip(found, wanted) if p[0] is not None]
        far = distance(*zip(*pairs))
        wrong = wrong or not far < BOUND[dtype]
        row[case] = f"{far:.1e}" + ("" if far < BOUND[dtype] else " WRONG")
    return row, wrong


def milliseconds(run, device, seconds):
    """Median time of calls, after a warm-up."""
    for _ in range(3):
        run()
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 5:
        if device.type == "cuda":
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        else:
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def sdpa(q, k, v, causal):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    options = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    function = torch.nn.functional.scaled_dot_product_attention
    return function(q, k, v, is_causal=causal, **options).transpose(1, 2)


def timed(function, leaves, causal, gradient):
    if not gradient:
        with torch.no_grad():
            return function(*leaves, causal=causal)
    out = function(*leaves, causal=causal)
    return torch.autograd.grad(out, leaves, torch.ones_like(out))


def states(device):
    """Table lines: the types that each provider supports, or why it cannot be used."""
    yield "| provider | used | |"
    yield "|---|---|---|"
    for name in providers.names_of(device.type):
        _, works, text = provider_table.row(name, device)
        yield f"| {name} | {'yes' if works else 'no'} | {text} |"


def measure(name, device, seconds, most_keys):
    """{case: milliseconds or the reason} for one provider, "SDPA" for torch's function."""
    row = {}
    for case, sizes, causal, gradient in TIMES:
        if sizes[2] > most_keys:
            continue
        leaves = inputs(sizes, torch.bfloat16, device)
        function = sdpa if name == "SDPA" else anyflash.flash_attn_func
        before = providers.force(None if name == "SDPA" else name)
        try:
            run = functools.partial(timed, function, leaves, causal, gradient)
            row[case] = f"{milliseconds(run, device, seconds):.3f}"
        except (NotImplementedError, torch.cuda.OutOfMemoryError) as error:
            row[case] = str(error).splitlines()[0][:60]
        finally:
            providers.force(before)
    return row


def table(rows):
    cases = list(next(iter(rows.values())))
    print("| case | " + " | ".join(rows) + " |")
    print("|---|" + "---|" * len(rows))
    for case in cases:
        print(f"| {case} | " + " | ".join(row[case] for row in rows.values()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="answers only, no times")
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("skipped: torch finds no GPU; --device cpu tries the CPU")
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"torch {torch.__version__}, {named}\n")
    names = providers.names_of(device.type)
    print("\n".join(states(device)) + "\n")
    print("Largest deviation from the formula in float64, outputs and gradients:\n")
    checked = {name: check(name, device) for name in names}
    table({name: row for name, (row, _) in checked.items()})
    if not given.quick:
        print("\nMilliseconds, bf16:\n")
        keys, seconds = (1 << 20, 0.5) if device.type == "cuda" else (CPU_KEYS, 0.0)
        table({name: measure(name, device, seconds, keys) for name in ("SDPA", *names)})
    return 1 if any(wrong for _, wrong in checked.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
