/*
 * proof_torch.c: what an extension and torch must agree on apart from symbol names: the ABI of
 * std::string, the CUDA runtime, the memory layout of torch's objects. A file that does not use
 * torch passes these checks. torch_needs.c and torch_dating.c find out what they are based on.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/proof/proof_draft.h"

/*
 * Generations of af_tables.torch whose objects have the same layout though they differ
 * otherwise: in 2.9 only torch::Library changed, which TORCH_LIBRARY uses (tested with an
 * extension that reads every member).
 */
static const struct {
    int before;
    int after;
} registration_only[] = {{3, 4}};

static bool has_torch(const struct af_proof_draft *draft)
{
    return draft->question->scope != NULL && draft->question->scope->torch.version != NULL;
}

void af_prove_cxx_abi(struct af_proof_draft *draft)
{
    static const char *const names[] = {"old (before C++11)", "new (C++11)"};
    const struct af_proof_symbol_needs *wants = &draft->wants;
    enum af_answer here =
        has_torch(draft) ? draft->question->scope->torch.cxx11abi : AF_UNKNOWN;
    if (wants->cxx11abi == AF_UNKNOWN)
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_YES, "passes no std::string to torch");
    else if (here == AF_UNKNOWN)
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_UNKNOWN,
                     "built with the %s; torch's is not known", names[wants->cxx11abi]);
    else if (here == wants->cxx11abi)
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_YES, "both %s", names[here]);
    else
        af_proof_set(draft, AF_CHECK_CXX_ABI, AF_NO, "built with the %s; torch has the %s",
                     names[wants->cxx11abi], names[here]);
}

/* "12" of "libcudart.so.12"; NULL for any other library. */
static const char *cudart_major(const char *name)
{
    static const char start[] = "libcudart.so.";
    return name != NULL && af_starts_with(name, start) ? name + strlen(start) : NULL;
}

/* The CUDA runtime that the extension needs, itself or through a library that it loads. */
static const char *wanted_cudart(const struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    const struct af_load *load = draft->question->load;
    for (size_t i = 0; i < binary->needed.count; i++) {
        if (cudart_major(binary->needed.items[i]) != NULL)
            return binary->needed.items[i];
    }
    for (size_t i = 0; load != NULL && i < load->count; i++) {
        if (load->order[i]->is_new && cudart_major(load->order[i]->name) != NULL)
            return load->order[i]->name;
    }
    return NULL;
}

void af_prove_cuda_runtime(struct af_proof_draft *draft)
{
    const char *wanted = wanted_cudart(draft);
    if (wanted == NULL) {
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_YES,
                     draft->question->binary->has_gpu_code
                         ? "the CUDA runtime is linked into it"
                         : "does not use the CUDA runtime");
        return;
    }
    if (!has_torch(draft)) {
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_UNKNOWN, "needs %s; torch's is not known",
                     wanted);
        return;
    }
    const char *here = draft->question->scope->torch.cudart;
    if (here == NULL)
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME,
                     draft->question->scope->torch.has_cuda ? AF_UNKNOWN : AF_NO,
                     draft->question->scope->torch.has_cuda
                         ? "needs %s; torch's is not known"
                         : "needs %s; this torch has no CUDA",
                     wanted);
    else if (strcmp(cudart_major(wanted), cudart_major(here)) == 0)
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_YES, "both use %s", here);
    else
        af_proof_set(draft, AF_CHECK_CUDA_RUNTIME, AF_NO,
                     "needs %s; torch uses %s, and a process can use only one CUDA runtime",
                     wanted, here);
}

/* How the object layouts of two generations relate. */
enum relation { SAME, ONLY_REGISTRATION, DIFFERENT, NOT_TRIED };

static enum relation relate(int built, int here)
{
    if (built < 0 || here < 0)
        return NOT_TRIED;
    if (built == here)
        return SAME;
    for (size_t i = 0; i < AF_COUNT(registration_only); i++) {
        if ((built == registration_only[i].before && here == registration_only[i].after) ||
            (built == registration_only[i].after && here == registration_only[i].before))
            return ONLY_REGISTRATION;
    }
    return DIFFERENT;
}

/*
 * Whether the two generations register operators differently. Then registration aborts the
 * process.
 */
static bool registers_otherwise(int built, int here)
{
    bool otherwise = false;
    for (size_t i = 0; i < AF_COUNT(registration_only); i++)
        otherwise = otherwise || (built <= registration_only[i].before) !=
                                     (here <= registration_only[i].before);
    return otherwise;
}

/* How many of the minors that the extension may be built for agree with the installed torch. */
struct tally {
    size_t good;
    size_t bad;
    size_t untried;
    size_t aborting; /* part of `bad`: registering operators aborts the process */
};

static void count_minor(const struct af_proof_draft *draft, size_t row, struct tally *tally)
{
    const struct af_scope_torch *torch = &draft->question->scope->torch;
    const struct af_catalog_torch_release *built = &af_tables.torch[row];
    const struct af_catalog_torch_release *here =
        af_tables_torch(torch->major_number, torch->minor_number);
    if (built == here) {
        tally->good++;
        return;
    }
    switch (relate(built->layout, here == NULL ? -1 : here->layout)) {
    case SAME:
        tally->good++;
        break;
    case ONLY_REGISTRATION:
        tally->good += !draft->wants.registers;
        tally->bad += draft->wants.registers;
        tally->aborting += draft->wants.registers;
        break;
    case DIFFERENT:
        tally->bad++;
        tally->aborting +=
            draft->wants.registers && registers_otherwise(built->layout, here->layout);
        break;
    case NOT_TRIED:
        tally->untried++;
        break;
    }
}

/*
 * Whether reference counts differ: this torch counts references in the new way (2.10 and
 * later), but the extension releases references to tensors in the old way. This rule needs no
 * table.
 */
static bool counts_differ(const struct af_proof_draft *draft)
{
    const struct af_library *c10 = af_scope_library(draft->question->scope, "libc10.so");
    return c10 != NULL && draft->wants.owns_tensors && !draft->wants.tensor_counts &&
           c10->kind->defines(c10, "_ZNK3c1010TensorImpl15incref_pyobjectEv", NULL) == AF_YES;
}

/* Whether registering its operators succeeds; UNKNOWN for minors that were not tested. */
static enum af_answer check_registration(const struct af_proof_draft *draft,
                                         const struct tally *tally)
{
    if (!draft->wants.registers || (tally->aborting == 0 && tally->untried == 0))
        return AF_YES;
    return tally->good == 0 && tally->untried == 0 && tally->aborting == tally->bad
               ? AF_NO
               : AF_UNKNOWN;
}

/* The torch since which every release has all functions that it needs; NULL: unknown. */
static const char *oldest_with_all(uint64_t fitting)
{
    size_t oldest = af_tables.torch_count;
    while (oldest > 0 && (fitting >> (oldest - 1) & 1) != 0)
        oldest--;
    return oldest > 0 && oldest < af_tables.torch_count ? af_tables.torch[oldest].torch : NULL;
}

/* An extension that has no objects of torch needs no more than its functions. */
static void prove_without_objects(struct af_proof_draft *draft)
{
    const char *oldest = oldest_with_all(draft->question->fitting_torch);
    if (!draft->wants.stable_torch)
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES, "uses no C++ objects of torch");
    else if (oldest == NULL)
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES, "uses torch's stable C functions only");
    else
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES,
                     "uses torch's stable C functions only; torch %s and newer have them",
                     oldest);
}

void af_prove_layout(struct af_proof_draft *draft)
{
    struct tally tally = {0, 0, 0, 0};
    if (draft->question->is_torch) {
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES, "part of this torch itself");
        return;
    }
    if (!draft->wants.objects) {
        prove_without_objects(draft);
        return;
    }
    if (!has_torch(draft)) {
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_UNKNOWN, "the version of torch is not known");
        return;
    }
    for (size_t i = 0; i < af_tables.torch_count && i < AF_PROOF_TORCH_SET_MAX; i++) {
        if ((draft->built_for.minors >> i & 1) != 0)
            count_minor(draft, i, &tally);
    }
    const char *here = draft->question->scope->torch.version;
    draft->registers = check_registration(draft, &tally);
    if (counts_differ(draft) || (tally.good == 0 && tally.untried == 0))
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_NO,
                     draft->registers == AF_NO
                         ? "built for a torch that registers operators differently from %s: "
                           "importing it aborts the process"
                         : "built for a torch whose objects differ from those of %s: in use "
                           "it would crash or compute wrong numbers",
                     here);
    else if (tally.bad == 0 && tally.untried == 0)
        af_proof_set(draft, AF_CHECK_LAYOUT, AF_YES, "objects are laid out as in torch %s",
                     here);
    else
        af_proof_set(
            draft, AF_CHECK_LAYOUT, AF_UNKNOWN,
            "it is not known exactly which torch it was built for: it may not match torch %s",
            here);
}
