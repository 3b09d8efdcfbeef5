/*
 * config_job.c: loads what `config` works on: the project's file, one decision
 * for each group of machines that a marker can distinguish, and the metadata of
 * local wheels.
 */
#include "kit/cli/config_job.h"

#include <string.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/catalog/tables.h"
#include "kit/cli/next_command.h"
#include "kit/fit/fit.h"
#include "kit/formats/metadata.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"

#define METADATA_BYTES_MAX (1u << 20)
#define REQUIRES_MAX 64u

/* "2.8.3" of "flash_attn-2.8.3.dist-info/"; NULL if there is none. */
static const char *folder_version(struct af_arena *arena, const char *member)
{
    const char *dash = strchr(member, '-');
    size_t len = strlen(member) - strlen(".dist-info/");
    size_t before = dash == NULL ? len : (size_t)(dash - member) + 1;
    return before >= len ? NULL : af_arena_text_n(arena, member + before, len - before);
}

static void read_requires(struct af_arena *arena, struct af_span text,
                          struct af_config_wheel_facts *facts)
{
    struct af_requirement requirement;
    const char **list = af_arena_array(arena, REQUIRES_MAX, sizeof *list);
    while (list != NULL && facts->requires_count < REQUIRES_MAX &&
           af_requirement_next(&text, &requirement)) {
        if (!requirement.only_for_extra)
            list[facts->requires_count++] =
                af_arena_text_n(arena, requirement.text.data, requirement.text.len);
    }
    facts->requires_dist = list;
}

static enum anyflash_status read_metadata(struct af_arena *arena, const char *path,
                                          struct af_config_wheel_facts *facts,
                                          const char **folder_out, struct anyflash_error *err)
{
    struct af_source source = {0};
    struct af_wheel_archive archive = {.info = NULL};
    struct af_span text = {0};
    enum anyflash_status status = af_file_source_open(path, &source, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(&source, &archive, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_read_info(&archive, "METADATA", arena, METADATA_BYTES_MAX,
                                            &text, err);
    if (status == ANYFLASH_OK) {
        *folder_out = af_arena_text(arena, archive.info);
        facts->metadata_version = folder_version(arena, archive.info);
        read_requires(arena, text, facts);
    }
    af_wheel_archive_close(&archive);
    af_source_close(&source);
    return status;
}

/* The distribution and version of the folder NAME-VERSION.dist-info must be the pin's. */
static enum anyflash_status check_name(struct af_cli *cli, const struct af_cli_config_job *job,
                                       const struct af_pin *pin, const char *folder,
                                       const char *inside, struct anyflash_error *err)
{
    struct af_version ours;
    struct af_version its;
    const char *own = pin->version;
    size_t len = strcspn(folder, "-");
    if (!af_name_is((struct af_span){folder, len}, job->lock->package))
        return af_fail(
            err, ANYFLASH_E_DATA, "'%s' contains the package '%s'", pin->file,
            af_text_scrub(&cli->arena, af_arena_text_n(&cli->arena, folder, len), 160));
    if (inside == NULL || !af_version_parse(inside, strlen(inside), &its) ||
        !af_version_parse(own, strlen(own), &ours) ||
        af_version_compare_public(&its, &ours) != 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' contains version %s", pin->file,
                       inside == NULL ? "unknown" : af_text_scrub(&cli->arena, inside, 80));
    return ANYFLASH_OK;
}

enum anyflash_status af_cli_config_wheel_facts(struct af_cli *cli,
                                               const struct af_cli_config_job *job,
                                               const struct af_pin *pin, const char *path,
                                               struct af_config_wheel_facts *facts_out,
                                               struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_config_wheel_facts facts = {0};
    const char *folder = NULL;
    enum anyflash_status status = af_file_sha256(path, hex, NULL, err);
    if (status == ANYFLASH_OK && pin->facts.sha256 != NULL &&
        !af_sha256_equal(hex, pin->facts.sha256))
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is not the file in the catalog: its SHA-256 is %s, expected %s",
                       af_text_scrub(&cli->arena, path, 300), hex, pin->facts.sha256);
    if (status == ANYFLASH_OK)
        status = read_metadata(&cli->arena, path, &facts, &folder, err);
    if (status == ANYFLASH_OK)
        status = check_name(cli, job, pin, folder, facts.metadata_version, err);
    if (status != ANYFLASH_OK)
        return status;
    facts.sha256 = af_arena_text(&cli->arena, hex);
    if (cli->arena.failed)
        return af_fail_memory(err);
    *facts_out = facts;
    return ANYFLASH_OK;
}

#define FILE_BYTES_MAX (4u << 20)

enum anyflash_status af_cli_config_load(struct af_cli *cli, struct af_cli_config_job *job,
                                        struct anyflash_error *err)
{
    const char *stated = cli->options.values[AF_OPTION_PROJECT];
    if (stated != NULL && !af_file_is_folder(stated))
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "folder '%s' does not exist",
                       af_text_scrub(&cli->arena, stated, 160));
    job->path = af_file_find(&cli->arena, stated != NULL ? stated : ".", job->file,
                             stated == NULL && job->upwards);
    job->is_new = job->path == NULL;
    if (job->is_new)
        job->path = af_path_join(&cli->arena, stated != NULL ? stated : ".", job->file);
    if (job->path == NULL)
        return af_fail_memory(err);
    job->shown = af_text_scrub(&cli->arena, af_path_name(job->path), 160);
    if (job->is_new)
        return ANYFLASH_OK;
    return af_file_read(&cli->arena, job->path, FILE_BYTES_MAX, &job->old, err);
}

/* Whether no marker can distinguish the machines. */
static bool same_group(const struct af_machine *a, const struct af_machine *b)
{
    const char *version_a = af_fact_text_or(&a->python.version, "");
    const char *version_b = af_fact_text_or(&b->python.version, "");
    size_t len_a = strcspn(version_a, ".");
    size_t len_b = strcspn(version_b, ".");
    len_a += version_a[len_a] == '.' ? 1 + strcspn(version_a + len_a + 1, ".") : 0;
    len_b += version_b[len_b] == '.' ? 1 + strcspn(version_b + len_b + 1, ".") : 0;
    return len_a == len_b && strncmp(version_a, version_b, len_a) == 0 &&
           strcmp(af_fact_text_or(&a->platform.os, ""), af_fact_text_or(&b->platform.os, "")) ==
               0 &&
           strcmp(af_fact_text_or(&a->platform.arch, ""),
                  af_fact_text_or(&b->platform.arch, "")) == 0;
}

/* Makes one decision for the group of machine `first`, which is in no earlier group. */
static enum anyflash_status decide_group(struct af_cli *cli, struct af_cli_config_job *job,
                                         size_t first, struct anyflash_error *err)
{
    const struct af_machine *const *all = job->inputs.machines.pointers;
    const struct af_machine **group =
        af_arena_array(&cli->arena, job->inputs.machines.count, sizeof *group);
    size_t count = 0;
    if (group == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < first; i++)
        if (same_group(all[i], all[first]))
            return ANYFLASH_OK;
    for (size_t i = first; i < job->inputs.machines.count; i++)
        if (same_group(all[i], all[first]))
            group[count++] = all[i];
    struct af_decision *decision = &job->decisions[job->decision_count];
    enum anyflash_status status = af_fit_decide(&job->inputs.catalog, group, count,
                                                &job->inputs.request.fit, decision, err);
    if (status != ANYFLASH_OK)
        return status;
    job->decision_count++;
    return af_config_lock_add(job->lock, decision, all[first], err);
}

const char *af_cli_config_undecided_hint(struct af_cli *cli)
{
    return af_arena_format(&cli->arena, "`%s` shows every option; --prefer chooses one",
                           af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
}

enum anyflash_status af_cli_config_decide(struct af_cli *cli, struct af_cli_config_job *job,
                                          struct anyflash_error *err)
{
    enum anyflash_status status =
        af_cli_inputs_load(cli, AF_CLI_INPUT_MACHINES, &job->inputs, err);
    if (status != ANYFLASH_OK)
        return status;
    job->lock = af_arena_alloc(&cli->arena, sizeof *job->lock);
    job->decisions =
        af_arena_array(&cli->arena, job->inputs.machines.count + 1, sizeof *job->decisions);
    if (cli->arena.failed)
        return af_fail_memory(err);
    af_config_lock_init(job->lock, &cli->arena);
    for (size_t i = 0; status == ANYFLASH_OK && i < job->inputs.machines.count; i++)
        status = decide_group(cli, job, i, err);
    if (status == ANYFLASH_E_UNSUPPORTED)
        cli->hint = af_cli_config_undecided_hint(cli);
    return status;
}

const char *af_cli_config_wheel(struct af_cli *cli, const struct af_cli_config_job *job,
                                const struct af_pin *pin)
{
    const char *folders[] = {
        cli->options.values[AF_OPTION_FROM],
        af_path_join(&cli->arena, af_path_folder(&cli->arena, job->path), "wheels")};
    const char *names[] = {pin->file, pin->plain};
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        for (size_t j = 0; folders[i] != NULL && j < AF_COUNT(names); j++) {
            const char *path = af_path_join(&cli->arena, folders[i], names[j]);
            if (path != NULL && af_file_is_regular(path))
                return path;
        }
    }
    return job->fetched[pin - job->lock->pins];
}

/* "cu128" of the torch that the pin is for. */
static const char *torch_build(struct af_arena *arena, const struct af_pin *pin)
{
    const char *version = af_fact_text_or(&pin->machine->torch.version, "");
    const char *plus = strchr(version, '+');
    if (pin->rung->torch_cuda != NULL)
        return pin->rung->torch_cuda;
    return plus == NULL ? af_arena_format(arena, "cu%d*", pin->wheel->cuda_major) : plus + 1;
}

/* Adds a note if a plain install of that torch brings a different CUDA from the wheel's. */
static enum anyflash_status compare_torch(struct af_cli *cli, const struct af_tables *tables,
                                          struct af_config_lock *lock,
                                          struct anyflash_error *err)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        struct af_pin *pin = &lock->pins[i];
        const struct af_catalog_wheel *wheel = pin->wheel;
        if (wheel == NULL || wheel->torch_major < 0 || wheel->cuda_major < 0)
            continue;
        const struct af_catalog_torch_release *release =
            af_tables_torch(tables, wheel->torch_major, wheel->torch_minor);
        const char *platform = af_arena_format(
            &cli->arena, "%s_%s", af_fact_text_or(&pin->machine->platform.os, "linux"),
            af_fact_text_or(&pin->machine->platform.arch, "x86_64"));
        const struct af_catalog_torch_variant *usual =
            release == NULL || platform == NULL ? NULL : af_tables_default(release, platform);
        if (usual != NULL && usual->cuda_major != wheel->cuda_major)
            pin->torch_build = torch_build(&cli->arena, pin);
    }
    return cli->arena.failed ? af_fail_memory(err) : ANYFLASH_OK;
}

enum anyflash_status af_cli_config_choose(struct af_cli *cli, struct af_cli_config_job *job,
                                          bool by_path, struct anyflash_error *err)
{
    const char *source = cli->options.values[AF_OPTION_SOURCE];
    enum af_pin_source how = source == NULL || strcmp(source, "auto") == 0 ? AF_PIN_AUTO
                             : strcmp(source, "path") == 0                 ? AF_PIN_PATH
                             : strcmp(source, "index") == 0                ? AF_PIN_INDEX
                                                                           : AF_PIN_URL;
    if (how == AF_PIN_URL && strcmp(source, "url") != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--source takes auto, path, url or index");
    if (source != NULL && !by_path)
        return af_fail(
            err, ANYFLASH_E_ARGUMENT,
            "--source works only with `config uv`: the other kinds always use the URL");
    return af_config_lock_finish(job->lock, by_path ? how : AF_PIN_URL, err);
}

/* The folder of --from may have another wheel than the one that was decided on. */
static void note_not_in_folder(struct af_cli *cli, struct af_config_lock *lock,
                               const struct af_pin *pin)
{
    const char *from = cli->options.values[AF_OPTION_FROM];
    if (from == NULL || pin->wheel == NULL)
        return;
    cli->hint = af_arena_format(&cli->arena, "the folder '%s' does not have '%s'",
                                af_text_scrub(&cli->arena, from, 200), pin->file);
    if (cli->hint != NULL)
        af_config_lock_note(lock, "%s", cli->hint);
}

enum anyflash_status af_cli_config_settle(struct af_cli *cli, struct af_cli_config_job *job,
                                          bool by_path, struct anyflash_error *err)
{
    for (size_t i = 0; i < job->lock->pin_count; i++) {
        const struct af_pin *pin = &job->lock->pins[i];
        const char *path = pin->wheel == NULL ? NULL : af_cli_config_wheel(cli, job, pin);
        struct af_config_wheel_facts facts;
        if (path == NULL)
            note_not_in_folder(cli, job->lock, pin);
        if (path == NULL)
            continue;
        enum anyflash_status status =
            af_cli_config_wheel_facts(cli, job, pin, path, &facts, err);
        if (status != ANYFLASH_OK)
            return status;
        af_config_lock_facts(job->lock, i, facts);
    }
    enum anyflash_status status =
        compare_torch(cli, &job->inputs.catalog.tables, job->lock, err);
    return status == ANYFLASH_OK ? af_cli_config_choose(cli, job, by_path, err) : status;
}

void af_cli_config_release(struct af_cli_config_job *job)
{
    for (size_t i = 0; i < job->decision_count; i++)
        af_decision_release(&job->decisions[i]);
    af_cli_inputs_release(&job->inputs);
}
