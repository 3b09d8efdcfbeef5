/*
 * plan_request.c: turns option values, which are texts, into a struct
 * af_plan_request.
 */
#include "kit/answer/plan_request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/compile/offer/offer.h"
#include "kit/formats/version.h"

/* "9.0", "90" or "sm_90" as "9.0"; NULL if it is none of them. */
static const char *arch_text(struct af_arena *arena, const char *text)
{
    const char *digits = af_starts_with(text, "sm_") ? text + 3 : text;
    int64_t number = 0;
    char joined[8];
    size_t len = strlen(digits);
    if (len >= 3 && len <= 4 && digits[len - 2] == '.')
        snprintf(joined, sizeof joined, "%.*s%c", (int)(len - 2), digits, digits[len - 1]);
    else
        snprintf(joined, sizeof joined, "%.7s", digits);
    if (!isdigit((unsigned char)joined[0]) || !af_parse_i64(joined, 30, 199, &number))
        return NULL;
    return af_arena_format(arena, "%d.%d", (int)(number / 10), (int)(number % 10));
}

/*
 * Rewrites *name as wheels spell it: lower case, '_' between words; false if it
 * is not a package name.
 */
static bool package_name(struct af_arena *arena, const char **name)
{
    char *copy = af_arena_text(arena, *name);
    for (char *at = copy; at != NULL && *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && strchr("-_.", *at) == NULL)
            return false;
        *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
    }
    *name = copy;
    return true;
}

/* Rewrites *text as the catalog writes versions; false if it is not a version. */
static bool version_text(struct af_arena *arena, const char **text)
{
    char normal[160];
    struct af_version version;
    if (!af_version_parse(*text, strlen(*text), &version))
        return false;
    *text = af_arena_text(arena, af_version_format(&version, false, normal, sizeof normal));
    return true;
}

/* Fails if options contradict each other, so that none is silently ignored. */
static enum anyflash_status check_selection(const struct af_plan_selection_texts *words,
                                            bool must, struct af_plan_read_notes *notes,
                                            struct anyflash_error *err)
{
    const struct {
        const char *name;
        bool is_said;
    } parts[] = {{"for", words->model_path != NULL},
                 {"head-dim", words->head_dims != NULL},
                 {"dtype", words->dtypes != NULL},
                 {"features", words->features != NULL},
                 {"inference", words->inference}};
    for (size_t i = 0; i < AF_COUNT(parts); i++) {
        if (words->full && parts[i].is_said)
            return af_fail(err, ANYFLASH_E_ARGUMENT, "--full cannot be used with --%s",
                           parts[i].name);
    }
    if (!must || words->full || words->model_path != NULL || words->head_dims != NULL)
        return ANYFLASH_OK;
    notes->hint = "--for MODEL/config.json reads what a model needs; without one, use "
                  "--head-dim 128 --dtype bf16; --full builds everything";
    return af_fail(err, ANYFLASH_E_ARGUMENT,
                   "say what to build: --for MODEL/config.json, or --head-dim and --dtype");
}

static enum anyflash_status read_model(const struct af_plan_selection_texts *words,
                                       struct af_selection *selection,
                                       struct af_plan_read_notes *notes,
                                       struct anyflash_error *err)
{
    const char *remark = NULL;
    enum anyflash_status status =
        af_selection_read_model(words->model, af_path_name(words->model_path),
                                !words->inference, selection, &remark, err);
    if (status != ANYFLASH_OK)
        notes->hint = "without the file: --head-dim 128 --dtype bf16 --features none";
    else if (words->dtypes == NULL)
        notes->remark = remark;
    return status;
}

enum anyflash_status af_plan_read_selection(const struct af_plan_selection_texts *words,
                                            bool must, struct af_selection *selection,
                                            struct af_plan_read_notes *notes,
                                            struct anyflash_error *err)
{
    enum anyflash_status status = check_selection(words, must, notes, err);
    *selection = (struct af_selection){0};
    if (must || words->full || words->head_dims != NULL)
        af_selection_all(selection);
    else
        af_selection_usual(selection);
    if (status == ANYFLASH_OK && words->model_path != NULL)
        status = read_model(words, selection, notes, err);
    if (status == ANYFLASH_OK && words->head_dims != NULL)
        status = af_selection_read_head_dims(words->head_dims, selection, err);
    if (status == ANYFLASH_OK && words->dtypes != NULL)
        status = af_selection_read_dtypes(words->dtypes, selection, err);
    if (status == ANYFLASH_OK && words->features != NULL)
        status = af_selection_read_features(words->features, selection, err);
    if (words->inference)
        selection->backward = false;
    return status;
}

/*
 * The options of `anyflash build` that make the same selection: as typed, or
 * with head size and type written out if af_selection_usual() chose them.
 */
static const char *const *command_words(const struct af_plan_selection_texts *words,
                                        struct af_arena *arena, size_t *count_out)
{
    const struct {
        const char *option;
        const char *value;
    } rows[] = {{"--for", words->model_path},
                {"--head-dim", words->head_dims},
                {"--dtype", words->dtypes},
                {"--features", words->features}};
    bool sized = words->model_path != NULL || words->head_dims != NULL || words->full;
    size_t count = 0;
    const char **list = af_arena_array(arena, 2 * AF_COUNT(rows) + 6, sizeof *list);
    if (!sized) {
        list[count++] = "--head-dim";
        list[count++] = "128";
    }
    if (!sized && words->dtypes == NULL) {
        list[count++] = "--dtype";
        list[count++] = "bf16";
    }
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (rows[i].value == NULL)
            continue;
        list[count++] = rows[i].option;
        list[count++] = rows[i].value;
    }
    if (words->inference)
        list[count++] = "--inference";
    if (words->full)
        list[count++] = "--full";
    *count_out = count;
    return list;
}

static bool is_build_said(const struct af_plan_selection_texts *words)
{
    return words->model_path != NULL || words->head_dims != NULL || words->dtypes != NULL ||
           words->features != NULL || words->inference || words->full;
}

/* Reads what a build has to contain; the build rung is checked for that. */
static enum anyflash_status read_build(const struct af_plan_selection_texts *words,
                                       struct af_arena *arena, struct af_plan_request *request,
                                       struct af_plan_read_notes *notes,
                                       struct anyflash_error *err)
{
    struct af_fit_options *fit = &request->fit;
    enum anyflash_status status =
        af_plan_read_selection(words, false, &request->selection, notes, err);
    if (status != ANYFLASH_OK || !is_build_said(words))
        return status;
    fit->needs_softcap = (request->selection.features & AF_FLASH_SOFTCAP) != 0 &&
                         (words->model_path != NULL || words->features != NULL);
    fit->build_words = command_words(words, arena, &fit->build_word_count);
    return ANYFLASH_OK;
}

enum anyflash_status af_plan_request_read(const struct af_plan_request_texts *words,
                                          struct af_arena *arena,
                                          struct af_plan_request *request,
                                          struct af_plan_read_notes *notes,
                                          struct anyflash_error *err)
{
    struct af_fit_options fit = {.package = words->package,
                                 .version = words->version,
                                 .official_only = words->official_only,
                                 .publishers = words->publishers,
                                 .publisher_list_count = words->publisher_list_count,
                                 .has_preference = words->prefer != NULL};
    if (fit.has_preference && !af_rung_parse(words->prefer, &fit.preference))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--prefer takes wheel, torch-kernels, torch-change, build or engine");
    if (words->arch != NULL) {
        fit.arch = arch_text(arena, words->arch);
        if (fit.arch == NULL)
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "--arch takes a compute capability, for example 9.0");
    }
    if (fit.package != NULL && !package_name(arena, &fit.package))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--package takes a name, for example flash_attn");
    if (fit.version != NULL && !version_text(arena, &fit.version))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--version takes a version, for example 2.8.3");
    request->fit = fit;
    return read_build(&words->build, arena, request, notes, err);
}
