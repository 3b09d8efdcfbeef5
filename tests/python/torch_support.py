"""Shared by the tests with torch: tensors in every memory order, references in float64."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.set_num_threads(1)  # tensors are small; tests that depend on threads set their own number
sdpa = torch.nn.functional.scaled_dot_product_attention

TORCH = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ORDERS = ("bhsd", "bshd", "packed", "expanded")
#: For results whose largest element is 1: about two units in the last place of the type.
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 2.5e-2, torch.float16: 4e-3}


def tensor(heads, rows, dim, dtype, order="bhsd", batch=2):
    """A random tensor [B, H, S, D] in the memory order `order`."""
    if order == "bhsd":
        made = torch.randn(batch, heads, rows, dim).to(dtype)
    elif order == "bshd":
        made = torch.randn(batch, rows, heads, dim).to(dtype).transpose(1, 2)
    elif order == "packed":
        made = torch.randn(batch, rows, 3, heads, dim).to(dtype)[:, :, 1].transpose(1, 2)
    else:
        made = torch.randn(1, heads, rows, dim).to(dtype).expand(batch, -1, -1, -1)
    return made.requires_grad_()


def mathematics(q, k, v, attn_mask, is_causal, scale):
    """Attention where a row that sees no key gives 0; torch 2.4's own gives nan."""
    if TORCH >= (2, 5):
        with sdpa_kernel(SDPBackend.MATH):
            return sdpa(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    hidden = scores == -torch.inf
    blind = hidden.all(-1, keepdim=True)
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(hidden, 0.0) @ v


def in_float64(q, k, v, mask=None, causal=False, scale=None):
    """torch's math attention in float64, and a function that computes its gradients."""
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.double()
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, 1) for x in wide[1:])
    out = mathematics(wide[0], keys, values, mask, causal, scale)
    return out, lambda dout: torch.autograd.grad(out, wide, dout.double())


def worst(have, want):
    """The largest difference, relative to the largest element if that is above 1."""
    difference = (have.double() - want).abs().max().item() if want.numel() else 0.0
    return difference / max(1.0, want.abs().max().item() if want.numel() else 0.0)


def check(have, want, dtype, *where):
    error = worst(have, want)
    assert error <= BOUNDS[dtype], (error, BOUNDS[dtype], *where)
