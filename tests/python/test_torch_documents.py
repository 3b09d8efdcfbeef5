"""docs/reference/providers.md says what the code does: its tables and numbers are compared with
the providers, with this torch and with the schemas of all releases."""

import json
import pathlib

import pytest

from anyflash import providers

torch = pytest.importorskip("torch")
import standins  # noqa: E402
from anyflash.providers import aten, cudnn, efficient, flash, packages  # noqa: E402
from anyflash.providers.call import LSE, OUT, Call  # noqa: E402

HERE = pathlib.Path(__file__).parent
TEXT = (HERE.parents[1] / "docs" / "reference" / "providers.md").read_text()
WORDS = " ".join(TEXT.split())
NAMES = [name for name, _ in providers.PROVIDERS]


def rows(first):
    """The rows of the table whose first column has this name, as lists of cells."""
    lines = iter(TEXT.splitlines())
    while not next(lines).startswith(f"| {first} |"):
        pass
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            return found
        found.append([cell.strip() for cell in line.strip("|").split("|")])


def release(text):
    return tuple(int(part) for part in text.split(".")[:2])


def named(dtypes):
    short = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
    return ", ".join(short[x] for x in dtypes)


def devices(name, monkeypatch):
    """What the table should say about the devices of a provider."""
    if name in providers._OF_DEVICE[None]:
        return "every device"
    found = []
    if name in providers.names_of("cuda"):
        q = torch.zeros(1, 256, 2, 64, dtype=torch.float16)
        call = Call(q, q, q, 0.0, None, True, (-1, -1), 0.0, None, False, OUT)
        monkeypatch.setattr(packages, "DEVICES", ("cuda", "cpu"))
        with standins.torchs_kernels(monkeypatch, rocm="7.0"):
            declined = providers.load(name).declines(call) == "is not available under ROCm"
        found = ["CUDA"] if declined else ["CUDA", "ROCm"]
    found += ["Intel GPUs"] if name in providers.names_of("xpu") else []
    found += ["CPU"] if name in providers.names_of("cpu") else []
    return ", ".join(found)


def test_every_provider_is_there_in_order_with_its_devices(monkeypatch):
    found = [(row[0], row[2]) for row in rows("name")]
    assert found == [(f"`{name}`", devices(name, monkeypatch)) for name in NAMES]


def test_the_limits_are_those_of_the_code():
    wanted = []
    for name in NAMES:
        provider = providers.load(name)
        limits = getattr(provider, "limits", getattr(provider, "LIMITS", None))
        if limits is None:
            continue
        gpus = "any"
        if limits.capability is not None:
            low, high = (".".join(map(str, end)) for end in limits.capability)
            high = "12.1" if name == "torch_flash" else high  # the newest torch's
            gpus = low if low == high else f"{low} to {high}"
        lacks = "; ".join(x if isinstance(x, str) else " with ".join(x) for x in limits.lacks)
        size = str(limits.size or "any")
        wanted.append([f"`{name}`", named(limits.types), size, gpus, lacks])
    assert rows("provider") == wanted


#: What the rows of the table of torch's releases say, as the code decides it for this torch.
SINCE = {
    "`torch_flash` up to compute capability 9.0; `torch_efficient`":
        lambda: aten.missing("flash") is None and aten.missing("efficient") is None
        and flash.LIMITS.capability[1] >= (9, 0),
    "`torch_cudnn`": lambda: aten.missing("cudnn") is None,
    "`torch_flash` up to compute capability 12.1":
        lambda: flash.LIMITS.capability[1] == (12, 1),
    f"`torch_flash` reads pages where they are, if their size is a multiple of "
    f"{flash._PAGE_ROWS} rows; before, they are gathered": lambda: aten.TAKES_PAGES,
    "`torch_efficient` has a gradient in compiled graphs":
        lambda: aten.TRACED_EFFICIENT_GRADIENT,
    "`torch_cudnn` takes packed sequences":
        lambda: aten.PACKED_CUDNN and aten.missing("cudnn packed") is None,
    "`torch_efficient` takes fewer key heads than query heads; before, they are copied or "
    "folded": lambda: aten.EFFICIENT_GROUPS,
}  # fmt: skip


def test_what_a_release_of_torch_brings_is_there_from_that_release_on():
    documented = {row[1]: release(row[0]) for row in rows("torch")}
    assert list(documented) == list(SINCE)
    ours = release(torch.__version__)
    for text, since in documented.items():
        assert bool(SINCE[text]()) == (ours >= since), text


def first_release(operator, holds):
    """The first release whose schema of the operator satisfies holds(schema)."""
    read = json.loads((HERE / "data" / "torch_schemas.json").read_text())
    return min(
        release(text)
        for row in read["schemas"]
        if row["operator"] == operator and holds(torch._C.parse_schema(row["schema"]))
        for text in row["releases"]
    )


def test_the_releases_are_those_whose_schemas_say_so():
    def has(name):
        return lambda schema: any(argument.name == name for argument in schema.arguments)

    def is_known(schema):
        return aten.differs(schema, aten._KNOWN[schema.name.partition("::")[2]]) is None

    documented = list(rows("torch"))
    dense = "_scaled_dot_product_cudnn_attention"
    for text, operator, holds in (
        ("`torch_cudnn`", dense, is_known),
        ("`torch_cudnn`", f"{dense}_backward", is_known),
        ("12.1", "_flash_attention_forward", lambda x: x.returns[2].name == "rng_state"),
        ("pages", "_flash_attention_forward", has("block_table")),
        ("packed sequences", "_cudnn_attention_forward", has("seqused_k")),
    ):
        (row,) = [row for row in documented if row[1].endswith(text) or f" {text} " in row[1]]
        assert release(row[0]) == first_release(operator, holds), row
    oldest, newest = aten.SCHEMAS[0][0], aten.SCHEMAS[-1][1]
    assert f"(those of torch {oldest} to {newest})" in WORDS


#: What a provider without a table of limits declines, in the words of the text.
DECLINED = {
    "the logsumexp": {"want": LSE},
    "softcap": {"softcap": 2.0},
    "sinks": {"sinks": torch.ones(2)},
    "empty tensors": {"q": torch.zeros(1, 0, 2, 64)},
    "ALiBi in f16 and bf16": {"alibi_slopes": torch.ones(2), "dtype": torch.float16},
    "gradients through pages": {
        "q": torch.zeros(1, 4, 2, 64, requires_grad=True),
        "block_table": torch.zeros(1, 1, dtype=torch.int32),
    },
    "": {"dtype": torch.float64},
}


@pytest.mark.parametrize("name", ("engine", "sdpa", "plain"))
def test_what_the_providers_of_every_device_decline(name):
    found = []
    for words, changes in DECLINED.items():
        q = torch.zeros(1, 4, 2, 64, dtype=changes.get("dtype", torch.float32))
        call = Call(q, q, q, 0.0, None, True, (-1, -1), 0.0, None, False, OUT)
        changes = {key: value for key, value in changes.items() if key != "dtype"}
        if providers.load(name).declines(call.but(**changes)) is not None:
            found.append(words)
    says = {
        "engine": ["gradients through pages", ""],  # "": float64
        "sdpa": list(DECLINED)[:5],
        "plain": [],
    }
    assert found == says[name]
    assert "`engine` takes f32, f16 and bf16, and declines gradients through pages," in WORDS
    *most, last = says["sdpa"]
    assert f"`sdpa` declines {', '.join(most)}, and {last}; `plain` declines nothing." in WORDS


def test_the_numbers_in_the_text_are_those_of_the_code():
    text = cudnn._text
    assert efficient.MOST_BIAS == 2**26 and "at most 2^26 scores" in WORDS
    assert f"needs cuDNN {text(cudnn._OLDEST)}, for packed sequences of up to 128 queries " \
        f"{text(cudnn._OLDEST_SHORT)}, for some gradients {text(cudnn._FINITE)}" in WORDS
    assert packages.SECONDS == 180 and "for three minutes at most" in WORDS
    more = set(flash.ROCM_LIMITS.lacks) - set(flash.LIMITS.lacks)
    assert more == {"ALiBi"} and "Under ROCm it has no ALiBi" in WORDS
