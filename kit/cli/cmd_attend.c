/*
 * cmd_attend.c: `anyflash attend Q K V -o O`: attention over files. Opens the
 * tensors, checks that their shapes agree, calls the engine, and writes o (and
 * lse).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit/base/json.h"
#include "kit/cli/commands.h"
#include "kit/formats/npy.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define ROLES 3
#define SHOWN_BYTES 160
#define THREADS_MAX 1024

/* A mapped .npy file. */
struct input {
    const char *shown; /* the file's name for errors, scrubbed */
    struct af_mapping mapping;
    void *copy; /* an aligned copy of the numbers if the file's are unaligned */
    struct af_npy_array array;
};

/* One run: inputs q, k, v, the problem, and what is written. */
struct attend {
    struct input inputs[ROLES];
    bool is_bhsd;
    struct anyflash_attend_args args;
    int32_t threads;
    struct af_npy_array o;
    struct af_npy_array lse;
    void *o_memory;
    float *lse_memory;
    double took_ms;
};

static const char *const role_names[ROLES] = {"q", "k", "v"};

static const char *value_of(const struct af_cli *cli, enum af_option_id id)
{
    return cli->options.values[id];
}

/* A finite number above 0; the variable keeps its value if the option was not given. */
static enum anyflash_status read_float(const struct af_cli *cli, enum af_option_id id,
                                       float *number_out, struct anyflash_error *err)
{
    const char *text = value_of(cli, id);
    char *end = NULL;
    if (text == NULL)
        return ANYFLASH_OK;
    float number = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || number <= 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--%s takes a number above 0",
                       af_option_rows[id].name);
    *number_out = number;
    return ANYFLASH_OK;
}

/* --threads: 1 to 1024, or 0 (all usable cores) if it was not given. */
static enum anyflash_status read_threads(const struct af_cli *cli, int32_t *threads_out,
                                         struct anyflash_error *err)
{
    const char *text = value_of(cli, AF_OPTION_THREADS);
    int64_t threads = 0;
    if (text != NULL && !af_parse_i64(text, 1, THREADS_MAX, &threads))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--threads takes a number from 1 to %d",
                       THREADS_MAX);
    *threads_out = (int32_t)threads;
    return ANYFLASH_OK;
}

/* --dtype: which 16-bit type the numbers have if the file does not say. */
static enum anyflash_status read_raw(const struct af_cli *cli, enum af_npy_element *raw_out,
                                     struct anyflash_error *err)
{
    const char *dtype = value_of(cli, AF_OPTION_DTYPE);
    *raw_out = af_equal(dtype, "bf16")  ? AF_NPY_BF16
               : af_equal(dtype, "f16") ? AF_NPY_F16
                                        : AF_NPY_RAW16;
    if (dtype != NULL && *raw_out == AF_NPY_RAW16)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--dtype takes bf16 or f16");
    return ANYFLASH_OK;
}

/* The engine needs numbers aligned to their size; the file format does not guarantee it. */
static enum anyflash_status align(struct input *input, struct anyflash_error *err)
{
    struct af_npy_array *array = &input->array;
    if ((uintptr_t)array->data % af_npy_element_bytes(array->element) == 0 || array->len == 0)
        return ANYFLASH_OK;
    input->copy = af_mem_alloc(array->len);
    if (input->copy == NULL)
        return af_fail_memory(err);
    memcpy(input->copy, array->data, array->len);
    array->data = input->copy;
    return ANYFLASH_OK;
}

static enum anyflash_status open_input(struct af_cli *cli, const char *path,
                                       enum af_npy_element raw, struct input *input,
                                       struct anyflash_error *err)
{
    input->shown = af_text_scrub(&cli->arena, path, SHOWN_BYTES);
    if (input->shown == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_file_map(path, &input->mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span bytes = {(const char *)input->mapping.data, input->mapping.len};
    status = af_npy_read(bytes, input->shown, &input->array, err);
    if (status != ANYFLASH_OK)
        return status;
    if (input->array.element == AF_NPY_RAW16)
        input->array.element = raw;
    if (input->array.element == AF_NPY_RAW16) {
        cli->hint = "add `--dtype bf16` or `--dtype f16`";
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' holds 2-byte numbers of unknown type",
                       input->shown);
    }
    return align(input, err);
}

static void release_input(struct input *input)
{
    af_mem_free(input->copy);
    af_file_unmap(&input->mapping);
}

static enum anyflash_status open_inputs(struct af_cli *cli, struct attend *attend,
                                        struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    enum af_npy_element raw = AF_NPY_RAW16;
    enum anyflash_status status = read_raw(cli, &raw, err);
    if (status == ANYFLASH_OK && words->count != ROLES) {
        cli->hint = "`anyflash attend q.npy k.npy v.npy -o o.npy`";
        status = af_fail(err, ANYFLASH_E_ARGUMENT, "'attend' takes three files, not %zu",
                         words->count);
    }
    for (size_t i = 0; i < ROLES && status == ANYFLASH_OK; i++)
        status = open_input(cli, words->items[i], raw, &attend->inputs[i], err);
    return status;
}

/* Dimension `from_last`, counted from the end; a missing batch dimension counts as 1. */
static int64_t dim(const struct attend *attend, size_t role, size_t from_last)
{
    const struct af_npy_array *array = &attend->inputs[role].array;
    return from_last <= array->dim_count ? array->dims[array->dim_count - from_last] : 1;
}

static int64_t heads_of(const struct attend *attend, size_t role)
{
    return dim(attend, role, attend->is_bhsd ? 3 : 2);
}

static int64_t rows_of(const struct attend *attend, size_t role)
{
    return dim(attend, role, attend->is_bhsd ? 2 : 3);
}

/* "[2, 512, 16, 64] f32", for errors and for the result. */
static const char *describe(struct af_arena *arena, const struct af_npy_array *array)
{
    struct af_text text = {0};
    for (size_t i = 0; i < array->dim_count; i++)
        af_text_format(&text, "%s%lld", i > 0 ? ", " : "", (long long)array->dims[i]);
    const char *shape = af_arena_format(arena, "[%s] %s", af_text_get(&text),
                                        af_npy_element_text(array->element));
    arena->failed = arena->failed || text.failed;
    af_text_release(&text);
    return shape != NULL ? shape : "";
}

static enum anyflash_status disagree(struct af_cli *cli, const struct attend *attend,
                                     const char *what, size_t a, size_t b,
                                     struct anyflash_error *err)
{
    cli->hint = "--layout bhsd or bshd says how the dimensions are ordered (default: bshd)";
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s and %s differ in %s: %s and %s", role_names[a],
                   role_names[b], what, describe(&cli->arena, &attend->inputs[a].array),
                   describe(&cli->arena, &attend->inputs[b].array));
}

static enum anyflash_status check_shapes(struct af_cli *cli, const struct attend *attend,
                                         struct anyflash_error *err)
{
    for (size_t role = 0; role < ROLES; role++) {
        const struct af_npy_array *array = &attend->inputs[role].array;
        if (array->dim_count != 3 && array->dim_count != 4)
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "%s has %zu dimensions; 4 are needed, or 3 without the batch",
                           role_names[role], array->dim_count);
        if (array->dim_count != attend->inputs[0].array.dim_count)
            return disagree(cli, attend, "the number of dimensions", 0, role, err);
        if (array->element != attend->inputs[0].array.element)
            return disagree(cli, attend, "the type of their numbers", 0, role, err);
        if (dim(attend, role, 4) != dim(attend, 0, 4))
            return disagree(cli, attend, "the batch", 0, role, err);
    }
    if (dim(attend, 0, 1) != dim(attend, 1, 1))
        return disagree(cli, attend, "the head size", 0, 1, err);
    if (heads_of(attend, 1) != heads_of(attend, 2))
        return disagree(cli, attend, "the heads", 1, 2, err);
    if (rows_of(attend, 1) != rows_of(attend, 2))
        return disagree(cli, attend, "the length", 1, 2, err);
    return ANYFLASH_OK;
}

static enum anyflash_status read_mask(struct af_cli *cli, struct anyflash_attend_args *args,
                                      struct anyflash_error *err)
{
    const char *align = value_of(cli, AF_OPTION_ALIGN);
    const char *window = value_of(cli, AF_OPTION_WINDOW);
    args->causal = af_option_given(&cli->options, AF_OPTION_CAUSAL);
    if (af_equal(align, "top-left"))
        args->align = ANYFLASH_ALIGN_TOP_LEFT;
    else if (align != NULL && !af_equal(align, "bottom-right"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--align takes top-left or bottom-right");
    if (window == NULL)
        return ANYFLASH_OK;
    const char *comma = strchr(window, ',');
    const char *left =
        comma != NULL ? af_arena_text_n(&cli->arena, window, (size_t)(comma - window)) : NULL;
    if (left == NULL || !af_parse_i64(left, -1, INT32_MAX, &args->window_left) ||
        !af_parse_i64(comma + 1, -1, INT32_MAX, &args->window_right))
        return cli->arena.failed
                   ? af_fail_memory(err)
                   : af_fail(err, ANYFLASH_E_ARGUMENT,
                             "--window takes LEFT,RIGHT, for example 128,0; -1 means no limit");
    return ANYFLASH_OK;
}

static enum anyflash_status read_options(struct af_cli *cli, struct attend *attend,
                                         struct anyflash_error *err)
{
    const char *layout = value_of(cli, AF_OPTION_LAYOUT);
    attend->is_bhsd = af_equal(layout, "bhsd");
    if (layout != NULL && !attend->is_bhsd && !af_equal(layout, "bshd"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--layout takes bshd or bhsd");
    if (!af_option_given(&cli->options, AF_OPTION_OUTPUT)) {
        cli->hint = "add `-o FILE.npy`";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'attend' needs an output file");
    }
    enum anyflash_status status = read_mask(cli, &attend->args, err);
    if (status == ANYFLASH_OK)
        status = read_float(cli, AF_OPTION_SCALE, &attend->args.scale, err);
    if (status == ANYFLASH_OK)
        status = read_float(cli, AF_OPTION_SOFTCAP, &attend->args.softcap, err);
    if (status == ANYFLASH_OK)
        status = read_threads(cli, &attend->threads, err);
    return status;
}

static int32_t dtype_of(enum af_npy_element element)
{
    return element == AF_NPY_F32   ? ANYFLASH_F32
           : element == AF_NPY_F16 ? ANYFLASH_F16
                                   : ANYFLASH_BF16;
}

static struct anyflash_tensor view(const struct attend *attend, size_t role, void *data,
                                   int64_t last)
{
    int32_t dtype = dtype_of(attend->inputs[0].array.element);
    int64_t heads = heads_of(attend, role), rows = rows_of(attend, role);
    return attend->is_bhsd ? anyflash_bhsd(data, dtype, heads, rows, last)
                           : anyflash_bshd(data, dtype, heads, rows, last);
}

/* The engine never writes through q, k and v. */
static void *input_data(const struct attend *attend, size_t role)
{
    return (void *)(uintptr_t)attend->inputs[role].array.data;
}

static void fill_args(struct attend *attend)
{
    struct anyflash_attend_args *args = &attend->args;
    args->batch = dim(attend, 0, 4);
    args->heads = heads_of(attend, 0);
    args->kv_heads = heads_of(attend, 1);
    args->q_len = rows_of(attend, 0);
    args->k_len = rows_of(attend, 1);
    args->head_dim = dim(attend, 0, 1);
    args->value_dim = dim(attend, 2, 1);
    args->q = view(attend, 0, input_data(attend, 0), args->head_dim);
    args->k = view(attend, 1, input_data(attend, 1), args->head_dim);
    args->v = view(attend, 2, input_data(attend, 2), args->value_dim);
    args->o = view(attend, 0, attend->o_memory, args->value_dim);
    args->lse = attend->lse_memory;
    args->lse_head_stride = args->q_len;
    args->lse_batch_stride = args->heads * args->q_len;
}

/* Allocates o, with q's shape and v's head size, and lse: [B, H, Sq] or [H, Sq]. */
static enum anyflash_status make_outputs(struct af_cli *cli, struct attend *attend,
                                         struct anyflash_error *err)
{
    const struct af_npy_array *q = &attend->inputs[0].array;
    const int64_t lse_dims[] = {dim(attend, 0, 4), heads_of(attend, 0), rows_of(attend, 0)};
    size_t left_out = q->dim_count == 4 ? 0 : 1; /* 1: q, k and v have no batch dimension */
    attend->o = *q;
    attend->o.dims[3 - left_out] = dim(attend, 2, 1);
    attend->lse = (struct af_npy_array){.element = AF_NPY_F32, .dim_count = 3 - left_out};
    memcpy(attend->lse.dims, lse_dims + left_out, attend->lse.dim_count * sizeof lse_dims[0]);
    if (!af_npy_array_bytes(&attend->o, &attend->o.len) ||
        !af_npy_array_bytes(&attend->lse, &attend->lse.len))
        return af_fail(err, ANYFLASH_E_LIMIT, "the output would be too large");
    attend->o_memory = af_mem_alloc(attend->o.len + 1);
    attend->o.data = attend->o_memory;
    if (af_option_given(&cli->options, AF_OPTION_LSE)) {
        attend->lse_memory = af_mem_alloc(attend->lse.len + 1);
        attend->lse.data = (const unsigned char *)attend->lse_memory;
        if (attend->lse_memory == NULL)
            return af_fail_memory(err);
    }
    return attend->o_memory != NULL ? ANYFLASH_OK : af_fail_memory(err);
}

static enum anyflash_status compute(struct attend *attend, struct anyflash_error *err)
{
    struct anyflash_context *context = NULL;
    struct anyflash_context_args context_args = {.struct_size = sizeof context_args,
                                                 .threads = attend->threads};
    struct timespec start, end;
    enum anyflash_status status = anyflash_context_new(&context_args, &context, err);
    if (status != ANYFLASH_OK)
        return status;
    clock_gettime(CLOCK_MONOTONIC, &start);
    status = anyflash_attend(context, &attend->args, err);
    clock_gettime(CLOCK_MONOTONIC, &end);
    anyflash_context_free(context);
    attend->took_ms = (double)(end.tv_sec - start.tv_sec) * 1e3 +
                      (double)(end.tv_nsec - start.tv_nsec) * 1e-6;
    return status;
}

static enum anyflash_status write_array(struct af_arena *arena, const char *path,
                                        const struct af_npy_array *array,
                                        struct anyflash_error *err)
{
    char head[AF_NPY_WRITTEN_BYTES_MAX];
    const struct af_span pieces[] = {
        {head, af_npy_head(array, head)},
        {(const char *)array->data, array->len},
    };
    return af_file_write(arena, path, pieces, AF_COUNT(pieces), err);
}

static enum anyflash_status write_outputs(struct af_cli *cli, const struct attend *attend,
                                          struct anyflash_error *err)
{
    enum anyflash_status status =
        write_array(&cli->arena, value_of(cli, AF_OPTION_OUTPUT), &attend->o, err);
    if (status == ANYFLASH_OK && attend->lse_memory != NULL)
        status = write_array(&cli->arena, value_of(cli, AF_OPTION_LSE), &attend->lse, err);
    return status;
}

static json_t *json_file(struct af_cli *cli, enum af_option_id id,
                         const struct af_npy_array *array)
{
    json_t *shape = json_array();
    if (!af_option_given(&cli->options, id))
        return json_null();
    for (size_t i = 0; i < array->dim_count; i++)
        shape = af_json_append(shape, json_integer(array->dims[i]));
    return json_pack("{s:s, s:s, s:o}", "file",
                     af_text_scrub(&cli->arena, value_of(cli, id), 4096), "dtype",
                     af_npy_element_text(array->element), "shape", shape);
}

static enum anyflash_status answer(struct af_cli *cli, const struct attend *attend,
                                   struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(cli,
                                json_pack("{s:s, s:o, s:o, s:f}", "schema", "anyflash-attend/1",
                                          "o", json_file(cli, AF_OPTION_OUTPUT, &attend->o),
                                          "lse", json_file(cli, AF_OPTION_LSE, &attend->lse),
                                          "milliseconds", attend->took_ms),
                                err);
    if (!af_option_given(&cli->options, AF_OPTION_QUIET))
        af_text_format(&cli->out, "%s: %s, computed in %.3g ms\n",
                       af_text_scrub(&cli->arena, value_of(cli, AF_OPTION_OUTPUT), 200),
                       describe(&cli->arena, &attend->o), attend->took_ms);
    return af_cli_finish(cli, err);
}

static void release(struct attend *attend)
{
    for (size_t i = 0; i < ROLES; i++)
        release_input(&attend->inputs[i]);
    af_mem_free(attend->o_memory);
    af_mem_free(attend->lse_memory);
}

enum anyflash_status af_cmd_attend(struct af_cli *cli, enum af_exit *exit_out,
                                   struct anyflash_error *err)
{
    (void)exit_out;
    struct attend attend = {.args = anyflash_attend_args_init()};
    enum anyflash_status status = read_options(cli, &attend, err);
    if (status == ANYFLASH_OK)
        status = open_inputs(cli, &attend, err);
    if (status == ANYFLASH_OK)
        status = check_shapes(cli, &attend, err);
    if (status == ANYFLASH_OK)
        status = make_outputs(cli, &attend, err);
    if (status == ANYFLASH_OK) {
        fill_args(&attend);
        status = compute(&attend, err);
    }
    if (status == ANYFLASH_OK)
        status = write_outputs(cli, &attend, err);
    if (status == ANYFLASH_OK)
        status = answer(cli, &attend, err);
    release(&attend);
    return status;
}
