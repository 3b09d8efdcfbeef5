"""Runs the ONNX backend's Attention cases through libanyflash by ctypes and compares.

    python tests/onnx/run.py LIBRARY HEADER

Needs the packages onnx and numpy; `make test-onnx` makes an environment with
them. A case's model gives its options and its data set what is expected. The
score matrix that some cases also ask for is no output of the API and is not
compared; past keys and values are joined to the new ones here.
"""
import ctypes
import re
import sys
import warnings

import numpy
import onnx
from onnx.backend.test.loader import load_model_tests

DTYPES = {"float32": 1, "float16": 2, "bfloat16": 3, "bool": 4}
CTYPES = {"size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32,
          "uint64_t": ctypes.c_uint64, "float": ctypes.c_float}
INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
TOLERANCE = {"float32": 2e-5, "float16": 3e-3, "bfloat16": 3e-2}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("batch_stride", ctypes.c_int64),
                ("head_stride", ctypes.c_int64), ("row_stride", ctypes.c_int64)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 400)]


def read_args(header):
    """struct anyflash_attend_args as the header declares it."""
    text = open(header, encoding="utf-8").read()
    body = re.search(r"struct anyflash_attend_args \{(.*?)\n\};", text, re.S).group(1)
    fields = []
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        words = line.replace("const ", "").split()
        if not words:
            continue
        name = words[-1]
        if name.startswith("*"):
            fields.append((name[1:], ctypes.c_void_p))
        elif words[0] == "struct":
            fields += [(part.strip(), Tensor) for part in " ".join(words[2:]).split(",")]
        else:
            fields.append((name, CTYPES[words[0]]))
    return type("Args", (ctypes.Structure,), {"_fields_": fields})


def tensor(array):
    """A view of [B, H, S, D] with unit last stride; broadcast dimensions have stride 0."""
    strides = [0 if size == 1 else step // array.itemsize
               for size, step in zip(array.shape[:3], array.strides[:3])]
    return Tensor(array.ctypes.data, DTYPES[str(array.dtype)], 0, *strides)


def heads_of(array, heads):
    """[B, S, H * D] as [B, H, S, D], without a copy; [B, H, S, D] stays."""
    if array.ndim == 4:
        return array
    batch, rows, width = array.shape
    return array.reshape(batch, rows, heads, width // heads).transpose(0, 2, 1, 3)


def set_mask(args, mask, shape, keep):
    """A bool mask or a bias of any broadcast shape; keys that it lacks are hidden."""
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if mask.shape[3] < shape[3]:
        hidden = False if mask.dtype == bool else -numpy.inf
        width = shape[3] - mask.shape[3]
        mask = numpy.pad(mask, ((0, 0),) * 3 + ((0, width),), constant_values=hidden)
    if mask.shape[3] == 1 and shape[3] > 1:
        mask = numpy.repeat(mask, shape[3], axis=3)
    mask = numpy.ascontiguousarray(mask)
    keep.append(mask)
    setattr(args, "mask" if mask.dtype == bool else "bias", tensor(mask))


def set_positions(args, options, batch, past, lengths, keep):
    """ONNX: query i of a cache stands at past + i, or at length - Sq + i with lengths."""
    args.causal = options.get("is_causal", 0)
    args.window_left = options.get("left_window_size", -1)
    args.window_right = options.get("right_window_size", -1)
    args.align = 2
    offsets = numpy.full(batch, past, numpy.int32)
    if lengths is not None:
        args.seqused_k = lengths.ctypes.data
        offsets = (lengths - args.q_len).astype(numpy.int32)
        keep.append(lengths)
    keep.append(offsets)
    args.causal_offsets = offsets.ctypes.data


def attend(library, args_type, inputs, options):
    """Y [B, H, Sq, Dv] and the key and value caches, for one node."""
    keep = []
    q = heads_of(inputs["Q"], options.get("q_num_heads"))
    k = heads_of(inputs["K"], options.get("kv_num_heads"))
    v = heads_of(inputs["V"], options.get("kv_num_heads"))
    past = 0
    if inputs.get("past_key") is not None:
        past = inputs["past_key"].shape[2]
        k = numpy.concatenate([inputs["past_key"], k], axis=2)
        v = numpy.concatenate([inputs["past_value"], v], axis=2)
    o = numpy.zeros(q.shape[:3] + v.shape[3:], q.dtype)
    args = args_type()
    args.struct_size = ctypes.sizeof(args)
    args.batch, args.heads, args.q_len, args.head_dim = q.shape
    args.kv_heads, args.k_len, args.value_dim = k.shape[1], k.shape[2], v.shape[3]
    args.scale = options.get("scale", 0.0)
    args.softcap = options.get("softcap", 0.0)
    args.q, args.k, args.v, args.o = tensor(q), tensor(k), tensor(v), tensor(o)
    lengths = inputs.get("nonpad_kv_seqlen")
    lengths = None if lengths is None else numpy.ascontiguousarray(lengths, numpy.int32)
    set_positions(args, options, q.shape[0], past, lengths, keep)
    if inputs.get("attn_mask") is not None:
        set_mask(args, inputs["attn_mask"], q.shape[:3] + (k.shape[2],), keep)
    error = Error()
    if library.anyflash_attend(None, ctypes.byref(args), ctypes.byref(error)) != 0:
        raise RuntimeError(error.message.decode())
    return o, k, v


def apart(got, want):
    """The largest difference, as a share of the tolerance of the type."""
    if got.shape != want.shape:
        return float("inf")
    bound = TOLERANCE[str(want.dtype)]
    got, want = got.astype(numpy.float64), want.astype(numpy.float64)
    return float(numpy.max(numpy.abs(got - want) / (bound * (1 + numpy.abs(want))), initial=0))


def run_case(library, args_type, case):
    """The largest difference over the outputs that the API has."""
    node, = case.model.graph.node
    options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    worst = 0.0
    for given, wanted in case.data_sets:
        arrays = iter(given)
        inputs = {name: next(arrays) for name, word in zip(INPUTS, node.input) if word}
        results = dict(zip(OUTPUTS, attend(library, args_type, inputs, options)))
        expected = iter(wanted)
        for name, word in zip(OUTPUTS, node.output):
            want = next(expected) if word else None
            if want is None or name == "qk_matmul_output":
                continue
            got = results[name]
            if want.ndim == 3:
                got = got.transpose(0, 2, 1, 3).reshape(want.shape)
            worst = float(numpy.maximum(worst, apart(got, want)))
    return worst


def main():
    library = ctypes.CDLL(sys.argv[1])
    args_type = read_args(sys.argv[2])
    warnings.simplefilter("ignore")
    cases = [case for case in load_model_tests(kind="node")
             if case.name.startswith("test_attention_") and not case.name.endswith("_expanded")]
    failed = []
    for case in cases:
        try:
            worst = run_case(library, args_type, case)
            if not worst <= 1:
                failed.append(f"{case.name}: {worst:.3g} times the tolerance")
        except RuntimeError as refusal:
            failed.append(f"{case.name}: {refusal}")
    for line in failed:
        print("failed:", line)
    print(f"{len(cases)} cases, {len(failed)} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
