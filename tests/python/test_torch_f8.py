"""attend() with torch's fp8 tensors, whose rounding is torch's."""

import pytest

torch = pytest.importorskip("torch")
import anyflash  # noqa: E402

F8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.mark.parametrize("dtype", F8)
@pytest.mark.parametrize("of_q", (torch.float32, torch.float16, torch.bfloat16))
def test_a_cache_takes_rows_as_torch_rounds_them(dtype, of_q):
    torch.manual_seed(0)
    q, k_new, v_new = (torch.randn(2, 9, heads, 64).to(of_q) for heads in (8, 2, 2))
    k, v = (torch.zeros(2, 40, 2, 64).to(dtype) for _ in "kv")
    used = torch.tensor([31, 4], dtype=torch.int32)
    scales = torch.tensor([0.5, 2.0])
    out = anyflash.attend(q, k, v, k_new=k_new, v_new=v_new, seqused_k=used,
                          k_scales=scales, v_scales=scales, causal=True)  # fmt: skip
    for b, start in enumerate(used.tolist()):
        for cache, new in ((k, k_new), (v, v_new)):
            rounded = (new[b].float() / scales[:, None]).to(dtype)
            assert torch.equal(cache[b, start : start + 9].float(), rounded.float())
    wide = [x.float() * scales[:, None] for x in (k, v)]
    expected = anyflash.attend(q.float(), *wide, seqused_k=used + 9, causal=True)
    assert (out.float() - expected).abs().max() < (2e-5 if of_q == torch.float32 else 2e-2)
