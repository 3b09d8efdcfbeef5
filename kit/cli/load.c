/*
 * load.c: from options to machines and catalog; the decision over them is in
 * question.c. Called by the deciding commands.
 */
#include "kit/cli/load.h"
#include "kit/probe/catalog_file.h"
#include "kit/probe/probe.h"

#include <stdlib.h>
#include <string.h>

#include "kit/catalog/catalog_stored.h"
#include "kit/install/update.h"
#include "kit/system/file.h"
#include "kit/system/state.h"

bool af_machines_named(const struct af_options *options)
{
    return options->machines.count > 0 || options->givens.count > 0 ||
           af_option_given(options, AF_OPTION_HERE);
}

static enum anyflash_status probe(struct af_cli *cli, struct af_machine *machine,
                                  struct anyflash_error *err)
{
    struct af_probe_options options = {
        .python = cli->options.values[AF_OPTION_PYTHON],
        .probe_network = af_option_given(&cli->options, AF_OPTION_PROBE_NETWORK) &&
                         !af_option_given(&cli->options, AF_OPTION_OFFLINE),
    };
    af_machine_init(machine, "this machine", "not looked at");
    return af_probe_machine(machine, &options, err);
}

static enum anyflash_status apply_given(struct af_cli *cli, struct af_machine *machine,
                                        bool with_remarks, struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.givens;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < words->count; i++) {
        const char *remark = NULL;
        status = af_machine_given(machine, words->items[i], &remark, err);
        if (status == ANYFLASH_OK && remark != NULL && with_remarks)
            af_cli_remark(cli, remark);
    }
    return status;
}

/* Machine `index` of the options, before --given. Initialised in every case. */
static enum anyflash_status load_one(struct af_cli *cli, size_t index,
                                     struct af_machine *machine, struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    if (index < options->machines.count) {
        const char *path = options->machines.items[index];
        const char *name = strcmp(path, "-") == 0
                               ? "standard input"
                               : af_text_scrub(&cli->arena, af_path_name(path), 200);
        af_machine_init(machine, name, "not in the record");
        return af_probe_record(machine, path, err);
    }
    if (options->givens.count > 0 && !af_option_given(options, AF_OPTION_HERE)) {
        af_machine_init(machine, "the machine given by hand", "not given");
        return ANYFLASH_OK;
    }
    return probe(cli, machine, err);
}

/* --python names an environment of this machine, so it needs this machine. */
static enum anyflash_status check_words(struct af_cli *cli, struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    bool here = options->machines.count == 0 &&
                (options->givens.count == 0 || af_option_given(options, AF_OPTION_HERE));
    if (af_option_given(options, AF_OPTION_HERE) && options->machines.count > 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--here and --machine exclude each other");
    if (!here && af_option_given(options, AF_OPTION_PYTHON)) {
        cli->hint = "`--given python=3.12` states a version; --here starts from this machine";
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--python is about this machine, which is not asked about");
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_machines_load(struct af_cli *cli, struct af_machines *machines_out,
                                      struct anyflash_error *err)
{
    size_t wanted = cli->options.machines.count > 0 ? cli->options.machines.count : 1;
    struct af_machines machines = {
        .items = af_arena_array(&cli->arena, wanted, sizeof(struct af_machine)),
        .pointers = af_arena_array(&cli->arena, wanted, sizeof(struct af_machine *)),
    };
    if (cli->arena.failed)
        return af_fail_memory(err);
    enum anyflash_status status = check_words(cli, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < wanted; i++) {
        struct af_machine *machine = &machines.items[i];
        status = load_one(cli, i, machine, err);
        machines.pointers[machines.count++] = machine;
        if (status == ANYFLASH_OK)
            status = apply_given(cli, machine, i == 0, err);
        if (status == ANYFLASH_OK && machine->arena.failed)
            status = af_fail_memory(err);
    }
    if (status != ANYFLASH_OK) {
        af_machines_release(&machines);
        return status;
    }
    *machines_out = machines;
    return ANYFLASH_OK;
}

void af_machines_release(struct af_machines *machines)
{
    for (size_t i = 0; i < machines->count; i++)
        af_machine_release(&machines->items[i]);
    *machines = (struct af_machines){0};
}

/* What `anyflash update` left, if it is there and whole; else the embedded one. */
static enum anyflash_status load_newest(struct af_cli *cli, struct af_catalog *catalog_out,
                                        struct anyflash_error *err)
{
    struct anyflash_error problem = {0};
    const char *path = af_update_path(&cli->arena, af_state_folder(&cli->arena));
    if (path == NULL || af_file_is_absent(path))
        return af_catalog_load_embedded(catalog_out, err);
    enum anyflash_status status = af_probe_catalog_stored(catalog_out, path, &problem);
    if (status == ANYFLASH_OK)
        return status;
    if (status == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    const char *remark = af_arena_format(
        &cli->arena, "%s; the embedded catalog is used (`anyflash update` renews it)",
        problem.message);
    if (remark != NULL)
        af_cli_remark(cli, remark);
    return af_catalog_load_embedded(catalog_out, err);
}

enum anyflash_status af_cli_catalog_load(struct af_cli *cli, struct af_catalog *catalog_out,
                                         struct anyflash_error *err)
{
    const char *path = cli->options.values[AF_OPTION_CATALOG];
    if (path == NULL)
        path = getenv("ANYFLASH_CATALOG");
    if (path == NULL || path[0] == '\0')
        return load_newest(cli, catalog_out, err);
    return af_probe_catalog(catalog_out, path, err);
}

enum anyflash_status af_cli_limit(const struct af_cli *cli, size_t fallback, size_t *limit_out,
                                  struct anyflash_error *err)
{
    const char *text = cli->options.values[AF_OPTION_LIMIT];
    int64_t number = 0;
    if (text != NULL && !af_parse_i64(text, 1, INT32_MAX, &number))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--limit takes a number from 1");
    *limit_out = text != NULL ? (size_t)number : fallback;
    return ANYFLASH_OK;
}
