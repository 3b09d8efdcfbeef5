"""vLLM's plugin: this package's attention as vLLM's, on CPUs and on CUDA.

On CUDA select the backend CUSTOM (`--attention-backend CUSTOM`). On the CPU vLLM takes its
CPU_ATTN whatever is selected, so that one is replaced, if asked for: VLLM_PLUGINS names
anyflash, or ANYFLASH_VLLM=1 is set. The entry point in pyproject.toml has vLLM call register()
in each of its processes; without one of the two nothing changes.
"""

import os

_CLASSES = {
    "CPU_ATTN": "anyflash._vllm_backend.CPUBackend",
    "CUSTOM": "anyflash._vllm_backend.CustomBackend",
}


def _wanted_on_cpu():
    named = os.environ.get("VLLM_PLUGINS", "").split(",")
    return "anyflash" in named or os.environ.get("ANYFLASH_VLLM") == "1"


def register(cpu=None):
    """Registers CUSTOM, and as CPU_ATTN too: cpu=True, False, or None as the head says.

    A CUSTOM of another plugin stays. Twice is once; unregister() undoes it.
    """
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    if not AttentionBackendEnum.CUSTOM.is_overridden():
        register_backend(AttentionBackendEnum.CUSTOM, _CLASSES["CUSTOM"])
    if _wanted_on_cpu() if cpu is None else cpu:
        register_backend(AttentionBackendEnum.CPU_ATTN, _CLASSES["CPU_ATTN"])


def unregister():
    """Takes register() back; models that are loaded keep what they have."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    for name, path in _CLASSES.items():
        member = AttentionBackendEnum[name]
        if member.is_overridden() and member.get_path() == path:
            member.clear_override()
