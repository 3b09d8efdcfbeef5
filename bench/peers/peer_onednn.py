"""Times attention by oneDNN's matmul and softmax, called through its C API (3.x)."""
import os
import sys

from common import Decline, bf16_bits, block_rows, folded, np, of_bf16_bits

ONEDNN_F32, ONEDNN_BF16 = 3, 2
ONEDNN_ALLOCATE = -1
ONEDNN_SRC, ONEDNN_SRC_1, ONEDNN_WEIGHTS, ONEDNN_DST = 1, 2, 33, 17
ONEDNN_SECOND_POST_OP = 2 * 32768
ONEDNN_CPU, ONEDNN_IN_ORDER, ONEDNN_INFERENCE = 1, 1, 96
ONEDNN_LINEAR, ONEDNN_ADD, ONEDNN_SOFTMAX = 0x26, 0x1fff0, 0x30000


# oneDNN's dependencies are found only through LD_LIBRARY_PATH, which the dynamic linker
# reads when a process starts. So this process sets the variable and starts itself again.
ONEDNN_FOLDER = os.path.join(sys.prefix, "lib")
ONEDNN_HERE = os.path.join(ONEDNN_FOLDER, "libdnnl.so.3")
if os.path.exists(ONEDNN_HERE) and ONEDNN_FOLDER not in os.environ.get("LD_LIBRARY_PATH", ""):
    os.environ.update(LD_LIBRARY_PATH=ONEDNN_FOLDER, ONEDNN_VERBOSE="none",
                      OCL_ICD_FILENAMES=os.path.join(ONEDNN_FOLDER, "libintelocl.so"))
    os.execv(sys.executable, sys.orig_argv)


def onednn_load():
    """The library of this environment, or that of the system."""
    import ctypes
    import ctypes.util
    path = ONEDNN_HERE if os.path.exists(ONEDNN_HERE) else ctypes.util.find_library("dnnl")
    if path is None:
        raise Decline("not installed")
    return ctypes, ctypes.CDLL(path)


class OneDnn:
    """The needed part of the C API. It keeps its memories; small objects are never freed."""

    def __init__(self):
        self.memories = []
        self.c, self.library = onednn_load()
        self.engine = self.make("engine_create", ONEDNN_CPU, self.c.c_size_t(0))
        self.stream = self.make("stream_create", self.engine, ONEDNN_IN_ORDER)

    def version(self):
        class Version(self.c.Structure):
            _fields_ = [("major", self.c.c_int), ("minor", self.c.c_int),
                        ("patch", self.c.c_int)]
        self.library.dnnl_version.restype = self.c.POINTER(Version)
        found = self.library.dnnl_version().contents
        return found.major, found.minor, found.patch

    def call(self, name, *words):
        status = getattr(self.library, f"dnnl_{name}")(*words)
        if status != 0:
            raise Decline(f"dnnl_{name} gives status {status}")

    def make(self, name, *words):
        made = self.c.c_void_p()
        self.call(name, self.c.byref(made), *words)
        return made

    def shape(self, dims, dtype, strides):
        numbers = self.c.c_int64 * len(dims)
        return self.make("memory_desc_create_with_strides", len(dims), numbers(*dims), dtype,
                         numbers(*strides))

    def memory(self, shape, handle=ONEDNN_ALLOCATE):
        memory = self.make("memory_create", shape, self.engine, self.c.c_void_p(handle))
        self.memories.append(memory)
        return memory

    def __del__(self):
        for memory in self.memories:
            self.library.dnnl_memory_destroy(memory)

    def filled(self, shape, array):
        """A memory with the array's bytes, and its address."""
        memory = self.memory(shape)
        place = self.make_after("memory_map_data", memory)
        self.c.memmove(place, array.ctypes.data, array.nbytes)
        self.call("memory_unmap_data", memory, place)
        return memory, self.make_after("memory_get_data_handle", memory).value

    def make_after(self, name, first):
        made = self.c.c_void_p()
        self.call(name, first, self.c.byref(made))
        return made

    def attributes(self, scale, mask):
        """A product that is scaled and then masked."""
        attributes = self.make("primitive_attr_create")
        steps = self.make("post_ops_create")
        self.call("post_ops_append_eltwise", steps, ONEDNN_LINEAR, self.c.c_float(scale),
                  self.c.c_float(0))
        if mask is not None:
            self.call("post_ops_append_binary", steps, ONEDNN_ADD, mask)
        self.call("primitive_attr_set_post_ops", attributes, steps)
        return attributes

    def step(self, primitive_desc, memories):
        """A callable that runs the primitive on the memories."""
        class Argument(self.c.Structure):
            _fields_ = [("kind", self.c.c_int), ("memory", self.c.c_void_p)]
        primitive = self.make("primitive_create", primitive_desc)
        list_of = (Argument * len(memories))(*((kind, memory.value)
                                               for kind, memory in memories.items()))
        return lambda: self.call("primitive_execute", primitive, self.stream, len(memories),
                                 list_of)


def onednn_block(dnn, case, places, sizes, first, end):
    """The three steps for rows [first, end) of all heads."""
    q_at, k_at, v_at, o_at, scores_at, weights_at = places
    heads, rows, keys = sizes
    dim, count = case["head_dim"], end - first
    dtype = ONEDNN_F32 if case["dtype"] == "f32" else ONEDNN_BF16
    size = 4 if dtype == ONEDNN_F32 else 2
    seen = end if case["causal"] else keys
    row_strides = (rows * dim, dim, 1)
    q = dnn.shape((heads, count, dim), dtype, row_strides)
    k = dnn.shape((heads, dim, seen), dtype, (keys * dim, 1, dim))
    v = dnn.shape((heads, seen, dim), dtype, (keys * dim, dim, 1))
    line = (count * seen, seen, 1)
    scores = dnn.shape((heads, count, seen), ONEDNN_F32, line)
    weights = dnn.shape((heads, count, seen), dtype, line)
    memories = {ONEDNN_SRC: dnn.memory(q, q_at + first * dim * size),
                ONEDNN_WEIGHTS: dnn.memory(k, k_at),
                ONEDNN_DST: dnn.memory(scores, scores_at)}
    mask = None
    if case["causal"]:
        mask = dnn.shape((1, count, seen), ONEDNN_F32, line)
        hidden = np.triu(np.full((count, seen), -1e30, np.float32), first + 1)
        memories[ONEDNN_SECOND_POST_OP | ONEDNN_SRC_1] = dnn.filled(mask, hidden)[0]
    product = dnn.make("matmul_primitive_desc_create", dnn.engine, q, k, None, scores,
                       dnn.attributes(dim ** -0.5, mask))
    softmax = dnn.make("softmax_forward_primitive_desc_create", dnn.engine, ONEDNN_INFERENCE,
                       ONEDNN_SOFTMAX, scores, weights, 2, None)
    values = dnn.make("matmul_primitive_desc_create", dnn.engine, weights, v, None, q, None)
    weights_memory = dnn.memory(weights, weights_at)
    return [dnn.step(product, memories),
            dnn.step(softmax, {ONEDNN_SRC: memories[ONEDNN_DST], ONEDNN_DST: weights_memory}),
            dnn.step(values, {ONEDNN_SRC: weights_memory, ONEDNN_WEIGHTS: dnn.memory(v, v_at),
                              ONEDNN_DST: dnn.memory(q, o_at + first * dim * size)})]


def version_onednn():
    version = OneDnn().version()
    if version[0] != 3:
        raise Decline(f"not installed: version {version[0]} has another interface")
    return ".".join(map(str, version))


def attend_onednn(case):
    dnn = OneDnn()
    if case["operation"] == "backward":
        raise Decline("has no backward of the whole")
    is_f32 = case["dtype"] == "f32"
    arrays = folded(case)
    heads, rows, dim = arrays[0].shape
    keys = arrays[1].shape[1]
    rows_each = block_rows(heads, rows, keys)
    if not is_f32:
        arrays = [bf16_bits(array) for array in arrays]
    arrays = [*arrays, np.zeros_like(arrays[0]),
              np.zeros((heads, rows_each, keys), np.float32)]
    arrays.append(arrays[4] if is_f32 else np.zeros((heads, rows_each, keys), np.uint16))
    made = [dnn.filled(dnn.shape((array.size,), ONEDNN_F32 if array.itemsize == 4 else
                                 ONEDNN_BF16, (1,)), array) for array in arrays]
    places = [place for _, place in made]
    steps = [step for first in range(0, rows, rows_each)
             for step in onednn_block(dnn, case, places, (heads, rows, keys), first,
                                      min(first + rows_each, rows))]

    def run():
        for step in steps:
            step()
        dnn.call("stream_wait", dnn.stream)

    def results():
        place = dnn.make_after("memory_map_data", made[3][0])
        dnn.c.memmove(arrays[3].ctypes.data, place, arrays[3].nbytes)
        dnn.call("memory_unmap_data", made[3][0], place)
        return [arrays[3] if is_f32 else of_bf16_bits(arrays[3])]

    return case["dtype"], run, results
