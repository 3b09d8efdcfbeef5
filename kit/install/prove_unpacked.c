/*
 * prove_unpacked.c: proves (proof/prover.h) the extensions of packages that are unpacked, but
 * not yet in the environment.
 */
#include "kit/install/prove_unpacked.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/proof/prover.h"
#include "kit/system/file.h"

struct proving {
    struct af_run *run;
    const char *fresh;
    const char *stated_torch;
    struct af_prover prover;
    struct af_install_proved *proved;
    size_t bad_count;
    size_t torch_count; /* extensions that use torch */
    size_t torch_bad_count;
    const char *first_bad; /* reason of the first extension that does not load */
};

static const struct af_proof_check *first_unknown(const struct af_proof *proof)
{
    for (size_t i = 0; i < proof->check_count; i++)
        if (proof->checks[i].answer == AF_UNKNOWN)
            return &proof->checks[i];
    return NULL;
}

static void take_bad(struct proving *proving, const char *path, const char *why)
{
    const char *sentence =
        af_arena_format(proving->run->arena, "'%s' would not load: %s", path, why);
    proving->bad_count++;
    if (proving->first_bad == NULL)
        proving->first_bad = sentence;
    af_progress_message(&proving->run->progress, "%s", sentence);
}

/*
 * Reports the proof; for libraries that a wheel ships for its own use only failures are
 * reported.
 */
static void tell(struct proving *proving, const char *path, bool is_bundled,
                 const struct af_proof *proof)
{
    const struct af_proof_check *unknown = first_unknown(proof);
    const struct af_progress *progress = &proving->run->progress;
    if (proof->answer == AF_NO)
        take_bad(proving, path, af_proof_objection(proof));
    else if (is_bundled)
        return;
    else if (proof->loads == AF_YES)
        af_progress_message(progress, "checked: '%s' loads here%s%s", path,
                            proof->built_for == NULL ? "" : "; built for ",
                            proof->built_for == NULL ? "" : proof->built_for);
    else
        af_progress_message(progress, "not proved: '%s': %s: %s", path,
                            unknown == NULL ? "unknown" : af_proof_check_title(unknown->id),
                            unknown == NULL ? "not known" : unknown->evidence);
}

/* Whether it is a library of operators, which packages load through torch. */
static bool uses_torch(const struct af_binary *binary)
{
    for (size_t i = 0; i < binary->needed.count; i++)
        if (af_starts_with(binary->needed.items[i], "libtorch") ||
            af_starts_with(binary->needed.items[i], "libc10"))
            return true;
    return false;
}

static void add_loadable(struct proving *proving, const char *word)
{
    struct af_install_proved *proved = proving->proved;
    for (size_t i = 0; i < proved->loadable_count; i++)
        if (af_equal(proved->loadable[i], word))
            return;
    if (proved->loadable_count < AF_LOADABLE_MAX)
        proved->loadable[proved->loadable_count++] = word;
}

/* Adds "package:a" and "module:a.b.c" for "a/b/c.so"; a library is added by its file. */
static void take_loadable(struct proving *proving, const char *path,
                          const struct af_binary *binary)
{
    struct af_arena *arena = proving->run->arena;
    size_t top = strcspn(path, "/");
    const char *name = af_path_name(path);
    const char *init =
        af_arena_format(arena, "%s/%.*s/__init__.py", proving->fresh, (int)top, path);
    if (path[top] == '/' && !af_file_is_absent(init))
        add_loadable(proving, af_arena_format(arena, "package:%.*s", (int)top, path));
    if (binary->init_name == NULL) {
        if (uses_torch(binary))
            add_loadable(proving,
                         af_arena_format(arena, "library:%s/%s", proving->run->site, path));
        return;
    }
    char *word =
        af_arena_format(arena, "module:%.*s%s", (int)(name - path), path, binary->init_name);
    for (char *at = word; *at != '\0'; at++)
        *at = *at == '/' ? '.' : *at;
    add_loadable(proving, word);
}

static enum anyflash_status prove_one(struct proving *proving, struct af_inspect_target *target,
                                      size_t index, struct anyflash_error *err)
{
    const struct af_inspect_extension *extension = &target->extensions[index];
    const char *path = extension->path;
    struct af_proof proof;
    enum anyflash_status status =
        af_prover_prove(&proving->prover, target, index, proving->stated_torch, &proof, err);
    if (status != ANYFLASH_OK)
        return status;
    if (extension->problem != NULL) {
        take_bad(proving, path, extension->problem);
        return ANYFLASH_OK;
    }
    tell(proving, path, extension->is_bundled, &proof);
    if (uses_torch(&extension->facts.binary)) {
        proving->torch_count++;
        proving->torch_bad_count += proof.answer == AF_NO;
    }
    if (proof.loads == AF_YES && !extension->is_bundled)
        take_loadable(proving, path, &extension->facts.binary);
    return ANYFLASH_OK;
}

static enum anyflash_status prove_all(struct proving *proving, struct af_inspect_target *target,
                                      struct anyflash_error *err)
{
    const struct af_machine *machine = proving->run->machine;
    const struct af_prover_options options = {
        .machine = machine,
        .is_here = true,
        .in_packages = true,
        .reads_kernels = machine->gpus.count > 0,
    };
    enum anyflash_status status =
        af_prover_open(&options, proving->run->arena, &proving->prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < target->count; i++)
        status = prove_one(proving, target, i, err);
    af_prover_release(&proving->prover);
    return status;
}

enum anyflash_status af_install_prove(struct af_run *run, const char *fresh, bool strict,
                                      const char *stated_torch,
                                      struct af_install_proved *proved,
                                      struct anyflash_error *err)
{
    struct proving proving = {
        .run = run, .fresh = fresh, .stated_torch = stated_torch, .proved = proved};
    struct af_inspect_target target;
    *proved = (struct af_install_proved){.refusal = NULL};
    enum anyflash_status status = af_inspect_target_open(fresh, run->arena, &target, err);
    if (status != ANYFLASH_OK)
        return status;
    if (target.count > 0)
        status = prove_all(&proving, &target, err);
    af_inspect_target_close(&target);
    if (status == ANYFLASH_OK &&
        (strict
             ? proving.bad_count > 0
             : (target.count > 0 && proving.bad_count == target.count) ||
                   (proving.torch_count > 0 && proving.torch_bad_count == proving.torch_count)))
        proved->refusal = proving.first_bad;
    return status;
}
