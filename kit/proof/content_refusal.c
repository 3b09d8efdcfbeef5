/*
 * content_refusal.c: the sentence that refuses a wheel, and the options that allow it.
 */
#include "kit/proof/wheel_content.h"

#include <string.h>

#include "kit/base/shell.h"
#include "kit/base/text.h"

#define NAMED_MAX 6u /* findings in the sentence; `inspect` lists the others */

static bool is_allowed(const struct af_content_finding *finding, const struct af_texts *allowed)
{
    return !finding->is_refused ||
           (!finding->is_forbidden &&
            af_is_one_of(finding->name, allowed->items, allowed->count));
}

/* Whether an earlier finding has the same name: one option allows both. */
static bool is_repeated(const struct af_content *content, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (content->findings[i].is_refused &&
            strcmp(content->findings[i].name, content->findings[index].name) == 0)
            return true;
    return false;
}

static void add_reason(struct af_text *text, const struct af_content_finding *finding)
{
    af_text_format(text, "%s%s (%s%s%s)", text->len == 0 ? "" : ", ", finding->name,
                   af_content_kind_why(finding->kind), finding->detail != NULL ? ": " : "",
                   finding->detail != NULL ? finding->detail : "");
}

void af_content_refuse(const struct af_content *content, const char *filename,
                       const struct af_texts *allowed, struct af_arena *arena,
                       struct af_content_refusal *out)
{
    const char *words[2 * NAMED_MAX];
    size_t word_count = 0;
    size_t named = 0;
    size_t others = content->unlisted_refused_count;
    bool is_forbidden = false;
    struct af_text text = {0};
    *out = (struct af_content_refusal){NULL, NULL};
    for (size_t i = 0; i < content->count; i++) {
        if (is_allowed(&content->findings[i], allowed))
            continue;
        is_forbidden = is_forbidden || content->findings[i].is_forbidden;
        if (named++ >= NAMED_MAX) {
            others++;
            continue;
        }
        add_reason(&text, &content->findings[i]);
        if (is_repeated(content, i))
            continue;
        words[word_count++] = "--allow-content";
        words[word_count++] = content->findings[i].name;
    }
    if (named + others > 0) {
        const char *options =
            af_shell_command(AF_SHELL_POSIX, NULL, 0, words, word_count, arena);
        const char *more = others == 0 ? ""
                                       : af_arena_format(arena, "%s%zu more",
                                                         named > 0 ? ", and " : "", others);
        out->reason = af_arena_format(
            arena, "'%s' contains more than %s: %s%s", af_text_scrub(arena, filename, 300),
            content->package != NULL ? content->package : "a package of this name should",
            af_text_get(&text), more);
        out->hint =
            is_forbidden ? "no option allows this: use another file of this package"
            : others > 0
                ? "`anyflash inspect` lists everything that it contains beside its package"
                : af_arena_format(arena, "read these files first; to install them too, add %s",
                                  options);
    }
    af_text_release(&text);
}

enum anyflash_status af_content_refuse_file(const char *path, const struct af_texts *allowed,
                                            struct af_arena *arena,
                                            struct af_content_refusal *out,
                                            struct anyflash_error *err)
{
    struct af_inspect_target target;
    struct af_content content;
    enum anyflash_status status = af_inspect_target_open(path, arena, &target, err);
    if (status != ANYFLASH_OK)
        return status;
    *out = (struct af_content_refusal){NULL, NULL};
    if (target.wheel == NULL) {
        af_inspect_target_close(&target);
        return ANYFLASH_OK;
    }
    for (size_t i = 0; status == ANYFLASH_OK && i < target.count; i++)
        status = af_inspect_target_read(&target, i, arena, err);
    if (status == ANYFLASH_OK) {
        af_content_find(&target, arena, &content);
        af_content_refuse(&content, af_path_name(path), allowed, arena, out);
    }
    af_inspect_target_close(&target);
    return status;
}
