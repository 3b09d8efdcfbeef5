"""The parts of flash-attn 2.8.3 that this package lacks; importing one says what to do instead.
A missing module raises ModuleNotFoundError, a missing name of an existing module ImportError.
Both are ImportErrors, so that programs with a fallback use it.
"""

import sys

#: Modules, including their submodules.
MODULES = (
    "flash_attn_triton",
    "flash_attn_triton_amd",
    "flash_attn_triton_og",
    "flash_blocksparse_attention",
    "flash_blocksparse_attn_interface",
    "fused_softmax",
    "layers.patch_embed",
    "models",
    "modules.embedding",
    "ops.triton.k_activations",
    "ops.triton.linear",
    "ops.triton.mlp",
    "utils.benchmark",
    "utils.generation",
    "utils.library",
    "utils.pretrained",
    "utils.testing",
    "utils.torch",
)


def _message(what):
    return (
        f"{what} is left out of the flash_attn that anyflash installed here in place of "
        "flash-attn 2.8.3. If you need it, install flash-attn itself: run `anyflash shim "
        "remove`, then `anyflash plan`, which shows how to get one for this machine"
    )


class _Finder:
    """The last finder of sys.meta_path: asked only for modules that no other one has."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        package, _, module = name.partition(".")
        if package == "flash_attn" and module in MODULES:
            raise ModuleNotFoundError(_message(f"the module '{name}'"), name=name)


def install():
    """Makes imports of MODULES fail with a message that says what to do. Idempotent."""
    if not any(getattr(finder, "__module__", "") == __name__ for finder in sys.meta_path):
        sys.meta_path.append(_Finder)


def names(module, *left_out):
    """The __getattr__ of a module here whose names `left_out` upstream has."""

    def __getattr__(name):
        if name in left_out:
            raise ImportError(_message(f"'{name}' of the module '{module}'"), name=module)
        raise AttributeError(f"module '{module}' has no attribute '{name}'")

    return __getattr__
