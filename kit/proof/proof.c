/*
 * proof.c: makes a proof: every check once, in the order of proof_checks.inc,
 * then the answers that follow from them.
 */
#include "kit/proof/proof.h"

#include <stdarg.h>
#include <stdio.h>

#include "kit/proof/proof_rules.h"

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

void af_proof_set(struct af_proof_draft *draft, enum af_proof_check_id id,
                  enum af_answer answer, const char *format, ...)
{
    char text[EVIDENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *kept = af_arena_text(draft->arena, text);
    draft->checks[id] = (struct af_proof_check){id, answer, kept != NULL ? kept : ""};
}

/* Any no is no, else any unknown is unknown. */
static enum af_answer together(enum af_answer a, enum af_answer b)
{
    if (a == AF_NO || b == AF_NO)
        return AF_NO;
    return a == AF_UNKNOWN || b == AF_UNKNOWN ? AF_UNKNOWN : AF_YES;
}

static enum af_answer together_of(const struct af_proof_check *checks,
                                  enum af_proof_check_id first, enum af_proof_check_id last)
{
    enum af_answer answer = AF_YES;
    for (int id = (int)first; id <= (int)last; id++)
        answer = together(answer, checks[id].answer);
    return answer;
}

/*
 * GPU checks count only where somebody could answer them: on a machine whose
 * GPUs are not known the file still loads.
 */
static void conclude(struct af_proof_draft *draft)
{
    struct af_proof *proof = draft->proof;
    proof->imports = together_of(draft->checks, AF_CHECK_FORMAT, AF_CHECK_SYMBOL_VERSIONS);
    proof->imports = together(proof->imports, draft->registers);
    proof->loads = together_of(draft->checks, AF_CHECK_FORMAT, AF_CHECK_LAYOUT);
    proof->runs = together_of(draft->checks, AF_CHECK_GPU_CODE, AF_CHECK_COMPRESSION_DRIVER);
    proof->answer = proof->runs == AF_NO ? AF_NO : proof->loads;
}

/* "torch 2.7 or 2.8", "torch 2.10 to 2.12"; NULL when it does not use torch. */
static void say_built_for(struct af_proof_draft *draft)
{
    const struct af_tables *tables = draft->question->tables;
    const char *text = NULL;
    if (!draft->wants.torch)
        return;
    for (size_t i = 0; i < tables->torch_count && i < AF_PROOF_TORCH_SET_MAX; i++) {
        if ((draft->dating.minors >> i & 1) == 0)
            continue;
        size_t last = i;
        while (last + 1 < tables->torch_count && last + 1 < AF_PROOF_TORCH_SET_MAX &&
               (draft->dating.minors >> (last + 1) & 1) != 0)
            last++;
        text = af_arena_format(draft->arena, "%s%s%s%s", text == NULL ? "torch " : text,
                               text == NULL ? "" : ", ", tables->torch[i].minor,
                               last == i ? "" : " to ");
        if (last > i && text != NULL)
            text = af_arena_format(draft->arena, "%s%s", text, tables->torch[last].minor);
        i = last;
    }
    draft->proof->built_for = text;
    draft->proof->stated_torch_is_wrong = draft->dating.name_lies;
    draft->proof->built_for_source = text == NULL ? NULL : draft->dating.source;
}

enum anyflash_status af_proof_make(const struct af_proof_question *question,
                                   struct af_arena *arena, struct af_proof *out,
                                   struct anyflash_error *err)
{
    struct af_proof proof = {.check_count = AF_PROOF_CHECK_COUNT};
    struct af_proof_draft draft = {
        .question = question,
        .arena = arena,
        .proof = &proof,
        .registers = AF_YES,
        .checks = af_arena_array(arena, AF_PROOF_CHECK_COUNT, sizeof *draft.checks),
    };
    if (draft.checks == NULL)
        return af_fail_memory(err);
    proof.checks = draft.checks;
    af_proof_symbol_needs_read(question->binary, &draft.wants);
    enum anyflash_status status = af_dating_make(
        question->binary, &draft.wants, question->tables, question->fitting_torch,
        question->stated_torch, arena, &draft.dating, err);
    if (status != ANYFLASH_OK)
        return status;
    af_prove_format(&draft);
    af_prove_machine(&draft);
    af_prove_python(&draft);
    af_prove_libraries(&draft);
    af_prove_symbols(&draft);
    af_prove_symbol_versions(&draft);
    af_prove_cxx_abi(&draft);
    af_prove_cuda_runtime(&draft);
    af_prove_layout(&draft);
    af_prove_gpu(&draft);
    say_built_for(&draft);
    conclude(&draft);
    if (arena->failed)
        return af_fail_memory(err);
    *out = proof;
    return ANYFLASH_OK;
}
