/*
 * merge.c: anyflash_merge(): merges partial results over disjoint sets of keys.
 * Rows are merged one after another, each element read from all parts before it
 * is written, so that o and lse may be those of part 0.
 */
#include <math.h>

#include "engine/attn/layout.h"

#define CHUNK 64 /* columns summed at a time */

static double larger_or_nan(double a, double b)
{
    return isnan(a) || a >= b ? a : b;
}

/* The merged lse of `row`; -infinity when no part has a key. */
static double merged_lse(const float *const *part_lses, int64_t count, int64_t row)
{
    double max = -INFINITY, sum = 0;
    for (int64_t n = 0; n < count; n++)
        max = larger_or_nan(max, (double)part_lses[n][row]);
    if (max == -INFINITY)
        return max;
    for (int64_t n = 0; n < count; n++)
        sum += exp((double)part_lses[n][row] - max);
    return max + log(sum);
}

/* Sums columns [begin, end) of one row in double. Parts without a key are skipped. */
static void merge_columns(const float *const *parts, const float *const *part_lses,
                          int64_t count, int64_t row, int64_t value_dim, int64_t begin,
                          int64_t end, double lse, float *o)
{
    double sum[CHUNK] = {0};
    for (int64_t n = 0; n < count; n++) {
        double part_lse = (double)part_lses[n][row];
        if (part_lse == -INFINITY)
            continue;
        double weight = exp(part_lse - lse);
        for (int64_t d = begin; d < end; d++)
            sum[d - begin] += weight * (double)parts[n][row * value_dim + d];
    }
    for (int64_t d = begin; d < end; d++)
        o[row * value_dim + d] = (float)sum[d - begin];
}

/* An array of [rows, columns] floats as a box. */
static enum anyflash_status make_box(struct af_box *box, const char *name, const float *data,
                                     int64_t rows, int64_t columns, struct anyflash_error *err)
{
    const int64_t extent[AF_BOX_DIMS] = {1, 1, rows};
    const int64_t stride[AF_BOX_DIMS] = {0, 0, columns};
    if (data == NULL && rows > 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is NULL; it is needed", name);
    if ((uintptr_t)data % sizeof *data != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "%s is at address 0x%llx; it must be aligned to 4 bytes", name,
                       (unsigned long long)(uintptr_t)data);
    if (af_box_init(box, name, data, sizeof *data, extent, stride, columns) != AF_BOX_DIMS)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "rows is %lld; with that many %s leaves the address space",
                       (long long)rows, name);
    return ANYFLASH_OK;
}

/* A part must not overlap the outputs, except that part 0 may be exactly the output. */
static enum anyflash_status check_part(const struct af_box written[2], const float *part,
                                       const float *part_lse, int64_t n, int64_t rows,
                                       int64_t value_dim, struct anyflash_error *err)
{
    struct af_box boxes[2];
    enum anyflash_status status = make_box(&boxes[0], "a part", part, rows, value_dim, err);
    if (status == ANYFLASH_OK)
        status = make_box(&boxes[1], "a part's lse", part_lse, rows, 1, err);
    for (int w = 0; status == ANYFLASH_OK && w < 2; w++) {
        for (int p = 0; p < 2; p++) {
            bool same = n == 0 && w == p && boxes[p].low == written[w].low;
            if (!same && af_box_meets(&boxes[p], &written[w]))
                return af_fail(
                    err, ANYFLASH_E_ARGUMENT,
                    "%s at 0x%llx overlaps %s of part %lld; an output must not overlap a part",
                    written[w].name, (unsigned long long)written[w].low, p == 0 ? "o" : "lse",
                    (long long)n);
        }
    }
    return status;
}

static enum anyflash_status check_merge(const float *const *parts,
                                        const float *const *part_lses, int64_t count,
                                        int64_t rows, int64_t value_dim, const float *o,
                                        const float *lse, struct anyflash_error *err)
{
    struct af_box written[2];
    if (count < 1 || rows < 0 || value_dim < 1 || value_dim > INT32_MAX)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "count is %lld, rows %lld, value_dim %lld; they must be at least 1, 0 "
                       "and 1",
                       (long long)count, (long long)rows, (long long)value_dim);
    if (parts == NULL || part_lses == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is NULL; it is needed",
                       parts == NULL ? "parts" : "part_lses");
    enum anyflash_status status = make_box(&written[0], "o", o, rows, value_dim, err);
    if (status == ANYFLASH_OK)
        status = make_box(&written[1], "lse", lse, rows, 1, err);
    if (status == ANYFLASH_OK && af_box_meets(&written[0], &written[1]))
        status =
            af_fail(err, ANYFLASH_E_ARGUMENT, "o at 0x%llx overlaps lse at 0x%llx",
                    (unsigned long long)written[0].low, (unsigned long long)written[1].low);
    for (int64_t n = 0; status == ANYFLASH_OK && n < count; n++)
        status = check_part(written, parts[n], part_lses[n], n, rows, value_dim, err);
    return status;
}

enum anyflash_status anyflash_merge(const float *const *parts, const float *const *part_lses,
                                    int64_t count, int64_t rows, int64_t value_dim, float *o,
                                    float *lse, struct anyflash_error *err)
{
    enum anyflash_status status =
        check_merge(parts, part_lses, count, rows, value_dim, o, lse, err);
    if (status != ANYFLASH_OK)
        return status;
    for (int64_t row = 0; row < rows; row++) {
        double merged = merged_lse(part_lses, count, row);
        for (int64_t d = 0; d < value_dim; d += CHUNK)
            merge_columns(parts, part_lses, count, row, value_dim, d,
                          d + CHUNK < value_dim ? d + CHUNK : value_dim, merged, o);
        lse[row] = (float)merged;
    }
    return ANYFLASH_OK;
}
