/*
 * build_view.h: what a governed build tells while it runs: one line that is
 * written over on a terminal, plain lines elsewhere.
 */
#ifndef AF_KIT_CLI_BUILD_VIEW_H
#define AF_KIT_CLI_BUILD_VIEW_H

#include "kit/build/build.h"
#include "kit/build/governor/govern.h"
#include "kit/cli/commands.h"

/* Zero-initialised but for cli. */
struct af_cli_build_view {
    const struct af_cli *cli;
    size_t done_count;
    double told; /* when the last plain line was written */
    struct af_build_end_time end_time;
    bool line_shown;
};

/* To be af_build.event, with the view as its context. */
void af_cli_build_view_event(void *context, const struct af_govern_event *event);

/* Ends the line that is written over. */
void af_cli_build_view_end(struct af_cli_build_view *view);

#endif
