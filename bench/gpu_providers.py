"""What only a GPU can tell about the providers of flash_attn's functions: which of them work,
whether their answers are right, how flash-attn's own tests end, and times.

    python bench/gpu_providers.py --tests CHECKOUT > bench/results/gpu.md
        [--device cuda] [--keys 2048 32768] [--sets 100] [--only answers tests times]

CHECKOUT is a checkout of flash-attention or its unpacked sdist. Each provider runs --sets
random sets of the parameters of its tests/test_flash_attn.py, for at most LIMIT seconds, in a
process of its own (tests/flash_attn/run.py). Times are medians of turns: in each turn every
provider computes the same problem once more, in the same order, so that a change of the GPU's
clock or a busy machine slows all of them. torch's scaled_dot_product_attention takes part for
comparison.

Prints Markdown, each row as soon as it is known. Exits 1 if an answer is wrong or a test fails.
--device cpu does the same, with short sequences, for the providers that run on CPUs. `tests/run
gpu` builds the library first.
"""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "flash_attn"
sys.path[:0] = [str(ROOT / "python"), str(TESTS)]

import anyflash  # noqa: E402
import prepare  # noqa: E402
from anyflash import providers  # noqa: E402
from anyflash.providers import table as provider_table  # noqa: E402
from anyflash.providers.call import LSE, OUT, Call  # noqa: E402

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
#: (name, sizes (B, Sq, Sk, H, G, D), type, options)
CHECKS = (
    ("bf16", (2, 113, 203, 8, 2, 64), BF16, {}),
    ("f16, causal", (2, 113, 203, 8, 2, 128), F16, {"causal": True}),
    ("f32, causal", (2, 64, 90, 4, 2, 64), F32, {"causal": True}),
    ("as many queries as keys", (2, 256, 256, 8, 8, 128), BF16, {"causal": True}),
    ("more queries than keys", (1, 203, 113, 4, 4, 64), BF16, {"causal": True}),
    ("window", (2, 256, 256, 8, 8, 96), BF16, {"window": (50, 20)}),
    ("D 256", (1, 130, 130, 4, 1, 256), BF16, {"causal": True}),
    ("D 60", (1, 130, 130, 4, 1, 60), F16, {"causal": True}),
    ("softcap", (1, 130, 130, 4, 2, 64), BF16, {"softcap": 5.0, "causal": True}),
    ("ALiBi", (2, 130, 150, 4, 2, 64), BF16, {"alibi_slopes": True}),
    ("sinks", (2, 130, 150, 4, 2, 64), BF16, {"sinks": True, "causal": True}),
    ("packed", (3, 90, 120, 4, 2, 64), BF16, {"packed": True, "causal": True}),
    ("deterministic", (2, 128, 128, 4, 2, 64), F16, {"deterministic": True}),
    ("cache", (3, 5, 300, 8, 2, 128), BF16, {"cache": True, "causal": True}),
    ("cache, one query", (3, 1, 300, 8, 2, 128), BF16, {"cache": True}),
    ("pages", (3, 1, 512, 8, 2, 128), BF16, {"cache": True, "pages": True}),
)
#: Largest error, as a fraction of a result's largest value.
BOUND = {F32: 1e-3, F16: 4e-3, BF16: 2e-2}
PAGE = 256

#: (name, query heads, key heads): what is timed for each number of keys, D 128, bf16.
TIMES = (
    ("forward", 16, 16),
    ("forward, GQA", 32, 8),
    ("backward", 16, 16),
    ("decode", 32, 8),
)
KEYS = {"cuda": (2048, 4096, 8192, 16384, 32768), "cpu": (256, 512)}
DECODED = 16  # sequences
#: Each provider takes at least LEAST turns, more until SECONDS have passed for each of them. A
#: turn is as many calls as fit into TURN seconds.
LEAST, SECONDS, TURN = 5, 0.4, 0.002
#: The most seconds that flash-attn's own tests may take with one provider.
LIMIT = 60


def inputs(sizes, dtype, device, packed=False):
    torch.manual_seed(0)
    batch, rows, keys, heads, groups, dim = sizes
    shapes = [(batch, rows, heads, dim)] + [(batch, keys, groups, dim)] * 2
    made = [torch.randn(s, device=device).to(dtype) for s in shapes]
    if packed:
        made = [x.flatten(0, 1) for x in made]
    return made


def integers(values, device):
    return torch.tensor(values, dtype=torch.int32, device=device)


def call_of(tensors, sizes, options):
    options, device = dict(options), tensors[0].device
    batch, rows, keys, heads, groups, dim = sizes
    slopes = torch.linspace(0.5, 0.05, heads, device=device)
    call = Call(
        *tensors,
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
        every = torch.arange(batch + 1, dtype=torch.int32, device=device)
        call.cu_q, call.cu_k = every * rows, every * keys
        call.max_q, call.max_k = rows, keys
    if "cache" in options:
        call.cache = True
        call.seqused_k = integers([keys - 7 * i for i in range(batch)], device)
    if "pages" in options:
        pages = batch * keys // PAGE
        order = list(reversed(range(pages)))
        call.block_table = integers(order, device).view(batch, -1)
        call.k, call.v = (x.reshape(pages, PAGE, groups, dim) for x in (call.k, call.v))
    return call


def results(provider, call):
    """Output, logsumexp, and the gradients where there are any."""
    leaves = [call.q, call.k, call.v]
    before = providers.force(provider)
    try:
        if not call.cache:
            leaves = [x.requires_grad_() for x in leaves]
        out, lse, _ = providers.attend(call)
    finally:
        providers.force(before)
    if call.cache:
        return out, lse
    weight = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)
    return out, lse, *torch.autograd.grad(out, leaves, weight.to(out.dtype))


def distance(found, wanted):
    """The largest difference, as a fraction of the largest wanted value."""
    have, want = found.detach().double(), wanted.detach().double()
    finite = torch.isfinite(want)
    if have.shape != want.shape or not torch.equal(finite, torch.isfinite(have)):
        return float("inf")
    have, want = have[finite], want[finite]
    return float((have - want).abs().max() / want.abs().max().clamp_min(1e-9))


def reason_of(error):
    text = str(error).strip().splitlines() or [repr(error)]
    return "needs more memory" if "out of memory" in text[0].lower() else text[0]


class Table:
    """A Markdown table that is printed row by row; below it, the reasons of the cells "-"."""

    def __init__(self, *columns):
        self.reasons = {}  # (column, reason): rows
        print("| " + " | ".join(columns) + " |\n|---" + "|---" * (len(columns) - 1) + "|")

    def declined(self, row, column, error):
        """The text for a provider that declines this row; records the reason."""
        reason = reason_of(error).partition(f"'{column}' ")
        self.reasons.setdefault((column, reason[2] or reason[0]), []).append(row)
        return "-"

    def row(self, *cells):
        print("| " + " | ".join(cells) + " |", flush=True)

    def end(self):
        print()
        for (column, reason), rows in self.reasons.items():
            print(f"- `{column}` {reason}: {'; '.join(dict.fromkeys(rows))}")
        if self.reasons:
            print(flush=True)


def say(text):
    print(textwrap.fill(text, 120) + "\n")


def works(device):
    """Prints which providers work on this device; returns the names of those that do."""
    print("## Which work here\n")
    table, names = Table("provider", "works", "element types, or why it does not"), []
    for name in providers.names_of(device.type):
        _, usable, text = provider_table.row(name, device)
        table.row(f"`{name}`", "yes" if usable else "no", text)
        names += [name] if usable else []
    table.end()
    return names


def answers(names, device):
    """Prints how far each provider's results are from the formula; returns the wrong ones."""
    print("## Answers\n")
    say("The largest difference of outputs and gradients from the formula in float64, as a "
        "fraction of the largest value; \"-\": declined, for the reason below the table. A "
        "provider that fails its own trial for a kind of call declines it.")
    table, wrong = Table("case", *names), []
    for case, sizes, dtype, options in CHECKS:
        tensors = inputs(sizes, dtype, device, "packed" in options)
        exact = call_of([x.double() for x in tensors], sizes, options)
        wanted, cells = results("plain", exact), []
        for name in names:
            call = call_of([x.clone() for x in tensors], sizes, options)
            call.want = OUT if name == "sdpa" else LSE
            try:
                found = results(name, call)
            except (NotImplementedError, RuntimeError) as error:
                if not isinstance(error, NotImplementedError):
                    wrong.append(f"{name}, {case}: {reason_of(error)}")
                cells.append(table.declined(case, name, error))
                continue
            pairs = [pair for pair in zip(found, wanted) if pair[0] is not None]
            far = max(distance(*pair) for pair in pairs)
            right = far < BOUND[dtype]
            cells.append(f"{far:.1e}" + ("" if right else " WRONG"))
            wrong += [] if right else [f"{name}, {case}: off by {far:.1e}"]
        table.row(case, *cells)
    table.end()
    return wrong


def run_tests(name, folder, device, sets):
    """(verdicts of flash-attn's own tests through one provider, what the tests printed)."""
    said = folder / "verdicts.json"
    command = [sys.executable, str(TESTS / "run.py"), str(folder), "--device", device.type]
    command += ["--count", str(sets), "--seconds", str(LIMIT), "--json", str(said)]
    environment = {**os.environ, "ANYFLASH_PROVIDER": name or ""}
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    try:
        return json.loads(said.read_text()), done.stdout
    except (OSError, ValueError):
        raise RuntimeError((done.stderr.strip().splitlines() or ["ended without a word"])[-1])
    finally:
        said.unlink(missing_ok=True)


def own_tests(names, device, checkout, sets):
    """Prints how flash-attn's own tests end with each provider; returns the failures."""
    print("## flash-attn's own tests\n")
    if checkout is None:
        print("Not run: `--tests CHECKOUT` names a checkout of flash-attention.\n")
        return []
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        say(f"{prepare.prepare(folder, checkout, device.type)}. Up to {sets} random sets of "
            f"their parameters in at most {LIMIT} s for each provider; a set that it declines "
            "is replaced by another. \"all\": each call goes to the first that takes it.")
        table = Table("provider", "passed", "one unit off", "failed", "declined")
        for name in (None, *names):
            try:
                found, text = run_tests(name, folder, device, sets)
            except RuntimeError as error:
                wrong.append(f"flash-attn's tests with {name or 'all'}: {error}")
                table.row(f"`{name}`" if name else "all", "-", "-", "-", str(error))
                continue
            row = [found[x] for x in ("passed", "one unit", "failed", "declined")]
            table.row(f"`{name}`" if name else "all", *map(str, row))
            if found["failed"]:
                wrong.append(f"flash-attn's tests with {name or 'all'}:\n{text}")
        table.end()
    return wrong


def sdpa(q, k, v, causal):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    options, group = {}, q.shape[1] // k.shape[1]
    if group > 1 and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5):
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))  # torch takes equal heads only
    elif group > 1:
        options["enable_gqa"] = True
    function = torch.nn.functional.scaled_dot_product_attention
    return function(q, k, v, is_causal=causal, **options).transpose(1, 2)


def problem(what, keys, most, heads, groups, device):
    """ready(name): a function to time for the provider or "SDPA". All have `most` rows in all
    of their sequences, except decode: one query for each of DECODED caches."""
    batch, rows = (DECODED, 1) if what == "decode" else (most // keys, keys)
    q, k, v = inputs((batch, rows, keys, heads, groups, 128), BF16, device)
    used = torch.full((batch,), keys, dtype=torch.int32, device=device)

    def forward(name):
        if what == "decode" and name != "SDPA":
            return anyflash.flash_attn_with_kvcache(q, k, v, cache_seqlens=used)
        function = sdpa if name == "SDPA" else anyflash.flash_attn_func
        return function(q, k, v, causal=what != "decode")

    def ready(name):
        if what != "backward":
            return lambda: forward(name)
        leaves = [x.requires_grad_() for x in (q, k, v)]
        out = forward(name)
        weight = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, leaves, weight, retain_graph=True)

    return ready


def seconds_of(run, calls, wait):
    wait()
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - begin) / calls


def force(name):
    return providers.force(None if name == "SDPA" else name)


def by_turns(runs, wait):
    """{name: seconds of each of its turns} for {name: function}."""
    calls, took = {}, {name: [] for name in runs}
    end = time.monotonic() + SECONDS * len(runs)
    while runs and (time.monotonic() < end or min(map(len, took.values())) < LEAST):
        for name, run in runs.items():
            force(name)
            if name not in calls:
                calls[name] = max(1, min(100, int(TURN / seconds_of(run, 1, wait))))
            took[name].append(seconds_of(run, calls[name], wait))
    return took


def cell(times, fastest):
    low, middle, high = statistics.quantiles(times, n=4)
    text = f"{middle * 1e3:.3f} ±{50 * (high - low) / middle:.0f} %"
    return f"**{text}**" if middle == fastest else text


def times(names, device, every):
    """Prints the times of each provider, beside those of torch's own function."""
    print("## Times\n")
    say("Milliseconds, bf16, D 128, causal except decode: median of the turns, ± half the "
        f"distance between their quartiles, the fastest in bold. forward and backward: "
        f"{max(every)} rows in all sequences together, 16 heads; GQA: 32 heads over 8; decode: "
        f"one query for each of {DECODED} caches, 32 heads over 8. SDPA: torch's function on "
        "the same tensors.")
    table = Table("case", "SDPA", *names)
    wait = getattr(getattr(torch, device.type, None), "synchronize", lambda: None)
    for keys in every:
        for what, heads, groups in TIMES:
            case = f"{what}, {keys} keys"
            ready, runs, cells = problem(what, keys, max(every), heads, groups, device), {}, {}
            with torch.set_grad_enabled(what == "backward"):
                for name in ("SDPA", *names):
                    force(name)
                    try:
                        run = ready(name)
                        run()
                        runs[name] = run
                    except (NotImplementedError, RuntimeError) as error:
                        cells[name] = table.declined(case, name, error)
                took = by_turns(runs, wait)
            fastest = min(map(statistics.median, took.values()), default=None)
            cells.update({name: cell(found, fastest) for name, found in took.items()})
            table.row(case, *[cells[name] for name in ("SDPA", *names)])
    providers.force(None)
    table.end()


def machine(device):
    """Lines that name the machine."""
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        kind = facts.gcnArchName if torch.version.hip else f"{facts.major}.{facts.minor}"
        yield f"GPU        {facts.name} ({kind}), {facts.total_memory / 2**30:.0f} GiB"
    cpu = pathlib.Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else []
    model = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    yield f"processor  {(model or ['unknown'])[0]}, {os.cpu_count()} cores{load}"
    version = torch.version.hip or torch.version.cuda or "none"
    cudnn = torch.backends.cudnn.version() or "none"
    yield f"torch      {torch.__version__}; CUDA or ROCm {version}, cuDNN {cudnn}"
    yield f"Python     {sys.version.split()[0]}, {datetime.date.today()}"


PARTS = ("answers", "tests", "times")


def main(words=None):
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split("\n\n")[0].split()))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--keys", type=int, nargs="+", help="numbers of keys to time")
    parser.add_argument("--tests", type=pathlib.Path, metavar="CHECKOUT")
    parser.add_argument("--sets", type=int, default=100, help="of parameters, of the tests")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args(words)
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("error: torch finds no GPU\nhint: --device cpu tries the CPU")
    lines = list(machine(device))
    print(f"# Providers on {lines[0].partition(' ')[2].strip()}\n")
    words = shlex.join(sys.argv[1:] if words is None else words)
    print(f"`python bench/gpu_providers.py {words}`\n\n```", *lines, "```\n", sep="\n")
    names = works(device)
    wrong = answers(names, device) if "answers" in given.only else []
    if "tests" in given.only:
        wrong += own_tests(names, device, given.tests, given.sets)
    if "times" in given.only:
        times(names, device, given.keys or KEYS.get(device.type, KEYS["cpu"]))
    for text in wrong:
        print(f"wrong: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
