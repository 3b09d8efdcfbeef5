/*
 * roof.h: measures the roofline of this machine: multiply-adds on registers
 * alone, and a plain read of given memory.
 *
 * The engine and the roofline are measured within the same minute, so that other
 * load, clock changes and throttling affect both alike.
 */
#ifndef AF_BENCH_ROOF_ROOF_H
#define AF_BENCH_ROOF_ROOF_H

#include "engine/base/base.h"

#define AF_ROOF_THREADS_MAX 256

/* Which multiply-add: floats, or bf16 pairs if the machine has the instruction. */
enum af_roof_kind { AF_ROOF_F32, AF_ROOF_BF16 };

/*
 * The instruction set of the loop: "avx512", "avx512bf16", ...; static storage.
 * `features`, here and below: the processor features that the loop may use, as
 * bits of enum af_cpu_feature.
 */
const char *af_roof_name(enum af_roof_kind kind, uint32_t features);

/*
 * Floating-point operations per second (a multiply-add is two) of `threads`
 * threads together, each running for `seconds`. 0 when no thread can be started.
 */
double af_roof_flops(enum af_roof_kind kind, uint32_t features, int threads, double seconds);

/*
 * Bytes per second when `threads` threads together read `count` pieces of memory
 * once, each thread its share of each piece. A plain loop without software
 * prefetch. 0 when no thread can be started.
 */
double af_roof_read(const struct af_span *pieces, size_t count, int threads);

/* The instruction sets of this machine that have a loop, such as "avx2 avx512". */
void af_roof_features(char *text, size_t size_bytes);

#endif
