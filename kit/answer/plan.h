/*
 * plan.h: turns a decision into steps. Nothing is executed here; the steps are
 * what a later run would do.
 */
#ifndef AF_KIT_ANSWER_PLAN_H
#define AF_KIT_ANSWER_PLAN_H

#include "kit/base/shell.h"
#include "kit/fit/fit.h"

/* What kind of action a step is (kit/install/install.h). */
enum af_step_kind {
    AF_STEP_ADVICE,      /* advice only; a command, if any, is for the reader to run */
    AF_STEP_ENVIRONMENT, /* makes a virtual environment */
    AF_STEP_TOOL,        /* installs an installer that a later step needs */
    AF_STEP_WHEEL,       /* installs one exact file, `wheel`, without its dependencies */
    AF_STEP_PACKAGES,    /* installs `requirements`, without their dependencies */
    AF_STEP_TORCH,       /* installs `requirements`, torch first, with their dependencies */
    AF_STEP_NEEDS,       /* installs `requirements` with their dependencies, but never torch */
    AF_STEP_OWN,         /* unpacks anyflash's own Python package, or its stand-in */
    AF_STEP_BUILD,       /* compiles */
    AF_STEP_TRY          /* runs a test that shows whether it works */
};

/* The exact file of an AF_STEP_WHEEL. */
struct af_step_wheel {
    const char *package;  /* as installers list it: "flash-attn" */
    const char *filename; /* decoded: with '+' */
    const char *url;      /* '+' as %2B; NULL: there is only the user's file */
    const char *path;     /* the user's file; NULL: to be downloaded */
    const char *sha256;   /* expected, hexadecimal; NULL: unknown */
    const char *version;  /* with the local part; NULL: unknown */
};

/* One step. `argv` is the command that a user would type for it. Texts in the plan's arena. */
struct af_step {
    enum af_step_kind kind;
    const char *title;
    const char *const *argv; /* may lack the final NULL: use argc */
    size_t argc;
    const char *const *environment; /* "MAX_JOBS=2": variables set for it */
    size_t environment_count;
    const struct af_step_wheel *wheel; /* of AF_STEP_WHEEL, else NULL */
    const char *const *requirements;   /* of PACKAGES, TORCH, NEEDS: "einops", "torch==2.9.1" */
    size_t requirement_count;
    const char *torch_backend; /* for TORCH: uv's --torch-backend; else NULL */
    bool stand_in;             /* of OWN: the stand-in for flash-attn, with what it needs */
    const char *module;        /* for TRY: FlashAttention's module, if a test for it is known */
};

struct af_plan {
    struct af_arena arena;
    enum af_rung_kind rung;
    const char *python;  /* the interpreter of the environment that is changed */
    bool uv;             /* uv installs; else pip of that environment */
    enum af_shell shell; /* the usual one of the machine's system */
    const struct af_step *steps;
    size_t step_count;
};

/*
 * The steps of the decision's recommended rung on the first machine, with the
 * installer that is available (uv before pip). The decision must outlive the
 * plan; the caller releases the plan.
 */
enum anyflash_status af_plan_make(const struct af_decision *decision,
                                  const struct af_machine *const *machines,
                                  size_t machine_count, struct af_plan *plan,
                                  struct anyflash_error *err);
void af_plan_release(struct af_plan *plan);

/*
 * The steps that install one wheel that the user names. `wheel` is copied;
 * `module` (NULL: none) is imported to check that it loads; `missing` are
 * packages that it needs and the machine does not have.
 */
void af_plan_make_wheel(const struct af_machine *machine, const struct af_step_wheel *wheel,
                        const char *module, const char *const *missing, size_t missing_count,
                        struct af_plan *plan);

/*
 * The steps that put anyflash's own Python package into the environment of
 * `machine`, with `stand_in` also its stand-in for flash-attn; none if that is there already.
 */
void af_plan_make_package(const struct af_machine *machine, bool stand_in,
                          struct af_plan *plan);

/*
 * Why anyflash's Python package, or with `stand_in` its stand-in for flash-attn, cannot be put
 * into the environment of `machine` by this program: one sentence in `arena`; NULL if it can.
 * Unknown facts are no reason.
 */
const char *af_plan_package_refusal(const struct af_machine *machine, bool stand_in,
                                    struct af_arena *arena);

/*
 * Whether anyflash's Python package is in the environment: this version of it, or any inside a
 * stand-in for flash-attn.
 */
bool af_plan_package_is_there(const struct af_machine *machine);

/* Whether a stand-in for flash-attn is there, too. */
bool af_plan_stand_in_is_there(const struct af_machine *machine);

/* The commands to type if a wheel may load but its bytes have to prove it. */
struct af_plan_proof {
    const char *inspect; /* proves it and changes nothing */
    const char *install; /* proves it, installs it, and undoes that if it does not load */
};

/*
 * The commands for the wheel of a rung with `prove_first`, in `arena`; false
 * for every other rung, or for a machine that anyflash does not run on.
 */
bool af_plan_proof_make(const struct af_rung *rung, const struct af_machine *machine,
                        struct af_arena *arena, struct af_plan_proof *proof_out);

/*
 * The plan with addresses that have no user, password or query, to be printed or kept: it
 * cannot be carried out. Borrows from `plan`; new texts are in `arena`. Returns whether an
 * address was changed.
 */
bool af_plan_hide_addresses(const struct af_plan *plan, struct af_arena *arena,
                            struct af_plan *shown_out);

/* The command as one would type it in that shell, quoted where needed. */
const char *af_step_command(const struct af_step *step, enum af_shell shell,
                            struct af_arena *arena);

#endif
