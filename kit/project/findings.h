/*
 * findings.h: whether a stranger can install a project, and whether it needs flash-attn at all:
 * what is wrong, where, why, and changes that repair it. Decided from the project's files, the
 * catalog and kit/fit. Nothing is read or run.
 */
#ifndef AF_KIT_PROJECT_FINDINGS_H
#define AF_KIT_PROJECT_FINDINGS_H

#include "kit/catalog/catalog.h"
#include "kit/project/project_asks.h"
#include "kit/project/project_source.h"

#define AF_PROJECT_FINDING(id, name, title, why, fix) AF_PROJECT_FINDING_##id,
enum af_project_finding_id {
#include "kit/project/findings.inc"
    AF_PROJECT_FINDING_COUNT
};
#undef AF_PROJECT_FINDING

/* The general sentences of a finding. */
struct af_project_finding_row {
    const char *name; /* "no-wheel" */
    const char *title;
    const char *why;
    const char *fix;
};
extern const struct af_project_finding_row af_project_finding_rows[];

/* Texts in the arena; those that come from the project are not scrubbed. */
struct af_project_finding {
    enum af_project_finding_id id;
    const struct af_project_source *source;
    size_t line;
    const char *subject;           /* the line, without blanks around it */
    const char *detail;            /* what was found; NULL: the row says it all */
    const char *advice;            /* what to do here; NULL: as in the row */
    struct af_project_edit *edits; /* of `source` */
    size_t edit_count;             /* 0: no change repairs it */
    struct af_project_finding *next;
};

/* What serves where flash-attn cannot be imported. */
enum af_fallback {
    AF_FALLBACK_SDPA,    /* torch's scaled_dot_product_attention, where that is enough */
    AF_FALLBACK_ANYFLASH /* anyflash.flash_attn, once the package is published */
};

#define AF_PROJECT_FINDINGS_MAX 1000u

struct af_project_findings {
    struct af_project_finding *first; /* by file, then by line */
    size_t count;
    enum af_project_limit limit; /* the first that was reached: the rest was not checked */
    size_t mention_count; /* files that name flash-attn in any way; 0: the project does not */
    const struct af_project_source *page; /* a README to which `section` is added, or NULL */
    struct af_project_edit section;       /* what a build needs */
};

/*
 * Checks the project with these sources, which need not be all of its files, but all that name
 * torch or flash-attn. Everything is allocated in `arena`, and borrows from the sources. A file
 * that cannot be parsed gives no findings. Fails with NO_MEMORY.
 */
enum anyflash_status af_project_findings_make(struct af_arena *arena,
                                              const struct af_project_source *sources,
                                              size_t count, const struct af_catalog *catalog,
                                              enum af_fallback fallback,
                                              struct af_project_findings *findings_out,
                                              struct anyflash_error *err);

/*
 * The changes in `source`, with the section, in order, in the arena. Returns how many; 0 also
 * without memory.
 */
size_t af_project_findings_edits(const struct af_project_findings *findings,
                                 const struct af_project_source *source, struct af_arena *arena,
                                 const struct af_project_edit **edits_out);

/*
 * Below: what the checks share: the project, and how findings are added. Private to the files
 * *findings.c: findings.c checks requirements, wheels that are named by their URL, and
 * platforms; import_findings.c imports; command_findings.c commands, and writes the section of
 * a page.
 */

struct af_project_checker {
    struct af_arena *arena;
    const struct af_project_source *sources;
    size_t count;
    struct af_project_wheels wheels;
    enum af_fallback fallback;
    struct af_project_asks asks;
    bool is_flash_attn;                        /* the project is flash-attn itself */
    bool has_python;                           /* there is a Python file besides setup.py */
    bool is_mentioned;                         /* and one names flash-attn */
    bool needs_build;                          /* a finding leaves flash-attn to be compiled */
    const struct af_project_source *explained; /* the last page that got a section */
    const struct af_project_source *extended;  /* the last manifest that got an extra */
    const struct af_project_source *counted;   /* the source of the last finding, */
    size_t counted_at;                         /* its byte, */
    size_t counted_line;                       /* and its line */
    struct af_project_findings *findings;
    struct af_project_finding **end;
    struct af_project_finding spare; /* what is added without memory, or beyond the limit */
};

/* Adds a finding on the line that has byte `at`; never NULL. */
struct af_project_finding *af_project_finding_add(struct af_project_checker *checker,
                                                  enum af_project_finding_id id,
                                                  const struct af_project_source *source,
                                                  size_t at);

#define AF_PROJECT_FINDING_EDITS_MAX 32

/* Adds a change. `text` may be NULL without memory. */
void af_project_finding_edit(struct af_project_checker *checker,
                             struct af_project_finding *finding, size_t start, size_t end,
                             const char *text);

/* Whether nothing more is checked, because of a limit or without memory. */
bool af_project_is_stopped(const struct af_project_checker *checker);

/*
 * Checks a wheel that is named by its URL on the line of byte `at`. `ask` is the requirement
 * that names it, or NULL for a command, and `torch` what the project says of torch, or NULL.
 */
void af_project_check_wheel(struct af_project_checker *checker,
                            const struct af_project_source *source, size_t at, const char *url,
                            const struct af_project_ask *ask,
                            const struct af_project_ask *torch);

/* Gives the README, if there is one, that section. */
void af_project_explain_build(struct af_project_checker *checker);

/* The checks of one source. */
void af_project_check_imports(struct af_project_checker *checker,
                              const struct af_project_source *source,
                              const struct af_import_facts *facts);
void af_project_check_commands(struct af_project_checker *checker,
                               const struct af_project_source *source);

#endif
