#!/bin/sh
# Makes the tiny GPU code files that the unit tests and fuzzers read:
# make_gpu_data.sh FOLDER. Needs nvcc 13.0 or newer (in PATH or CUDA_HOME) and
# gcc for x86_64; the committed files are from nvcc 13.0.88.
set -eu
out=$(cd "$1" && pwd)
PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Kernels with the names that FlashAttention 2 gives them, and empty bodies.
cat > flash.cu <<'END'
namespace cutlass { struct half_t; struct bfloat16_t; }
template <int D, int M, int N, int W, typename T> struct Flash_kernel_traits {};
template <int D, int M, int N, int W, bool Q, bool S, typename T,
          typename Base = Flash_kernel_traits<D, M, N, W, T>> struct Flash_fwd_kernel_traits {};
namespace flash {
struct Flash_fwd_params { int b; };
template <typename Traits, bool drop, bool causal, bool local, bool alibi, bool mn, bool k,
          bool cap, bool ret> __global__ void flash_fwd_kernel(const Flash_fwd_params) {}
template __global__ void flash_fwd_kernel<
    Flash_fwd_kernel_traits<HEAD_DIM, 128, 64, 4, false, false, cutlass::TYPE>,
    false, true, false, false, false, true, false, false>(const Flash_fwd_params);
}
END
echo '__device__ int only_data = 3;' > data.cu

fatbin() { # NAME SOURCE OPTION...
    name=$1; source=$2; shift 2
    nvcc -fatbin -o "$out/$name" "$source" "$@"
}
# One container: cubins of both kinds of suffix, PTX packed with zstd; then with LZ4.
fatbin targets.fatbin flash.cu -DHEAD_DIM=128 -DTYPE=bfloat16_t \
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
    -gencode arch=compute_100,code=sm_100f -gencode arch=compute_90,code=compute_90
fatbin lz4.fatbin flash.cu -DHEAD_DIM=64 -DTYPE=half_t --fatbin-options -compress-mode=speed \
    -gencode arch=compute_80,code=\[sm_80,compute_80\]
# Cubin and PTX packed with zstd.
fatbin zstd.fatbin flash.cu -DHEAD_DIM=64 -DTYPE=half_t \
    --fatbin-options -compress-mode=size,--compress-all -gencode arch=compute_86,code=\[sm_86,compute_86\]
fatbin data_only.fatbin data.cu -gencode arch=compute_80,code=sm_80
fatbin lto.fatbin flash.cu -DHEAD_DIM=64 -DTYPE=half_t -rdc=true \
    -gencode arch=compute_80,code=lto_80

# A library of two translation units, and what a device link of nothing adds: an
# empty cubin for nvcc's default SM.
for d in 64 128; do
    nvcc -c -o $d.o flash.cu -DHEAD_DIM=$d -DTYPE=half_t -Xcompiler -fPIC \
        -gencode arch=compute_80,code=sm_80
done
nvcc -dlink -o dlink.o 64.o 128.o -Xcompiler -fPIC
gcc -shared -nostdlib -o linked.so dlink.o 64.o 128.o -Wl,-z,noseparate-code,-z,max-page-size=64
strip -o "$out/linked.so" linked.so
# The same as a relocatable object, for a device link that never comes.
nvcc -c -rdc=true -o rdc.o flash.cu -DHEAD_DIM=64 -DTYPE=half_t -Xcompiler -fPIC \
    -gencode arch=compute_80,code=sm_80
strip --strip-debug -o "$out/rdc.o" rdc.o
chmod 644 "$out"/*
