/*
 * fit.h: the decision and its parts, made from a machine and the catalog. Pure:
 * reads only its arguments and embedded or loaded data, and changes nothing.
 *
 * The ladder, best rung first: a wheel; torch's own FlashAttention kernels; the
 * smallest change of torch that has a wheel; a source build; the engine. Every
 * rung gets an answer with reasons. The rungs below the recommended one are
 * evaluated too, so that a reader can compare their costs.
 *
 * fit.c makes the decision; verdict.c says whether a wheel fits, by the rules of
 * rules_*.c; rung_*.c evaluate the rungs.
 */
#ifndef AF_KIT_FIT_FIT_H
#define AF_KIT_FIT_FIT_H

#include "kit/base/json.h"
#include "kit/catalog/publisher.h"
#include "kit/catalog/tables.h"
#include "kit/fit/reason.h"
#include "kit/machine/machine.h"

enum af_rung_kind {
    AF_RUNG_WHEEL,
    AF_RUNG_TORCH_KERNELS,
    AF_RUNG_BUILD,
    AF_RUNG_TORCH_CHANGE,
    AF_RUNG_ENGINE,
    AF_RUNG_COUNT
};

/* "wheel", "torch-kernels", "build", "torch-change", "engine": the names used in JSON. */
const char *af_rung_name(enum af_rung_kind kind);

/* Looks up a rung by name; false if there is no such rung. */
bool af_rung_parse(const char *name, enum af_rung_kind *kind_out);

/* What a rung costs; -1: unknown, 0: nothing. */
struct af_rung_cost {
    int64_t download_bytes;
    int64_t minutes;
    int64_t memory_bytes;
    int64_t disk_bytes;
};

/* "244 MiB to download, about 3 min", in the arena. */
const char *af_rung_cost_text(struct af_arena *arena, const struct af_rung_cost *price);

/* A package that a rung would install, change or break. Texts in the arena. */
struct af_fit_package_change {
    const char *name;
    const char *from; /* NULL: not installed now */
    const char *to;   /* NULL: it stays as it is, but breaks */
    const char *why;  /* NULL: it is the purpose of the change */
};

/* One thing a source build needs. Texts in the arena. */
struct af_prerequisite {
    const char *name; /* "cuda-toolkit", "host-compiler", "memory", ... */
    enum af_answer answer;
    const char *evidence; /* what was found, with its source */
    const char *fix;      /* what to do about it; NULL if the answer is yes */
    const char *why;      /* the reason in words; NULL: the evidence is enough */
};

/* What only the rung of a build has. */
struct af_rung_source_build {
    const struct af_prerequisite *prerequisites;
    size_t prerequisite_count;
    int jobs;                 /* compilers at a time */
    const char *arch_list;    /* FLASH_ATTN_CUDA_ARCHS of its own build, such as "80;90" */
    const char *flash_attn;   /* the version to build */
    const char *const *words; /* options of `anyflash build`, as given */
    size_t word_count;
};

struct af_rung {
    enum af_rung_kind kind;
    enum af_answer answer;
    const char *summary; /* one line: what the user would get, or why not */
    const struct af_reason *reasons;
    size_t reason_count;
    struct af_rung_cost price;
    const struct af_catalog_wheel *wheel; /* for wheel and torch-change; else NULL */
    /* an official wheel that fits, too, whose address the catalog does not have; or NULL */
    const struct af_catalog_wheel *official_elsewhere;
    const char *const *needs;  /* what this wheel requires besides torch, if it differs from */
    size_t need_count;         /* flash-attn's own requirement, einops */
    const char *torch_version; /* what to install instead, as "2.9.1"; or NULL */
    const char *torch_cuda;    /* for torch-change: "cu128"; else NULL */
    const struct af_fit_package_change *moves;
    size_t move_count;
    struct af_rung_source_build build; /* for build */
    bool prove_first;                  /* only a proof from the bytes of `wheel` is missing */
};

/* A wheel of the catalog with its verdict. */
struct af_candidate {
    const struct af_catalog_wheel *wheel;
    enum af_answer answer;
    uint64_t reason_bits; /* 1 << enum af_reason_id */
};

/*
 * What the bytes of a catalog wheel proved on the machine of the decision. A
 * proof overrides what the wheel's name says about torch, CUDA, C++ ABI and
 * system libraries. Platform, Python, GPUs, driver and peers are still checked
 * by the rules.
 */
struct af_proved_wheel {
    const struct af_catalog_wheel *wheel; /* in the catalog, found by its URL */
    enum af_answer loads;                 /* UNKNOWN: nothing was proved, so the name decides */
    const char *evidence;                 /* why, if `loads` is NO; NULL: not stated */
    const char *built_for; /* "torch 2.7 or 2.8", from the bytes; NULL: unknown */
};

struct af_fit_options {
    const char *package; /* NULL: "flash_attn" */
    const char *version; /* only this public version; NULL: any */
    const char *range;   /* only versions that satisfy this specifier; NULL: any */
    const char *arch;    /* target SM set by the user ("9.0"), replaces the GPUs; NULL: none */
    bool official_only;
    /* each of these lists must allow the publisher of a wheel; borrowed */
    const struct af_publishers *publishers;
    size_t publisher_list_count;
    bool lacks_package; /* this program cannot install anyflash's Python package */
    bool needs_softcap; /* the user needs score capping, which torch's kernels lack */
    bool has_preference;
    enum af_rung_kind preference;
    const struct af_proved_wheel *known; /* proofs for the only machine; borrowed */
    size_t known_count;
    const char *const *build_words; /* options of `anyflash build`: "--head-dim", ...; NULL: */
    size_t build_word_count;        /* those of rung.h */
    bool upstream_build;      /* the build rung is that of flash-attn's own sources (rung.h) */
    const int *build_targets; /* its GPUs, 80, 86, 90, ..., instead of the machine's */
    size_t build_target_count;
};

/* One of the wheels that people try first, and why it does not fit this machine. */
struct af_near_miss {
    const char *what; /* "what flash-attn's own setup.py asks for" */
    const char *filename;
    const struct af_catalog_wheel *wheel; /* NULL: not in the catalog */
    const struct af_reason *reasons;
    size_t reason_count;
};
#define AF_NEAR_MISS_MAX 3

/* How many wheels are left after each group of rules, in the order of the groups. */
struct af_filter_counts {
    const char *what; /* "for linux x86_64" */
    size_t left;
};

/*
 * Texts and arrays belong to the decision's arena. The wheels belong to the
 * catalog, which must outlive the decision.
 */
struct af_decision {
    struct af_arena arena;
    struct af_rung rungs[AF_RUNG_COUNT];
    enum af_rung_kind recommended;
    /* False if no rung is possible, the preferred rung is not, a fact is missing, or the
       environment cannot be used. */
    bool possible;
    /* The key fact without which nothing is recommended ("platform", "operating system",
       "processor architecture", "Python version", "torch version"); or NULL. */
    const char *missing_fact;
    /* of the first machine; if there is one, no rung is recommended */
    const struct af_reason *environment_problem;
    struct af_candidate *candidates; /* those that fit or may fit, best first; then the rest */
    size_t candidate_count;
    size_t fitting_count; /* answer yes */
    size_t unknown_count;
    const struct af_filter_counts *filter_counts; /* the first row counts all checked wheels */
    size_t filter_count;
    struct af_near_miss near_misses[AF_NEAR_MISS_MAX]; /* 0 if a wheel fits */
    size_t near_miss_count;
};

/*
 * The command that installs `words` ("einops") into the environment of `machine`, also where an
 * installer believes them installed; in backquotes.
 */
const char *af_fit_reinstall_command(const struct af_machine *machine, const char *words,
                                     struct af_arena *arena);

/* How to reinstall the installed torch, with the command; NULL if its version is unknown. */
const char *af_fit_reinstall_torch(const struct af_machine *machine, struct af_arena *arena);

/*
 * Why nothing can be installed into the Python environment of `machine`: there is none, it is
 * broken, VIRTUAL_ENV names another one that is gone, or torch has lost files, so that nothing
 * which imports it would work. In `arena`; NULL if nothing is wrong.
 */
const struct af_reason *af_fit_environment_problem(const struct af_machine *machine,
                                                   struct af_arena *arena);

/*
 * Checks the catalog for all `machines` at once (a wheel fits if it fits each
 * of them) and evaluates the rungs. On success *decision is initialised and the
 * caller releases it. Fails with ARGUMENT: no machine, or an arch that is not a
 * compute capability.
 */
enum anyflash_status af_fit_decide(const struct af_catalog *catalog,
                                   const struct af_machine *const *machines,
                                   size_t machine_count, const struct af_fit_options *options,
                                   struct af_decision *decision, struct anyflash_error *err);
void af_decision_release(struct af_decision *decision);

/*
 * Whether flash-attn 2 that was built for torch `built_for` ("2.10") was tested with `torch`
 * ("2.11.0"), and its symbols and layout agree.
 */
bool af_fit_are_neighbours(const char *built_for, const char *torch);

/*
 * Whether the first rung of that decision would have the answer yes: a wheel fits. No other
 * rung is evaluated. Fails as af_fit_decide() does.
 */
enum anyflash_status af_fit_has_wheel(const struct af_catalog *catalog,
                                      const struct af_machine *const *machines,
                                      size_t machine_count,
                                      const struct af_fit_options *options, bool *has_out,
                                      struct anyflash_error *err);

/*
 * Whether a proof from its bytes would settle the wheel: it fits, or the only
 * reasons against it come from what its name says about torch, CUDA, C++ ABI
 * and system libraries.
 */
bool af_candidate_is_provable(const struct af_candidate *candidate);

/*
 * Reduces `wheels`, which belong to the catalog, to those that a proof from
 * their bytes would settle on `machine`, best ranked first. Scratch memory
 * comes from the arena. For callers that look for proofs before the decision
 * (af_fit_options.known).
 */
enum anyflash_status af_fit_provable_wheels(const struct af_catalog *catalog,
                                            const struct af_machine *machine,
                                            const struct af_fit_options *options,
                                            const struct af_catalog_wheel **wheels,
                                            size_t *count, struct af_arena *arena,
                                            struct anyflash_error *err);

/*
 * The reasons of one wheel with their details, in the order of reasons.inc, in
 * `arena`. The array has *count_out elements.
 */
enum anyflash_status af_fit_explain(const struct af_catalog *catalog,
                                    const struct af_machine *machine,
                                    const struct af_fit_options *options,
                                    const struct af_catalog_wheel *wheel,
                                    struct af_arena *arena,
                                    const struct af_reason **reasons_out, size_t *count_out,
                                    struct anyflash_error *err);

/*
 * Fails with ARGUMENT if options->package or options->version is given and the catalog has no
 * such wheel, whoever published it; then *hint_out, in `arena`, names what exists. A release of
 * flash-attn 2 without wheels exists, too: it can be built.
 */
enum anyflash_status af_fit_check_asked(const struct af_catalog *catalog,
                                        const struct af_fit_options *options,
                                        struct af_arena *arena, const char **hint_out,
                                        struct anyflash_error *err);

/*
 * JSON parts that the answers of several commands share: verdicts, and the facts behind them.
 * Each function of fit_json.c returns a new value.
 * docs/reference/json.md describes the members.
 */
json_t *af_fit_json_catalog(const struct af_catalog *catalog); /* name, date, count */
json_t *af_fit_json_machine(const struct af_machine *machine); /* name and remark */
json_t *af_fit_json_publishers(const struct af_fit_options *options);
json_t *af_fit_json_wheel(const struct af_catalog_wheel *wheel);

/* The wheel with "verdict" and "reasons" (ids); both null where `candidate` is NULL. */
json_t *af_fit_json_candidate(const struct af_catalog_wheel *wheel,
                              const struct af_candidate *candidate);

json_t *af_fit_json_reasons(const struct af_reason *reasons, size_t count);
json_t *af_fit_json_rungs(const struct af_decision *decision);

/* The name of the recommended rung, or null if none is possible. */
json_t *af_fit_json_decision(const struct af_decision *decision);

json_t *af_fit_json_near_misses(const struct af_decision *decision);
json_t *af_fit_json_filter_counts(const struct af_decision *decision); /* after each group */
json_t *af_fit_json_candidate_counts(const struct af_decision *decision);

/*
 * Assumes what a short description of a machine leaves open. The one place that assumes, for
 * all that decide about described machines.
 *
 * States the usual system, processor and Python of a machine, of which at least the GPUs (or
 * that there are none), or torch and a system or a Python are known, where they are unknown:
 * linux, x86_64 (aarch64 on macOS) and 3.12 (3.11 for torch before 2.2, the first for 3.12).
 * For a DGX Spark (GB10), also the glibc of DGX OS. The source of these facts is "assumed".
 * For a torch whose version names no CUDA, such as "2.9.1", it assumes the CUDA build that
 * `pip install torch` gets: "torch_cuda=cu128". If pasted text names a CUDA, such as "CUDA
 * 12.4", and torch has a build for it, that one is assumed. Where pip gets a build without
 * CUDA, as on Windows, nothing is assumed: whoever names a GPU rarely has that one. Nor is
 * anything for GPUs of other vendors alone. The machine's name then says what was assumed:
 * "NAME, assuming os=linux, ...".
 */
enum anyflash_status af_fit_assume(struct af_machine *machine, struct anyflash_error *err);

/*
 * Makes the Python and the CUDA of torch unknown where they were assumed, in a copy of a
 * machine: what is installed there is not wrong because of them.
 */
void af_fit_forget_assumed(struct af_machine *copy);

#endif
