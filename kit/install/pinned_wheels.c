/*
 * pinned_wheels.c: finds or downloads the wheels of a lock and checks them: the hash, if one is
 * known; name and version of its dist-info folder; and that the extensions load on the machine
 * that the pin is for.
 */
#include "kit/install/pinned_wheels.h"

#include <string.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/fetch.h"
#include "kit/proof/prover.h"
#include "kit/system/file.h"
#include "kit/system/http.h"
#include "kit/system/output.h"

#define METADATA_BYTES_MAX (1u << 20)
#define REQUIRES_MAX 64u

static void read_requires(struct af_arena *arena, struct af_span text,
                          struct af_config_wheel_facts *facts)
{
    struct af_requirement requirement;
    const char **list = af_arena_array(arena, REQUIRES_MAX, sizeof *list);
    while (facts->requires_count < REQUIRES_MAX && af_requirement_next(&text, &requirement)) {
        if (!requirement.only_for_extra)
            list[facts->requires_count++] =
                af_arena_text_n(arena, requirement.text.data, requirement.text.len);
    }
    facts->requires_dist = list;
}

static enum anyflash_status read_metadata(struct af_arena *arena, const char *path,
                                          struct af_config_wheel_facts *facts,
                                          struct af_info_folder *folder_out,
                                          struct anyflash_error *err)
{
    struct af_mapping mapping = {0};
    struct af_wheel_archive archive = {.info = NULL};
    struct af_span text = {0};
    enum anyflash_status status = af_file_map(path, &mapping, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(af_mapping_bytes(&mapping), path, &archive, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_read_info(&archive, "METADATA", arena, METADATA_BYTES_MAX,
                                            &text, err);
    if (status == ANYFLASH_OK) {
        const char *folder = af_arena_text_n(arena, archive.info, strlen(archive.info) - 1);
        af_info_folder_parse((struct af_span){folder, strlen(folder)}, folder_out);
        read_requires(arena, text, facts);
    }
    af_wheel_archive_close(&archive);
    af_file_unmap(&mapping);
    return status;
}

/* The distribution and version of the folder NAME-VERSION.dist-info must be the pin's. */
static enum anyflash_status check_name(const struct af_config_lock *lock,
                                       const struct af_pin *pin,
                                       const struct af_info_folder *folder,
                                       struct anyflash_error *err)
{
    struct af_version ours;
    struct af_version its;
    struct af_arena *arena = lock->arena;
    const char *own = pin->version;
    struct af_span name = folder->name;
    struct af_span inside = folder->version;
    if (!af_name_is(name, lock->package))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' contains the package '%s'", pin->file,
                       af_text_scrub(arena, af_arena_text_n(arena, name.data, name.len), 160));
    if (!af_version_parse(inside.data, inside.len, &its) ||
        !af_version_parse(own, strlen(own), &ours) ||
        af_version_compare_public(&its, &ours) != 0)
        return af_fail(
            err, ANYFLASH_E_DATA, "'%s' contains version %s", pin->file,
            inside.len == 0
                ? "unknown"
                : af_text_scrub(arena, af_arena_text_n(arena, inside.data, inside.len), 80));
    return ANYFLASH_OK;
}

/* Reads hash and metadata of the pin's file, which must be those of the pin. */
static enum anyflash_status read_facts(const struct af_config_lock *lock,
                                       const struct af_pin *pin, const char *path,
                                       struct af_config_wheel_facts *facts_out,
                                       struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_config_wheel_facts facts = {0};
    struct af_info_folder folder = {0};
    enum anyflash_status status = af_file_sha256(path, hex, NULL, err);
    if (status == ANYFLASH_OK && pin->facts.sha256 != NULL &&
        !af_sha256_equal(hex, pin->facts.sha256))
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is not the file in the catalog: its SHA-256 is %s, expected %s",
                       af_text_scrub(lock->arena, path, 300), hex, pin->facts.sha256);
    if (status == ANYFLASH_OK)
        status = read_metadata(lock->arena, path, &facts, &folder, err);
    if (status == ANYFLASH_OK)
        status = check_name(lock, pin, &folder, err);
    if (status != ANYFLASH_OK)
        return status;
    facts.sha256 = af_arena_text(lock->arena, hex);
    facts.metadata_version =
        af_arena_text_n(lock->arena, folder.version.data, folder.version.len);
    *facts_out = facts;
    return ANYFLASH_OK;
}

/* The path of the pin's file, in `from` or in the project's folder of wheels; NULL: none. */
static const char *find_file(const struct af_pinned_wheels *wheels, const struct af_pin *pin)
{
    struct af_arena *arena = wheels->lock->arena;
    const char *folders[] = {wheels->from, af_path_join(arena, wheels->project, "wheels")};
    const char *names[] = {pin->file, pin->plain};
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        for (size_t j = 0; folders[i] != NULL && j < AF_COUNT(names); j++) {
            const char *path = af_path_join(arena, folders[i], names[j]);
            if (af_file_is_regular(path))
                return path;
        }
    }
    return NULL;
}

/* The folder may have another wheel than the one that was decided on. */
static void note_not_in_folder(struct af_pinned_wheels *wheels, const struct af_pin *pin)
{
    struct af_arena *arena = wheels->lock->arena;
    if (wheels->from == NULL)
        return;
    wheels->hint = af_arena_format(arena, "the folder '%s' does not have '%s'",
                                   af_text_scrub(arena, wheels->from, 200), pin->file);
    af_config_lock_note(wheels->lock, "%s", wheels->hint);
}

enum anyflash_status af_pinned_wheels_find(struct af_pinned_wheels *wheels,
                                           struct anyflash_error *err)
{
    struct af_config_lock *lock = wheels->lock;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < lock->pin_count; i++) {
        struct af_pin *pin = &lock->pins[i];
        wheels->paths[i] = find_file(wheels, pin);
        if (wheels->paths[i] != NULL)
            status = read_facts(lock, pin, wheels->paths[i], &pin->facts, err);
        else
            note_not_in_folder(wheels, pin);
    }
    return status;
}

/* Fails with UNSUPPORTED if an extension would not load on the pin's machine. */
static enum anyflash_status prove_file(const struct af_pinned_wheels *wheels,
                                       const struct af_pin *pin, const char *path,
                                       struct anyflash_error *err)
{
    const struct af_machine *machine = pin->machine;
    const struct af_prover_options options = {
        .machine = machine,
        .is_here = wheels->is_here,
        .torch = wheels->is_here ? NULL : af_fact_text_or(&machine->torch.version, NULL),
        .reads_kernels = machine->gpus.count > 0};
    struct af_proof_obstacle obstacle;
    struct af_inspect_target target;
    enum anyflash_status status =
        af_inspect_target_open(path, wheels->lock->arena, &target, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_proof_obstacle_find(&options, &target, wheels->lock->arena, &obstacle, err);
    af_inspect_target_close(&target);
    if (status == ANYFLASH_OK && obstacle.path != NULL)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' in '%s' would not load on '%s': %s",
                         obstacle.path, pin->file, machine->name, obstacle.why);
    if (status == ANYFLASH_OK && obstacle.is_unsure)
        af_config_lock_note(wheels->lock,
                            "'%s' was not proved to load on '%s': `anyflash inspect` says "
                            "what is missing",
                            pin->file, machine->name);
    return status;
}

static enum anyflash_status fetch_pin(struct af_pinned_wheels *wheels, size_t index,
                                      struct anyflash_error *err)
{
    struct af_pin *pin = &wheels->lock->pins[index];
    const struct af_step_wheel wheel = {.package = wheels->lock->package,
                                        .filename = pin->file,
                                        .url = pin->url,
                                        .sha256 = pin->facts.sha256};
    struct af_config_wheel_facts facts;
    struct af_fetched fetched;
    enum anyflash_status status = af_fetch(wheels->run, &wheel, NULL, &fetched, err);
    if (status == ANYFLASH_OK) {
        wheels->paths[index] = fetched.path;
        wheels->is_fetched[index] = true;
        status = read_facts(wheels->lock, pin, fetched.path, &facts, err);
    }
    if (status != ANYFLASH_OK) {
        wheels->hint = "the project is unchanged; `--write --from DIR` takes the wheel from a "
                       "folder instead";
        return status;
    }
    status = prove_file(wheels, pin, fetched.path, err);
    if (status == ANYFLASH_OK)
        pin->facts = facts;
    return status;
}

/*
 * The plain name does not say which torch the file is for: it may be from a time when the
 * project had another one. Then it counts as missing.
 */
static enum anyflash_status recheck_pin(struct af_pinned_wheels *wheels, size_t index,
                                        struct anyflash_error *err)
{
    struct af_pin *pin = &wheels->lock->pins[index];
    struct anyflash_error why = {0};
    if (af_ends_with(wheels->paths[index], pin->file))
        return ANYFLASH_OK;
    enum anyflash_status status = prove_file(wheels, pin, wheels->paths[index], &why);
    if (status == ANYFLASH_OK)
        return ANYFLASH_OK;
    if (status != ANYFLASH_E_UNSUPPORTED)
        return af_fail(err, status, "%s", why.message);
    wheels->paths[index] = NULL;
    pin->facts = (struct af_config_wheel_facts){
        .sha256 = af_catalog_sha256(wheels->lock->arena, pin->wheel)};
    return ANYFLASH_OK;
}

enum anyflash_status af_pinned_wheels_fetch(struct af_pinned_wheels *wheels,
                                            struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < wheels->lock->pin_count; i++) {
        if (wheels->lock->pins[i].path != NULL && wheels->paths[i] != NULL)
            status = recheck_pin(wheels, i, err);
        if (status == ANYFLASH_OK && wheels->lock->pins[i].path != NULL &&
            wheels->paths[i] == NULL)
            status = fetch_pin(wheels, i, err);
    }
    return status;
}

enum anyflash_status af_pinned_wheels_refuse(const struct af_pinned_wheels *wheels,
                                             struct af_content_refusal *refusal_out,
                                             struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    *refusal_out = (struct af_content_refusal){0};
    for (size_t i = 0; i < wheels->lock->pin_count; i++) {
        if (wheels->paths[i] != NULL)
            status = af_content_refuse_file(wheels->paths[i], &wheels->run->allow_content,
                                            wheels->lock->arena, refusal_out, err);
        if (status != ANYFLASH_OK)
            return status;
        if (refusal_out->reason != NULL)
            return af_fail(err, ANYFLASH_E_UNSUPPORTED, "%s", refusal_out->reason);
    }
    return ANYFLASH_OK;
}

/* Puts the wheel of a pin to where the configuration names it. */
static enum anyflash_status place(struct af_pinned_wheels *wheels, size_t index,
                                  struct anyflash_error *err)
{
    struct af_config_lock *lock = wheels->lock;
    const char *path = lock->pins[index].path;
    const char *to = af_path_join(lock->arena, wheels->project, path);
    bool was_there = af_file_is_regular(to);
    enum anyflash_status status =
        af_file_link_or_copy(lock->arena, wheels->paths[index], to, err);
    if (status == ANYFLASH_OK && !was_there)
        af_config_lock_note(lock,
                            "the wheel was put into the project: '%s': it is large, so keep it "
                            "out of the repository; `anyflash config uv --write` fetches it "
                            "again where it is missing",
                            path);
    return status;
}

enum anyflash_status af_pinned_wheels_place(struct af_pinned_wheels *wheels, bool writes,
                                            struct anyflash_error *err)
{
    struct af_config_lock *lock = wheels->lock;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < lock->pin_count; i++) {
        const struct af_pin *pin = &lock->pins[i];
        if (pin->path != NULL && wheels->paths[i] == NULL && !writes)
            af_config_lock_note(lock,
                                "'%s' does not exist yet: `--write` downloads it, checks it, "
                                "and puts it there",
                                pin->path);
        if (pin->path != NULL && wheels->paths[i] != NULL && writes)
            status = place(wheels, i, err);
    }
    return status;
}

void af_pinned_wheels_discard(const struct af_pinned_wheels *wheels)
{
    for (size_t i = 0; i < AF_PINS_MAX; i++)
        if (wheels->is_fetched[i])
            unlink(wheels->paths[i]);
}
