/*
 * config_project.h: what the files of a project state about torch and flash-attn, and the
 * decision for its machines with the torch that the project will have there.
 */
#ifndef AF_KIT_CONFIG_CONFIG_PROJECT_H
#define AF_KIT_CONFIG_CONFIG_PROJECT_H

#include "kit/config/config.h"
#include "kit/project/requirements.h"

#define AF_CONFIG_FILES_MAX 4

struct af_config_file {
    const char *name;          /* for messages: "pyproject.toml" */
    struct af_project project; /* the requirements on torch, on what decides it, and on the */
};                             /* package; from everywhere in the file */

/* Set arena and package, then add the files, the most important one first. */
struct af_config_project {
    struct af_arena *arena;
    const char *package; /* "flash-attn", normalised */
    bool locks_all;      /* the tool is uv, which resolves for all machines at once */

    struct af_config_file files[AF_CONFIG_FILES_MAX];
    size_t file_count;
    struct af_project dependencies; /* project.dependencies alone, which are in files, too */
    struct af_project overrides;    /* those of uv, which are requirements of the file, too */
    const char *requires_python;    /* NULL: not stated */
    const char *torch_cuda;         /* "cu126" of the index that uv takes torch from; or NULL */
    const char *hint;               /* what to do about a refusal; NULL: nothing special */
    bool replaces_torch; /* some machine has another torch now than it was found with */
};

/*
 * Adds what a pyproject.toml, pixi.toml or environment.yml states. uv resolves all extras and
 * groups together, so all of them count. Fails with DATA if it is TOML that cannot be parsed.
 */
enum anyflash_status af_config_project_add(struct af_config_project *project,
                                           const struct af_project_source *source,
                                           struct anyflash_error *err);

/*
 * The same for a requirements file, which `read` reads, with those that it includes. Lines
 * after one that cannot be read are left out.
 */
void af_config_project_add_lines(struct af_config_project *project, const char *path,
                                 af_project_read_file_fn *read, void *context);

/*
 * Whether some release MAJOR.MINOR.PATCH satisfies the specifier; a local version in the
 * specifier is ignored. One of more than 1024 bytes allows nothing.
 */
bool af_config_minor_allowed(struct af_arena *arena, struct af_span specifier, int64_t major,
                             int64_t minor);

/*
 * Whether the project allows a torch MAJOR.MINOR on a machine with these markers: what it says
 * of torch and of the packages whose releases need one torch each.
 */
bool af_config_project_allows(const struct af_config_project *project,
                              const struct af_marker_environment *environment, int64_t major,
                              int64_t minor);

/* The next requirement on `name` after `after`, in the first file that has one of `names`. */
const struct af_project_requirement *af_config_project_next(
    const struct af_config_project *project, const struct af_project_requirement *after,
    const char *name, const struct af_marker_environment *environment);

/* "'torch==2.7.1' in pyproject.toml". */
const char *af_config_project_place(const struct af_config_project *project,
                                    const struct af_project_requirement *requirement);

/*
 * As af_config_lock_decide(), for what the project will have: a torch that it pins replaces
 * that of the machine, and only versions of the package that it allows are chosen. Notes say
 * what differs from the machine. Fails with UNSUPPORTED also if installers could not lock that,
 * with the reason; project->hint then names the nearest pins that have wheels.
 */
enum anyflash_status af_config_project_decide(struct af_config_project *project,
                                              struct af_config_lock *lock,
                                              const struct af_catalog *catalog,
                                              struct af_machine *machines, size_t machine_count,
                                              const struct af_fit_options *options,
                                              struct anyflash_error *err);

/* ---- shared by config_torch.c, config_refusal.c and config_decide.c ---- */

/* Notes are collected until the lock can take them. */
struct af_config_decider {
    struct af_config_project *project;
    const struct af_catalog *catalog;
    struct af_fit_options options;
    struct af_machine *machine; /* the one that is looked at */
    struct af_marker_environment here;
    const char *notes[AF_CONFIG_NOTES_MAX];
    size_t note_count;
    struct anyflash_error *err;
};

/*
 * The first requirement that limits torch on decider->machine, itself or by what needs one
 * torch; NULL: none does.
 */
const struct af_project_requirement *af_config_torch_limit(
    const struct af_config_decider *decider);

/*
 * A requirement for other machines that excludes torch MAJOR.MINOR, although uv would take it
 * for these, too: it keeps them apart only if project.dependencies has torch for both, each
 * with a marker (uv 0.13). NULL: there is none.
 */
const struct af_project_requirement *af_config_torch_elsewhere(
    const struct af_config_project *project, const struct af_marker_environment *environment,
    int64_t major, int64_t minor);

/* Replaces the machine's torch with the usual build of `version`. */
enum anyflash_status af_config_torch_state(struct af_config_decider *decider,
                                           const char *version);

/* Whether a wheel fits the machine as it is now described. */
enum anyflash_status af_config_torch_has_wheel(struct af_config_decider *decider,
                                               bool *has_out);

/*
 * Gives the machine the torch that the project will have, if the project excludes its own.
 * Fails with UNSUPPORTED if nothing says which torch that is, or if nothing can be.
 */
enum anyflash_status af_config_torch_settle(struct af_config_decider *decider);

/*
 * Fails with the reason that no wheel fits the machine within what the project allows, and sets
 * the hint. Leaves *failed_out false if other pins would not help.
 */
enum anyflash_status af_config_refuse(struct af_config_decider *decider, bool *failed_out);

#endif
