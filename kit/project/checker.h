/*
 * checker.h: what the checks of a project share: the project, and how findings are added. One
 * file has the checks of one kind of statement: requirement_findings.c, wheel_findings.c,
 * uv_findings.c, command_findings.c and import_findings.c.
 */
#ifndef AF_KIT_PROJECT_CHECKER_H
#define AF_KIT_PROJECT_CHECKER_H

#include "kit/formats/toml.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/findings.h"

struct af_project_checker {
    struct af_arena *arena;
    const struct af_project_source *sources;
    size_t count;
    struct af_project_wheels *wheels;
    const struct af_project_options *options;
    struct af_project_asks asks;
    const struct af_project_source *parsed; /* the last manifest that was read for uv, */
    struct af_toml toml;                    /* if `is_toml` */
    bool is_toml;
    size_t use_count;   /* of modules whose importers were looked for */
    bool is_flash_attn; /* the project is flash-attn itself */
    bool has_python;    /* there is a Python file besides setup.py */
    bool is_mentioned;  /* and one names flash-attn */
    bool has_torch;     /* some file asks for torch, or for what brings it */
    bool is_needed;     /* af_project_code_needs() */
    const struct af_project_source *extended; /* the last manifest that got an extra */
    const struct af_project_source *counted;  /* the source of the last finding, */
    size_t counted_at;                        /* its byte, */
    size_t counted_line;                      /* and its line */
    struct af_project_findings *findings;
    struct af_project_finding **end;
    const struct af_project_source *listed; /* the source of the last findings, */
    struct af_project_finding **start;      /* and where they start in the list */
    struct af_project_finding spare;        /* what is ignored, or beyond the limit */
};

/* Adds a finding on the line that has byte `at`; never NULL. */
struct af_project_finding *af_project_finding_add(struct af_project_checker *checker,
                                                  enum af_project_finding_id id,
                                                  const struct af_project_source *source,
                                                  size_t at);

#define AF_PROJECT_FINDING_EDITS_MAX 32

/* Adds a change. */
void af_project_finding_edit(struct af_project_checker *checker,
                             struct af_project_finding *finding, size_t start, size_t end,
                             const char *text);

/* Whether nothing more is checked, because of a limit. */
bool af_project_is_stopped(const struct af_project_checker *checker);

/*
 * Checks a wheel that is named by its URL on the line of byte `at`. `ask` is the requirement
 * that names it, or NULL for a command, and `torch` what the project says of torch, or NULL.
 */
void af_project_check_wheel(struct af_project_checker *checker,
                            const struct af_project_source *source, size_t at, const char *url,
                            const struct af_project_ask *ask,
                            const struct af_project_ask *torch);

/*
 * Checks that flash-attn has a wheel for `torch` on each platform that the project supports and
 * that the requirement's marker allows. `wheel`: the wheel that the requirement names, or NULL.
 */
void af_project_check_platforms(struct af_project_checker *checker,
                                const struct af_project_ask *ask, const char *torch,
                                const struct af_wheel_name *wheel);

/*
 * Whether the requirement takes flash-attn from an index that has one version for several
 * torches, and does not say which; then adds a finding.
 */
bool af_project_check_local(struct af_project_checker *checker,
                            const struct af_project_ask *ask,
                            const struct af_project_ask *torch);

/* Whether only the author may be able to reach the URL: it is local, or needs a password. */
bool af_project_is_private(const char *url);

/*
 * Replaces a requirement by one for each wheel with these pins. Only in files for installers:
 * PyPI refuses packages whose dependencies are URLs. False if there are none.
 */
bool af_project_edit_wheels(struct af_project_checker *checker,
                            struct af_project_finding *finding,
                            const struct af_project_ask *ask,
                            const struct af_project_pins *pins);

/* The requirement as it is written, copied. */
const char *af_project_copy_ask(struct af_project_checker *checker,
                                const struct af_project_ask *ask);

/* The line of the requirement with `version` in place of what it allows. False: it cannot. */
bool af_project_edit_pin(struct af_project_checker *checker, struct af_project_finding *finding,
                         const struct af_project_ask *ask, const char *version);

/* The checks of one requirement on flash-attn. */
void af_project_check_requirement(struct af_project_checker *checker,
                                  const struct af_project_ask *ask);

/*
 * Whether the pinned flash-attn lacks wheels for what is said of torch; then adds a finding.
 * Commands give both without a place (start and end are equal): then there is no change.
 */
bool af_project_check_pins(struct af_project_checker *checker, const struct af_project_ask *ask,
                           const struct af_project_ask *torch);

/*
 * Checks a requirement of a pyproject.toml that tells uv how flash-attn is built. False if it
 * does not: then nothing was checked.
 */
bool af_project_check_uv(struct af_project_checker *checker, const struct af_project_ask *ask,
                         const struct af_project_ask *torch);

/*
 * Whether flash-attn may be needed: some module imports it without a handler, or names it in
 * another way, or none shows that it may be missing, or not all files were read.
 */
bool af_project_code_needs(const struct af_project_checker *checker);

/* Bytes of an import, of a call, and from an import to its handler, that are looked at. */
#define AF_PROJECT_STATEMENT_BYTES_MAX 4096u

/*
 * Whether the module checker->sources[at] is needed: other modules import it, and one of them
 * without a guard; or nobody does, and it is where a program starts.
 */
bool af_project_module_is_used(struct af_project_checker *checker, size_t at);

/* The findings without a trial of their changes. */
void af_project_find(struct af_arena *arena, const struct af_project_source *sources,
                     size_t count, struct af_project_wheels *wheels,
                     const struct af_project_options *options,
                     struct af_project_findings *findings_out,
                     struct af_project_asks *asks_out);

/* Takes back the changes that make the project worse; `asks` is what the sources ask for. */
void af_project_try_changes(struct af_project_findings *findings,
                            const struct af_project_source *sources, size_t count,
                            struct af_project_wheels *wheels,
                            const struct af_project_options *options,
                            const struct af_project_asks *asks);

/* Tests, examples and measurements are not installed, or may stop without flash-attn. */
bool af_project_is_aside(const char *path);

/* The checks of one source. */
void af_project_check_imports(struct af_project_checker *checker,
                              const struct af_project_source *source,
                              const struct af_import_facts *facts);
void af_project_check_commands(struct af_project_checker *checker,
                               const struct af_project_source *source);

#endif
