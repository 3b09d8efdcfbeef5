/*
 * cmd_bench.c: `anyflash bench`: replaces the process by anyflash-bench, which
 * is in the same folder as this program or in the installation's folder for
 * helper programs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/cli/commands.h"

#define PATH_BYTES 4096
/* The program's name, two words for each option that is not repeated, and the end. */
#define WORDS_MAX 16

/* "FOLDER/anyflash-bench", or NULL if it cannot be executed there. */
static const char *program_in(struct af_cli *cli, const char *folder, const char *below)
{
    const char *path = af_arena_format(&cli->arena, "%s/%s%s", folder, below, "anyflash-bench");
    return path != NULL && access(path, X_OK) == 0 ? path : NULL;
}

static const char *find_program(struct af_cli *cli)
{
    char self[PATH_BYTES];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return NULL;
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        return NULL;
    *slash = '\0';
    const char *beside = program_in(cli, self, "");
    return beside != NULL ? beside : program_in(cli, self, "../" AF_BENCH_FOLDER "/");
}

/* The program's name and the given options as command-line words; NULL without memory. */
static const char **command_line(struct af_cli *cli, const char *program)
{
    static const struct {
        enum af_option_id id;
        const char *word;
        bool has_value;
    } known[] = {
        {AF_OPTION_QUICK, "--quick", false},    {AF_OPTION_FILTER, "--filter", true},
        {AF_OPTION_COMPARE, "--compare", true}, {AF_OPTION_CHART, "--chart", true},
        {AF_OPTION_THREADS, "--threads", true}, {AF_OPTION_JSON, "--json", false},
        {AF_OPTION_QUIET, "--quiet", false},    {AF_OPTION_TEXTBOOK, "--textbook", false},
    };
    const struct af_word_list *peers = &cli->options.peers;
    const char **words =
        af_arena_array(&cli->arena, WORDS_MAX + 2 * peers->count, sizeof *words);
    size_t count = 0;
    if (words == NULL)
        return NULL;
    words[count++] = program;
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        if (!af_option_given(&cli->options, known[i].id))
            continue;
        words[count++] = known[i].word;
        if (known[i].has_value)
            words[count++] = cli->options.values[known[i].id];
    }
    for (size_t i = 0; i < peers->count; i++) {
        words[count++] = "--peers";
        words[count++] = peers->items[i];
    }
    words[count] = NULL;
    return words;
}

enum anyflash_status af_cmd_bench(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    const char *program = find_program(cli);
    (void)exit_out;
    if (cli->arena.failed)
        return af_fail_memory(err);
    if (program == NULL) {
        cli->hint = "install anyflash again: the Python wheel and `make install` "
                    "both include anyflash-bench";
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "the program anyflash-bench is not installed next to this one");
    }
    const char **words = command_line(cli, program);
    if (words == NULL)
        return af_fail_memory(err);
    execv(program, (char *const *)(uintptr_t)words); /* it does not change them */
    return af_fail(err, ANYFLASH_E_IO, "cannot start '%s': %s", program, strerror(errno));
}
