"""A plugin for vLLM: attention backends for CPUs and CUDA.

    VLLM_PLUGINS=anyflash vllm serve MODEL               # on the CPU
    vllm serve MODEL --attention-backend CUSTOM          # on CUDA

vLLM calls register() in each of its processes, through the entry point in pyproject.toml. On
the CPU vLLM uses its CPU_ATTN whatever backend is selected; register() replaces CPU_ATTN, but
only if VLLM_PLUGINS names anyflash or ANYFLASH_VLLM=1 is set.
"""

import os
from typing import Optional

_CLASSES = {
    "CPU_ATTN": "anyflash._vllm_backend.CPUBackend",
    "CUSTOM": "anyflash._vllm_backend.CustomBackend",
}


def _wanted_on_cpu():
    named = os.environ.get("VLLM_PLUGINS", "").split(",")
    return "anyflash" in named or os.environ.get("ANYFLASH_VLLM") == "1"


def register(cpu: Optional[bool] = None) -> None:
    """Registers CUSTOM, and replaces CPU_ATTN if cpu is True; None: as the environment says.

    >>> anyflash.vllm.register(cpu=True)

    A CUSTOM of another plugin is kept. Idempotent; unregister() undoes it.
    """
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    if not AttentionBackendEnum.CUSTOM.is_overridden():
        register_backend(AttentionBackendEnum.CUSTOM, _CLASSES["CUSTOM"])
    if _wanted_on_cpu() if cpu is None else cpu:
        register_backend(AttentionBackendEnum.CPU_ATTN, _CLASSES["CPU_ATTN"])


def unregister() -> None:
    """Undoes register(). Loaded models keep their backend.

    >>> anyflash.vllm.unregister()
    """
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    for name, path in _CLASSES.items():
        member = AttentionBackendEnum[name]
        if member.is_overridden() and member.get_path() == path:
            member.clear_override()
