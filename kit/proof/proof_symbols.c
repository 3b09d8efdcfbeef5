/*
 * proof_symbols.c: the checks that the libraries exist that an extension needs, and that they
 * define its symbols and symbol versions.
 */
#include "kit/base/text.h"
#include "kit/formats/symbol_name.h"
#include "kit/proof/proof_draft.h"
#include "kit/proof/recorded_libraries.h"

#define NOT_LOOKED "the libraries of that environment are not known"

/* "a", "a and b", "a, b and 3 more" */
static const char *list_of(struct af_arena *arena, const char *const *items, size_t count)
{
    if (count == 0)
        return "";
    if (count == 1)
        return items[0];
    if (count == 2)
        return af_arena_format(arena, "%s and %s", items[0], items[1]);
    return af_arena_format(arena, "%s, %s and %zu more", items[0], items[1], count - 2);
}

/* Lists each missing library once, even if several libraries need it. */
static void publish_missing_libraries(struct af_proof_draft *draft)
{
    const struct af_load *load = draft->question->load;
    const char **names = af_arena_array(draft->arena, load->missing_count + 1, sizeof *names);
    size_t count = 0;
    for (size_t i = 0; i < load->missing_count; i++) {
        if (!af_is_one_of(load->missing[i].name, names, count))
            names[count++] = load->missing[i].name;
    }
    draft->proof->missing_libraries = (struct af_texts){names, count};
}

void af_prove_libraries(struct af_proof_draft *draft)
{
    const struct af_load *load = draft->question->load;
    const struct af_scope *scope = draft->question->scope;
    if (load == NULL) {
        af_proof_set(draft, AF_CHECK_LIBRARIES, AF_UNKNOWN, NOT_LOOKED);
        return;
    }
    publish_missing_libraries(draft);
    struct af_texts missing = draft->proof->missing_libraries;
    if (missing.count > 0)
        af_proof_set(draft, AF_CHECK_LIBRARIES, AF_NO, "not found: %s",
                     list_of(draft->arena, missing.items, missing.count));
    else if (scope->missing_count > 0)
        af_proof_set(draft, AF_CHECK_LIBRARIES, AF_UNKNOWN, "torch itself lacks %s (for %s)",
                     scope->missing[0].name, scope->missing[0].asked_by);
    else if (scope->problem != NULL)
        af_proof_set(draft, AF_CHECK_LIBRARIES, AF_UNKNOWN, "%s", scope->problem);
    else if (load->sibling != NULL)
        af_proof_set(
            draft, AF_CHECK_LIBRARIES, AF_YES,
            "all %zu found; %s is next to it, and is found only if its package loads it first",
            draft->question->binary->needed.count, load->sibling);
    else
        af_proof_set(draft, AF_CHECK_LIBRARIES, AF_YES, "all %zu found",
                     draft->question->binary->needed.count);
}

static bool is_missing_library(const struct af_proof_draft *draft, const char *name)
{
    return af_is_one_of(name, draft->proof->missing_libraries.items,
                        draft->proof->missing_libraries.count);
}

/*
 * Whether the symbol is defined. If the library that should define it is missing, any version
 * of the symbol counts: the library is reported as missing, not the symbol.
 */
static enum af_answer is_defined(const struct af_proof_draft *draft,
                                 const struct af_undefined *wanted)
{
    bool any = wanted->library != NULL && is_missing_library(draft, wanted->library);
    return af_load_defines(draft->question->load, wanted->name, any ? NULL : wanted->version);
}

/*
 * Stores in the proof the mangled names that no library defines; returns how many names are
 * unknown.
 */
static size_t collect_missing(struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    const char **names =
        af_arena_array(draft->arena, binary->undefined_count + 1, sizeof *names);
    size_t count = 0;
    size_t unknown = 0;
    for (size_t i = 0; i < binary->undefined_count; i++) {
        const struct af_undefined *wanted = &binary->undefined[i];
        if (wanted->weak)
            continue;
        enum af_answer answer = is_defined(draft, wanted);
        unknown += answer == AF_UNKNOWN;
        if (answer == AF_NO)
            names[count++] = wanted->name;
    }
    draft->proof->missing = (struct af_texts){names, count};
    return unknown;
}

/*
 * Called when all symbols of the extension itself are defined: reports the symbols that are
 * missing for the libraries that it loads.
 */
static void publish_unresolved(struct af_proof_draft *draft)
{
    const struct af_load *load = draft->question->load;
    const char **names =
        af_arena_array(draft->arena, load->unresolved_count + 1, sizeof *names);
    for (size_t i = 0; i < load->unresolved_count; i++)
        names[i] = load->unresolved[i].name;
    draft->proof->missing = (struct af_texts){names, load->unresolved_count};
    af_proof_set(draft, AF_CHECK_SYMBOLS, AF_NO,
                 "all %zu are defined, but the bundled %s needs some that are not, "
                 "such as %s",
                 draft->question->binary->undefined_count, load->unresolved[0].library,
                 af_symbol_readable(draft->arena, load->unresolved[0].name));
}

void af_prove_symbols(struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    if (draft->question->load == NULL) {
        af_proof_set(draft, AF_CHECK_SYMBOLS, AF_UNKNOWN, NOT_LOOKED);
        return;
    }
    size_t unknown = collect_missing(draft);
    struct af_texts missing = draft->proof->missing;
    if (missing.count > 0)
        af_proof_set(draft, AF_CHECK_SYMBOLS, AF_NO, "%zu of %zu are missing, such as %s",
                     missing.count, binary->undefined_count,
                     af_symbol_readable(draft->arena, missing.items[0]));
    else if (draft->question->load->unresolved_count > 0)
        publish_unresolved(draft);
    else if (draft->question->load->missing_count > 0)
        af_proof_set(draft, AF_CHECK_SYMBOLS, AF_UNKNOWN,
                     "cannot be checked while a library is missing");
    else if (unknown > 0)
        af_proof_set(draft, AF_CHECK_SYMBOLS, AF_UNKNOWN,
                     "%zu of %zu would come from libraries that were not read", unknown,
                     binary->undefined_count);
    else
        af_proof_set(draft, AF_CHECK_SYMBOLS, AF_YES, "all %zu are defined",
                     binary->undefined_count);
}

void af_prove_symbol_versions(struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    const char *unknown = NULL;
    const char **bad =
        af_arena_array(draft->arena, binary->version_need_count + 1, sizeof *bad);
    size_t count = 0;
    for (size_t i = 0; i < binary->version_need_count; i++) {
        const struct af_version_need *need = &binary->version_needs[i];
        enum af_answer answer =
            draft->question->load == NULL
                ? AF_UNKNOWN
                : af_load_has_version(draft->question->load, need->library, need->version);
        if (answer == AF_UNKNOWN)
            answer = af_system_has_version(draft->question->machine, need->version);
        if (answer == AF_UNKNOWN)
            unknown = need->version;
        if (answer == AF_NO && !is_missing_library(draft, need->library))
            bad[count++] =
                af_arena_format(draft->arena, "%s of %s", need->version, need->library);
    }
    if (count > 0)
        af_proof_set(draft, AF_CHECK_SYMBOL_VERSIONS, AF_NO, "not there: %s",
                     list_of(draft->arena, bad, count));
    else if (unknown != NULL)
        af_proof_set(draft, AF_CHECK_SYMBOL_VERSIONS, AF_UNKNOWN,
                     "it is unknown whether %s is available", unknown);
    else
        af_proof_set(draft, AF_CHECK_SYMBOL_VERSIONS, AF_YES, "all %zu are available",
                     binary->version_need_count);
}
