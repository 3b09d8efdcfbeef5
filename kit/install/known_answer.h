/*
 * known_answer.h: the correct result of known_answer.py's problem, computed by the
 * engine in f32. Private to verify.c.
 */
#ifndef AF_KIT_INSTALL_KNOWN_ANSWER_H
#define AF_KIT_INSTALL_KNOWN_ANSWER_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_KNOWN_ROWS 113
#define AF_KNOWN_HEADS 2
#define AF_KNOWN_KV_HEADS 1

/* All [1, rows, heads, head_dim], f32, in an arena. */
struct af_known_answer {
    int64_t head_dim;
    float *o;
    float *dq;
    float *dk;
    float *dv;
};

enum anyflash_status af_known_answer_make(int64_t head_dim, struct af_arena *arena,
                                          struct af_known_answer *answer_out,
                                          struct anyflash_error *err);

/*
 * The largest difference between `expected` and the bf16 values of `base64`, divided by the
 * largest expected value; false when the text is not base64 of `count` bf16 values. NaN counts
 * as an infinite difference.
 */
bool af_known_answer_distance(const char *base64, const float *expected, size_t count,
                              double *distance_out);

#endif
