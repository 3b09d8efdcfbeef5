/*
 * load_extensions.c: loads compiled parts of a package one by one, in a child process
 * (load_extensions.py).
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/install/verify.h"
#include "kit/system/process.h"

#define FAULTS_SHOWN_MAX 8

extern const char af_load_extensions_script[];

struct loading {
    const char *const *words;
    size_t count;
    struct af_arena *arena;
    struct af_verify_report *report;
    size_t fault_count;
    size_t begun; /* number of the part that was started last; initially the count */
    bool done;
};

/* "xformers._C" of "module:xformers._C", "xformers/_C.so" of a library. */
static const char *part_name(const char *word)
{
    static const char site[] = "-packages/";
    const char *below = strstr(word, site);
    return below != NULL ? below + strlen(site) : strchr(word, ':') + 1;
}

static void take_fault(struct loading *loading, size_t number, const char *why)
{
    if (loading->fault_count++ < FAULTS_SHOWN_MAX)
        af_verify_row_add(
            loading->report, "extension", AF_NO,
            af_arena_format(loading->arena, "%s: %s", part_name(loading->words[number]), why));
}

/*
 * Reads the number after `word` in the line, which must be a valid index; *rest_out is the text
 * after it.
 */
static bool read_number(const struct loading *loading, const char *line, const char *word,
                        size_t *number_out, const char **rest_out)
{
    char digits[8];
    int64_t number;
    if (!af_starts_with(line, word))
        return false;
    line += strlen(word);
    snprintf(digits, sizeof digits, "%.*s", (int)strcspn(line, " "), line);
    if (!af_parse_i64(digits, 0, (int64_t)loading->count - 1, &number))
        return false;
    *number_out = (size_t)number;
    *rest_out = line + strcspn(line, " ") + strspn(line + strcspn(line, " "), " ");
    return true;
}

static void read_answer(struct loading *loading, struct af_span output)
{
    struct af_span span;
    while (af_text_line(&output, &span)) {
        const char *line = af_arena_text_n(loading->arena, span.data, span.len);
        const char *rest;
        size_t number;
        if (!af_starts_with(line, AF_VERIFY_MARK))
            continue;
        line += strlen(AF_VERIFY_MARK);
        if (read_number(loading, line, "begin ", &number, &rest))
            loading->begun = number;
        else if (read_number(loading, line, "fault ", &number, &rest))
            take_fault(loading, number,
                       af_text_scrub(loading->arena, rest, AF_VERIFY_TEXT_BYTES));
        loading->done = loading->done || strcmp(line, "done") == 0;
    }
}

static const char *names_text(const struct loading *loading)
{
    const char *text = "";
    for (size_t i = 0; i < loading->count && i < FAULTS_SHOWN_MAX; i++)
        text = af_arena_format(loading->arena, "%s%s%s", text, i > 0 ? ", " : "",
                               part_name(loading->words[i]));
    return text;
}

void af_verify_extensions(const char *python, const char *const *words, size_t count,
                          struct af_arena *arena, struct af_verify_report *report)
{
    struct loading loading = {
        .words = words, .count = count, .arena = arena, .report = report, .begun = count};
    struct af_child child = {0};
    struct af_span output = {0};
    struct anyflash_error problem = {.message = "it ended early"};
    int code = 0;
    const char **argv = af_arena_array(arena, count + 4, sizeof *argv);
    argv[0] = python;
    argv[1] = "-c";
    argv[2] = af_load_extensions_script;
    memcpy(argv + 3, words, count * sizeof *words);
    argv[count + 3] = NULL;
    enum anyflash_status status =
        af_child_start_program(argv, AF_VERIFY_FOLDER, &child, &problem);
    if (status == ANYFLASH_OK)
        status = af_child_collect(&child, AF_VERIFY_LIMIT_MS, arena, &output, &code, &problem);
    read_answer(&loading, output);
    if (!loading.done && loading.begun < count)
        take_fault(&loading, loading.begun, af_arena_text(arena, problem.message));
    else if (!loading.done)
        af_verify_row_add(report, "extensions", AF_UNKNOWN,
                          af_arena_text(arena, problem.message));
    else if (loading.fault_count == 0)
        af_verify_row_add(report, "extensions", AF_YES,
                          af_arena_format(arena, "%zu loaded beside torch: %s%s", count,
                                          names_text(&loading),
                                          count > FAULTS_SHOWN_MAX ? ", ..." : ""));
}
