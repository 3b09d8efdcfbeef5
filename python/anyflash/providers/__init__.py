"""Which provider computes an attention: attend(), explain(), and force() to use only one.

    >>> before = anyflash.providers.force("plain")      # force(before) undoes it

A provider is a module, or an object in one, with
    name                its name in $ANYFLASH_PROVIDER and in explanations
    declines(call)      None if it can compute the call, else the reason as text
    forward(call)       (out, lse, probabilities) of a Call
declines() checks, in this order: whether it is installed (packages.py finds packages,
aten.missing() compares the schemas of torch's operators), whether it supports the call (its
LIMITS, features.py), and whether its answers to this kind of call on this device are right
(trial.py). compose.py computes features that a kernel lacks around it. Kernels are
called through aten.attend().

The providers of a device are asked in the order of PROVIDERS; the first that does not decline
computes. Importing this package loads none of the modules, prepare() does.
"""

import importlib
import logging
import os
import sys
from typing import Optional

_log = logging.getLogger("anyflash")

#: Every provider's name and module, the best first.
PROVIDERS = (
    ("flash_attn_3", ".packages"),
    ("flash_attn_4", ".packages"),
    ("torch_cudnn", ".cudnn"),
    ("flash_attn", ".packages"),
    ("hub", ".packages"),
    ("torch_flash", ".flash"),
    ("torch_efficient", ".efficient"),
    ("engine", ".engine"),
    ("sdpa", ".sdpa"),
    ("plain", ".plain"),
)
#: The providers for tensors of a device; None: of any other device.
_OF_DEVICE = {
    "cuda": tuple(name for name, _ in PROVIDERS if name != "engine"),
    "cpu": ("engine", "sdpa", "plain"),
    "xpu": ("hub", "sdpa", "plain"),
    None: ("sdpa", "plain"),
}


class NoProvider(NotImplementedError):
    """Every provider that may compute the call declines it."""


def load(name):
    """The provider; raises ValueError for an unknown name."""
    module = dict(PROVIDERS).get(name)
    if module is None:
        names = ", ".join(known for known, _ in PROVIDERS)
        raise ValueError(f"'{name}' is not a provider (ANYFLASH_PROVIDER); choose from {names}")
    module = importlib.import_module(module, __package__)
    return getattr(module, name, module)


def names_of(device_type):
    """The providers that are asked for tensors of a device, in order."""
    return _OF_DEVICE.get(device_type) or _OF_DEVICE[None]


_by_device = {}  # device type: modules to ask, in order; filled by prepare()
_announced = set()
_forced = os.environ.get("ANYFLASH_PROVIDER") or None


def prepare():
    """Loads the providers in advance, because a compiled graph cannot import modules."""
    for device, names in _OF_DEVICE.items():
        names = (_forced,) if _forced else names
        _by_device[device] = tuple([load(name) for name in names])


def force(name: Optional[str]) -> Optional[str]:
    """Uses one provider for all calls, or (None) the best for each; returns the old setting.

    >>> before = force("plain")         # force(before) undoes it

    A call that the provider declines raises NotImplementedError with the reason. The
    environment variable ANYFLASH_PROVIDER, read when this module is imported, does the same.
    """
    global _forced
    if name is not None:
        load(name)
    before, _forced = _forced, name
    prepare()
    return before


def _announce(provider, call):
    if sys.modules["torch"].compiler.is_compiling():
        return
    _announced.add(provider.name)
    _log.info("attention on %s is computed by '%s'", call.q.device, provider.name)


def _try(call):
    reasons, q = [], call.q
    device = "cpu" if q.is_cpu else q.device.type  # is_cpu is five times as fast
    for provider in _by_device.get(device) or _by_device[None]:
        reason = provider.declines(call)
        if reason is None:
            try:
                result = provider.forward(call)
            except NotImplementedError as error:
                reason = str(error)
            else:
                if provider.name not in _announced:
                    _announce(provider, call)
                return result
        reasons.append((provider.name, reason))
    raise NoProvider("; ".join(f"'{name}' {reason}" for name, reason in reasons))


def attend(call):
    """(out, lse, probabilities) of the call, computed by the first provider that supports it.

    Raises TypeError or ValueError that names the argument if the call is wrong.
    """
    try:
        return _try(call)
    except Exception:
        from .checks import check

        check(call)
        raise


def explain(call):
    """(the provider that would compute the call or None, [(name, why it declined)])."""
    from .checks import check

    check(call)
    if _forced is not None:
        load(_forced)  # ValueError if it is none
    declined = []
    for name, _ in PROVIDERS:
        if _forced is not None and name != _forced:
            declined.append((name, f"'{_forced}' is forced"))
            continue
        provider = load(name)
        reason = provider.declines(call)
        if reason is None:
            return provider, declined
        declined.append((name, reason))
    return None, declined
