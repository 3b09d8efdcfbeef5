/*
 * proof.c: makes a proof: every check once, in the order of proof_checks.inc,
 * then the answers that follow from them.
 */
#include "kit/proof/proof.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/binary.h"
#include "kit/formats/symbol_name.h"
#include "kit/formats/tags.h"
#include "kit/formats/version.h"
#include "kit/proof/gpu_checks.h"
#include "kit/proof/proof_torch.h"
#include "kit/proof/recorded_libraries.h"

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

/* The part of the file name that Python checks: ".so", ".abi3.so", ... */
static const char *suffix_of(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL ? dot : "";
}

static bool is_free_threaded(const struct af_machine *machine)
{
    return strchr(af_fact_text_or(&machine->python.abi_flags, ""), 't') != NULL;
}

/* Whether this Python looks for files with that ending; UNKNOWN without ext_suffix. */
static enum af_answer accepts_suffix(const struct af_machine *machine, const char *suffix)
{
    const char *own = af_fact_text_or(&machine->python.ext_suffix, NULL);
    if (strcmp(suffix, ".so") == 0)
        return AF_YES;
    if (strcmp(suffix, ".abi3.so") == 0)
        return is_free_threaded(machine) ? AF_NO : AF_YES;
    if (own == NULL)
        return AF_UNKNOWN;
    return strcmp(suffix, own) == 0 ? AF_YES : AF_NO;
}

/*
 * Whether pybind11 refuses to import the module because it was built for another minor version
 * of Python.
 */
static bool is_for_another_python(const struct af_proof_draft *draft)
{
    const char *built = draft->question->binary->pybind_python;
    const char *here = af_fact_text_or(&draft->question->machine->python.version, NULL);
    if (built == NULL || here == NULL)
        return false;
    size_t len = strlen(built);
    return strncmp(built, here, len) != 0 || (here[len] != '.' && here[len] != '\0');
}

/*
 * Whether installers accept the wheel for this Python; UNKNOWN when there is no wheel or its
 * tags are not known.
 */
static enum af_answer accepts_wheel(const struct af_proof_draft *draft)
{
    const struct af_python *python = &draft->question->machine->python;
    const struct af_wheel_name *wheel = draft->question->wheel;
    const char *text = af_fact_text_or(&python->version, NULL);
    struct af_version version;
    if (wheel == NULL || text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.release_count < 2 || af_fact_is(&python->implementation, "pypy"))
        return AF_UNKNOWN;
    const struct af_interpreter interpreter = {
        .major = (int)version.release[0],
        .minor = (int)version.release[1],
        .free_threaded = is_free_threaded(draft->question->machine),
        .debug = strchr(af_fact_text_or(&python->abi_flags, ""), 'd') != NULL,
    };
    return af_tags_python_accepted(&interpreter, wheel->python, wheel->abi) ? AF_YES : AF_NO;
}

static void check_python(struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    const struct af_machine *machine = draft->question->machine;
    const char *suffix = suffix_of(binary->name);
    const char *own = af_fact_text_or(&machine->python.ext_suffix, "not known");
    size_t stem = (size_t)(suffix - binary->name);
    enum af_answer accepted = accepts_suffix(machine, suffix);
    bool is_called_by_module = binary->init_name != NULL && strlen(binary->init_name) == stem &&
                               strncmp(binary->init_name, binary->name, stem) == 0;
    if (accepts_wheel(draft) == AF_NO)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO, "the wheel is for %s-%s; this is Python %s",
                     draft->question->wheel->python, draft->question->wheel->abi,
                     machine->python.version.value.text);
    else if (binary->init_name == NULL)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_YES,
                     "not a Python module (it has no PyInit function): loaded as a library");
    else if (!is_called_by_module && !af_starts_with(binary->name, "lib"))
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO,
                     "is named '%.*s', but contains the module '%s'", (int)stem, binary->name,
                     binary->init_name);
    else if (accepted == AF_NO)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO, "ends in '%s'; this Python expects '%s'",
                     suffix, own);
    else if (is_for_another_python(draft))
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO, "compiled for Python %s; this is Python %s",
                     binary->pybind_python, machine->python.version.value.text);
    else if (accepted == AF_UNKNOWN)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_UNKNOWN,
                     "ends in '%s'; the ending that Python expects is not known", suffix);
    else if (!is_called_by_module)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_YES,
                     "module '%s', which its package loads by the path of the file",
                     binary->init_name);
    else
        af_proof_set(draft, AF_CHECK_PYTHON, AF_YES, "module '%s', ending '%s'",
                     binary->init_name, suffix);
}

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

static void check_libraries(struct af_proof_draft *draft)
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

static void check_symbols(struct af_proof_draft *draft)
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

static void check_symbol_versions(struct af_proof_draft *draft)
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
    check_python(&draft);
    check_libraries(&draft);
    check_symbols(&draft);
    check_symbol_versions(&draft);
    af_prove_cxx_abi(&draft);
    af_prove_cuda_runtime(&draft);
    af_prove_layout(&draft);
    check_gpu(&draft);
    say_built_for(&draft);
    conclude(&draft);
    *out = proof;
}
