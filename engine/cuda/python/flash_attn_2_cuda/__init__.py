"""The five functions under flash_attn, over libanyflash_cuda, which needs no torch.

In a wheel of `anyflash build` this package replaces flash-attn's own extension, which is
compiled for one torch and one Python. Arguments, results and the texts of errors are the
same. Here tensors become pointers and strides, results are allocated, and random numbers
come from torch's generator; the library does everything else (anyflash/anyflash_cuda.h).

Two things differ. Gradients of grouped heads are summed by a kernel of the library, so
their last bit may differ. While a CUDA graph is captured, torch.randint draws the seed of
dropout.
"""

import ctypes
import os
import struct

import torch
from torch.nn.functional import pad

_NO_MEMORY = 2 # enum anyflash_status
_DTYPES = {torch.float16: 2, torch.bfloat16: 3}
_NO_TENSOR = (0,) * 6
_ON_CPU = False # tests, which start no kernel, pass tensors on the CPU
_FLOAT = torch.float32
_STREAM = getattr(torch._C, "_cuda_getCurrentRawStream", None)


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 400)]


class _Struct:
    """A C struct: its members as text, "name:code", with the codes of Python's struct; T is a
    struct anyflash_tensor, whose six members follow one another."""

    def __init__(self, text, **defaults):
        members = [each.split(":") for each in text.split()]
        codes = "".join("Piiqqq" if code == "T" else code for _, code in members)
        self._pack = struct.Struct("@" + codes + "0q").pack
        self.start, size = {}, 0
        for name, code in members:
            self.start[name] = size
            size += 6 if code == "T" else 1
        self._values = [0] * size
        self._values[0] = struct.calcsize("@" + codes + "0q")
        for name, value in defaults.items():
            self._values[self.start[name]] = value

    def new(self):
        return self._values.copy()

    def bytes(self, values):
        return self._pack(*values)


_ARGS = _Struct(
    "struct_size:N batch:q heads:q kv_heads:q q_len:q k_len:q head_dim:q value_dim:q "
    "q:T k:T v:T o:T lse:P lse_batch_stride:q lse_head_stride:q "
    "scale:f softcap:f causal:i align:i window_left:q window_right:q causal_offsets:P "
    "alibi_slopes:P alibi_batch_stride:q sinks:P bias:T mask:T "
    "cu_seqlens_q:P cu_seqlens_k:P total_q:q total_k:q seqused_q:P seqused_k:P leftpad_k:P "
    "cache_batch_idx:P cache_batch:q block_table:P block_table_stride:q "
    "page_size:q page_count:q k_new:T v_new:T new_len:q "
    "rotary_cos:P rotary_sin:P rotary_rows:q rotary_dim:q rotary_interleaved:i "
    "dropout:f dropout_seed:Q dropout_offset:Q "
    "k_scales:P v_scales:P scale_stride:q scale_per_page:i reserved:i",
    window_left=-1, window_right=-1)
_GRADIENTS = _Struct("struct_size:N forward:P dout:T dq:T dk:T dv:T dbias:T dsinks:P dlse:P")
_CUDA = _Struct(
    "struct_size:N device:i splits:i stream:P workspace:P workspace_bytes:N rng_state:P "
    "dropout_seed:P dropout_offset:P dropout_scores:P softmax_d:P deterministic:i reserved:i",
    device=-1)
_A, _G, _C = _ARGS.start, _GRADIENTS.start, _CUDA.start


def _load():
    library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libanyflash_cuda.so"))
    for name in ("attend", "attend_backward", "workspace_bytes", "backward_workspace_bytes"):
        function = getattr(library, "anyflash_cuda_" + name)
        function.argtypes = [ctypes.c_char_p] * 2 + [ctypes.c_void_p] * (1 + ("bytes" in name))
    return library


_library = _load()


def contents():
    """What the library contains, as text: passes, head sizes and types, and what it lacks."""
    text = ctypes.create_string_buffer(8192)
    _library.anyflash_cuda_contents(text, ctypes.c_size_t(len(text)))
    return text.value.decode()


def _check(condition, message):
    if not condition:
        raise RuntimeError(message)


def _check_ints(q, **tensors):
    """Index arrays: int32, on the device, contiguous; a block table only in its rows."""
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        _check(tensor.dtype == torch.int32, f"{name} must have dtype int32")
        _check(tensor.device == q.device, f"{name} must be on CUDA")
        _check(tensor.stride(-1) == 1 if name == "block_table" else tensor.is_contiguous(),
               f"{name} must be contiguous")


def _check_shape(name, tensor, shape):
    if tensor is not None and tensor.shape != shape:
        raise RuntimeError(f"{name} must have shape {tuple(shape)}, not {tuple(tensor.shape)}")


def _pointer(tensor):
    return 0 if tensor is None else tensor.data_ptr()


def _tensor(tensor, q, name):
    """The members of a struct anyflash_tensor: of [B, S, H, D], or of packed [rows, H, D]."""
    if tensor is None:
        return _NO_TENSOR
    strides, dtype = tensor.stride(), tensor.dtype
    if strides[-1] != 1 or dtype is not q.dtype or tensor.get_device() != q.get_device():
        _refuse(tensor, q, name)
    if len(strides) == 3:
        return tensor.data_ptr(), _DTYPES.get(dtype, 0), 0, 0, strides[1], strides[0]
    return tensor.data_ptr(), _DTYPES.get(dtype, 0), 0, strides[0], strides[2], strides[1]


def _refuse(tensor, q, name):
    _check(q.dtype in _DTYPES, "FlashAttention only support fp16 and bf16 data type")
    _check(tensor.dtype is q.dtype, f"query and {name} must have the same dtype")
    _check(tensor.get_device() == q.get_device(), f"{name} must be on CUDA")
    raise RuntimeError("Input tensor must have contiguous last dimension")


def _stream(device):
    return _STREAM(device) if _STREAM else torch.cuda.current_stream(device).cuda_stream


def _rounded(n):
    return (n + 127) // 128 * 128


def _problem(batch, q, k, v, out, lse, lengths, scale, causal, window, softcap, alibi_slopes):
    """The values of the arguments that all functions have; lengths: Sq, Sk."""
    values = _ARGS.new()
    heads, dim = q.shape[-2:]
    rows = lse.shape[-1]
    values[1:41] = (batch, heads, k.shape[-2], *lengths, dim, dim, *_tensor(q, q, "query"),
                    *_tensor(k, q, "key"), *_tensor(v, q, "value"), *_tensor(out, q, "out"),
                    lse.data_ptr(), heads * rows, rows, scale, max(softcap, 0.0), causal, 0,
                    *window)
    if alibi_slopes is not None:
        _check(alibi_slopes.dtype == torch.float32, "ALiBi slopes must have dtype fp32")
        _check(alibi_slopes.device == q.device, "alibi_slopes must be on CUDA")
        _check(alibi_slopes.stride(-1) == 1,
               "ALiBi slopes tensor must have contiguous last dimension")
        _check(alibi_slopes.shape in ((heads,), (batch, heads)),
               "ALiBi slopes must have shape (num_heads) or (batch_size, num_heads)")
        values[_A["alibi_slopes"]] = alibi_slopes.data_ptr()
        values[_A["alibi_batch_stride"]] = (
            alibi_slopes.stride(0) if alibi_slopes.dim() == 2 else 0)
    return values


def _call(function, ask, args, cuda, q):
    """Calls a function of the library, again with a workspace if it needs one."""
    error = _Error()
    address = ctypes.addressof(error)
    status = function(args, _CUDA.bytes(cuda), address)
    if status == _NO_MEMORY:
        needed = ctypes.c_size_t()
        ask(args, _CUDA.bytes(cuda), ctypes.addressof(needed), address)
        workspace = q.new_empty(needed.value, dtype=torch.uint8)
        cuda[_C["workspace"]] = workspace.data_ptr()
        cuda[_C["workspace_bytes"]] = needed.value
        status = function(args, _CUDA.bytes(cuda), address)
    if status != 0:
        raise RuntimeError(error.message.decode())


def _random(values, cuda, dropout, generator, q, batch, heads):
    """Dropout's seed and offset, from torch's generator. Returns what must stay alive."""
    values[_A["dropout"]] = dropout
    index = q.get_device()
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        drawn = torch.randint(1 << 62, (2,), dtype=torch.int64, device=q.device)
        cuda[_C["dropout_seed"]] = drawn.data_ptr()
        cuda[_C["dropout_offset"]] = drawn.data_ptr() + 8
        return drawn
    generator = generator or torch.cuda.default_generators[index]
    values[_A["dropout_seed"]] = generator.initial_seed()
    values[_A["dropout_offset"]] = generator.get_offset()
    generator.set_offset(generator.get_offset() + batch * heads * 32)
    return None


def _cuda(q):
    values = _CUDA.new()
    device = q.get_device()
    _check(device >= 0 or _ON_CPU, "q must be on CUDA")
    values[_C["device"]] = device
    if device >= 0:
        values[_C["stream"]] = _stream(device)
    return values


def _forward(values, q, out, lse, batch, lengths, dropout, return_softmax, generator,
             zero_tensors):
    """What fwd() and varlen_fwd() do after their checks."""
    _check(not return_softmax or dropout > 0,
           "return_softmax is only supported when p_dropout > 0.0")
    heads = q.shape[-2]
    scores = q.new_empty((batch, heads, *map(_rounded, lengths)) if return_softmax else (0,))
    rng_state = q.new_empty(2, dtype=torch.int64)
    if zero_tensors:
        out.zero_()
        lse.fill_(-float("inf"))
        scores.zero_()
    cuda = _cuda(q)
    cuda[_C["rng_state"]] = rng_state.data_ptr()
    cuda[_C["dropout_scores"]] = scores.data_ptr() if return_softmax else 0
    alive = dropout > 0 and _random(values, cuda, dropout, generator, q, batch, heads)
    _call(_library.anyflash_cuda_attend, _library.anyflash_cuda_workspace_bytes,
          _ARGS.bytes(values), cuda, q)
    del alive
    return [out, lse, scores, rng_state]


def fwd(q, k, v, out, alibi_slopes, p_dropout, softmax_scale, is_causal, window_size_left,
        window_size_right, softcap, return_softmax, gen):
    """Forward. q, out: [B, Sq, H, D]; k, v: [B, Sk, Hkv, D]. Returns out, lse, scores, rng."""
    batch, q_len, heads, dim = q.shape
    k_len, kv_heads = k.shape[1:3]
    _check_shape("k", k, (batch, k_len, kv_heads, dim))
    _check_shape("v", v, k.shape)
    _check_shape("out", out, q.shape)
    out = torch.empty_like(q) if out is None else out
    lse = q.new_empty((batch, heads, q_len), dtype=_FLOAT)
    values = _problem(batch, q, k, v, out, lse, (q_len, k_len), softmax_scale, is_causal,
                      (window_size_left, window_size_right), softcap, alibi_slopes)
    return _forward(values, q, out, lse, batch, (q_len, k_len), p_dropout, return_softmax, gen,
                    False)


def varlen_fwd(q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table,
               alibi_slopes, max_seqlen_q, max_seqlen_k, p_dropout, softmax_scale, zero_tensors,
               is_causal, window_size_left, window_size_right, softcap, return_softmax, gen):
    """Forward of packed sequences. q: [rows, H, D]; k, v: [rows, Hkv, D], or pages,
    [pages, rows of a page, Hkv, D]."""
    _check_ints(q, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k,
                leftpad_k=leftpad_k, block_table=block_table)
    batch = cu_seqlens_q.numel() - 1
    rows, heads, dim = q.shape
    kv_heads = k.shape[-2]
    _check_shape("k", k, (*k.shape[:2 if block_table is None else 3][:-1], kv_heads, dim))
    _check_shape("v", v, k.shape)
    _check_shape("cu_seqlens_k", cu_seqlens_k, (batch + 1,))
    _check_shape("seqused_k", seqused_k, (batch,))
    _check_shape("leftpad_k", leftpad_k, (batch,))
    _check_shape("out", out, q.shape)
    out = torch.empty_like(q) if out is None else out
    lse = q.new_empty((heads, rows), dtype=_FLOAT)
    values = _problem(batch, q, k, v, out, lse, (max_seqlen_q, max_seqlen_k), softmax_scale,
                      is_causal, (window_size_left, window_size_right), softcap, alibi_slopes)
    start = _A["cu_seqlens_q"]
    values[start:start + 7] = (cu_seqlens_q.data_ptr(), cu_seqlens_k.data_ptr(), rows,
                               0 if block_table is not None else k.shape[0], 0,
                               _pointer(seqused_k), _pointer(leftpad_k))
    if block_table is not None:
        _set_pages(values, block_table, k, batch)
    return _forward(values, q, out, lse, batch, (max_seqlen_q, max_seqlen_k), p_dropout,
                    return_softmax, gen, zero_tensors)


def _set_pages(values, block_table, k, batch):
    _check(block_table.shape[0] == batch, "block_table must have one row for each sequence")
    start = _A["block_table"]
    values[start:start + 4] = (block_table.data_ptr(), block_table.stride(0), k.shape[1],
                               k.shape[0])


def _backward(values, batch, dout, q, dq, dk, dv, softmax_d, dropout, deterministic, rng_state,
              zero_tensors=False):
    """What bwd() and varlen_bwd() do after their checks."""
    cuda = _cuda(q)
    if rng_state is not None:
        cuda[_C["rng_state"]] = rng_state.data_ptr()
    values[_A["dropout"]] = dropout
    cuda[_C["softmax_d"]] = softmax_d.data_ptr()
    cuda[_C["deterministic"]] = deterministic
    if zero_tensors:
        for tensor in (dq, dk, dv, softmax_d):
            tensor.zero_()
    forward = ctypes.create_string_buffer(_ARGS.bytes(values))
    gradients = _GRADIENTS.new()
    gradients[1] = ctypes.addressof(forward)
    gradients[2:26] = (*_tensor(dout, q, "dout"), *_tensor(dq, q, "dq"), *_tensor(dk, q, "dk"),
                       *_tensor(dv, q, "dv"))
    _call(_library.anyflash_cuda_attend_backward,
          _library.anyflash_cuda_backward_workspace_bytes, _GRADIENTS.bytes(gradients), cuda, q)
    return [dq, dk, dv, softmax_d]


def _check_backward(dout, q, k, v, out, dq, dk, dv):
    for name, tensor in (("out", out), ("dout", dout), ("dq", dq)):
        _check_shape(name, tensor, q.shape)
    for name, tensor in (("v", v), ("dk", dk), ("dv", dv)):
        _check_shape(name, tensor, k.shape)
    return [torch.empty_like(like) if gradient is None else gradient
            for like, gradient in ((q, dq), (k, dk), (v, dv))]


def bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, alibi_slopes, p_dropout, softmax_scale,
        is_causal, window_size_left, window_size_right, softcap, deterministic, gen, rng_state):
    """Backward of fwd(). Returns dq, dk, dv and the row sums of dout * out."""
    dq, dk, dv = _check_backward(dout, q, k, v, out, dq, dk, dv)
    batch, q_len, heads, dim = q.shape
    k_len, kv_heads = k.shape[1:3]
    _check_shape("k", k, (batch, k_len, kv_heads, dim))
    softmax_d = q.new_empty((batch, heads, _rounded(q_len)), dtype=_FLOAT)
    values = _problem(batch, q, k, v, out, softmax_lse, (q_len, k_len), softmax_scale,
                      is_causal, (window_size_left, window_size_right), softcap, alibi_slopes)
    return _backward(values, batch, dout, q, dq, dk, dv, softmax_d, p_dropout, deterministic,
                     rng_state)


def varlen_bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k,
               alibi_slopes, max_seqlen_q, max_seqlen_k, p_dropout, softmax_scale, zero_tensors,
               is_causal, window_size_left, window_size_right, softcap, deterministic, gen,
               rng_state):
    """Backward of varlen_fwd()."""
    dq, dk, dv = _check_backward(dout, q, k, v, out, dq, dk, dv)
    _check_ints(q, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    batch = cu_seqlens_q.numel() - 1
    rows, heads, dim = q.shape
    _check_shape("k", k, (*k.shape[:2], dim))
    _check_shape("cu_seqlens_k", cu_seqlens_k, (batch + 1,))
    softmax_d = q.new_empty((heads, rows + 128 * batch), dtype=_FLOAT)
    values = _problem(batch, q, k, v, out, softmax_lse, (max_seqlen_q, max_seqlen_k),
                      softmax_scale, is_causal, (window_size_left, window_size_right), softcap,
                      alibi_slopes)
    start = _A["cu_seqlens_q"]
    values[start:start + 4] = (cu_seqlens_q.data_ptr(), cu_seqlens_k.data_ptr(), rows,
                               k.shape[0])
    return _backward(values, batch, dout, q, dq, dk, dv, softmax_d, p_dropout, deterministic,
                     rng_state, zero_tensors)


def _cached(q, kcache, vcache, k, v, seqlens_k, rotary_cos, rotary_sin, cache_batch_idx,
            leftpad_k, block_table, alibi_slopes, out, scale, is_causal, window, softcap,
            interleaved, num_splits):
    """fwd_kvcache() for head sizes that are multiples of 8."""
    batch, q_len, heads, dim = q.shape
    k_len = (kcache.shape[1] if block_table is None
             else block_table.shape[1] * kcache.shape[1])
    lse = q.new_empty((batch, heads, q_len), dtype=_FLOAT)
    values = _problem(batch, q, kcache, vcache, out, lse, (q_len, k_len), scale, is_causal,
                      window, softcap, alibi_slopes)
    start = _A["seqused_k"]
    values[start:start + 4] = (_pointer(seqlens_k), _pointer(leftpad_k),
                               _pointer(cache_batch_idx), kcache.shape[0])
    if block_table is not None:
        _set_pages(values, block_table, kcache, batch)
    start = _A["k_new"]
    values[start:start + 12] = (*_tensor(k, q, "k"), *_tensor(v, q, "v"))
    values[_A["new_len"]] = 0 if k is None else k.shape[1]
    if rotary_cos is not None:
        start = _A["rotary_cos"]
        values[start:start + 5] = (rotary_cos.data_ptr(), _pointer(rotary_sin),
                                   rotary_cos.shape[0], rotary_cos.shape[1] * 2, interleaved)
    cuda = _cuda(q)
    cuda[_C["splits"]] = num_splits
    _call(_library.anyflash_cuda_attend, _library.anyflash_cuda_workspace_bytes,
          _ARGS.bytes(values), cuda, q)
    return lse


def fwd_kvcache(q, kcache, vcache, k, v, seqlens_k, rotary_cos, rotary_sin, cache_batch_idx,
                leftpad_k, block_table, alibi_slopes, out, softmax_scale, is_causal,
                window_size_left, window_size_right, softcap, is_rotary_interleaved,
                num_splits):
    """Forward over a cache, [B, Sk, Hkv, D] or pages, to which k and v are appended first."""
    _check_ints(q, seqlens_k=seqlens_k, cache_batch_idx=cache_batch_idx, leftpad_k=leftpad_k,
                block_table=block_table)
    batch, _, _, dim = q.shape
    _check((k is None) == (v is None), "If key is supplied, value must also be passed in")
    _check_shape("kcache", kcache, (*kcache.shape[:3], dim))
    _check_shape("vcache", vcache, kcache.shape)
    _check_shape("k", k, (batch, *getattr(k, "shape", ())[1:2], kcache.shape[2], dim))
    _check_shape("v", v, getattr(k, "shape", ()))
    _check_shape("seqlens_k", seqlens_k, (batch,))
    _check_shape("leftpad_k", leftpad_k, (batch,))
    _check_shape("rotary_sin", rotary_sin, getattr(rotary_cos, "shape", ()))
    _check_shape("out", out, q.shape)
    for name, tensor in (("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin)):
        _check(tensor is None or (tensor.dtype is q.dtype and tensor.device == q.device
                                  and tensor.is_contiguous()),
               f"{name} must be contiguous and have the dtype and device of query")
    wider = -dim % 8
    work = [tensor if tensor is None or not wider else pad(tensor, (0, wider))
            for tensor in (q, kcache, vcache, k, v)]
    result = torch.empty_like(work[0]) if out is None or wider else out
    lse = _cached(*work, seqlens_k, rotary_cos, rotary_sin, cache_batch_idx, leftpad_k,
                  block_table, alibi_slopes, result, softmax_scale, is_causal,
                  (window_size_left, window_size_right), softcap, is_rotary_interleaved,
                  num_splits)
    if wider:
        result = result[..., :dim]
        if out is not None:
            out.copy_(result)
        if k is not None:
            kcache.copy_(work[1][..., :dim])
            vcache.copy_(work[2][..., :dim])
    return [result, lse]
