"""Known-answer test of the installed flash_attn, as a program: known_answer.py cuda 0.

Prints "right" and exits with 0, or prints what is wrong on stderr. It runs in a process of its
own, because a broken extension may crash it.
"""

import math
import sys

#: Largest error, as part of a result's largest value.
BOUND = 0.02


def _wave(torch, shape, step, device):
    count = math.prod(shape)
    values = torch.sin(torch.arange(count, dtype=torch.float32, device=device) * step)
    return values.reshape(shape).half().requires_grad_()


def _plain(torch, q, k, v, window):
    """In float32: causal attention aligned to the bottom right, with a window to the left."""
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    i = torch.arange(scores.shape[-2], device=q.device)[:, None]
    i = i + scores.shape[-1] - scores.shape[-2]
    j = torch.arange(scores.shape[-1], device=q.device)
    hidden = (j > i) | (j < i - window)
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2)


def main():
    import torch
    from flash_attn import flash_attn_func

    device = torch.device(sys.argv[1])
    if device.type == "cuda":
        device = torch.device("cuda", int(sys.argv[2]))
    q = _wave(torch, (2, 38, 4, 64), 0.7, device)
    k, v = (_wave(torch, (2, 110, 2, 64), step, device) for step in (1.1, 1.3))
    found = flash_attn_func(q, k, v, causal=True, window_size=(20, 0))
    wanted = _plain(torch, q, k, v, 20)
    weight = _wave(torch, found.shape, 0.3, device).detach()
    pairs = [(found, wanted)]
    pairs += zip(
        torch.autograd.grad(found, (q, k, v), weight),
        torch.autograd.grad(wanted, (q, k, v), weight.float()),
    )
    for have, want in pairs:
        have, want = have.detach().float(), want.detach().float()
        off = float((have - want).abs().max() / want.abs().max())
        if not off < BOUND:
            sys.exit(f"misses a known answer by {off:.0%}")
    print("right")


if __name__ == "__main__":
    main()
