"""Imports an installed FlashAttention and calls it.

Arguments: MODULE, then "import", or "attend" and a device ("cuda:0"), then a number.
Prints what happened as JSON objects, each on a line of its own after MARK and
the last argument, which is a number of this run, so that nothing a package
prints is taken for an answer. A line with "begin" stands before everything
that may crash.
"""
import sys

sys.path[:] = [folder for folder in sys.path if folder]  # not the current folder

import importlib  # noqa: E402
import json  # noqa: E402

MARK = "anyflash-verify " + sys.argv.pop() + " "
ROWS, HEADS, KV_HEADS = 113, 2, 1
HEAD_DIMS = (128, 64, 96, 256, 192, 32)
ALIEN = (TypeError, AttributeError, ImportError, NameError)


def say(**what):
    print("\n" + MARK + json.dumps(what), flush=True)


def describe(error):
    text = f"{type(error).__name__}: {error}"[:400]
    return text.encode("utf-8", "replace").decode()


def pattern(torch, shape, seed):
    """Values of [-2, 2) in steps of 1/64, exact in bf16."""
    count = 1
    for extent in shape:
        count *= extent
    index = torch.arange(count, dtype=torch.int64) + seed * 1000003
    word = (index * 2654435761) % 4294967296
    return (((word >> 24) - 128).to(torch.float32) / 64).reshape(shape)


def load(name):
    say(begin="import of torch")
    import torch

    visible = torch.cuda.is_available()
    devices = range(torch.cuda.device_count()) if visible else ()
    say(torch=torch.__version__, devices=[
        {"name": torch.cuda.get_device_name(i),
         "sm": "%d.%d" % torch.cuda.get_device_capability(i)} for i in devices])
    say(begin=f"import of {name}")
    module = importlib.import_module(name)
    compiled = [m.__file__ for n, m in list(sys.modules.items())
                if n.startswith("flash_attn")
                and str(getattr(m, "__file__", "")).endswith(".so")]
    say(module=name, version=str(getattr(module, "__version__", "")), compiled=compiled,
        file=str(getattr(module, "__file__", "")))
    return torch, module.flash_attn_func


def inputs(torch, head_dim, device, dtype):
    heads = (HEADS, KV_HEADS, KV_HEADS)
    return [pattern(torch, (1, ROWS, heads[i], head_dim), i).to(device, dtype)
            for i in range(3)]


def call_on_cpu(torch, attend):
    """The compiled function is entered and refuses CPU tensors: more than an import shows."""
    say(begin="a call with CPU tensors")
    try:
        attend(*inputs(torch, 64, "cpu", torch.bfloat16), causal=True)
        say(call="answered")
    except ALIEN as error:
        say(call="alien", error=describe(error))
    except NotImplementedError as error:  # of torch's dispatcher
        say(call="stopped", error=describe(error))
    except Exception as error:
        say(call="refused", error=describe(error))


def expected(torch, head_dim, dout):
    """o, dq, dk and dv by torch's plain operations, in f32 on the processor."""
    given = [t.requires_grad_() for t in inputs(torch, head_dim, "cpu", torch.float32)]
    q, k, v = (t.transpose(1, 2) for t in given)
    scores = q @ k.repeat_interleave(HEADS // KV_HEADS, 1).transpose(2, 3) * head_dim ** -0.5
    future = torch.ones(ROWS, ROWS, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, float("-inf")).softmax(-1)
    o = (weights @ v.repeat_interleave(HEADS // KV_HEADS, 1)).transpose(1, 2)
    return o.detach(), torch.autograd.grad(o, given, dout)


def distance(torch, found, wanted):
    """The largest difference, as a part of the largest value; a text says what is wrong."""
    if found.shape != wanted.shape or found.dtype != torch.bfloat16:
        return f"the result has the type {found.dtype} and the shape {tuple(found.shape)}"
    apart = (found.detach().to("cpu", torch.float32) - wanted).abs().max() / wanted.abs().max()
    return float(apart) if torch.isfinite(apart) else "the result has values that aren't finite"


def attend_on(torch, attend, device):
    say(begin=f"a forward on {device}")
    refusals = []
    for head_dim in HEAD_DIMS:
        q, k, v = (t.requires_grad_() for t in inputs(torch, head_dim, device, torch.bfloat16))
        try:
            out = attend(q, k, v, causal=True)
            out = out[0] if isinstance(out, (tuple, list)) else out
            if device != "cpu":
                torch.cuda.synchronize(device)
            break
        except Exception as error:  # a build may have been made without this head size
            refusals.append(describe(error))
    else:
        say(error=refusals[0])
        return
    if not isinstance(out, torch.Tensor):
        say(error=f"the result is of type {type(out).__name__}, not a tensor")
        return
    dout = pattern(torch, (1, ROWS, HEADS, head_dim), 3)
    o, wanted = expected(torch, head_dim, dout)
    say(forward=distance(torch, out, o))
    say(begin=f"a backward on {device}")
    try:
        found = torch.autograd.grad(out, (q, k, v), dout.to(device, torch.bfloat16))
        apart = [distance(torch, a, b) for a, b in zip(found, wanted)]
        say(backward=next((a for a in apart if isinstance(a, str)), None) or max(apart))
    except Exception as error:
        say(error=describe(error))


def main():
    name, mode = sys.argv[1:3]
    try:
        torch, attend = load(name)
    except BaseException as error:
        say(error=describe(error))
        return
    if mode == "import":
        call_on_cpu(torch, attend)
    else:
        attend_on(torch, attend, sys.argv[3])
    say(done=True)


main()
