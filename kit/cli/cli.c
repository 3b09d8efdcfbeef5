/*
 * cli.c: finds the command, runs it, writes stdout once, and turns an error
 * into a sentence on stderr and an exit code. Called by main.
 */
#include "kit/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/cli/commands.h"
#include "kit/cli/environment_change.h"
#include "kit/system/progress.h"

#define AF_COMMAND(id, name, arguments, line, doc, example) af_cmd_##name,
static enum anyflash_status (*const command_functions[])(struct af_cli *, enum af_exit *,
                                                         struct anyflash_error *) = {
#include "kit/cli/commands.inc"
};
#undef AF_COMMAND

static enum anyflash_status write_out(const struct af_text *out, struct anyflash_error *err)
{
    struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};
    for (size_t done = 0; done < out->len;) {
        ssize_t got = write(STDOUT_FILENO, out->data + done, out->len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN && poll(&room, 1, -1) > 0)
            continue; /* a full pipe that another program made non-blocking */
        if (got < 0)
            return af_fail(err, ANYFLASH_E_IO, "cannot write to standard output: %s",
                           strerror(errno));
        done += (size_t)got;
    }
    return ANYFLASH_OK;
}

static enum af_exit exit_of(enum anyflash_status status)
{
    switch (status) {
    case ANYFLASH_OK:
        return AF_EXIT_YES;
    case ANYFLASH_E_ARGUMENT:
        return AF_EXIT_USAGE;
    case ANYFLASH_E_INTERNAL:
        return AF_EXIT_BUG;
    default:
        return AF_EXIT_WORLD;
    }
}

static enum anyflash_status check_values(const struct af_options *options,
                                         struct anyflash_error *err)
{
    const char *when = options->values[AF_OPTION_COLOR];
    if (when != NULL && !af_equal(when, "auto") && !af_equal(when, "always") &&
        !af_equal(when, "never"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--color takes auto, always or never");
    return ANYFLASH_OK;
}

/*
 * A killed run may have left an environment half changed. Commands that change
 * environments repair it first; those that only read environments report it.
 */
static void handle_unfinished(struct af_cli *cli)
{
    unsigned command = 1u << cli->options.command;
    bool only_looks = af_option_given(&cli->options, AF_OPTION_DRY_RUN) ||
                      af_option_given(&cli->options, AF_OPTION_CHECK) ||
                      af_option_given(&cli->options, AF_OPTION_LIST);
    if (af_option_given(&cli->options, AF_OPTION_HELP) ||
        af_option_given(&cli->options, AF_OPTION_RECOVER))
        return;
    if ((command & (AF_ON_INSTALL | AF_ON_RUN | AF_ON_UNDO | AF_ON_BUILD)) != 0 && !only_looks)
        af_cli_recover(cli);
    else if ((command & (AF_ON_DECIDING | AF_ON_INSPECT | AF_ON_VERIFY | AF_ON_INSTALL |
                         AF_ON_UNDO | AF_ON_BUILD)) != 0)
        af_cli_warn_unfinished(cli);
}

/* `anyflash --help` alone prints the overview, not the default command's options. */
static bool asks_for_overview(const struct af_cli *cli, int argc, char **argv)
{
    bool is_named = cli->options.command != AF_COMMAND_DOCTOR;
    for (int i = 1; i < argc && !is_named; i++)
        is_named = strcmp(argv[i], "doctor") == 0;
    return !is_named;
}

static enum anyflash_status run(struct af_cli *cli, int argc, char **argv,
                                enum af_exit *exit_out, struct anyflash_error *err)
{
    enum anyflash_status status =
        af_options_parse(argc, argv, &cli->arena, &cli->options, &cli->hint, err);
    if (status == ANYFLASH_OK)
        status = check_values(&cli->options, err);
    if (status != ANYFLASH_OK)
        return status;
    handle_unfinished(cli);
    if (af_option_given(&cli->options, AF_OPTION_HELP) && asks_for_overview(cli, argc, argv))
        status = af_cmd_help(cli, exit_out, err);
    else if (af_option_given(&cli->options, AF_OPTION_HELP))
        af_options_help(cli->options.command, &cli->out);
    else
        status = command_functions[cli->options.command](cli, exit_out, err);
    if (status == ANYFLASH_OK)
        status = write_out(&cli->out, err);
    return status;
}

int af_cli_main(int argc, char **argv)
{
    struct af_cli cli = {0};
    struct anyflash_error err = {0};
    enum af_exit code = AF_EXIT_YES;
    af_json_start();
    af_arena_init(&cli.arena);
    enum anyflash_status status = run(&cli, argc, argv, &code, &err);
    if (status != ANYFLASH_OK) {
        code = af_interrupted() ? AF_EXIT_INTERRUPTED : exit_of(status);
        fprintf(stderr, "error: %s\n", err.message);
        if (cli.hint != NULL)
            fprintf(stderr, "hint: %s\n", cli.hint);
    }
    af_text_release(&cli.out);
    af_arena_release(&cli.arena);
    return (int)code;
}
