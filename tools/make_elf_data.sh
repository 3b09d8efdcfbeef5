#!/bin/sh
# Makes the tiny ELF files that the unit tests use as interpreters, C libraries
# and torch libraries: make_elf_data.sh FOLDER. Needs gcc for x86_64 and for aarch64.
set -eu
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
small="-O1 -fno-asynchronous-unwind-tables -nostdlib -Wl,-z,noseparate-code,-z,max-page-size=64 -Wl,--build-id=none,--hash-style=gnu -s"

shared() { # NAME SOURCE OPTION...
    name=$1; printf "%s\n" "$2" > a.c; shift 2
    # shellcheck disable=SC2086
    gcc -shared -fPIC $small -o "$out/$name" a.c "$@"
}
program() { # NAME SOURCE OPTION...
    name=$1; printf "%s\n" "$2 void _start(void) { for (;;); }" > a.c; shift 2
    # shellcheck disable=SC2086
    gcc -fPIE -pie $small -o "$out/$name" a.c "$@"
}

echo 'GLIBC_2.2.5 { global: tiny_call; }; GLIBC_2.30 {} GLIBC_2.2.5; GLIBC_PRIVATE {} GLIBC_2.30;' > libc.map
shared glibc-2.31 'const char banner[] = "GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\n";' \
    -Wl,-soname,libc.so.6
shared glibc-no-banner 'int tiny_call(void) { return 0; }' -Wl,-soname,libc.so.6,--version-script=libc.map
shared musl-1.2.4 'const char version[] = "1.x\0001.2.4";'
program python-3.13 'const unsigned long Py_Version = 0x030d07f0;' -rdynamic \
    -Wl,-dynamic-linker,/lib64/ld-linux-x86-64.so.2
program python-3.9 'const char version[] = "\0003.9.x\0003.9.18";' -rdynamic \
    -Wl,-dynamic-linker,/lib64/ld-linux-x86-64.so.2
program python-musl 'const unsigned long Py_Version = 0x030f00a2;' -rdynamic \
    -Wl,-dynamic-linker,/lib/ld-musl-x86_64.so.1
check=_ZN3c106detail14torchCheckFailEPKcS2_j
shared libc10-new.so "void ${check}RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(void) {}" \
    -Wl,-soname,libc10.so
shared libc10-old.so "void ${check}RKSs(void) {}" -Wl,-soname,libc10.so
shared libc10-debian.so "void ${check}RKSs(void) {}" -Wl,-soname,libc10.so.2.6
shared cudart.so 'int cudaFree(void) { return 0; }' -Wl,-soname,libcudart.so.12
shared libc10_cuda.so 'int f(void) { return 0; }' -Wl,-soname,libc10_cuda.so,--no-as-needed "$out/cudart.so" \
    "-Wl,--enable-new-dtags,-rpath,\$ORIGIN/../../nvidia/cuda_runtime/lib"
shared libtorch_python.so 'const char list[] = "of sm_90\000xsm_80 sm_90a compute_120\000sm_x sm_80 ";'

# An extension for aarch64, with its relocations for thread-local variables and vector functions.
arm="aarch64-linux-gnu-gcc -shared -fPIC $small"
echo 'LIBV_1 { global: counter; call; numbers; };' > libv.map
echo '__thread int counter; int call(int x) { return x; } const int numbers[4] = {1};' > a.c
# shellcheck disable=SC2086
$arm -o libv.so a.c -Wl,-soname,libv.so.1,--version-script=libv.map
cat > a.c <<'END'
extern __thread int counter;
extern int call(int);
extern int maybe(void) __attribute__((weak));
extern const int numbers[4];
const int *const place = numbers;
__attribute__((aarch64_vector_pcs)) int vector_call(int x) { return x; }
int PyInit_tiny(void) { return call(counter) + (maybe ? maybe() : 0) + vector_call(*place); }
END
# shellcheck disable=SC2086
$arm -o "$out/extension-aarch64.so" a.c libv.so -Wl,-soname,tiny.so
chmod 644 "$out"/*
