#!/usr/bin/env python3
"""Times a whole model on the CPU with anyflash.torch.enable() and with torch alone.

    PYTHONPATH=python ANYFLASH_LIBRARY=build/release/libanyflash.so python FILE [--repeats 5]

The model is like Llama, with random weights in bfloat16: 8 layers, 16 heads of 128. Prints the
time of attention and of the rest of a layer, for 2048 tokens and for a decode step at 4096, and
the time of torch's matrix products and our attention when they alternate and when each runs
alone. Each figure is the minimum over layers and repeats; both sides take turns.
"""

import argparse
import time

import torch

import anyflash.torch

sdpa = torch.nn.functional.scaled_dot_product_attention
LAYERS, HEADS, DIM, PREFILL, CACHE = 8, 16, 128, 2048, 4096
WIDTH, HIDDEN = HEADS * DIM, 5632


class Clock:
    """The smallest seconds of attention, and of the rest."""

    def __init__(self):
        self.attention = self.rest = float("inf")

    def layer(self, start, before, after, end):
        self.attention = min(self.attention, after - before)
        self.rest = min(self.rest, before - start + end - after)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (torch.nn.RMSNorm(WIDTH) for _ in range(2))
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = torch.nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, rotary, cache, clock):
        start = time.perf_counter()
        q, k, v = self.qkv(self.first(x)).view(*x.shape[:2], 3, HEADS, DIM).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (turn(q, rotary), turn(k, rotary), v))
        if cache is not None:  # [B, H, S, D], the last row is this step's
            cache[0][:, :, -1:], cache[1][:, :, -1:] = k, v
            k, v = cache
        before = time.perf_counter()
        out = sdpa(q, k, v, is_causal=cache is None)
        after = time.perf_counter()
        x = x + self.out(out.transpose(1, 2).flatten(2))
        gate, up = self.up(self.second(x)).chunk(2, -1)
        x = x + self.down(torch.nn.functional.silu(gate) * up)
        clock.layer(start, before, after, time.perf_counter())
        return x


def turn(x, rotary):
    """Rotary embedding of [B, S, H, D]."""
    cos, sin = rotary
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rotary_of(first, count):
    rates = 10000.0 ** -(torch.arange(DIM // 2) / (DIM // 2))
    angles = torch.outer(torch.arange(first, first + count), rates)[None, :, None]
    return angles.cos().bfloat16(), angles.sin().bfloat16()


def run(layers, x, rotary, caches, clock):
    for layer, cache in zip(layers, caches):
        x = layer(x, rotary, cache, clock)
    return x


def compare(name, layers, x, rotary, caches, repeats):
    clocks, outs = (Clock(), Clock()), [None, None]
    for _ in range(repeats):
        for side, switch in enumerate((anyflash.torch.disable, anyflash.torch.enable)):
            switch()
            outs[side] = run(layers, x, rotary, caches, clocks[side])
    stock, ours = clocks
    error = (outs[0].float() - outs[1].float()).abs().max() / outs[0].float().abs().max()
    print(
        f"| {name} | {stock.attention * 1e3:.3f} | {ours.attention * 1e3:.3f} | "
        f"{stock.attention / ours.attention:.1f} | {stock.rest * 1e3:.3f} | "
        f"{ours.rest * 1e3:.3f} | {(ours.rest / stock.rest - 1) * 100:+.1f} % | {error:.1e} |",
        flush=True,
    )


def seconds(*calls):
    start = time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - start


def alternate(name, switch, repeats):
    """Alternates torch's matrix product and attention, in short runs."""
    switch()
    a = torch.randn(512, 512).bfloat16()
    q = torch.randn(1, HEADS, 256, 64).bfloat16()
    product, attention = (lambda: a @ a), (lambda: sdpa(q, q, q))
    best = [float("inf")] * 3
    end = time.perf_counter() + 10 * repeats
    while time.perf_counter() < end:
        best[0] = min(best[0], seconds(product, product, product, product))
        best[1] = min(best[1], seconds(attention, attention, attention, attention))
        best[2] = min(best[2], seconds(product, attention, product, attention))
    apart, together = (best[0] + best[1]) / 2, best[2]
    print(
        f"\n{name}: 4 matrix products {best[0] * 1e3:.3f} ms, "
        f"4 attentions {best[1] * 1e3:.3f} ms, "
        f"2 of each by turns {together * 1e3:.3f} ms: {(together / apart - 1) * 100:+.1f} %"
    )


def model(repeats):
    print(
        "| | attention, torch | ours | times | the rest, torch | ours | change | difference |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    layers = [Layer().bfloat16() for _ in range(LAYERS)]
    x = torch.randn(1, PREFILL, WIDTH).bfloat16()
    none = [None] * LAYERS
    compare("prefill 2048", layers, x, rotary_of(0, PREFILL), none, repeats)
    caches = [
        [torch.randn(1, HEADS, CACHE, DIM).bfloat16() for _ in range(2)] for _ in range(LAYERS)
    ]
    step = rotary_of(CACHE - 1, 1)
    compare("decode at 4096", layers, x[:, :1], step, caches, repeats * 10)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=("model", "alternate"))
    options = parser.parse_args()
    repeats = options.repeats
    torch.manual_seed(0)
    torch.set_num_threads(2)
    print(f"torch {torch.__version__}, 2 threads, ms of a layer")
    with torch.inference_mode():
        if options.only != "alternate":
            model(repeats)
        if options.only != "model":
            alternate("ours", anyflash.torch.enable, repeats)
            alternate("torch", anyflash.torch.disable, repeats)


if __name__ == "__main__":
    main()
