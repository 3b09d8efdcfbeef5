/*
 * command.c: a step as one could type it: POSIX shell quoting, only where a
 * word needs it.
 */
#include "base/text.h"
#include "plan/plan.h"

#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789_@%+=:,./-";

/* Single quotes; one inside is written '\''. */
static void add_quoted(struct af_text *text, const char *word)
{
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        af_text_add(text, word);
        return;
    }
    af_text_add(text, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            af_text_add(text, "'\\''");
        else
            af_text_add_n(text, word, 1);
    }
    af_text_add(text, "'");
}

/* NAME='value': a quoted name would not be an assignment. */
static void add_assignment(struct af_text *text, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals == NULL ? 0 : (size_t)(equals - word) + 1;
    af_text_add_n(text, word, len);
    add_quoted(text, word + len);
}

const char *af_step_command(const struct af_step *step, struct af_arena *arena)
{
    struct af_text text = {.len = 0};
    for (size_t i = 0; i < step->environment_count; i++) {
        af_text_add(&text, i == 0 ? "" : " ");
        add_assignment(&text, step->environment[i]);
    }
    for (size_t i = 0; i < step->argc; i++) {
        af_text_add(&text, i == 0 && step->environment_count == 0 ? "" : " ");
        add_quoted(&text, step->argv[i]);
    }
    const char *command = af_arena_text(arena, af_text_get(&text));
    if (text.failed)
        arena->failed = true;
    af_text_release(&text);
    return text.failed ? NULL : command;
}
