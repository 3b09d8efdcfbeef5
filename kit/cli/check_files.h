/*
 * check_files.h: the files of the project that `anyflash check` looks at, and what the project
 * says of that itself: [tool.anyflash] in its pyproject.toml. No link is followed, and nothing
 * is run.
 */
#ifndef AF_KIT_CLI_CHECK_FILES_H
#define AF_KIT_CLI_CHECK_FILES_H

#include "kit/cli/commands.h"
#include "kit/project/findings.h"

#define AF_CLI_PROJECT_FILE_BYTES_MAX (2u << 20)
#define AF_CLI_PROJECT_LIMITS_MAX 3u

/* Empty when zero-initialised, but for `cli`; all in its arena. */
struct af_cli_project {
    struct af_cli *cli;
    const char *root;
    struct af_project_source *sources;
    size_t count;
    struct af_project_options options;
    const char *const *excluded; /* patterns of paths */
    size_t excluded_count;
    const char *limits[AF_CLI_PROJECT_LIMITS_MAX]; /* those that were reached, as sentences */
    size_t limit_count;
    size_t unread_count;
    size_t entry_count; /* files and folders that were seen */
    size_t read_bytes;
    size_t checked_bytes;
    const char **others; /* Python files that do not name flash-attn */
    size_t other_count;
};

/*
 * Reads the project in the folder of the command's word, or in the current one; if the words
 * are files, the current one, and options.only has them. Fails with NOT_FOUND, or ARGUMENT for
 * several folders or a setting that is unknown.
 */
enum anyflash_status af_cli_project_read(struct af_cli_project *project,
                                         struct anyflash_error *err);

/* Keeps the sentence, once. */
void af_cli_project_note_limit(struct af_cli_project *project, const char *sentence);

#endif
