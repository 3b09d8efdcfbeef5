"""torch's decorators for autograd functions under autocast, on CUDA as before torch 2.4."""

import functools
from typing import Callable

from torch.amp import custom_bwd as _custom_bwd
from torch.amp import custom_fwd as _custom_fwd


def custom_amp_decorator(dec: Callable, cuda_amp_deprecated: bool):
    """The decorator with device_type="cuda" unless another is given."""

    def decorator(*args, **kwargs):
        if cuda_amp_deprecated:
            kwargs.setdefault("device_type", "cuda")
        return dec(*args, **kwargs)

    return functools.wraps(dec)(decorator)


custom_fwd = custom_amp_decorator(_custom_fwd, True)
custom_bwd = custom_amp_decorator(_custom_bwd, True)
