"""One attention case with one other library: python -c SCRIPT LIBRARY CASE.

`anyflash bench --peers` embeds this file and starts it once for each library and
case. CASE is a JSON object; `{}` only asks for the version. The answer is one
JSON object on stdout: `version`, then `milliseconds` (each run), `dtype` (what
was computed in) and `results` (numbers at probed places), or `decline` (why not).
Inputs are those of src/bench/inputs.c, tensors are [1, H, S, D].
"""
import json
import os
import sys
import time

Q, K, V, DOUT = 0, 1, 2, 4
RUNS_MAX = 40


class Decline(Exception):
    """This library cannot do this case."""


def hash32(numbers):
    """The 32-bit hash of src/bench/inputs.c, in place."""
    numbers ^= numbers >> 16
    numbers *= np.uint32(0x7feb352d)
    numbers ^= numbers >> 15
    numbers *= np.uint32(0x846ca68b)
    numbers ^= numbers >> 16
    return numbers


def fill(tensor, heads, rows, dim):
    """The tensor's numbers as float32 [1, H, S, D]; they are exact in bf16 and f16."""
    seed = hash32(np.array([tensor + 1], dtype=np.uint32))[0]
    numbers = hash32(np.arange(heads * rows * dim, dtype=np.uint32) ^ seed) >> 24
    values = (numbers.astype(np.float32) - 128) / (32 if tensor == Q else 128)
    return values.reshape(1, heads, rows, dim)


def inputs(case):
    q = fill(Q, case["heads"], case["q_len"], case["head_dim"])
    k = fill(K, case["kv_heads"], case["k_len"], case["head_dim"])
    v = fill(V, case["kv_heads"], case["k_len"], case["head_dim"])
    return q, k, v


def probe(case, array):
    """The numbers at the places of af_bench_probe()."""
    flat = np.asarray(array, dtype=np.float32).reshape(-1)
    places = (np.arange(case["probes"], dtype=np.uint64) * 2654435761 % 2**32) % flat.size
    return [float(number) for number in flat[places]]


def measure(case, run):
    """Times run() for about case["seconds"], after two runs to warm up."""
    run()
    start = time.perf_counter()
    run()
    repeats = max(1, int(5e-4 / (time.perf_counter() - start + 1e-7)))
    times = []
    end = time.perf_counter() + case["seconds"]
    while len(times) < 3 or (len(times) < RUNS_MAX and time.perf_counter() < end):
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        times.append((time.perf_counter() - start) * 1e3 / repeats)
    return times


def bf16_bits(array):
    return (array.view(np.uint32) >> 16).astype(np.uint16)


def of_bf16_bits(array):
    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def run_torch(case):
    import torch
    if not case:
        return {"version": torch.__version__}
    torch.set_num_threads(case["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]]
    backward = case["operation"] == "backward"
    q, k, v = (torch.from_numpy(array).to(dtype).requires_grad_(backward)
               for array in inputs(case))

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=case["causal"], enable_gqa=case["heads"] != case["kv_heads"])

    if not backward:
        with torch.inference_mode():
            times = measure(case, forward)
            results = [forward()]
    else:
        dout = torch.from_numpy(fill(DOUT, case["heads"], case["q_len"], case["head_dim"]))
        dout = dout.to(dtype)
        o = forward()
        results = []

        def run():
            results[:] = torch.autograd.grad(o, (q, k, v), dout, retain_graph=True)

        times = measure(case, run)
    return {"milliseconds": times, "dtype": case["dtype"],
            "results": [probe(case, tensor.float().numpy()) for tensor in results]}


def onnx_model(case, element):
    """Attention of opset 23 on [1, H, S, D]."""
    from onnx import helper
    shapes = {"q": (case["heads"], case["q_len"]), "k": (case["kv_heads"], case["k_len"]),
              "v": (case["kv_heads"], case["k_len"])}
    values = [helper.make_tensor_value_info(name, element, [1, *shape, case["head_dim"]])
              for name, shape in shapes.items()]
    output = helper.make_tensor_value_info(
        "o", element, [1, case["heads"], case["q_len"], case["head_dim"]])
    node = helper.make_node("Attention", ["q", "k", "v"], ["o"], is_causal=int(case["causal"]))
    graph = helper.make_graph([node], "attention", values, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    return model.SerializeToString()


def run_onnxruntime(case):
    import onnxruntime
    from onnx import TensorProto
    if not case:
        return {"version": onnxruntime.__version__}
    if case["operation"] == "backward":
        raise Decline("has no backward")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case["threads"]
    options.log_severity_level = 4
    # It has no bf16 on CPUs: f16, which has as many bytes, is the nearest.
    is_f32 = case["dtype"] == "f32"
    element = TensorProto.FLOAT if is_f32 else TensorProto.FLOAT16
    session = onnxruntime.InferenceSession(onnx_model(case, element), options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    arrays = [array if is_f32 else array.astype(np.float16) for array in inputs(case)]
    kept = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
    for name, value in zip("qkv", kept):
        binding.bind_ortvalue_input(name, value)
    output = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(arrays[0]))
    binding.bind_ortvalue_output("o", output)
    times = measure(case, lambda: session.run_with_iobinding(binding))
    return {"milliseconds": times, "dtype": "f32" if is_f32 else "f16",
            "results": [probe(case, output.numpy())]}


def run_openvino(case):
    import openvino
    from openvino import opset13
    if not case:
        return {"version": openvino.__version__.split("-")[0]}
    if case["operation"] == "backward":
        raise Decline("has no backward")
    if case["heads"] != case["kv_heads"]:
        raise Decline("its operation has no shared key heads")
    is_f32 = case["dtype"] == "f32"
    element = openvino.Type.f32 if is_f32 else openvino.Type.bf16
    arrays = inputs(case)
    parameters = [opset13.parameter(list(array.shape), element) for array in arrays]
    node = opset13.scaled_dot_product_attention(*parameters, causal=case["causal"])
    model = openvino.Model([node], parameters, "attention")
    compiled = openvino.Core().compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": case["threads"], "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32" if is_f32 else "bf16"})
    request = compiled.create_infer_request()
    kept = []
    for index, array in enumerate(arrays):
        if is_f32:
            tensor = openvino.Tensor(array)
        else:
            tensor = openvino.Tensor(bf16_bits(array), list(array.shape), element)
        kept.append(tensor)
        request.set_input_tensor(index, tensor)
    times = measure(case, request.infer)
    data = request.get_output_tensor(0).data
    return {"milliseconds": times, "dtype": case["dtype"],
            "results": [probe(case, data if is_f32 else of_bf16_bits(data))]}


def main():
    library, case = sys.argv[1], json.loads(sys.argv[2])
    os.environ.setdefault("OMP_NUM_THREADS", str(case.get("threads", 1)))
    try:
        global np
        import numpy as np
        np.seterr(over="ignore")
        answer = globals()[f"run_{library}"](case)
    except ImportError as error:
        answer = {"decline": f"not there: {error}"}
    except Decline as reason:
        answer = {"decline": str(reason)}
    except Exception as error:  # whatever a library does is an answer about it
        answer = {"decline": f"{type(error).__name__}: {error}".splitlines()[0][:150]}
    print(json.dumps(answer))


main()
