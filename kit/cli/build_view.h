/*
 * build_view.h: what `anyflash build` prints: the estimate, the progress on
 * stderr, the result, the prerequisites, and what builds keep in the cache.
 */
#ifndef AF_KIT_CLI_BUILD_VIEW_H
#define AF_KIT_CLI_BUILD_VIEW_H

#include "kit/cli/commands.h"
#include "kit/compile/build.h"

/* What is built, with which tools, where, and how long it takes. */
void af_cli_build_view_estimate(struct af_cli *cli, const struct af_build *build,
                                const struct af_build_place *place,
                                const struct af_build_estimate *estimate);

/* The wheel and the command that installs it, or why the build failed. */
void af_cli_build_view_result(struct af_cli *cli, const struct af_build_place *place,
                              const struct af_build_result *result);

/* The result as `anyflash-build/1`. */
enum anyflash_status af_cli_build_result_json(struct af_cli *cli, const struct af_build *build,
                                              const struct af_build_place *place,
                                              const struct af_build_estimate *estimate,
                                              const struct af_build_result *result,
                                              struct anyflash_error *err);

/*
 * Progress: one line that is rewritten on a terminal, lines at intervals elsewhere.
 * Zero-initialised except cli.
 */
struct af_cli_build_progress {
    const struct af_cli *cli;
    size_t done_count;
    double shown_at; /* when the last line was written */
    struct af_build_end_time end_time;
    bool line_shown;
};

/* af_build.event, with the progress as its context. */
void af_cli_build_view_event(void *context, const struct af_govern_event *event);

/* Clears the line that is rewritten. */
void af_cli_build_view_end(struct af_cli_build_progress *progress);

/* "torch is a build without CUDA: 2.11.0" */
const char *af_cli_build_row_text(struct af_arena *arena, const struct af_prerequisite *row);

/* The prerequisites as a table. */
void af_cli_build_view_check(struct af_cli *cli, const struct af_build *build,
                             const struct af_build_check *check);

/* The same as `anyflash-build-check/1`. */
enum anyflash_status af_cli_build_check_json(struct af_cli *cli, const struct af_build *build,
                                             const struct af_build_check *check,
                                             struct anyflash_error *err);

/* A folder of the cache, and what was done with it. */
struct af_cli_build_kept {
    const struct af_build_kept *kept;
    const char *done; /* "kept", "removed", "stays" */
    const char *why;  /* why it could not be removed; NULL if it was removed */
};

/*
 * Prints what builds keep and what was done with it, as lines or as
 * `anyflash-build-clean/1`.
 */
void af_cli_build_view_kept(struct af_cli *cli, const struct af_cli_build_kept *rows,
                            size_t count, bool dry);
enum anyflash_status af_cli_build_kept_json(struct af_cli *cli,
                                            const struct af_cli_build_kept *rows, size_t count,
                                            struct anyflash_error *err);

#endif
