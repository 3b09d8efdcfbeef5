"""Stand-ins for installed attention packages: functions with their signatures and results,
computed by the plain formula. packages.py has to find the right argument for every option."""

import contextlib
import functools
from types import SimpleNamespace

import torch

import anyflash
from anyflash import flash_attn_3, providers
from anyflash.providers import packages, trial


def _by_plain(function, finish=lambda found: found):
    """The function, computed by the provider "plain", with its signature."""

    @functools.wraps(function)
    def call(*arguments, **options):
        before = providers.force("plain")
        try:
            return finish(function(*arguments, **options))
        finally:
            providers.force(before)

    return call


def _in_eights(function):
    """FlashAttention-3 and 4 do not pad head sizes to a multiple of 8, as 2 does."""

    @functools.wraps(function)
    def call(q, *arguments, **options):
        assert q.shape[-1] % 8 == 0, "head_dim must be divisible by 8"
        return function(q, *arguments, **options)

    return call


def _without_keys(found):
    """FlashAttention-3 and 4 give -inf where a row sees no key."""
    if isinstance(found, torch.Tensor):
        return found
    out, lse = found
    return out, torch.where(lse == torch.inf, -torch.inf, lse)


def _window(window_size):
    assert -1 not in window_size
    return tuple(-1 if side is None else side for side in window_size)


def _func_4(
    q, k, v, softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None,
    softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, return_lse=False,
):  # fmt: skip
    return flash_attn_3.flash_attn_func(
        q, k, v, softmax_scale, causal, window_size=_window(window_size), softcap=softcap,
        deterministic=deterministic, return_attn_probs=True,
    )  # fmt: skip


def _varlen_func_4(
    q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None,
    seqused_q=None, seqused_k=None, page_table=None, softmax_scale=None, causal=False,
    window_size=(None, None), learnable_sink=None, softcap=0.0, num_splits=1, pack_gqa=None,
    deterministic=False, return_lse=False,
):  # fmt: skip
    return flash_attn_3.flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
        softmax_scale=softmax_scale, causal=causal, window_size=_window(window_size),
        softcap=softcap, deterministic=deterministic, return_attn_probs=True,
    )  # fmt: skip


_NAMES = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
_2 = {name: _by_plain(getattr(anyflash, name)) for name in _NAMES}
_3 = {name: getattr(flash_attn_3, name) for name in _NAMES}
_4 = dict(zip(_NAMES, (_func_4, _varlen_func_4)))
_3, _4 = ({n: _in_eights(_by_plain(f, _without_keys)) for n, f in x.items()} for x in (_3, _4))
#: Name of the provider: the functions of its package.
PACKAGES = {"flash_attn": _2, "flash_attn_3": _3, "flash_attn_4": _4, "hub": _2}


@contextlib.contextmanager
def package(monkeypatch, name):
    """Installs the stand-in for CPU tensors and forces its provider."""
    provider = getattr(packages, name)
    monkeypatch.setattr(packages, "DEVICES", ("cuda", "cpu"))
    monkeypatch.setattr(trial, "_known", {})
    monkeypatch.setattr(provider, "_load", lambda: SimpleNamespace(**PACKAGES[name]))
    provider.forget()
    provider.prepare()
    monkeypatch.setitem(provider._failures, torch.device("cpu"), None)
    before = providers.force(name)
    try:
        yield
    finally:
        providers.force(before)
        provider.forget()
