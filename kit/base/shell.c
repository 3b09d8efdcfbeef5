/*
 * shell.c: POSIX shell quoting, only where a word needs it.
 */
#include "kit/base/shell.h"

#include "kit/base/text.h"

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

const char *af_shell_command(const char *const *environment, size_t environment_count,
                             const char *const *argv, size_t argc, struct af_arena *arena)
{
    struct af_text text = {.len = 0};
    for (size_t i = 0; i < environment_count; i++) {
        af_text_add(&text, i == 0 ? "" : " ");
        add_assignment(&text, environment[i]);
    }
    for (size_t i = 0; i < argc; i++) {
        af_text_add(&text, i == 0 && environment_count == 0 ? "" : " ");
        add_quoted(&text, argv[i]);
    }
    const char *command = af_arena_text(arena, af_text_get(&text));
    if (text.failed) {
        arena->failed = true;
        command = NULL;
    }
    af_text_release(&text);
    return command;
}
