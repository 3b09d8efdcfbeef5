/*
 * dating.c: for which torch an extension was built, from what its bytes hold:
 * texts of pybind11, functions that the headers of Python and torch call, the
 * way it counts references of tensors, the torch functions it wants. Rows are in
 * proof_dates.inc; the name only narrows what the bytes leave open.
 */
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"
#include "kit/formats/version.h"
#include "kit/proof/symbol_needs.h"

#define LAST 1000
#define ASSERTIONS_MAX 4096u /* tools/check_data.py holds the table below it */

/* torch 2.10 moved the count of Python references into the tensor's own. */
#define TENSOR_COUNTS_SINCE 10

static af_proof_torch_set all_minors(const struct af_tables *tables)
{
    size_t count = tables->torch_count;
    return count >= AF_PROOF_TORCH_SET_MAX ? ~(af_proof_torch_set)0
                                           : ((af_proof_torch_set)1 << count) - 1;
}

/* Releases 2.from to 2.to. */
static af_proof_torch_set between(const struct af_tables *tables, int from, int to)
{
    af_proof_torch_set set = 0;
    for (size_t i = 0; i < tables->torch_count && i < AF_PROOF_TORCH_SET_MAX; i++) {
        const struct af_catalog_torch_release *row = &tables->torch[i];
        if (row->major_number == 2 && row->minor_number >= from && row->minor_number <= to)
            set |= (af_proof_torch_set)1 << i;
    }
    return set;
}

static bool holds_text(const struct af_binary *binary, const char *one, const char *other)
{
    for (size_t i = 0; i < binary->pybind_internals.count; i++) {
        const char *text = binary->pybind_internals.items[i];
        if (strstr(text, one) != NULL && strstr(text, other) != NULL)
            return true;
    }
    return false;
}

static bool wants_both(const struct af_binary *binary, const char *one, const char *other)
{
    return af_binary_wants(binary, one) && af_binary_wants(binary, other);
}

/* The one function without the other, where all that it wants is known. */
static bool wants_alone(const struct af_binary *binary, const char *name, const char *without)
{
    return binary->is_complete && af_binary_wants(binary, name) &&
           !af_binary_wants(binary, without);
}

/* What the rows of proof_dates.inc leave; those of Python for torch's own binding only. */
static af_proof_torch_set date_by_rows(const struct af_binary *binary,
                                       const struct af_proof_symbol_needs *wants,
                                       const struct af_tables *tables)
{
    af_proof_torch_set set = all_minors(tables);
#define AF_DATE_TEXT(one, other, from, to)                                                     \
    if (wants->torch_python && holds_text(binary, one, other))                                 \
        set &= between(tables, from, to);
#define AF_DATE_WANTS(one, other, from, to)                                                    \
    if (wants->torch_python && wants_both(binary, one, other))                                 \
        set &= between(tables, from, to);
#define AF_DATE_ALONE(name, without, from, to)                                                 \
    if (wants_alone(binary, name, without))                                                    \
        set &= between(tables, from, to);
#include "kit/proof/proof_dates.inc"
#undef AF_DATE_TEXT
#undef AF_DATE_WANTS
#undef AF_DATE_ALONE
    return set;
}

/* Where torch's headers have assertions: bit N of `minors` stands for torch 2.N. */
struct assertion {
    const char *header;
    int line;
    uint32_t minors;
};

struct assertions {
    struct assertion *rows;
    size_t count;
};

/* The rows of data/torch_assertions.tsv; none without memory (the arena has failed). */
static struct assertions read_assertions(struct af_arena *arena)
{
    struct af_embedded_rows rows;
    struct assertions all = {af_arena_array(arena, ASSERTIONS_MAX, sizeof *all.rows), 0};
    if (all.rows == NULL ||
        !af_embedded_rows_open(&af_embedded_torch_assertions, 3, arena, &rows))
        return all;
    while (all.count < ASSERTIONS_MAX && af_embedded_row_next(&rows))
        all.rows[all.count++] =
            (struct assertion){rows.fields[0], (int)strtol(rows.fields[1], NULL, 10),
                               (uint32_t)strtoul(rows.fields[2], NULL, 16)};
    return all;
}

/* Releases with an assertion at "c10/core/TensorImpl.h:1332"; all where that is not known. */
static af_proof_torch_set date_by_assertion(const struct assertions *all, const char *text,
                                            const struct af_tables *tables)
{
    const char *colon = strrchr(text, ':');
    int64_t line = 0;
    uint32_t minors = 0;
    af_proof_torch_set set = 0;
    if (colon == NULL || !af_parse_i64(colon + 1, 1, INT32_MAX, &line))
        return all_minors(tables);
    for (size_t i = 0; i < all->count; i++) {
        const struct assertion *row = &all->rows[i];
        if (row->line == line && strncmp(row->header, text, (size_t)(colon - text)) == 0 &&
            row->header[colon - text] == '\0')
            minors = row->minors;
    }
    for (int minor = 0; minor < 32; minor++) {
        if ((minors >> minor & 1) != 0)
            set |= between(tables, minor, minor);
    }
    return set != 0 ? set : all_minors(tables);
}

static af_proof_torch_set date_by_assertions(const struct af_binary *binary,
                                             const struct af_tables *tables,
                                             struct af_arena *arena)
{
    struct af_arena own; /* for the table */
    af_proof_torch_set set = all_minors(tables);
    if (binary->assertions.count == 0)
        return set;
    af_arena_init(&own);
    const struct assertions all = read_assertions(&own);
    for (size_t i = 0; i < binary->assertions.count; i++)
        set &= date_by_assertion(&all, binary->assertions.items[i], tables);
    arena->failed = arena->failed || own.failed;
    af_arena_release(&own);
    return set;
}

/* The release "2.8" or "2.8.0" of the tables; none for what is not in them. */
static af_proof_torch_set stated_minor(const struct af_tables *tables, const char *stated)
{
    struct af_version version;
    if (stated == NULL || !af_version_parse(stated, strlen(stated), &version) ||
        version.release_count < 2 || version.release[0] != 2 || version.release[1] >= LAST)
        return 0;
    return between(tables, (int)version.release[1], (int)version.release[1]);
}

/* Narrows *set by `by`, unless that contradicts everything. */
static bool narrow(af_proof_torch_set *set, af_proof_torch_set by)
{
    if ((*set & by) == 0)
        return false;
    bool narrowed = (*set & by) != *set;
    *set &= by;
    return narrowed;
}

enum anyflash_status af_dating_make(const struct af_binary *binary,
                                    const struct af_proof_symbol_needs *wants,
                                    const struct af_tables *tables, af_proof_torch_set fitting,
                                    const char *stated, struct af_arena *arena,
                                    struct af_dating *out, struct anyflash_error *err)
{
    af_proof_torch_set set = all_minors(tables);
    af_proof_torch_set named = stated_minor(tables, stated);
    bool by_symbols = narrow(&set, fitting);
    bool by_rows = narrow(&set, date_by_rows(binary, wants, tables));
    bool by_assertions = narrow(&set, date_by_assertions(binary, tables, arena));
    bool by_counts =
        (wants->tensor_counts || (wants->owns_tensors && binary->is_complete)) &&
        narrow(&set, wants->tensor_counts ? between(tables, TENSOR_COUNTS_SINCE, LAST)
                                          : between(tables, 0, TENSOR_COUNTS_SINCE - 1));
    bool lies = named != 0 && (set & named) == 0;
    bool by_name = named != 0 && narrow(&set, named);
    const char *bytes =
        by_symbols || by_rows || by_assertions || by_counts ? "its own bytes" : "";
    *out = (struct af_dating){
        .minors = set,
        .name_lies = lies,
        .source =
            af_arena_format(arena, "%s%s%s", bytes, bytes[0] != '\0' && by_name ? " and " : "",
                            by_name ? "its name" : ""),
    };
    if (out->source != NULL && out->source[0] == '\0')
        out->source = "nothing in it tells";
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
