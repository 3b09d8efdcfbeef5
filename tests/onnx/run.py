"""Runs the ONNX backend's Attention cases through anyflash.attend and compares.

    ANYFLASH_LIBRARY=... python tests/onnx/run.py

Needs the packages onnx and numpy; `tests/run onnx` makes an environment with
them. The options come from a case's model, the expected results from its data
set. Some cases also ask for the score matrix, which the API does not return;
it is not compared. Past keys and values are joined with the new ones here.
"""

import pathlib
import sys
import warnings

import numpy
import onnx
from onnx.backend.test.loader import load_model_tests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import anyflash  # noqa: E402

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
TOLERANCE = {"float32": 2e-5, "float16": 3e-3, "bfloat16": 3e-2}


def heads_of(array, heads):
    """[B, S, H * D] as [B, H, S, D], without a copy; [B, H, S, D] unchanged."""
    if array.ndim == 4:
        return array
    batch, rows, width = array.shape
    return array.reshape(batch, rows, heads, width // heads).transpose(0, 2, 1, 3)


def full_mask(mask, keys):
    """Extends a bool mask or a bias to all keys; the added keys are hidden."""
    if mask.shape[-1] == 1 and keys > 1:
        mask = numpy.repeat(mask, keys, axis=-1)
    width = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
    hidden = False if mask.dtype == bool else -numpy.inf
    return numpy.pad(mask, width, constant_values=hidden)


def options_of(inputs, options, q, k, past):
    """ONNX: with a cache, query i is at position past + i; with lengths, length - Sq + i."""
    found = {
        "causal": bool(options.get("is_causal", 0)),
        "window": (options.get("left_window_size", -1), options.get("right_window_size", -1)),
        "scale": options.get("scale"),
        "softcap": options.get("softcap", 0.0),
        "causal_offsets": numpy.full(q.shape[0], past, numpy.int32),
    }
    lengths = inputs.get("nonpad_kv_seqlen")
    if lengths is not None:
        found["seqused_k"] = numpy.ascontiguousarray(lengths, numpy.int32)
        found["causal_offsets"] = found["seqused_k"] - numpy.int32(q.shape[2])
    if inputs.get("attn_mask") is not None:
        mask = full_mask(inputs["attn_mask"], k.shape[2])
        found["mask" if mask.dtype == bool else "bias"] = mask
    return found


def attend(inputs, options):
    """Y [B, H, Sq, Dv] and the key and value caches, for one node."""
    q = heads_of(inputs["Q"], options.get("q_num_heads"))
    k = heads_of(inputs["K"], options.get("kv_num_heads"))
    v = heads_of(inputs["V"], options.get("kv_num_heads"))
    past = 0
    if inputs.get("past_key") is not None:
        past = inputs["past_key"].shape[2]
        k = numpy.concatenate([inputs["past_key"], k], axis=2)
        v = numpy.concatenate([inputs["past_value"], v], axis=2)
    found = options_of(inputs, options, q, k, past)
    return anyflash.attend(q, k, v, layout="bhsd", **found), k, v


def apart(got, want):
    """The largest difference, as a fraction of the type's tolerance."""
    if got.shape != want.shape:
        return float("inf")
    bound = TOLERANCE[str(want.dtype)]
    got, want = got.astype(numpy.float64), want.astype(numpy.float64)
    return float(numpy.max(numpy.abs(got - want) / (bound * (1 + numpy.abs(want))), initial=0))


def run_case(case):
    """The largest difference of the outputs that the API returns."""
    node, = case.model.graph.node
    options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    worst = 0.0
    for given, wanted in case.data_sets:
        arrays = iter(given)
        inputs = {name: next(arrays) for name, word in zip(INPUTS, node.input) if word}
        results = dict(zip(OUTPUTS, attend(inputs, options)))
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
    warnings.simplefilter("ignore")
    cases = [case for case in load_model_tests(kind="node")
             if case.name.startswith("test_attention_") and not case.name.endswith("_expanded")]
    failed = []
    for case in cases:
        try:
            worst = run_case(case)
            if not worst <= 1:
                failed.append(f"{case.name}: {worst:.3g} times the tolerance")
        except (TypeError, ValueError, RuntimeError) as refusal:
            failed.append(f"{case.name}: {refusal}")
    for line in failed:
        print("failed:", line)
    print(f"{len(cases)} cases, {len(failed)} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
