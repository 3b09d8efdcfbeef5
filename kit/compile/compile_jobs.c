/*
 * compile_jobs.c: the compiler calls of a build, and what they compile: one for each unit of
 * flash-attn's kernels, and one for each file of our glue, which makes a library of them that
 * needs neither torch nor Python (engine/cuda).
 *
 * flash-attn's kernels include two headers of torch, for a struct and two macros; ours
 * stand in for them and are found first. The flags are those of its setup.py.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/compile/build_steps.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define SOURCE_BYTES_MAX (4u * 1024u * 1024u)
#define TAIL_BYTES (UINT64_C(1) << 30) /* after cicc's front end; measured up to 0.7 GiB */
#define WORDS_MAX 64
#define VALUE_BYTES 16
#define PROPERTIES 3

static const char *const nvcc_flags[] = {"-O3",
                                         "-std=c++17",
                                         "-U__CUDA_NO_HALF_OPERATORS__",
                                         "-U__CUDA_NO_HALF_CONVERSIONS__",
                                         "-U__CUDA_NO_HALF2_OPERATORS__",
                                         "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
                                         "--expt-relaxed-constexpr",
                                         "--expt-extended-lambda",
                                         "--use_fast_math",
                                         "-Xcompiler",
                                         "-fPIC,-fvisibility=hidden"};
static const char *const host_flags[] = {"-O2", "-std=c++17", "-fPIC", "-fvisibility=hidden"};

const char *af_build_flags(struct af_arena *arena)
{
    const char *text = "";
    for (size_t i = 0; i < AF_COUNT(nvcc_flags) && text != NULL; i++)
        text = af_arena_format(arena, "%s %s", text, nvcc_flags[i]);
    for (size_t i = 0; i < AF_COUNT(host_flags) && text != NULL; i++)
        text = af_arena_format(arena, "%s %s", text, host_flags[i]);
    return text;
}

/* A command that is being made. */
struct command {
    struct af_arena *arena;
    const char *words[WORDS_MAX];
    size_t count;
};

static void add(struct command *command, const char *word)
{
    if (command->count + 1 < WORDS_MAX)
        command->words[command->count++] = word;
}

static void add_all(struct command *command, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add(command, words[i]);
}

static void add_macros(struct command *command, const struct af_selection *selection)
{
    const char *macros[AF_SELECTION_MACROS_MAX + 1];
    af_selection_macros(selection, macros);
    for (size_t i = 0; macros[i] != NULL; i++)
        add(command, macros[i]);
}

/* What flash-attn's files and ours include; the first folder with a name wins. */
static void add_includes(struct command *command, const struct af_build_place *place)
{
    const char *const folders[][2] = {{place->glue, "torch"},
                                      {place->folder, "generated"},
                                      {place->sources, "csrc/flash_attn/src"},
                                      {place->sources, "csrc/flash_attn"},
                                      {place->sources, "csrc/cutlass/include"},
                                      {place->glue, "include"}};
    for (size_t i = 0; i < AF_COUNT(folders); i++)
        add(command, af_arena_format(command->arena, "-I%s/%s", folders[i][0], folders[i][1]));
}

static void add_targets(struct command *command, const struct af_selection *selection)
{
    for (size_t i = 0; i < selection->arch_count; i++) {
        int target = af_selection_target(selection->archs[i]);
        add(command, "-gencode");
        add(command,
            af_arena_format(command->arena, "arch=compute_%d,code=sm_%d", target, target));
    }
}

/* The command that compiles `source`; NULL without memory. */
static const char *const *command_of(const struct af_build *build,
                                     const struct af_build_place *place, const char *source,
                                     const char *object)
{
    struct command command = {.arena = build->arena};
    bool cuda = af_ends_with(source, ".cu");
    if (cuda) {
        add(&command, place->nvcc);
        add_all(&command, nvcc_flags, AF_COUNT(nvcc_flags));
        add(&command, "-ccbin");
        add(&command, place->host);
        add_targets(&command, &build->selection);
    } else {
        add(&command, place->host);
        add_all(&command, host_flags, AF_COUNT(host_flags));
    }
    add_includes(&command, place);
    if (!cuda) /* nvcc knows its own */
        add(&command, af_arena_format(build->arena, "-I%s/include", place->cuda_home));
    add_macros(&command, &build->selection);
    add(&command, "-c");
    add(&command, source);
    add(&command, "-o");
    add(&command, af_arena_format(build->arena, "%s" AF_GOVERN_NEW, object));
    const char **words = af_arena_array(build->arena, command.count + 1, sizeof *words);
    if (words != NULL)
        memcpy(words, command.words, command.count * sizeof *words);
    return words;
}

static struct af_prediction predict_unit(const struct af_selection *selection,
                                         const struct af_selection_file *unit, const char *name)
{
    struct af_selection_cost cost = af_selection_file_cost(selection, unit);
    struct af_prediction prediction = {.bytes = cost.peak_bytes, .seconds = cost.cpu_seconds};
    snprintf(prediction.file, sizeof prediction.file, "%s", name);
    snprintf(prediction.key, sizeof prediction.key, "%d hd%d causal%d kernels%d targets%zu",
             (int)unit->pass, unit->head_dim, unit->joined ? 2 : unit->causal,
             af_selection_kernels(selection, unit), selection->arch_count);
    if (selection->arch_count == 1) { /* with more targets cicc runs again after ptxas */
        prediction.rises = true;
        snprintf(prediction.tail, sizeof prediction.tail, "ptxas");
        prediction.tail_bytes = TAIL_BYTES;
    }
    return prediction;
}

static struct af_prediction predict_glue(const char *name)
{
    struct af_selection_cost cost = af_selection_glue_cost();
    struct af_prediction prediction = {.bytes = cost.peak_bytes, .seconds = cost.cpu_seconds};
    snprintf(prediction.file, sizeof prediction.file, "%s", name);
    snprintf(prediction.key, sizeof prediction.key, "glue %s", name);
    return prediction;
}

static void add_job(struct af_build *build, const struct af_build_place *place,
                    const char *folder, struct af_prediction prediction,
                    struct af_build_jobs *jobs)
{
    struct af_arena *arena = build->arena;
    const char *source = af_arena_format(arena, "%s/%s", folder, prediction.file);
    const char *object = af_arena_format(arena, "%s/%s.o", place->objects, prediction.file);
    if (source == NULL || object == NULL)
        return;
    jobs->rows[jobs->count++] =
        (struct af_govern_job){command_of(build, place, source, object), object, prediction};
}

/* Whether it is one of the glue's own sources; others are included, or packed. */
static bool is_compiled(const struct af_build_glue *file)
{
    return strchr(file->name, '/') == NULL &&
           (af_ends_with(file->name, ".cpp") || af_ends_with(file->name, ".cu"));
}

enum anyflash_status af_build_list_jobs(struct af_build *build,
                                        const struct af_build_place *place,
                                        struct af_build_jobs *jobs_out,
                                        struct anyflash_error *err)
{
    struct af_selection_file units[AF_SELECTION_FILES_MAX];
    struct af_arena *arena = build->arena;
    size_t count = af_selection_units(&build->selection, units);
    const char *generated = af_path_join(arena, place->folder, "generated");
    struct af_build_jobs jobs = {
        .rows = af_arena_array(arena, AF_SELECTION_CALLS_MAX, sizeof *jobs.rows)};
    for (size_t i = 0; i < count && !arena->failed; i++) {
        const char *name = af_selection_file_name(&units[i], arena);
        if (name != NULL)
            add_job(build, place, generated, predict_unit(&build->selection, &units[i], name),
                    &jobs);
    }
    for (const struct af_build_glue *file = af_build_glue;
         file->name != NULL && !arena->failed && jobs.count < AF_SELECTION_CALLS_MAX; file++) {
        if (is_compiled(file))
            add_job(build, place, place->glue, predict_glue(file->name), &jobs);
    }
    if (arena->failed)
        return af_fail_memory(err);
    *jobs_out = jobs;
    return ANYFLASH_OK;
}

/* ---- launchers ----
 *
 * flash-attn's launchers ask the GPU how much shared memory it has and instantiate kernels for
 * every answer. If all GPUs of the build give the same answer, `if (condition)` becomes
 * `if constexpr (condition)`, and kernels that never run are not compiled. Conditions on
 * anything but these properties, numbers and the head size stay as they are.
 */

/* A variable of the launchers, and its value for all GPUs of the build. */
struct property {
    const char *name;
    char value[VALUE_BYTES]; /* "": not known */
};

static void read_properties(const struct af_selection *selection,
                            struct property properties[PROPERTIES])
{
    struct af_selection_gpu gpu;
    af_selection_gpu(selection, &gpu);
    properties[0] = (struct property){"is_sm8x", ""};
    properties[1] = (struct property){"max_smem_per_block", ""};
    properties[2] = (struct property){"max_smem_per_sm", ""};
    if (gpu.is_sm8x != AF_UNKNOWN)
        snprintf(properties[0].value, VALUE_BYTES, "%s",
                 gpu.is_sm8x == AF_YES ? "true" : "false");
    if (gpu.smem_per_block > 0) {
        snprintf(properties[1].value, VALUE_BYTES, "%d", gpu.smem_per_block);
        snprintf(properties[2].value, VALUE_BYTES, "%d", gpu.smem_per_sm);
    }
}

static bool is_word(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_';
}

static size_t word_length(const char *text)
{
    size_t len = 0;
    while (is_word(text[len]))
        len++;
    return len;
}

/* The value of a word of a condition; NULL: it is not one of the properties. */
static const char *value_of(const struct property properties[PROPERTIES], struct af_span word)
{
    for (size_t i = 0; i < PROPERTIES; i++) {
        if (af_text_span_equal(word, properties[i].name) && properties[i].value[0] != '\0')
            return properties[i].value;
    }
    return NULL;
}

/* Bytes of "(...)" with its inner parentheses; 0 if it is not closed, or has braces. */
static size_t condition_length(const char *text)
{
    int depth = 0;
    for (size_t i = 0; text[i] != '\0' && text[i] != '{' && text[i] != '}'; i++) {
        depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

/* Adds the condition with values instead of properties; false: it depends on more. */
static bool add_settled(struct af_text *out, const struct property properties[PROPERTIES],
                        const char *text, size_t len)
{
    bool any = false;
    size_t next;
    for (size_t i = 0; i < len; i += next) {
        next = word_length(text + i);
        struct af_span word = {text + i, next};
        const char *value = next == 0 ? NULL : value_of(properties, word);
        if (value == NULL && next > 0 && !isdigit((unsigned char)text[i]) &&
            !af_text_span_equal(word, "Headdim"))
            return false;
        next = next == 0 ? 1 : next;
        any = any || value != NULL;
        if (value != NULL)
            af_text_add(out, value);
        else
            af_text_add_n(out, text + i, next);
    }
    return any;
}

/* Adds the `if` at `at` if it can be settled; returns the bytes of it that are done, or 0. */
static size_t settle_one(struct af_text *out, const struct property properties[PROPERTIES],
                         const char *at)
{
    static const char start[] = "if (";
    struct af_text condition = {0};
    size_t len = 0;
    if (af_starts_with(at, start))
        len = condition_length(at + strlen("if "));
    bool good = len > 0 && af_starts_with(at + strlen("if ") + len, " {") &&
                add_settled(&condition, properties, at + strlen("if "), len);
    if (good)
        af_text_format(out, "if constexpr %s", af_text_get(&condition));
    out->failed |= condition.failed;
    af_text_release(&condition);
    return good ? strlen("if ") + len : 0;
}

const char *af_build_settle(const struct af_selection *selection, const char *text,
                            struct af_arena *arena)
{
    struct property properties[PROPERTIES];
    struct af_text out = {0};
    const char *copied = text;
    read_properties(selection, properties);
    for (const char *at = text; (at = strstr(at, "if (")) != NULL;) {
        af_text_add_n(&out, copied, (size_t)(at - copied));
        bool whole = at == text || !is_word(at[-1]);
        size_t done = whole ? settle_one(&out, properties, at) : 0;
        copied = at + done;
        at += done > 0 ? done : 1;
        if (done == 0) {
            af_text_add_n(&out, copied, 1);
            copied = at;
        }
    }
    af_text_add(&out, copied);
    return af_text_take(&out, arena);
}

/* ---- sources ---- */

/* Writes `text` to generated/NAME. */
static enum anyflash_status write_generated(struct af_build *build,
                                            const struct af_build_place *place,
                                            const char *name, const char *text,
                                            struct anyflash_error *err)
{
    const char *path = af_arena_format(build->arena, "%s/generated/%s", place->folder, name);
    return build->arena->failed ? af_fail_memory(err)
                                : af_build_write_file(build->arena, path, text, 0644, err);
}

/* Copies a file of flash-attn, with its conditions on the GPU settled. */
static enum anyflash_status copy(struct af_build *build, const struct af_build_place *place,
                                 const char *name, struct anyflash_error *err)
{
    struct af_span text;
    const char *path =
        af_arena_format(build->arena, "%s/csrc/flash_attn/src/%s", place->sources, name);
    if (path == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_file_read(build->arena, path, SOURCE_BYTES_MAX, &text, NULL);
    if (status == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    if (status != ANYFLASH_OK)
        return af_fail(err, ANYFLASH_E_DATA, "the sources of flash-attn %s have no file '%s'",
                       build->version, path + strlen(place->sources) + 1);
    return write_generated(build, place, name,
                           af_build_settle(&build->selection, text.data, build->arena), err);
}

/* A file of flash-attn, or a unit that includes two: without causality, then with it. */
static enum anyflash_status write_unit(struct af_build *build,
                                       const struct af_build_place *place,
                                       const struct af_selection_file *unit,
                                       struct anyflash_error *err)
{
    struct af_selection_file file = *unit;
    file.joined = false;
    const char *plain = af_selection_file_name(&file, build->arena);
    if (plain == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = copy(build, place, plain, err);
    if (status != ANYFLASH_OK || !unit->joined)
        return status;
    file.causal = true;
    const char *causal = af_selection_file_name(&file, build->arena);
    status = causal == NULL ? af_fail_memory(err) : copy(build, place, causal, err);
    if (status != ANYFLASH_OK)
        return status;
    return write_generated(
        build, place, af_selection_file_name(unit, build->arena),
        af_arena_format(build->arena, "#include \"%s\"\n#include \"%s\"\n", plain, causal),
        err);
}

/* Writes our glue, which is embedded in this program. */
static enum anyflash_status write_glue(struct af_build *build,
                                       const struct af_build_place *place,
                                       struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (const struct af_build_glue *file = af_build_glue;
         file->name != NULL && status == ANYFLASH_OK; file++) {
        const char *path = af_path_join(build->arena, place->glue, file->name);
        const char *folder = path == NULL ? NULL : af_path_folder(build->arena, path);
        status = folder == NULL ? af_fail_memory(err) : af_folder_make(folder, 0755, err);
        if (status == ANYFLASH_OK)
            status = af_build_write_file(build->arena, path, file->text, 0644, err);
    }
    return status;
}

enum anyflash_status af_build_write_sources(struct af_build *build,
                                            const struct af_build_place *place,
                                            struct anyflash_error *err)
{
    static const char *const launchers[] = {"flash_fwd_launch_template.h",
                                            "flash_bwd_launch_template.h"};
    struct af_selection_file units[AF_SELECTION_FILES_MAX];
    size_t count = af_selection_units(&build->selection, units);
    const char *generated = af_path_join(build->arena, place->folder, "generated");
    enum anyflash_status status =
        generated == NULL ? af_fail_memory(err) : af_folder_make(generated, 0755, err);
    if (status == ANYFLASH_OK)
        status = write_glue(build, place, err);
    for (size_t i = 0; i < AF_COUNT(launchers) && status == ANYFLASH_OK; i++)
        status = copy(build, place, launchers[i], err);
    for (size_t i = 0; i < count && status == ANYFLASH_OK; i++)
        status = write_unit(build, place, &units[i], err);
    return status;
}
