"""Times attention made of two matrix products of NumPy's OpenBLAS and a softmax."""
from common import Decline, block_rows, folded, np


def version_openblas():
    """The version of the OpenBLAS that this process has loaded; numpy loads its own."""
    import ctypes
    np.ones((8, 8), np.float32) @ np.ones((8, 8), np.float32)
    with open("/proc/self/maps") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if "openblas" in line]
    if not paths:
        raise Decline("not installed: numpy multiplies with another library")
    library = ctypes.CDLL(paths[0])
    for name in ("openblas_get_config", "openblas_get_config64_",
                 "scipy_openblas_get_config", "scipy_openblas_get_config64_"):
        if hasattr(library, name):
            function = getattr(library, name)
            function.restype = ctypes.c_char_p
            return function().decode().split()[1]
    return "unknown"


def attend_openblas(case):
    if case["operation"] == "backward":
        raise Decline("has no backward")
    if case["dtype"] != "f32":
        raise Decline("numpy has no bf16")
    q, k, v = folded(case)
    o = np.empty_like(q)
    rows_each = block_rows(1, q.shape[1], k.shape[1])
    hidden = np.triu(np.full((rows_each, rows_each), -np.inf, np.float32), 1)
    scores = np.empty(rows_each * k.shape[1], np.float32)

    def block(head, first):
        end = min(first + rows_each, q.shape[1])
        keys = end if case["causal"] else k.shape[1]
        s = scores[:(end - first) * keys].reshape(end - first, keys)
        np.matmul(q[head, first:end] * np.float32(case["head_dim"] ** -0.5), k[head, :keys].T,
                  out=s)
        if case["causal"]:
            s[:, first:] += hidden[:end - first, :end - first]
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        np.matmul(s, v[head, :keys], out=o[head, first:end])
        o[head, first:end] /= s.sum(axis=1, keepdims=True)

    def run():
        for head in range(q.shape[0]):
            for first in range(0, q.shape[1], rows_each):
                block(head, first)

    return "f32", run, lambda: [o]
