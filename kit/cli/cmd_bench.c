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

/* The given options as command-line words. */
static void add_options(const struct af_cli *cli, const char *words[WORDS_MAX])
{
    static const struct {
        enum af_option_id id;
        const char *word;
        bool has_value;
    } known[] = {
        {AF_OPTION_QUICK, "--quick", false},    {AF_OPTION_FILTER, "--filter", true},
        {AF_OPTION_PEERS, "--peers", true},     {AF_OPTION_CHART, "--chart", true},
        {AF_OPTION_THREADS, "--threads", true}, {AF_OPTION_JSON, "--json", false},
        {AF_OPTION_QUIET, "--quiet", false},
    };
    size_t count = 1;
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        if (!af_option_given(&cli->options, known[i].id))
            continue;
        words[count++] = known[i].word;
        if (known[i].has_value)
            words[count++] = cli->options.values[known[i].id];
    }
    words[count] = NULL;
}

enum anyflash_status af_cmd_bench(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    const char *words[WORDS_MAX] = {NULL};
    char *argv[WORDS_MAX];
    (void)exit_out;
    words[0] = find_program(cli);
    if (cli->arena.failed)
        return af_fail_memory(err);
    if (words[0] == NULL) {
        cli->hint = "install anyflash again: the Python wheel and `make install` "
                    "both include anyflash-bench";
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "the program anyflash-bench is not installed next to this one");
    }
    add_options(cli, words);
    memcpy(argv, words, sizeof argv); /* execv() does not change them */
    execv(argv[0], argv);
    return af_fail(err, ANYFLASH_E_IO, "cannot start '%s': %s", argv[0], strerror(errno));
}
