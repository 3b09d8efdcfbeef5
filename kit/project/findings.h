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

#define AF_PROJECT_FINDING(id, name, weight, title, why, fix) AF_PROJECT_FINDING_##id,
enum af_project_finding_id {
#include "kit/project/findings.inc"
    AF_PROJECT_FINDING_COUNT
};
#undef AF_PROJECT_FINDING

/* The general sentences of a finding. */
struct af_project_finding_row {
    const char *name; /* "no-wheel" */
    int weight;       /* 1: a remark */
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
    size_t untried_count;          /* of changes, while they are tried */
    struct af_project_finding *next;
};

/* What serves where flash-attn cannot be imported. */
enum af_fallback {
    AF_FALLBACK_SDPA,    /* torch's scaled_dot_product_attention, where that is enough */
    AF_FALLBACK_ANYFLASH /* anyflash.flash_attn, once the package is published */
};

struct af_project_options {
    enum af_fallback fallback;
    const char *const *ignored; /* names of findings that are not wanted; borrowed */
    size_t ignored_count;
    const char *const *only; /* paths of the files whose findings are wanted; borrowed */
    size_t only_count;       /* 0: of all files */
    bool is_partial;         /* there are files of the project that are not among the sources */
};

#define AF_PROJECT_FINDINGS_MAX 1000u

struct af_project_findings {
    struct af_project_finding *first; /* by file, then by line */
    size_t count;
    enum af_project_limit limit; /* the first that was reached: the rest was not checked */
    size_t error_count;          /* of them, without remarks */
    size_t ignored_count;        /* what lines with "anyflash: ignore" would have given */
    size_t mention_count; /* files that name flash-attn in any way; 0: the project does not */
};

/*
 * Checks the project with these sources, which need not be all of its files, but all that name
 * torch or flash-attn, and the modules that import a module that does. Everything is allocated
 * in `arena`, and borrows from the sources. A file that cannot be parsed gives no findings.
 *
 * Every change was tried (change_trial.c): with it the files still parse, no finding is new or
 * heavier, the index has each version that is written, and what unguarded code imports is
 * still required.
 */
void af_project_findings_make(struct af_arena *arena, const struct af_project_source *sources,
                              size_t count, const struct af_catalog *catalog,
                              const struct af_project_options *options,
                              struct af_project_findings *findings_out);

/* "rotary" for "ops/rotary.py", "ops" for "ops/__init__.py", in the arena. */
const char *af_project_module_name(struct af_arena *arena, const char *path);

/* The changes in `source`, in order, in the arena. Returns how many. */
size_t af_project_findings_edits(const struct af_project_findings *findings,
                                 const struct af_project_source *source, struct af_arena *arena,
                                 const struct af_project_edit **edits_out);

#endif
