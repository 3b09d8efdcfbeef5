"""flash_attn_2_cuda of ours starts the kernels as flash-attn's own extension does.

Theirs is compiled for the CPU with functions in the place of the kernels that keep their
parameters (record.cpp); ours is the module of a wheel, and a stand-in for NVIDIA's driver keeps
what it is asked to start (fake_driver.c). Random calls of all five functions go to both; then
every member of the parameters is compared: pointers by the tensor that they point into. That
equal parameters are equal launches is test_choice.py's.

Differences by design, each asserted below:
- packed sequences of one query with grouped heads: upstream copies q and copies o back; here
  the kernel reads and writes the caller's tensors by their strides;
- upstream compares the group of heads, not one query, with the length of such a cache;
- fwd_kvcache() without anything of a cache is fwd(), which shortens windows first;
- upstream does not group the heads of one query if the head size is no multiple of 8;
- dropout with pages: upstream's kernels drop nothing; here it is refused;
- page_block_size, which is not read without pages, is 0 in upstream's fwd();
- the stride of a single batch is whatever torch's reshape() makes of it;
- upstream leaves the batch strides of packed gradients, which are not read, uninitialised.
"""

import ctypes
import importlib.util
import os
import random
import struct
import sys

import pytest
import torch

import stub_pack

FOLDER = os.environ.get("LAUNCHES", "build/launches")
COUNT = int(os.environ.get("LAUNCHES_COUNT", "2000"))
SEED = int(os.environ.get("LAUNCHES_SEED", "1"))
CODES = {("whole", 1): "B", ("whole", 4): "i", ("whole", 8): "q", ("float", 4): "f",
         ("pointer", 8): "Q", ("random", 24): "24s", ("random", 32): "32s"}
#: The kernels that a call is known by, as record.cpp calls them.
PASSES = {"flash_fwd_kernel": "forward", "flash_fwd_splitkv_kernel": "split",
          "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": "backward"}


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Side:
    """One of the two extensions and what its kernels were given."""

    def __init__(self, module, library, members):
        self.module = module
        self.library = ctypes.CDLL(library)
        self.library.take_launch.restype = ctypes.c_size_t
        self.members = members

    def launches(self):
        """[(pass, head size, type and mask, {member: value})] of the calls."""
        found = []
        name, data = ctypes.c_char_p(), ctypes.c_void_p()
        while True:
            size = self.library.take_launch(ctypes.byref(name), ctypes.byref(data))
            if size == 0:
                return found
            found += self.launch(name.value.decode(), ctypes.string_at(data, size))

    def launch(self, name, data):
        return [(name, self.values(data))]

    def values(self, data):
        """{member: value}; the members cover the struct but for padding."""
        values, end = {}, 0
        for name, offset, size, kind in sorted(self.members, key=lambda row: int(row[1])):
            offset, size = int(offset), int(size)
            if offset + size <= len(data):
                assert offset - end < 8, f"a member is missing before {name}"
                values[name], = struct.unpack_from(CODES[kind, size], data, offset)
                end = offset + size
        assert len(data) - end < 8
        return values


class Ours(Side):
    def launch(self, name, data):
        """The others of a call have the same parameters; they are test_choice.py's."""
        words, values = name.split(), self.values(data)
        if words[0] not in PASSES:
            return []
        causal = " causal" if values["is_causal"] else ""
        dtype = "bf16" if "bf16" in words else "fp16"
        return [(f"{PASSES[words[0]]} {words[1]} {dtype}{causal}", values)]


def members_of(path):
    library = ctypes.CDLL(path)
    library.members.restype = ctypes.c_char_p
    return [line.split() for line in library.members().decode().splitlines()]


def open_sides(folder):
    """(ours, theirs) of a folder that make_extensions.py filled."""
    ours, theirs = f"{folder}/flash_attn_2_cuda/", f"{folder}/upstream_cuda.so"
    driver = f"{ours}libcuda.so.1"
    ctypes.CDLL(driver)  # before the library asks for one of that name
    module = load("flash_attn_2_cuda", ours + "__init__.py")
    module._ON_CPU = True
    members = members_of(theirs)
    kinds = {name: kind for name, _, _, kind in members}
    return (Ours(module, driver, [(*row, kinds[row[0]]) for row in stub_pack.layout()[1]]),
            Side(load("upstream_cuda", theirs), theirs, members))


@pytest.fixture(scope="module")
def sides():
    return open_sides(FOLDER)


class Generator:
    """As much of torch.Generator as the module uses."""

    def __init__(self, seed, offset):
        self.seed, self.offset = seed, offset

    def initial_seed(self):
        return self.seed

    def get_offset(self):
        return self.offset

    def set_offset(self, offset):
        self.offset = offset


class Draw:
    """Random arguments of a call."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        one = self.random.choice
        self.dtype = one([torch.float16, torch.bfloat16])
        self.dim = one([8, 32, 40, 64, 64, 72, 96, 104, 128, 128, 160, 192, 224, 256])
        self.batch = one([1, 1, 2, 3])
        self.kv_heads = one([1, 2, 3])
        self.heads = self.kv_heads * one([1, 1, 2, 4])
        self.q_len = one([1, 1, 2, 7, 64, 129])
        self.k_len = one([0, 1, 5, 64, 128, 300, 700])
        self.causal = one([False, True])
        self.window = one([(-1, -1), (-1, -1), (3, 0), (4, 5), (-1, 2), (1000, -1), (2, 1000)])
        self.softcap = one([0.0, 0.0, 15.0])
        self.dropout = 0.0 if self.softcap else one([0.0, 0.0, 0.17])
        self.scale = one([self.dim ** -0.5, 0.3, 0.0])
        self.seed, self.offset = self.random.randrange(1 << 63), 4 * self.random.randrange(1000)

    def maybe(self, make):
        return make() if self.random.random() < 0.4 else None

    def tensor(self, *shape, contiguous=None):
        """Contiguous, or a part of something larger."""
        one = self.random.choice([0, 0, 1, 2]) if contiguous is None else 0
        if one == 0:
            return torch.zeros(shape, dtype=self.dtype)
        if one == 1:
            wide = torch.zeros(*shape[:-2], 3 * shape[-2], shape[-1], dtype=self.dtype)
            return wide[..., shape[-2]:2 * shape[-2], :]
        return torch.zeros(*shape[:-1], shape[-1] + 16, dtype=self.dtype)[..., 8:-8]

    def slopes(self):
        shape = self.random.choice([(self.heads,), (self.batch, self.heads)])
        return torch.rand(shape)

    def ints(self, *shape):
        return torch.zeros(shape, dtype=torch.int32)

    def manner(self):
        return self.scale, self.causal, *self.window, self.softcap


def call(side, function, arguments, draw):
    """(results, launches), or the error's text. A generator is given to ours only."""
    if side.module.__name__ == "upstream_cuda":
        side.library.set_random(ctypes.c_uint64(draw.seed), ctypes.c_uint64(draw.offset))
    else:
        arguments = [Generator(draw.seed, draw.offset) if each is GENERATOR else each
                     for each in arguments]
    arguments = [None if each is GENERATOR else each for each in arguments]
    try:
        results = getattr(side.module, function)(*arguments)
    except RuntimeError as error:
        assert side.launches() == []
        return str(error), None
    return results, side.launches()


GENERATOR = object()
RESULTS = {"o_ptr": 0, "softmax_lse_ptr": 1, "p_ptr": 2, "rng_state": 3}
GRADIENTS = {"dq_ptr": 0, "dk_ptr": 1, "dv_ptr": 2, "dsoftmax_sum": 3}
TEMPORARY = ("oaccum_ptr", "softmax_lseaccum_ptr", "dq_accum_ptr")
COPIES = ("q_ptr", "k_ptr", "v_ptr", "o_ptr", "knew_ptr", "vnew_ptr")


def comparable(values, results, draw, backward):
    """The values of a launch, with pointers into results as offsets."""
    values = dict(values)
    for name in TEMPORARY + (COPIES if draw.dim % 8 else ()):
        values[name] = bool(values.get(name))
    for name, index in (GRADIENTS if backward else RESULTS).items():
        if index < len(results) and values.get(name, 0) > 1:
            values[name] -= results[index].data_ptr()
    if backward and draw.heads != draw.kv_heads:
        assert results[1].numel() == 0 or (values["dk_ptr"] and values["dv_ptr"])
        del values["dk_ptr"], values["dv_ptr"]
    if not values["block_table"]:
        del values["page_block_size"]
    for name in "qo" if values["b"] == 1 else ():
        del values[name + "_batch_stride"]
    for name in ("do", "dq", "dk", "dv") if backward and values["cu_seqlens_q"] else ():
        del values[name + "_batch_stride"]
    values["philox_args"] = values["philox_args"][:21]
    return values


def check_packed_decode(values, theirs, q):
    """One query per packed sequence, grouped: ours in place, theirs in a contiguous copy."""
    rows, heads, dim = q.shape
    group = heads // values["h"]
    place = ("_row_stride", "_head_stride")
    assert values["q_ptr"] == q.data_ptr()
    assert [values["q" + each] for each in place] == [q.stride(1), group * q.stride(1)]
    if values["b"] > 1:
        place += ("_batch_stride",)
        assert values["q_batch_stride"] == q.stride(0)
    copied = [values["h"] * dim, dim, heads * dim]
    if values["h"] > 1 and values["b"] > 1: # else reshape() needs no copy
        assert [theirs[each + one] for each in "qo" for one in place] == 2 * copied
    names = ["q_ptr", "o_ptr"] + [each + one for each in "qo" for one in place]
    names += [] if values["block_table"] else ["k_batch_stride", "v_batch_stride"]
    for name in names:
        del values[name], theirs[name]


def compare(sides, function, arguments, draw, q):
    backward = "bwd" in function
    answers = [call(side, function, arguments, draw) for side in sides]
    (ours, our_launches), (theirs, their_launches) = answers
    if draw.dropout and "do not support dropout with pages" in str(ours):
        return "refused"
    if our_launches is None or their_launches is None:
        assert (our_launches, their_launches) == (None, None), (function, ours, theirs)
        return "refused"
    assert [each.shape for each in ours] == [each.shape for each in theirs]
    assert [each.dtype for each in ours] == [each.dtype for each in theirs]
    assert [name for name, _ in our_launches] == [name for name, _ in their_launches]
    if not our_launches:
        for one, other in zip(ours[:2], theirs[:2]):
            assert torch.equal(one, other)
    for (_, mine), (_, other) in zip(our_launches, their_launches):
        mine, other = (comparable(values, results, draw, backward)
                       for values, results in ((mine, ours), (other, theirs)))
        if mine["seqlenq_ngroups_swapped"]:
            check_packed_decode(mine, other, q)
        different = {name: (mine[name], other[name]) for name in other
                     if mine.get(name) != other[name]
                     and not (mine[name] != mine[name] and other[name] != other[name])}
        assert not different and mine.keys() == other.keys(), different
    return our_launches[0][0] if our_launches else "empty"


def dense(draw):
    q = draw.tensor(draw.batch, draw.q_len, draw.heads, draw.dim)
    k = draw.tensor(draw.batch, draw.k_len, draw.kv_heads, draw.dim)
    v = draw.tensor(draw.batch, draw.k_len, draw.kv_heads, draw.dim)
    return q, k, v


def fwd(draw):
    q, k, v = dense(draw)
    softmax = draw.dropout > 0 and draw.random.random() < 0.5
    out = draw.maybe(lambda: draw.tensor(*q.shape))
    return q, [q, k, v, out, draw.maybe(draw.slopes), draw.dropout, *draw.manner(), softmax,
               GENERATOR]


def lengths(draw, longest):
    """(cu_seqlens, rows) of a batch whose sequences have at most `longest` rows."""
    each = [longest if longest <= 1 else draw.random.randint(0, longest)
            for _ in range(draw.batch)]
    sums = [sum(each[:i]) for i in range(draw.batch + 1)]
    return torch.tensor(sums, dtype=torch.int32), sums[-1]


def varlen_fwd(draw):
    cu_q, rows = lengths(draw, draw.q_len)
    cu_k, keys = lengths(draw, draw.k_len)
    q = draw.tensor(rows, draw.heads, draw.dim)
    pages = draw.maybe(lambda: draw.ints(draw.batch, 4))
    shape = (5, 256, draw.kv_heads, draw.dim) if pages is not None else (keys, draw.kv_heads,
                                                                          draw.dim)
    k, v = draw.tensor(*shape), draw.tensor(*shape)
    leftpad = None if pages is not None else draw.maybe(lambda: draw.ints(draw.batch))
    out = draw.maybe(lambda: draw.tensor(*q.shape)) if draw.q_len > 1 else None
    softmax = draw.dropout > 0 and draw.random.random() < 0.5
    return q, [q, k, v, out, cu_q, cu_k, draw.maybe(lambda: draw.ints(draw.batch)), leftpad,
               pages, draw.maybe(draw.slopes), draw.q_len, draw.k_len, draw.dropout, draw.scale,
               draw.random.random() < 0.3, *draw.manner()[1:], softmax, GENERATOR]


def bwd(draw):
    draw.k_len = max(draw.k_len, 1)
    q, k, v = dense(draw)
    out, dout = draw.tensor(*q.shape), draw.tensor(*q.shape)
    lse = torch.zeros(draw.batch, draw.heads, draw.q_len)
    grads = [draw.maybe(lambda: draw.tensor(*each.shape)) for each in (q, k, v)]
    rng_state = torch.zeros(2, dtype=torch.int64)
    return q, [dout, q, k, v, out, lse, *grads, draw.maybe(draw.slopes), draw.dropout,
               *draw.manner(), draw.random.random() < 0.4, GENERATOR, rng_state]


def varlen_bwd(draw):
    draw.k_len = max(draw.k_len, 1)
    cu_q, rows = lengths(draw, draw.q_len)
    cu_k, keys = lengths(draw, draw.k_len)
    q = draw.tensor(rows, draw.heads, draw.dim)
    k, v = (draw.tensor(keys, draw.kv_heads, draw.dim) for _ in "kv")
    out, dout = draw.tensor(*q.shape), draw.tensor(*q.shape)
    lse = torch.zeros(draw.heads, rows)
    grads = [draw.maybe(lambda: draw.tensor(*each.shape)) for each in (q, k, v)]
    return q, [dout, q, k, v, out, lse, *grads, cu_q, cu_k, draw.maybe(draw.slopes), draw.q_len,
               draw.k_len, draw.dropout, draw.scale, draw.random.random() < 0.3,
               *draw.manner()[1:], draw.random.random() < 0.4, GENERATOR,
               torch.zeros(2, dtype=torch.int64)]


def fwd_kvcache(draw):
    if draw.random.random() < 0.1:
        draw.dim -= 3
        draw.heads = draw.kv_heads if draw.q_len == 1 else draw.heads
    draw.k_len = max(draw.k_len, draw.heads // draw.kv_heads)
    pages = draw.maybe(lambda: draw.ints(draw.batch, 3))
    caches = draw.batch + (pages is None and draw.random.random() < 0.3)
    rows = (5, 256) if pages is not None else (caches, draw.k_len)
    shape = (*rows, draw.kv_heads, draw.dim)
    index = draw.ints(draw.batch) if pages is None and caches > draw.batch else None
    q = draw.tensor(draw.batch, draw.q_len, draw.heads, draw.dim)
    kcache, vcache = draw.tensor(*shape), draw.tensor(*shape)
    new = draw.maybe(lambda: draw.random.choice([1, draw.q_len]))
    k = v = cos = sin = None
    seqlens = draw.maybe(lambda: draw.ints(draw.batch))
    if new is not None:
        k = draw.tensor(draw.batch, new, draw.kv_heads, draw.dim)
        v = draw.tensor(draw.batch, new, draw.kv_heads, draw.dim)
        seqlens = draw.ints(draw.batch)
        if draw.dim >= 16 and draw.random.random() < 0.5:
            longest = draw.k_len if pages is None else 3 * 256
            half = draw.random.choice([8, draw.dim // 16 * 8])
            cos = draw.tensor(longest, half, contiguous=True)
            sin = draw.tensor(longest, half, contiguous=True)
    leftpad = draw.maybe(lambda: draw.ints(draw.batch)) if pages is None else None
    splits = draw.random.choice([0, 0, 1, 3, 200])
    if pages is index is leftpad is None and splits == 0:
        seqlens = draw.ints(draw.batch)
    out = draw.maybe(lambda: draw.tensor(*q.shape)) if draw.q_len > 1 else None
    return q, [q, kcache, vcache, k, v, seqlens, cos, sin, index, leftpad, pages,
               draw.maybe(draw.slopes), out, *draw.manner(), draw.random.random() < 0.5, splits]


@pytest.mark.parametrize("make", [fwd, varlen_fwd, bwd, varlen_bwd, fwd_kvcache],
                         ids=lambda make: make.__name__)
def test_the_kernels_get_the_same_parameters(sides, make):
    seen = {}
    for number in range(COUNT):
        seed = f"{SEED} {make.__name__} {number}"
        draw = Draw(seed)
        q, arguments = make(draw)
        try:
            what = compare(sides, make.__name__, arguments, draw, q)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen[what] = seen.get(what, 0) + 1
    print(make.__name__, dict(sorted(seen.items())), file=sys.stderr)
    assert len(seen) >= 20 and seen.get("refused", 0) < COUNT / 3


@pytest.mark.parametrize("q_len, k_len", [(0, 5), (5, 0)])
def test_gradients_without_queries_or_keys_are_zero(sides, q_len, k_len):
    q, k = torch.ones(2, q_len, 4, 64).half(), torch.ones(2, k_len, 2, 64).half()
    lse = torch.zeros(2, 4, q_len)
    results = sides[0].module.bwd(q, q, k, k, q, lse, None, None, None, None, 0.0, 1.0, False,
                                  -1, -1, 0.0, False, None, None)
    assert sides[0].launches() == []
    assert all(not each.any() for each in results)


def grouped_packed(deterministic):
    """Arguments of varlen_bwd(): two sequences of 4 rows, and 3 rows of k that none has."""
    q, k = torch.ones(8, 4, 64).half(), torch.ones(11, 2, 64).half()
    ends, lse = torch.tensor([0, 4, 8], dtype=torch.int32), torch.zeros(4, 8)
    return (q, q, k, k, q, lse, None, None, None, ends, ends, None, 4, 4, 0.0, 0.1, True, False,
            -1, -1, 0.0, deterministic, None, None)


@pytest.mark.parametrize("deterministic", [False, True])
def test_rows_that_no_sequence_has_get_zero_gradients_if_asked_for(sides, deterministic):
    """The kernels here write nothing, and new memory has what others left in it."""
    for side in sides:
        torch.full((1 << 16,), float("nan"))  # freed at once
        results = side.module.varlen_bwd(*grouped_packed(deterministic))
        side.launches()
        assert not any(each.any() for each in results)


@pytest.mark.parametrize("change", ["meta", "bf16"])
def test_a_logsumexp_elsewhere_or_of_another_type_is_refused(sides, change):
    q = torch.zeros(1, 4, 2, 64).half()
    lse = torch.zeros(1, 2, 4, device="meta") if change == "meta" else torch.zeros(1, 2, 4)
    lse = lse if change == "meta" else lse.bfloat16()
    with pytest.raises(RuntimeError, match="softmax_lse must"):
        sides[0].module.bwd(q, q, q, q, q, lse, None, None, None, None, 0.0, 1.0, False, -1, -1,
                            0.0, False, None, None)


@pytest.mark.parametrize("causal", [None, 0, 1, torch.tensor(True)], ids=str)
def test_anything_with_a_truth_may_be_causal(sides, causal):
    q = torch.zeros(1, 4, 2, 64).half()
    for side in sides[:1]:
        side.module.fwd(q, q, q, None, None, 0.0, 0.1, causal, -1, -1, 0.0, False, None)
        (name, _), = side.launches()
        assert name.endswith("causal") == bool(causal)


def test_a_refused_call_draws_no_random_numbers(sides):
    q, generator = torch.zeros(1, 4, 2, 64).half(), Generator(7, 40)
    with pytest.raises(RuntimeError, match="dropout"):
        sides[0].module.fwd(q, q, q, None, None, 1.0, 0.1, False, -1, -1, 0.0, False, generator)
    assert generator.offset == 40
    sides[0].module.fwd(q, q, q, None, None, 0.5, 0.1, False, -1, -1, 0.0, False, generator)
    assert generator.offset == 40 + 2 * 32
    sides[0].launches()
