"""triton_op(): an operator of torch.library, for those who define theirs with it."""

from typing import Callable, Iterable, Optional, Union

import torch


def triton_op(
    name: str,
    fn: Optional[Callable] = None,
    /,
    *,
    mutates_args: Union[str, Iterable[str]],
    schema: Optional[str] = None,
    allow_decomposition=True,
) -> Callable:
    """torch.library.custom_op() that torch.compile may look into, where torch has that."""
    own = getattr(torch.library, "triton_op", None)
    if own is not None and allow_decomposition:
        return own(name, fn, mutates_args=mutates_args, schema=schema)
    return torch.library.custom_op(name, fn, mutates_args=mutates_args, schema=schema)
