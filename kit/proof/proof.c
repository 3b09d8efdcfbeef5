/*
 * proof.c: makes a proof: every check once, in the order of proof_checks.inc, then the answers
 * that follow from them. The checks about Python, symbols, torch and GPUs have their own files.
 */
#include "kit/proof/proof.h"

#include <stdarg.h>
#include <stdio.h>

#include "kit/base/text.h"
#include "kit/proof/gpu_checks.h"
#include "kit/proof/proof_draft.h"

#define EVIDENCE_BYTES 2000

#define AF_PROOF_CHECK(id, text, title, loads) {text, title, loads},
static const struct {
    const char *name;
    const char *title;
    bool loads;
} rows[] = {
#include "kit/proof/proof_checks.inc"
};
#undef AF_PROOF_CHECK

const char *af_proof_check_name(enum af_proof_check_id id)
{
    return rows[id].name;
}

const char *af_proof_check_title(enum af_proof_check_id id)
{
    return rows[id].title;
}

bool af_proof_check_is_about_loading(enum af_proof_check_id id)
{
    return rows[id].loads;
}

const char *af_proof_objection(const struct af_proof *proof)
{
    for (size_t i = 0; i < proof->check_count; i++)
        if (proof->checks[i].answer == AF_NO)
            return proof->checks[i].evidence;
    return "a check says no";
}

enum af_answer af_proof_worse(enum af_answer a, enum af_answer b)
{
    if (a == AF_NO || b == AF_NO)
        return AF_NO;
    return a == AF_UNKNOWN || b == AF_UNKNOWN ? AF_UNKNOWN : AF_YES;
}

void af_proof_set(struct af_proof_draft *draft, enum af_proof_check_id id,
                  enum af_answer answer, const char *format, ...)
{
    char text[EVIDENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    draft->checks[id] = (struct af_proof_check){id, answer, af_arena_text(draft->arena, text)};
}

static void check_format(struct af_proof_draft *draft)
{
    const struct af_fact *os = &draft->question->machine->platform.os;
    if (os->state == AF_FACT_KNOWN && !af_fact_is(os, "linux"))
        af_proof_set(draft, AF_CHECK_FORMAT, AF_NO, "an ELF file, which %s cannot load",
                     os->value.text);
    else if (os->state == AF_FACT_KNOWN)
        af_proof_set(draft, AF_CHECK_FORMAT, AF_YES, "an ELF shared library");
    else
        af_proof_set(draft, AF_CHECK_FORMAT, AF_UNKNOWN,
                     "an ELF shared library; the operating system is not known");
}

static void check_machine(struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    const char *here = af_fact_text_or(&draft->question->machine->platform.arch, NULL);
    const char *built = binary->machine != NULL ? binary->machine : "another processor";
    if (here == NULL)
        af_proof_set(draft, AF_CHECK_MACHINE, AF_UNKNOWN,
                     "built for %s; this machine's processor is not known", built);
    else if (af_equal(built, here))
        af_proof_set(draft, AF_CHECK_MACHINE, AF_YES, "built for %s", built);
    else
        af_proof_set(draft, AF_CHECK_MACHINE, AF_NO, "built for %s; this machine is %s", built,
                     here);
}

static void check_gpu(struct af_proof_draft *draft)
{
    static const struct af_gpu_code none;
    const struct af_proof_question *question = draft->question;
    bool has_none = question->gpu_code == NULL && !question->binary->has_gpu_code;
    struct af_view *view = af_arena_alloc(draft->arena, sizeof *view);
    af_view_make(question->machine, question->arch, draft->arena, view);
    af_proof_gpu(has_none ? &none : question->gpu_code, question->kernels, view, draft->arena,
                 &draft->checks[AF_CHECK_GPU_CODE]);
}

static enum af_answer together_of(const struct af_proof_check *checks,
                                  enum af_proof_check_id first, enum af_proof_check_id last)
{
    enum af_answer answer = AF_YES;
    for (int id = (int)first; id <= (int)last; id++)
        answer = af_proof_worse(answer, checks[id].answer);
    return answer;
}

/*
 * The answer is that of loading, unless a GPU check is NO. Unknown GPU checks do not change it:
 * on a machine whose GPUs are not known, the file still loads.
 */
static void conclude(struct af_proof_draft *draft)
{
    struct af_proof *proof = draft->proof;
    proof->imports = together_of(draft->checks, AF_CHECK_FORMAT, AF_CHECK_SYMBOL_VERSIONS);
    proof->imports = af_proof_worse(proof->imports, draft->registers);
    proof->loads = together_of(draft->checks, AF_CHECK_FORMAT, AF_CHECK_LAYOUT);
    proof->runs = together_of(draft->checks, AF_CHECK_GPU_CODE, AF_CHECK_COMPRESSION_DRIVER);
    proof->answer = proof->runs == AF_NO ? AF_NO : proof->loads;
}

/* Writes "torch 2.7 or 2.8" or "torch 2.10 to 2.12"; NULL when it does not use torch. */
static void say_built_for(struct af_proof_draft *draft)
{
    const char *text = NULL;
    if (!draft->wants.torch)
        return;
    for (size_t i = 0; i < af_tables.torch_count && i < AF_PROOF_TORCH_SET_MAX; i++) {
        if ((draft->built_for.minors >> i & 1) == 0)
            continue;
        size_t last = i;
        while (last + 1 < af_tables.torch_count && last + 1 < AF_PROOF_TORCH_SET_MAX &&
               (draft->built_for.minors >> (last + 1) & 1) != 0)
            last++;
        text = af_arena_format(draft->arena, "%s%s%s%s", text == NULL ? "torch " : text,
                               text == NULL ? "" : ", ", af_tables.torch[i].torch,
                               last == i ? "" : " to ");
        if (last > i)
            text = af_arena_format(draft->arena, "%s%s", text, af_tables.torch[last].torch);
        i = last;
    }
    draft->proof->built_for = text;
    draft->proof->stated_torch_is_wrong = draft->built_for.name_is_wrong;
    draft->proof->built_for_source = text == NULL ? NULL : draft->built_for.source;
}

void af_proof_make(const struct af_proof_question *question, struct af_arena *arena,
                   struct af_proof *out)
{
    struct af_proof proof = {.check_count = AF_PROOF_CHECK_COUNT};
    struct af_proof_draft draft = {
        .question = question,
        .arena = arena,
        .proof = &proof,
        .registers = AF_YES,
        .checks = af_arena_array(arena, AF_PROOF_CHECK_COUNT, sizeof *draft.checks),
    };
    proof.checks = draft.checks;
    af_proof_symbol_needs_read(question->binary, &draft.wants);
    af_built_for_make(question->binary, &draft.wants, question->fitting_torch,
                      question->stated_torch, arena, &draft.built_for);
    check_format(&draft);
    check_machine(&draft);
    af_prove_python(&draft);
    af_prove_libraries(&draft);
    af_prove_symbols(&draft);
    af_prove_symbol_versions(&draft);
    af_prove_cxx_abi(&draft);
    af_prove_cuda_runtime(&draft);
    af_prove_layout(&draft);
    check_gpu(&draft);
    say_built_for(&draft);
    conclude(&draft);
    *out = proof;
}
