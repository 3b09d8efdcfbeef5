/*
 * plan.h: a decision as steps. Nothing is done here; what is printed is what a
 * later run would do.
 */
#ifndef AF_KIT_PLAN_PLAN_H
#define AF_KIT_PLAN_PLAN_H

#include "kit/fit/fit.h"

/* What a step is for whoever does it (run/install.h). */
enum af_step_kind {
    AF_STEP_ADVICE,      /* words: nothing is done, argc is 0 */
    AF_STEP_ENVIRONMENT, /* makes a virtual environment */
    AF_STEP_TOOL,        /* brings an installer that a later step needs */
    AF_STEP_WHEEL,       /* brings one exact file, `wheel`, without its dependencies */
    AF_STEP_PACKAGES,    /* brings `requirements`, without their dependencies */
    AF_STEP_TORCH,       /* brings `requirements`, torch first, with all that they need */
    AF_STEP_BUILD,       /* compiles */
    AF_STEP_TRY          /* a command that shows whether it works */
};

/* The exact file of an AF_STEP_WHEEL. */
struct af_step_wheel {
    const char *package;  /* as installers list it: "flash-attn" */
    const char *filename; /* decoded: with '+' */
    const char *url;      /* '+' as %2B; NULL: only a file of the user's */
    const char *path;     /* the user's file; NULL: to be downloaded */
    const char *sha256;   /* expected, hexadecimal; NULL: not known */
    const char *version;  /* with the local part; NULL: not known */
};

/*
 * One step. `argv` is what one would type for it. Texts in the plan's arena.
 */
struct af_step {
    enum af_step_kind kind;
    const char *title;
    const char *const *argv; /* not NULL-terminated by contract: use argc */
    size_t argc;
    const char *const *environment; /* "MAX_JOBS=2" words set for it */
    size_t environment_count;
    const struct af_step_wheel *wheel; /* of AF_STEP_WHEEL, else NULL */
    const char *const *requirements;   /* of PACKAGES and TORCH: "einops", "torch==2.9.1" */
    size_t requirement_count;
    const char *torch_backend; /* of TORCH: uv's --torch-backend; else NULL */
    const char *module; /* of TRY: FlashAttention's module, where a known answer exists */
};

struct af_plan {
    struct af_arena arena;
    enum af_rung_kind rung;
    const char *python; /* the interpreter of the environment that is changed */
    bool uv;            /* uv installs; else pip of that environment */
    const struct af_step *steps;
    size_t step_count;
};

/*
 * The steps of the decision's recommended rung on the first machine, with the
 * installer that is there (uv before pip). The decision must outlive the plan;
 * the caller releases it.
 */
enum anyflash_status af_plan_make(const struct af_decision *decision,
                                  const struct af_machine *const *machines,
                                  size_t machine_count, struct af_plan *plan,
                                  struct anyflash_error *err);
void af_plan_release(struct af_plan *plan);

/*
 * The steps that bring one wheel that the user names: `wheel` is copied,
 * `module` (NULL: none) is what is imported to check that it loads, and `missing`
 * are packages that it needs and the machine has not.
 */
enum anyflash_status af_plan_make_wheel(const struct af_machine *machine,
                                        const struct af_step_wheel *wheel, const char *module,
                                        const char *const *missing, size_t missing_count,
                                        struct af_plan *plan, struct anyflash_error *err);

/* What one types where a wheel may load and its bytes have to prove it. */
struct af_plan_proof {
    const char *inspect; /* proves, changes nothing */
    const char *install; /* proves, installs, and takes it back when it does not load */
};

/*
 * The commands for the wheel of a rung with `prove_first`, in `arena`; false
 * for every other rung, and when memory fails (arena->failed).
 */
bool af_plan_proof_make(const struct af_rung *rung, const struct af_machine *machine,
                        struct af_arena *arena, struct af_plan_proof *proof_out);

/* The command as one could type it in a POSIX shell, quoted where needed. */
/* NULL when memory fails; then arena->failed too. */
const char *af_step_command(const struct af_step *step, struct af_arena *arena);

#endif
