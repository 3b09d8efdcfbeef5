"""Times OpenVINO's ScaledDotProductAttention operation."""
from common import Decline, bf16_bits, inputs, of_bf16_bits


def version_openvino():
    import openvino
    return openvino.__version__.split("-")[0]


def attend_openvino(case):
    import openvino
    from openvino import opset13
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
    # The tensors point into these arrays, so the function keeps both.
    data = request.get_output_tensor(0).data
    return (case["dtype"], lambda kept=kept, arrays=arrays: request.infer(),
            lambda: [data if is_f32 else of_bf16_bits(data)])
