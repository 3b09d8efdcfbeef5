"""Wheels for AMD GPUs: their ROCm and their targets decide."""
import pytest

LINUX = ("--given", "os=linux", "--given", "arch=x86_64", "--given", "glibc=2.35",
         "--given", "python=3.12")


@pytest.mark.parametrize("gpu", ["RX 7900 XTX", "MI300X", "RX 9070 XT", "RX 6800"])
@pytest.mark.parametrize("rocm", ["7.2", "6.4", "7.14"])
def test_a_wheel_of_rocm_fits_its_targets_and_its_rocm_only(anyflash, gpu, rocm):
    answer = anyflash("plan", *LINUX, "--given", f"torch=2.14.0+rocm{rocm}",
                      "--given", f"gpu={gpu}")
    fits = rocm == "7.2" and gpu != "RX 6800"
    assert answer.out.startswith("A wheel fits: ") == fits
    assert ("%2Brocm7.2torch2.14" in answer.out) == fits # the address, in a step


def test_a_wheel_of_rocm_says_why_it_does_not_fit(anyflash):
    words = ("plan", "-v", *LINUX, "--given", "gpu=RX 6800")
    assert "gfx1030, its code is for gfx90a" in " ".join(anyflash(
        *words, "--given", "torch=2.14.0+rocm7.2").out.split())
    assert "ROCm 7.2, torch has ROCm 6.4" in anyflash(
        *words, "--given", "torch=2.14.0+rocm6.4").out


def test_an_unknown_rocm_is_no_yes(anyflash):
    answer = anyflash("plan", *LINUX, "--given", "torch=2.14.0", "--given", "gpu=MI300X")
    assert not answer.out.startswith("A wheel fits")


@pytest.mark.parametrize("part", ["torch-npu==2.5.1", "torch_musa==1.3.0", "torch-mlu==1.0.0"])
def test_another_maker_gets_no_wheel_of_cuda(anyflash, tmp_path, part):
    """Torch for Ascend, Moore Threads or Cambricon: those GPUs run no code of NVIDIA's."""
    text = tmp_path / "env.txt"
    text.write_text("PyTorch version: 2.5.1\nOS: Ubuntu 22.04 (x86_64)\n"
                    f"Python version: 3.10.16\n[pip3] torch==2.5.1\n[pip3] {part}\n")
    answer = anyflash("plan", "--machine", text)
    assert answer.out.startswith("Use torch's own attention")
    assert "pip install" not in answer.out


@pytest.mark.parametrize("gpu, target", [("MI300X", 1), ("MI355X", 1), ("RX 9070 XT", 0)])
def test_amds_own_kernels_are_named_for_their_gpus(anyflash, gpu, target):
    answer = anyflash("plan", *LINUX, "--given", "torch=2.9.1+rocm6.4", "--given", f"gpu={gpu}")
    assert ("aiter.flash_attn_func" in answer.out) == target
