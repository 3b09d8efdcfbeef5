"""Times onnxruntime by the fastest of its operators that compute the case."""
import time

from common import Decline, inputs, np


def standard(case):
    """Attention of opset 23, on [1, H, S, D]."""
    return {"op_type": "Attention", "is_causal": int(case["causal"])}, ["q", "k", "v"], ["o"]


def fused(case):
    """MultiHeadAttention, on [1, S, H * D]: FlashAttention for f32."""
    attributes = {"op_type": "MultiHeadAttention", "domain": "com.microsoft",
                  "num_heads": case["heads"], "unidirectional": int(case["causal"])}
    return attributes, ["q", "k", "v"], ["o"]


def grouped(case):
    """GroupQueryAttention, on [1, S, H * D]: FlashAttention for f32. It is causal, and a single
    query and key are appended to a cache, which is updated in place."""
    attributes = {"op_type": "GroupQueryAttention", "domain": "com.microsoft",
                  "num_heads": case["heads"], "kv_num_heads": case["kv_heads"]}
    names = ["q", "k", "v", "past_k", "past_v", "last", "length"]
    return attributes, names, ["o", "present_k", "present_v"]


def operators(case):
    yield standard
    if case["heads"] == case["kv_heads"]:
        yield fused
    if case["causal"] or case["q_len"] == 1:
        yield grouped


def tensors(case, operator, element):
    """The operator's inputs and outputs by name. A cache is its own successor."""
    q, k, v = (array.astype(element) for array in inputs(case))
    if operator is standard:
        return {"q": q, "k": k, "v": v, "o": np.empty_like(q)}

    def joined(array):
        """[1, S, H * D]"""
        return np.ascontiguousarray(array.swapaxes(1, 2)).reshape(1, array.shape[2], -1)

    if operator is fused:
        return {"q": joined(q), "k": joined(k), "v": joined(v), "o": np.empty_like(joined(q))}
    rows, keys = case["q_len"], case["k_len"]
    new = slice(keys - rows, keys)
    return {"q": joined(q), "k": joined(k[:, :, new]), "v": joined(v[:, :, new]),
            "past_k": k, "past_v": v, "last": np.array([keys - 1], dtype=np.int32),
            "length": np.array([keys], dtype=np.int32), "o": np.empty_like(joined(q))}


def model(node, names, results, arrays):
    """A model of this one operator."""
    from onnx import helper

    def described(name):
        array = arrays[name.replace("present", "past")]
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph([helper.make_node(inputs=names, outputs=results, **node)],
                              "attention", [described(name) for name in names],
                              [described(name) for name in results])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


def prepare(case, operator, element):
    """Returns a function that computes the case, and one that returns o as [1, H, Sq, D]."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case["threads"]
    options.log_severity_level = 4
    node, names, results = operator(case)
    arrays = tensors(case, operator, element)
    session = onnxruntime.InferenceSession(model(node, names, results, arrays), options,
                                           providers=["CPUExecutionProvider"])
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
              for name, array in arrays.items()}
    binding = session.io_binding()
    for name in names:
        binding.bind_ortvalue_input(name, values[name])
    for name in results:
        binding.bind_ortvalue_output(name, values[name.replace("present", "past")])

    def output():
        o = values["o"].numpy()
        shape = (1, case["q_len"], case["heads"], case["head_dim"])
        return [o if operator is standard else o.reshape(shape).swapaxes(1, 2)]

    return lambda: session.run_with_iobinding(binding), output


def seconds(run):
    """The fewest seconds of three runs."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


def version_onnxruntime():
    import onnx  # noqa: F401: builds the model
    import onnxruntime
    return onnxruntime.__version__


def attend_onnxruntime(case):
    if case["operation"] == "backward":
        raise Decline("has no backward")
    # It has no bf16 on CPUs; f16, with as many bytes, is the closest.
    dtype = "f32" if case["dtype"] == "f32" else "f16"
    element = np.float32 if dtype == "f32" else np.float16
    ways = []
    for operator in operators(case):
        try:
            way = prepare(case, operator, element)
            ways.append((seconds(way[0]), *way))
        except Exception as error:  # an operator that lacks the type or the shape
            reason = error
    if not ways:
        raise reason
    _, run, output = min(ways, key=lambda way: way[0])
    return dtype, run, output
