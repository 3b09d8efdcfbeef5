/*
 * check_view.h: one `anyflash check`: the project and what was found in it. cmd_check.c fills
 * it, check_view.c prints it.
 */
#ifndef AF_KIT_CLI_CHECK_VIEW_H
#define AF_KIT_CLI_CHECK_VIEW_H

#include "kit/cli/check_files.h"
#include "kit/cli/commands.h"
#include "kit/project/findings.h"

struct af_cli_check {
    struct af_cli *cli;
    struct af_cli_project project;
    struct af_project_findings findings;
    size_t written_count;
    const char *patch; /* the file that takes the changes back, or NULL */
};

/* Writes the answer to cli->out, in the form that the options name. */
enum anyflash_status af_cli_check_view(struct af_cli_check *check, struct anyflash_error *err);

/* Appends the changes of all files to cli->out; `is_raw`: with all bytes, for programs. */
void af_cli_check_add_diff(struct af_cli_check *check, bool is_raw);

#endif
