"""Times onnxruntime's Attention operator of opset 23."""
from common import Decline, inputs, np


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


def version_onnxruntime():
    import onnx  # noqa: F401: builds the model
    import onnxruntime
    return onnxruntime.__version__


def attend_onnxruntime(case):
    import onnxruntime
    from onnx import TensorProto
    if case["operation"] == "backward":
        raise Decline("has no backward")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case["threads"]
    options.log_severity_level = 4
    # It has no bf16 on CPUs; f16, with as many bytes, is the closest.
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
    return ("f32" if is_f32 else "f16", lambda: session.run_with_iobinding(binding),
            lambda: [output.numpy()])
