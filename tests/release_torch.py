"""Run by release_inside.sh: torch's attention on the CPU, with the engine and without it, gives
the same, forward and backward; the engine has computed it. Prints torch's version.
"""

import torch

import anyflash.torch

torch.manual_seed(1)
q, k, v = (torch.randn(2, 4, 77, 64, requires_grad=True) for _ in range(3))


def attend():
    """The output and the gradients of the inputs."""
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return (out, *torch.autograd.grad(out.square().sum(), (q, k, v)))


expected = attend()
with anyflash.torch.enabled(calibrate=False):
    found = attend()
    calls, passed_on = anyflash.torch.counts()
assert calls > passed_on == 0, f"torch computed {passed_on} of {calls} calls"
for one, other in zip(found, expected):
    assert (one - other).abs().max() < 1e-4
print(f"torch {torch.__version__}")
