/*
 * selection.c: writes a selection for the driver, predicts its compiler calls
 * for the governor, and writes the compiler wrappers.
 */
#include "kit/compile/build_steps.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/shell.h"
#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define STUBS_FILE "kernels_left_out"
#define TAIL_BYTES (UINT64_C(1) << 30) /* after cicc's front end; measured up to 0.7 GiB */
#define LINK_BYTES (UINT64_C(300) << 20)

static const char *pass_text(enum af_flash_operation pass)
{
    return pass == AF_FLASH_BACKWARD        ? "backward"
           : pass == AF_FLASH_FORWARD_SPLIT ? "forward with a split or paged cache"
                                            : "forward";
}

/* The error message for a kernel that is left out, with the command that adds it. */
static const char *message_of(const struct af_build *build,
                              const struct af_selection_file *file)
{
    struct af_selection more = build->selection;
    af_selection_add_head_dim(&more, file->head_dim);
    more.dtypes |= file->dtype;
    more.backward |= file->pass == AF_FLASH_BACKWARD;
    const char *options = af_selection_options(&more, build->arena);
    return options == NULL
               ? NULL
               : af_arena_format(build->arena,
                                 "this flash-attn build has no kernel for: %s, head size %d, "
                                 "%s, %scausal. Add it: anyflash build %s",
                                 pass_text(file->pass), file->head_dim,
                                 file->dtype == AF_SELECTION_FP16 ? "fp16" : "bf16",
                                 file->causal ? "" : "not ", options);
}

static json_t *stub_of(const struct af_build *build, const struct af_selection_file *file)
{
    return json_pack(
        "{s:s, s:s, s:i, s:b, s:s?}", "function",
        file->pass == AF_FLASH_BACKWARD        ? "run_mha_bwd_"
        : file->pass == AF_FLASH_FORWARD_SPLIT ? "run_mha_fwd_splitkv_dispatch"
                                               : "run_mha_fwd_",
        "type", file->dtype == AF_SELECTION_FP16 ? "cutlass::half_t" : "cutlass::bfloat16_t",
        "head_dim", file->head_dim, "causal", file->causal, "message", message_of(build, file));
}

/* A unit that includes two files. */
static json_t *joined_of(const struct af_build *build, const struct af_selection_file *unit)
{
    struct af_selection_file file = *unit;
    file.joined = false;
    const char *plain = af_selection_file_name(&file, build->arena);
    file.causal = true;
    return json_pack("{s:s?, s:[s?, s?]}", "name", af_selection_file_name(unit, build->arena),
                     "includes", plain, af_selection_file_name(&file, build->arena));
}

/* What is compiled: single files, and units of two. */
static bool add_units(const struct af_build *build, json_t *keep, json_t *joined)
{
    struct af_selection_file units[AF_SELECTION_FILES_MAX];
    bool good = true;
    size_t count = af_selection_units(&build->selection, units);
    for (size_t i = 0; i < count; i++) {
        if (units[i].joined)
            good &= json_array_append_new(joined, joined_of(build, &units[i])) == 0;
        else
            good &=
                json_array_append_new(
                    keep, json_string(af_selection_file_name(&units[i], build->arena))) == 0;
    }
    return good;
}

/* A stub for each file of flash-attn 2 that is left out. */
static bool add_stubs(const struct af_build *build, json_t *stubs)
{
    struct af_selection full = {0};
    struct af_selection_file files[AF_SELECTION_FILES_MAX];
    bool good = true;
    af_selection_all(&full);
    size_t count = af_selection_files(&full, files);
    for (size_t i = 0; i < count; i++) {
        if (!af_selection_keeps(&build->selection, &files[i]))
            good &= json_array_append_new(stubs, stub_of(build, &files[i])) == 0;
    }
    return good;
}

/*
 * Advice for flash_api.cpp's messages about features that are left out. It names no
 * head sizes, so that a build that grows does not compile this file again.
 */
static bool add_refusals(const struct af_build *build, json_t *refusals)
{
    static const struct {
        enum af_flash_feature feature;
        const char *text;
    } rows[] = {{AF_FLASH_LOCAL, "build does not support local attention"},
                {AF_FLASH_SOFTCAP, "build does not support softcap"},
                {AF_FLASH_ALIBI, "build does not support alibi"},
                {AF_FLASH_DROPOUT, "build does not support dropout"}};
    bool good = true;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct af_selection more = build->selection;
        if ((more.features & rows[i].feature) != 0)
            continue;
        more.features |= rows[i].feature;
        const char *words = af_selection_features(&more, build->arena);
        const char *advice =
            words == NULL
                ? NULL
                : af_arena_format(build->arena,
                                  "Add it: the same anyflash build with --features %s", words);
        good &= json_array_append_new(refusals, json_pack("{s:s, s:s?}", "text", rows[i].text,
                                                          "advice", advice)) == 0;
    }
    return good;
}

/* The launchers' variables about the GPU, as far as af_selection_gpu() knows them. */
static json_t *gpu_of(const struct af_build *build)
{
    struct af_selection_gpu gpu;
    json_t *json = json_object();
    bool good = json != NULL;
    af_selection_gpu(&build->selection, &gpu);
    if (gpu.is_sm8x != AF_UNKNOWN)
        good &= json_object_set_new(json, "is_sm8x",
                                    json_string(gpu.is_sm8x == AF_YES ? "true" : "false")) == 0;
    if (gpu.smem_per_block > 0)
        good &= json_object_set_new(json, "max_smem_per_block",
                                    json_sprintf("%d", gpu.smem_per_block)) == 0 &&
                json_object_set_new(json, "max_smem_per_sm",
                                    json_sprintf("%d", gpu.smem_per_sm)) == 0;
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

/* "2.11" of torch "2.11.0+cu130". */
static const char *torch_minor(const struct af_build *build)
{
    const char *text = af_fact_text_or(&build->machine->torch.version, "");
    size_t len = strcspn(text, ".");
    len += text[len] == '.' ? 1 + strcspn(text + len + 1, ".+") : 0;
    return af_arena_text_n(build->arena, text, len);
}

const char *af_build_local_version(const struct af_build *build)
{
    const char *cuda = af_fact_text_or(&build->machine->torch.cuda, "");
    const char *abi =
        af_fact_truth(&build->machine->torch.cxx11abi) == AF_NO ? "false" : "true";
    return af_arena_format(build->arena, "cu%.*storch%scxx11abi%s.%s", (int)strcspn(cuda, "."),
                           cuda, torch_minor(build), abi,
                           af_selection_local(&build->selection, build->arena));
}

/* torch's headers need C++20 from 2.14 on; setup.py requests C++17. */
static const char *standard_of(const struct af_build *build)
{
    int major = 0;
    int minor = 0;
    const char *text = af_fact_text_or(&build->machine->torch.version, "");
    if (sscanf(text, "%d.%d", &major, &minor) != 2)
        return NULL;
    return major > 2 || (major == 2 && minor >= 14) ? "c++20" : NULL;
}

static enum anyflash_status write_json(struct af_build *build,
                                       const struct af_build_place *place,
                                       struct anyflash_error *err)
{
    const char *macros[AF_SELECTION_MACROS_MAX + 1];
    json_t *keep = json_array();
    json_t *joined = json_array();
    json_t *stubs = json_array();
    json_t *refusals = json_array();
    json_t *words = json_array();
    af_selection_macros(&build->selection, macros);
    bool good = add_units(build, keep, joined) && add_stubs(build, stubs) &&
                add_refusals(build, refusals);
    for (size_t i = 0; macros[i] != NULL; i++)
        good &= json_array_append_new(words, json_string(macros[i])) == 0;
    const char *torch = af_arena_format(build->arena, "torch==%s.*", torch_minor(build));
    json_t *json =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s?, s:[s, s]}", "gpu", gpu_of(build),
                  "refusals", refusals, "keep", keep, "joined", joined, "stubs", stubs,
                  "macros", words, "std", standard_of(build), "requires", torch, "einops");
    char *text = good && json != NULL ? json_dumps(json, JSON_INDENT(1)) : NULL;
    const char *path = af_path_join(build->arena, place->folder, "selection.json");
    enum anyflash_status status =
        text == NULL || path == NULL ? af_fail_memory(err)
                                     : af_build_write_file(build->arena, path, text, 0644, err);
    json_decref(json);
    af_mem_free(text);
    return status;
}

/*
 * A script that runs the compiler wrapper, the program's hidden command "compiler-wrapper".
 * Its path and text never change, because both are part of each command that
 * ninja compares.
 */
static enum anyflash_status write_wrapper(struct af_build *build,
                                          const struct af_build_place *place, const char *name,
                                          const char *compiler, struct anyflash_error *err)
{
    const char *const argv[] = {"compiler-wrapper", compiler};
    const char *path = af_arena_format(build->arena, "%s/wrappers/%s", place->folder, name);
    const char *words =
        af_shell_command(AF_SHELL_POSIX, NULL, 0, argv, AF_COUNT(argv), build->arena);
    const char *text =
        words == NULL
            ? NULL
            : af_arena_format(build->arena, "#!/bin/sh\nexec \"$ANYFLASH_PROGRAM\" %s \"$@\"\n",
                              words);
    return path == NULL || text == NULL
               ? af_fail_memory(err)
               : af_build_write_file(build->arena, path, text, 0755, err);
}

enum anyflash_status af_build_write_selection(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err)
{
    const char *wrappers = af_path_join(build->arena, place->folder, "wrappers");
    const char *nvcc = af_arena_format(build->arena, "%s/bin/nvcc", place->cuda_home);
    const char *driver = af_path_join(build->arena, place->folder, "driver.py");
    const struct af_compiler_rows *rows = &build->machine->compilers;
    const char *host =
        rows->count > 0 ? af_fact_text_or(&rows->rows[0].path, "/usr/bin/c++") : "/usr/bin/c++";
    if (wrappers == NULL || nvcc == NULL || driver == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_folder_make(wrappers, 0755, err);
    if (status == ANYFLASH_OK)
        status = write_wrapper(build, place, "nvcc", nvcc, err);
    if (status == ANYFLASH_OK)
        status = write_wrapper(build, place, "c++", host, err);
    if (status == ANYFLASH_OK)
        status = af_build_write_file(build->arena, driver, af_build_driver_py, 0644, err);
    return status == ANYFLASH_OK ? write_json(build, place, err) : status;
}

static void name_kernel_key(const struct af_build *build, const struct af_selection_file *file,
                            struct af_prediction *out)
{
    snprintf(out->key, sizeof out->key, "%d hd%d causal%d kernels%d targets%zu",
             (int)file->pass, file->head_dim, file->joined ? 2 : file->causal,
             af_selection_kernels(&build->selection, file), build->selection.arch_count);
}

void af_build_predict(void *context, const char *const *argv, struct af_prediction *out)
{
    const struct af_build *build = context;
    struct af_selection_file file;
    const char *source = NULL;
    bool writes = false;
    for (; *argv != NULL; argv++) {
        if (af_ends_with(*argv, ".cu") || af_ends_with(*argv, ".cpp"))
            source = *argv;
        writes = writes || strcmp(*argv, "-o") == 0;
    }
    *out = (struct af_prediction){.key = "link", .bytes = LINK_BYTES, .seconds = 2};
    snprintf(out->file, sizeof out->file, "%s",
             writes ? "link" : ""); /* torch asks for the version */
    if (source == NULL)
        return;
    snprintf(out->file, sizeof out->file, "%s", af_path_name(source));
    struct af_selection_cost cost;
    if (af_selection_file_parse(source, &file)) {
        name_kernel_key(build, &file, out);
        cost = af_selection_file_cost(&build->selection, &file);
        if (build->selection.arch_count ==
            1) { /* with more targets cicc runs again after ptxas */
            out->rises = true;
            snprintf(out->tail, sizeof out->tail, "ptxas");
            out->tail_bytes = TAIL_BYTES;
        }
    } else if (strstr(source, STUBS_FILE) != NULL) {
        snprintf(out->key, sizeof out->key, "stubs");
        cost = af_selection_stubs_cost();
    } else {
        snprintf(out->key, sizeof out->key, "host");
        cost = af_selection_host_cost();
    }
    out->bytes = cost.peak_bytes;
    out->seconds = cost.cpu_seconds;
}
