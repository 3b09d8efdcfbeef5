/*
 * install_command.h: what an installer's command would install, and where: pip and uv pip, also
 * as `python -m pip` and behind `conda run`, `poetry run` and the like.
 *
 * Sources: the command lines of pip 26 and uv 0.13. Options that are not known here take no
 * value; requirements that follow one are then read one word too early or too late.
 */
#ifndef AF_KIT_PROJECT_INSTALL_COMMAND_H
#define AF_KIT_PROJECT_INSTALL_COMMAND_H

#include "kit/project/requirements.h"

struct af_project_command {
    const char *const *words; /* borrowed */
    size_t word_count;
    size_t prefix_count; /* words before the installer that choose its environment */
    bool uv;             /* `uv pip`; else pip */
    bool installs;       /* false: `pip list` and the like */
    const char *python;  /* the interpreter or environment that is named; or NULL */
    const char *pip;     /* the word that starts pip, if no interpreter is named; or NULL */
    const char *refusal; /* why variables cannot prepare this command, in the arena; or NULL */
    const char *hint;    /* what to do instead; or NULL */
};

/*
 * Reads the words (at least one), and adds requirements, constraints and index options to
 * `project`, which is initialised as for requirements.h. Fails as reading its files does;
 * a refusal is not a failure.
 */
enum anyflash_status af_project_command_read(struct af_project *project,
                                             const char *const *words, size_t word_count,
                                             struct af_project_command *command_out,
                                             struct anyflash_error *err);

#endif
