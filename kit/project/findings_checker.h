/*
 * findings_checker.h: what the checks share: the project, and adding findings. Private to the
 * files *findings.c: findings.c checks requirements, wheel_findings.c wheels that are named by
 * their URL and platforms, import_findings.c imports, command_findings.c commands, and
 * readme_findings.c writes the section of a page.
 */
#ifndef AF_KIT_PROJECT_FINDINGS_CHECKER_H
#define AF_KIT_PROJECT_FINDINGS_CHECKER_H

#include "kit/formats/wheel_name.h"
#include "kit/project/findings.h"
#include "kit/project/project_asks.h"

struct af_project_checker {
    struct af_arena *arena;
    const struct af_project_source *sources;
    size_t count;
    const struct af_catalog *catalog;
    enum af_fallback fallback;
    struct af_project_asks asks;
    bool has_python;                           /* there is a Python file besides setup.py */
    bool is_mentioned;                         /* and one names flash-attn */
    bool needs_build;                          /* a finding leaves flash-attn to be compiled */
    const struct af_project_source *explained; /* the last page that got a section */
    struct af_project_findings *findings;
    struct af_project_finding **end;
    struct af_project_finding spare; /* what is added without memory */
};

/* The requirement as it is written, copied. */
const char *af_project_copy_ask(struct af_project_checker *checker,
                                const struct af_project_ask *ask);

/* Adds a finding on the line; never NULL. */
struct af_project_finding *af_project_finding_add(struct af_project_checker *checker,
                                                  enum af_project_finding_id id,
                                                  const struct af_project_source *source,
                                                  size_t line);

/* Adds a change. `text` may be NULL without memory. */
void af_project_finding_edit(struct af_project_checker *checker,
                             struct af_project_finding *finding, size_t start, size_t end,
                             const char *text);

/* The text in the arena; releases it. */
const char *af_project_take(struct af_project_checker *checker, struct af_text *text);

/*
 * Replaces a requirement by one for each wheel with these pins. Only in files for installers:
 * PyPI refuses packages whose dependencies are URLs. False if there are none.
 */
bool af_project_edit_wheels(struct af_project_checker *checker,
                            struct af_project_finding *finding,
                            const struct af_project_ask *ask,
                            const struct af_project_pins *pins);

/* Whether only the author may be able to reach the URL: it is local, or needs a password. */
bool af_project_url_is_private(const char *url);

/*
 * Checks a wheel that is named by its URL on this line. `ask` is the requirement that names it,
 * or NULL for a command, and `torch` what the project says of torch, or NULL.
 */
void af_project_check_wheel(struct af_project_checker *checker,
                            const struct af_project_source *source, size_t line,
                            const char *url, const struct af_project_ask *ask,
                            const struct af_project_ask *torch);

/*
 * Checks that flash-attn has a wheel for `torch` on each platform that the project supports and
 * that the requirement's marker allows. `wheel`: the wheel that the requirement names, or NULL.
 */
void af_project_check_platforms(struct af_project_checker *checker,
                                const struct af_project_ask *ask, const char *torch,
                                const struct af_wheel_name *wheel);

/*
 * The section of a page that says what a build of `flash` ("flash-attn==2.8.3") needs, behind
 * the section with the byte `after`. False if the page has it.
 */
bool af_project_section(struct af_project_checker *checker,
                        const struct af_project_source *source, size_t after, const char *flash,
                        struct af_project_edit *edit_out);

/* Gives the README, if there is one, that section. */
void af_project_explain_build(struct af_project_checker *checker);

/* Whether the word of a command names the package (normalised): "flash_attn==2.8.3". */
bool af_project_is_package(const char *word, const char *name);

/* "torch==2.6.0", or "torch" if the project does not pin it. */
const char *af_project_torch_word(struct af_project_checker *checker);

/* The checks of one source. */
void af_project_check_imports(struct af_project_checker *checker,
                              const struct af_project_source *source,
                              const struct af_import_facts *facts);
void af_project_check_commands(struct af_project_checker *checker,
                               const struct af_project_source *source);

#endif
