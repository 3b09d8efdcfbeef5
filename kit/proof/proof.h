/*
 * proof.h: does this extension load and run there? A table of named checks,
 * each yes, no or unknown with its evidence. Pure: nothing is read but the
 * arguments. The meaning of each check is in docs/reference/proof.md.
 *
 * "Loads" is decided from the file's facts (formats/binary.h) and from the
 * libraries that will be in the process (fit/scope.h). "Runs" needs the GPU
 * code (formats/fatbin.h) and the machine's GPUs and driver.
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

/* "symbols", and "functions it calls exist"; static texts. */
const char *af_proof_check_name(enum af_proof_check_id id);
const char *af_proof_check_title(enum af_proof_check_id id);

/* Whether a "no" of this check keeps the extension from being imported or used at all. */
bool af_proof_check_is_about_loading(enum af_proof_check_id id);

struct af_proof_check {
    enum af_proof_check_id id;
    enum af_answer answer;
    const char *evidence; /* one line, what was seen; never NULL */
};

struct af_gpu_code;      /* formats/fatbin.h */
struct af_flash_kernels; /* formats/flash_kernel.h */

/* What is to be proved. NULL is not known. */
struct af_proof_question {
    const struct af_binary *binary;
    const struct af_gpu_code *gpu_code;
    const struct af_flash_kernels *kernels;
    const struct af_scope *scope; /* NULL: nothing is known of the place */
    const struct af_load *load;   /* of this binary in that scope */
    const struct af_machine *machine;
    const struct af_tables *tables;
    const char *arch; /* SM to judge the GPU code for, as "9.0", in place of the GPUs; NULL */
    /* torch that the wheel's name or METADATA claims, as "2.8" or "2.8.0" */
    const char *stated_torch;
    const struct af_wheel_name *wheel; /* the name of the wheel it is in */
    bool is_torch;                     /* lies in the folder of the torch that is in scope */
    /*
     * Rows of tables->torch (bit i: row i) whose exported symbols are all that
     * it wants of torch; all bits set: not known.
     */
    uint64_t fitting_torch;
};

struct af_proof {
    enum af_answer answer;  /* loads and runs: any no is no, else any unknown is unknown */
    enum af_answer imports; /* the import itself; yes with answer no: it would crash in use */
    enum af_answer loads;   /* imports, and reads torch's objects right */
    enum af_answer runs;    /* on every visible GPU; unknown where there is none */
    const struct af_proof_check
        *checks; /* AF_PROOF_CHECK_COUNT, in the order of proof_checks.inc */
    size_t check_count;
    struct af_texts missing;           /* mangled names that nothing defines */
    struct af_texts missing_libraries; /* SONAMEs that are not found */
    const char *built_for;             /* "torch 2.7 or 2.8"; NULL: does not use torch */
    bool stated_torch_is_wrong;        /* its bytes were built for another than stated */
    const char *built_for_source;      /* how that is known; NULL with built_for */
};

/* The answer to two questions together: any NO is NO, else any UNKNOWN is UNKNOWN. */
enum af_answer af_proof_worse(enum af_answer a, enum af_answer b);

/*
 * Makes all checks. GPU checks that nobody can decide (no GPU, no GPU code
 * read) are unknown with the reason and do not touch `loads`; `answer` is then
 * that of `loads`. Texts are in the arena. Fails with NO_MEMORY only.
 */
enum anyflash_status af_proof_make(const struct af_proof_question *question,
                                   struct af_arena *arena, struct af_proof *out,
                                   struct anyflash_error *err);

#endif
