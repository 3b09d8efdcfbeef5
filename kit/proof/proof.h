/*
 * proof.h: does an extension load and run on a machine? A proof is a table of named checks,
 * each answered yes, no or unknown with its evidence. The functions are pure: they read only
 * their arguments. docs/reference/proof.md says what each check means. Most callers use a
 * session instead (prover.h).
 *
 * "Loads" is decided from the file's facts (formats/binary.h) and from the libraries that the
 * process will have (symbol_scope.h). "Runs" also needs the GPU code (formats/fatbin.h) and the
 * machine's GPUs and driver.
 */
#ifndef AF_KIT_PROOF_PROOF_H
#define AF_KIT_PROOF_PROOF_H

#include "kit/catalog/tables.h"
#include "kit/formats/binary.h"
#include "kit/formats/wheel_name.h"
#include "kit/machine/machine.h"
#include "kit/proof/symbol_scope.h"

#define AF_PROOF_CHECK(id, text, title, loads) AF_CHECK_##id,
enum af_proof_check_id {
#include "kit/proof/proof_checks.inc"
    AF_PROOF_CHECK_COUNT
};
#undef AF_PROOF_CHECK

/* For example "symbols" and "functions it calls exist"; static texts. */
const char *af_proof_check_name(enum af_proof_check_id id);
const char *af_proof_check_title(enum af_proof_check_id id);

/* Whether the answer NO to this check means that the extension cannot be imported or used. */
bool af_proof_check_is_about_loading(enum af_proof_check_id id);

struct af_proof_check {
    enum af_proof_check_id id;
    enum af_answer answer;
    const char *evidence; /* what was found, in one line; never NULL */
};

struct af_gpu_code;      /* formats/fatbin.h */
struct af_flash_kernels; /* formats/flash_kernel.h */

/* The inputs of a proof. A pointer is NULL where the fact is not known. */
struct af_proof_question {
    const struct af_binary *binary;
    const struct af_gpu_code *gpu_code;
    const struct af_flash_kernels *kernels;
    const struct af_scope *scope; /* NULL: nothing is known about the process */
    const struct af_load *load;   /* how this binary is loaded in that scope */
    const struct af_machine *machine;
    /* SM to check the code for, such as "9.0"; NULL: the SMs of the machine's GPUs */
    const char *arch;
    /* torch that the wheel's name or METADATA states: "2.8" or "2.8.0" */
    const char *stated_torch;
    const struct af_wheel_name *wheel; /* the name of the wheel it is in */
    bool is_torch;                     /* the extension is part of the torch that is in scope */
    /*
     * Rows of af_tables.torch (bit i: row i) that export all torch symbols that the extension
     * needs; all bits set: not known.
     */
    uint64_t fitting_torch;
};

struct af_proof {
    /* NO if it does not run, else the same as `loads` */
    enum af_answer answer;
    /* the import itself succeeds; AF_YES with answer AF_NO: it would crash when used */
    enum af_answer imports;
    enum af_answer loads; /* it imports, and torch's objects have the layout that it expects */
    enum af_answer runs;  /* its kernels run on every visible GPU; unknown if there is no GPU */
    /* AF_PROOF_CHECK_COUNT of them, in the order of proof_checks.inc */
    const struct af_proof_check *checks;
    size_t check_count;
    struct af_texts missing;           /* mangled names that no library defines */
    struct af_texts missing_libraries; /* SONAMEs of libraries that are not found */
    const char *built_for;             /* "torch 2.7 or 2.8"; NULL: it does not use torch */
    bool stated_torch_is_wrong; /* its bytes were built for a torch other than the stated one */
    const char *built_for_source; /* how that was found out; NULL if built_for is NULL */
};

/* Why the answer is NO: the evidence of the first check that says so. */
const char *af_proof_objection(const struct af_proof *proof);

/* The answer to two questions together: any NO is NO, else any UNKNOWN is UNKNOWN. */
enum af_answer af_proof_worse(enum af_answer a, enum af_answer b);

/*
 * Makes all checks. GPU checks that cannot be decided (no GPU, GPU code not read) are unknown,
 * with the reason, and do not affect `loads`; `answer` then equals `loads`. Texts are in the
 * arena.
 */
void af_proof_make(const struct af_proof_question *question, struct af_arena *arena,
                   struct af_proof *out);

#endif
