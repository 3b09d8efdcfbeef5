"""Attention packages that are installed in this environment, if they work: flash_attn,
flash_attn_interface (FlashAttention-3), flash_attn.cute (FlashAttention-4), and flash-attn
kernels that Hugging Face's `kernels` has downloaded.

They differ in the names of their parameters, which are read from the signatures of their
functions. Whether a package works is tested once for each version of its files: a child process
imports it and runs its trial (trial.py), because an incompatible extension can crash the
process that loads it. The result is cached (_result_cache.py), keyed by the files' SHA-256, the
torch version and the GPU. Nothing is imported or tested before the first GPU tensor.
"""

import functools
import glob
import importlib
import importlib.util
import inspect
import logging
import os
import pathlib
import subprocess
import sys

import torch

from .. import _result_cache
from . import aten, trial
from .call import LSE, OUT, PROBABILITIES, transformed
from .features import HALVES, Limits, features, outside, too_old_or_new
from .flash import capability

_log = logging.getLogger("anyflash")

#: Device types whose tensors every package computes; tests without a GPU add "cpu".
DEVICES = ("cuda",)
#: How long the child process may take; FlashAttention-4 compiles its kernels in that time.
SECONDS = 180

#: How the names of Python's extensions end here.
_SUFFIX = ".pyd" if sys.platform == "win32" else ".so"

#: Attribute of a package that `anyflash shim install` generated.
_MARK = "__anyflash__"
_FUNCTIONS = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
#: Attributes of a Call: their defaults and the names that packages give them. An argument that
#: has its default is not passed: an older release may not have it.
_OPTIONS = {
    "dropout": (0.0, "dropout_p"),
    "scale": (None, "softmax_scale"),
    "causal": (False, "causal"),
    "window": ((-1, -1), "window_size"),
    "softcap": (0.0, "softcap"),
    "alibi_slopes": (None, "alibi_slopes"),
    "deterministic": (False, "deterministic"),
    "block_table": (None, "block_table page_table"),
    "sinks": (None, "s_aux learnable_sink"),
    "k_new": (None, "k"),
    "v_new": (None, "v"),
    "rotary_cos": (None, "rotary_cos"),
    "rotary_sin": (None, "rotary_sin"),
    "batch_idx": (None, "cache_batch_idx"),
    "leftpad": (None, "cache_leftpad"),
    "interleaved": (True, "rotary_interleaved"),
    "num_splits": (0, "num_splits"),
}
_LSE_NAMES = "return_attn_probs return_softmax_lse return_lse"


def _top_level(name):
    """(folder, text of __init__.py or "") of an installed package, or why there is none."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        return f"cannot be found: {error}"
    places = list(found.submodule_search_locations or ()) if found else []
    if found is None or not (found.origin or places):
        return "is not installed"
    try:
        text = pathlib.Path(found.origin).read_text(errors="replace") if found.origin else ""
    except OSError as error:
        return f"cannot be read: {error}"
    if _MARK in text:
        return "is the one that anyflash generated"
    return found.origin, places


def _find_2():
    """The files that identify flash_attn, or why it cannot be used, as text."""
    found = _top_level("flash_attn")
    if isinstance(found, str) or found[0] is None:
        return found if isinstance(found, str) else "is not installed"
    extension = importlib.util.find_spec("flash_attn_2_cuda")
    if extension is None or not extension.origin:
        return "lacks its extension flash_attn_2_cuda"
    return extension.origin, found[0]


def _find_3():
    found = _top_level("flash_attn_interface")
    if isinstance(found, str):
        return found
    extension = importlib.util.find_spec("flash_attn_3")
    places = extension.submodule_search_locations if extension else None
    files = [file for place in places or () for file in glob.glob(f"{place}/_C*{_SUFFIX}")]
    return (files[0], found[0]) if files else "lacks its extension flash_attn_3._C"


def _find_4():
    # find_spec("flash_attn.cute") would import flash_attn, which may be broken.
    files = [pathlib.Path(entry, "flash_attn", "cute", "interface.py") for entry in sys.path]
    files = [file for file in files if file.is_file()]
    if not files:
        return "is not installed"
    if importlib.util.find_spec("cutlass") is None:
        return "lacks nvidia-cutlass-dsl"
    return (str(files[0]),)


@functools.lru_cache(maxsize=None)
def _downloaded():
    """The folder of a downloaded kernel, or why there is none, as text; uses no network."""
    if importlib.util.find_spec("kernels") is None:
        return "needs the package kernels, which is not installed"
    import kernels

    hopper = torch.cuda.is_available() and not torch.version.hip
    hopper = hopper and torch.cuda.get_device_capability()[0] == 9
    for repository in ("flash-attn3", "flash-attn2") if hopper else ("flash-attn2",):
        for version in (4, 3, 2, 1):
            try:
                found = kernels.install_kernel(
                    f"kernels-community/{repository}", version=version, local_files_only=True
                )
            except Exception:  # a missing file raises one of many types
                continue
            return pathlib.Path(found)
    return "has no flash-attn kernel in Hugging Face's cache"


def _find_hub():
    found = _downloaded()
    if isinstance(found, str):
        return found
    files = sorted(found.rglob(f"*{_SUFFIX}")) or sorted(found.rglob("*.py"))
    return tuple(map(str, files)) or f"is empty: {found}"


def _import_hub():
    import kernels

    return kernels.get_local_kernel(_downloaded().parent.parent)


def _cause(code, text):
    """Why the child process failed, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if code < 0:
        return f"crashes the process that uses it (signal {-code})"
    return lines[-1][:300] if lines else f"ends the process that uses it (exit code {code})"


#: Temporary failures, not faults of the package: the next process tries again.
_PASSING = "did not answer", "cannot be tested", "out of memory"


def _known_answer(name, device_type, index):
    """Why the package does not work on the device, from a child process; None if it does."""
    program = "from anyflash.providers import trial; trial.main()"
    command = [sys.executable, "-c", program, name, device_type, str(index or 0)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("ANYFLASH_PROVIDER", None)
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"did not answer within {SECONDS} s"
    except OSError as error:
        return f"cannot be tested in a child process: {error}"
    if done.returncode == 0 and done.stdout.strip().endswith("right"):
        return None
    return _cause(done.returncode, done.stderr)


def _gpu(device):
    if device.type != "cuda":
        return device.type
    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} sm_{major}{minor}"


def _kind(call):
    if call.cache:
        return "flash_attn_with_kvcache"
    return "flash_attn_func" if call.cu_q is None else "flash_attn_varlen_func"


class Package:
    """A provider: `find()` gives the files that identify the package, or why it cannot be used;
    `load()` imports it; `no_limit`: a side of a window without a limit; `also`: device types
    that it computes beside DEVICES."""

    def __init__(self, name, find, load, limits, no_limit=-1, also=()):
        self.name, self.limits, self._also = name, limits, also
        self._find, self._load, self._no_limit = find, load, no_limit
        self._functions = {}  # by name: (function, names of its parameters), once imported
        self._failures = {}

    def forget(self):
        """Forgets the results of this process."""
        self._functions.clear()
        self._failures.clear()

    def prepare(self):
        """Imports the package and reads the signatures of its functions."""
        package = self._load()
        if hasattr(package, _MARK):
            raise ImportError("is the one that anyflash generated")
        for function in _FUNCTIONS:
            found = getattr(package, function, None)
            if found is not None:
                parameters = frozenset(inspect.signature(found).parameters)
                self._functions[function] = found, parameters
        if "flash_attn_func" not in self._functions:
            raise ImportError(f"cannot import name 'flash_attn_func' from '{self.name}'")

    def failure(self, device):
        """None, or why the package cannot be used on the device, as text."""
        if device not in self._failures:
            found = self._find()
            reason = found if isinstance(found, str) else self._test(device, found)
            if reason is not None and reason is not found:  # it is installed, but fails
                _log.info("'%s' is not used on %s: %s", self.name, device, reason)
            self._failures[device] = reason
        return self._failures[device]

    def _test(self, device, found):
        try:
            facts = {f"file {i}": _result_cache.sha256(file) for i, file in enumerate(found)}
        except OSError as error:
            return f"cannot be read: {error}"
        facts.update(name=self.name, torch=torch.__version__, gpu=_gpu(device))
        reason = _result_cache.get(facts)
        if reason is None:
            reason = _known_answer(self.name, device.type, device.index) or ""
            if not any(words in reason.lower() for words in _PASSING):
                _result_cache.put(facts, reason)
        if reason:
            return reason
        try:
            self.prepare()
        except Exception as error:
            return f"fails at import: {error}"
        return None

    def _named(self, names, parameters):
        """The first of the names that is a parameter, else the first."""
        names = names.split()
        return next((name for name in names if name in parameters), names[0])

    def _arguments(self, call):
        """The keyword arguments for the package's function."""
        parameters = self._functions[_kind(call)][1]
        given = {}
        if call.cu_q is not None:
            starts = call.cu_k
            if starts is None:
                starts = torch.nn.functional.pad(call.seqused_k.cumsum(0), (1, 0)).int()
            given = {"cu_seqlens_q": call.cu_q, "cu_seqlens_k": starts}
            given.update(max_seqlen_q=call.max_q, max_seqlen_k=call.max_k)
        for attribute, (usual, names) in _OPTIONS.items():
            value = getattr(call, attribute)
            if value is usual or (not isinstance(value, torch.Tensor) and value == usual):
                continue
            if attribute == "window":
                value = tuple(self._no_limit if side < 0 else side for side in value)
            given[self._named(names, parameters)] = value
        if call.cache:
            given["cache_seqlens"] = call.seqused_k
        if call.want != OUT:
            given[self._named(_LSE_NAMES, parameters)] = True
        return given

    def _outside(self, call, asked):
        size, cos = call.q.shape[-1], call.rotary_cos
        if torch.version.hip and self.limits.capability is not None:
            return "is not available under ROCm"
        reason = outside(call, self.limits, asked)
        if reason is None and call.q.device.type == "cuda" and not torch.version.hip:
            reason = too_old_or_new(capability(call.q.device), self.limits)
        if reason is not None:
            return reason
        if call.v.shape[-1] != size:
            return "requires the same head size for q, k and v"
        if call.block_table is not None and call.k.shape[1] % 256:
            return "requires a page size that is a multiple of 256"
        if cos is not None and (cos.shape[1] % 8 or cos.dtype != call.q.dtype):
            return "requires rotary tables of q's type for a multiple of 16 dimensions"
        return None

    def declines(self, call):
        device = call.q.device
        if device.type not in DEVICES and device.type not in self._also:
            kinds = " and ".join(kind.upper() for kind in ("cuda", *self._also))
            return f"computes on {kinds} devices, but q is on {device}"
        if transformed():
            return "does not support torch.func transforms"
        asked = features(call)
        reason = self._outside(call, asked) or _failure(self.name, device)
        if reason is not None:
            return reason
        if _kind(call) not in self._functions:
            return f"has no {_kind(call)} in this release"
        is_2 = "dropout_p" in self._functions["flash_attn_func"][1]
        if call.q.shape[-1] % 8 and not is_2:  # FlashAttention-2 pads them
            return "requires a head size that is a multiple of 8"
        missing = set(self._arguments(call)) - self._functions[_kind(call)][1]
        if missing:
            return f"has no {', '.join(sorted(missing))} in this release"
        return trial.failure(self.name, call, asked)

    def forward(self, call):
        """(out, lse, probabilities); the last two are None unless call.want asks for them."""
        found = self._functions[_kind(call)][0](call.q, call.k, call.v, **self._arguments(call))
        if call.want < LSE:  # some releases always return the logsumexp, too
            return (found[0] if isinstance(found, (tuple, list)) else found), None, None
        out, lse, *more = found
        if call.cu_q is not None and lse.dim() == 3:
            # Releases of flash-attn before 2.6 give [B, H, longest].
            lse = aten.by_row(lse, call.cu_q, call.q.shape[0]).transpose(0, 1)
        lse = torch.where(lse == -torch.inf, torch.inf, lse.detach())
        wanted = more and call.want >= PROBABILITIES and call.dropout > 0
        return out, lse, more[0] if wanted else None


@torch.compiler.assume_constant_result
def _failure(name, device):
    return globals()[name].failure(device)


def _importer(name):
    return lambda: importlib.import_module(name)


_LACKS = (("softcap", "dropout"), ("gradient", "pages"))
_NEWER = ("dropout", "ALiBi", "probabilities", ("gradient", "pages"))
#: flash-attn 2, of every publisher.
flash_attn = Package(
    "flash_attn",
    _find_2,
    _importer("flash_attn"),
    Limits(HALVES, 256, None, (*_LACKS, "sinks")),
)
#: FlashAttention-3, for Hopper.
flash_attn_3 = Package(
    "flash_attn_3",
    _find_3,
    _importer("flash_attn_interface"),
    Limits(HALVES, 256, ((9, 0), (9, 0)), (*_NEWER, ("gradient", "sinks"))),
)
#: FlashAttention-4, where it is faster than every other: Hopper and data-centre Blackwell.
flash_attn_4 = Package(
    "flash_attn_4",
    _find_4,
    _importer("flash_attn.cute"),
    Limits(HALVES, 256, ((9, 0), (11, 0)), (*_NEWER, ("gradient", "sinks"))),
    no_limit=None,
)
#: flash-attn2 or flash-attn3 of Hugging Face's kernels-community, if it was downloaded.
hub = Package("hub", _find_hub, _import_hub, Limits(HALVES, 256, None, _LACKS), also=("xpu",))
