"""Who computes an attention: choose(), attend(), explain(), and force() for one alone.

A provider is a module with
    name                what it is called in $ANYFLASH_PROVIDER and in explanations
    declines(call)      None, or the reason why not, as text
    forward(call)       (out, lse, probabilities) of a Call
and the first of a device's ladder that does not decline computes. Which modules
there are stands in LADDER; importing this package loads none of them, prepare() does.
"""

import importlib
import logging
import os
import sys

_log = logging.getLogger("anyflash")

#: Every provider's name and module, the best first.
LADDER = (
    ("flash_attn", ".real"),
    ("torch", ".torch_kernels"),
    ("engine", ".engine"),
    ("sdpa", ".sdpa"),
    ("plain", ".plain"),
)
#: Those that are worth asking for tensors of a device; other devices have the last row.
_OF_DEVICE = {
    "cuda": ("flash_attn", "torch", "sdpa", "plain"),
    "cpu": ("engine", "sdpa", "plain"),
    None: ("sdpa", "plain"),
}


class NoProvider(NotImplementedError):
    """The provider that was forced declines the call."""


def load(name):
    """The provider's module; ValueError for a name that is none."""
    module = dict(LADDER).get(name)
    if module is None:
        names = ", ".join(known for known, _ in LADDER)
        raise ValueError(f"ANYFLASH_PROVIDER: '{name}' is no provider; there are {names}")
    return importlib.import_module(module, __package__)


_ladders = {}  # device type: modules to ask; filled by prepare()
_announced = set()
_forced = os.environ.get("ANYFLASH_PROVIDER") or None


def prepare():
    """Loads the providers; what a call finds, because a compiled graph imports nothing."""
    for device, names in _OF_DEVICE.items():
        names = (_forced,) if _forced else names
        _ladders[device] = tuple([load(name) for name in names])


def force(name):
    """Lets one provider compute everything, or (None) each call the best; returns what was.

    What the provider declines raises NotImplementedError with the reason. The environment
    variable ANYFLASH_PROVIDER, read when this module is imported, does the same.
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
    device = "cpu" if q.is_cpu else q.device.type  # the one is five times as quick
    for provider in _ladders.get(device) or _ladders[None]:
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
    """(out, lse, probabilities) of the call by the first provider that takes it.

    TypeError or ValueError naming the argument for a call that is wrong.
    """
    try:
        return _try(call)
    except Exception:
        from .checks import check

        check(call)
        raise


def explain(call):
    """(the provider that the call would take or None, [(name, why it declined)])."""
    from .checks import check

    check(call)
    declined = []
    for name, _ in LADDER:
        if _forced is not None and name != _forced:
            declined.append((name, f"'{_forced}' is forced"))
            continue
        provider = load(name)
        reason = provider.declines(call)
        if reason is None:
            return provider, declined
        declined.append((name, reason))
    return None, declined
