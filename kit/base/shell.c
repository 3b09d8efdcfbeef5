/*
 * shell.c: quotes words for POSIX shells, PowerShell and cmd, only where needed.
 */
#include "kit/base/shell.h"

#include "kit/base/text.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Characters that need no quotes. In PowerShell ',' and '@' have a meaning of their own. */
static const char *const plain[] = {
    [AF_SHELL_POSIX] = LETTERS "_@%+=:,./-",
    [AF_SHELL_POWERSHELL] = LETTERS "_%+=:./\\-",
    [AF_SHELL_CMD] = LETTERS "_@%+=:,./\\-",
};

/* Puts the word in single quotes. A single quote in it becomes '\'', or '' for PowerShell. */
static void add_in_single_quotes(struct af_text *text, enum af_shell shell, const char *word)
{
    af_text_add(text, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            af_text_add(text, shell == AF_SHELL_POSIX ? "'\\''" : "''");
        else
            af_text_add_n(text, word, 1);
    }
    af_text_add(text, "'");
}

/*
 * Puts the word in double quotes, by the rules by which programs on Windows split their
 * command line: a quote is written \", and backslashes are doubled, but only before a quote.
 */
static void add_in_double_quotes(struct af_text *text, const char *word)
{
    size_t backslashes = 0;
    af_text_add(text, "\"");
    for (; *word != '\0'; word++) {
        for (size_t i = 0; *word == '"' && i <= backslashes; i++)
            af_text_add(text, "\\");
        backslashes = *word == '\\' ? backslashes + 1 : 0;
        af_text_add_n(text, word, 1);
    }
    while (backslashes-- > 0)
        af_text_add(text, "\\");
    af_text_add(text, "\"");
}

/* Whether PowerShell and cmd, which knows no single quotes, both take it in double quotes. */
static bool is_same_in_cmd(const char *word)
{
    size_t len = strlen(word);
    return len > 0 && word[len - 1] != '\\' &&
           strspn(word, LETTERS " _%+=:./\\-,;@()[]<>'") == len;
}

static void add_word(struct af_text *text, enum af_shell shell, const char *word)
{
    if (word[0] != '\0' && strspn(word, plain[shell]) == strlen(word))
        af_text_add(text, word);
    else if (shell == AF_SHELL_CMD || (shell == AF_SHELL_POWERSHELL && is_same_in_cmd(word)))
        add_in_double_quotes(text, word);
    else
        add_in_single_quotes(text, shell, word);
}

/* NAME='value'; $env:NAME='value'; set "NAME=value" */
static void add_assignment(struct af_text *text, enum af_shell shell, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals == NULL ? 0 : (size_t)(equals - word) + 1;
    if (shell == AF_SHELL_CMD) {
        af_text_format(text, "set \"%s\" && ", word);
        return;
    }
    af_text_add(text, shell == AF_SHELL_POWERSHELL ? "$env:" : "");
    af_text_add_n(text, word, len);
    if (shell == AF_SHELL_POSIX) {
        add_word(text, shell, word + len); /* a quoted name would not be an assignment */
        af_text_add(text, " ");
        return;
    }
    add_in_single_quotes(text, shell, word + len);
    af_text_add(text, "; ");
}

/* PowerShell takes a quoted word for a string; "& " before it runs the program of that name. */
static void add_program(struct af_text *text, enum af_shell shell, const char *word)
{
    if (shell == AF_SHELL_POWERSHELL && strspn(word, plain[shell]) != strlen(word))
        af_text_add(text, "& ");
    add_word(text, shell, word);
}

const char *af_shell_command(enum af_shell shell, const char *const *environment,
                             size_t environment_count, const char *const *argv, size_t argc,
                             struct af_arena *arena)
{
    struct af_text text = {.len = 0};
    for (size_t i = 0; i < environment_count; i++)
        add_assignment(&text, shell, environment[i]);
    for (size_t i = 0; i < argc; i++) {
        af_text_add(&text, i == 0 ? "" : " ");
        if (i == 0)
            add_program(&text, shell, argv[i]);
        else
            add_word(&text, shell, argv[i]);
    }
    return af_text_take(&text, arena);
}
