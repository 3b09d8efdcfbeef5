/*
 * cmd_machine.c: `anyflash machine`: prints the record, its tags, or the list
 * of facts that a record can have.
 */
#include <string.h>

#include "kit/base/json.h"
#include "kit/cli/machine_inputs.h"
#include "kit/formats/tags.h"
#include "kit/formats/version.h"

static const char *const type_texts[] = {[AF_FACT_TEXT] = "text",
                                         [AF_FACT_INT] = "integer",
                                         [AF_FACT_BOOL] = "boolean",
                                         [AF_FACT_LIST] = "list of texts"};

static enum anyflash_status write_schema(struct af_cli *cli, struct anyflash_error *err)
{
    size_t count = 0;
    const struct af_group *groups = af_machine_groups(&count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *fields = json_array();
        for (size_t j = 0; j < groups[i].field_count; j++) {
            const struct af_field *field = &groups[i].fields[j];
            fields =
                af_json_append(fields, json_pack("{s:s, s:s, s:s}", "name", field->name, "type",
                                                 type_texts[field->type], "doc", field->doc));
        }
        list = af_json_append(list, json_pack("{s:s, s:s, s:b, s:o}", "name", groups[i].name,
                                              "doc", groups[i].doc, "is_list",
                                              groups[i].is_list, "facts", fields));
    }
    return af_cli_json_take(
        cli, json_pack("{s:s, s:o}", "schema", "anyflash-machine-facts/1", "groups", list),
        err);
}

static enum anyflash_status write_tags(struct af_cli *cli, const struct af_machine *machine,
                                       struct anyflash_error *err)
{
    const struct af_python *python = &machine->python;
    const char *text = af_fact_text_or(&python->version, NULL);
    const char *flags = af_fact_text_or(&python->abi_flags, "");
    struct af_version version;
    const char **tags = NULL;
    size_t count = 0;
    if (text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.release_count < 2)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "cannot tell the Python version: %s",
                       python->version.source);
    if (python->platform_tags.state != AF_FACT_KNOWN)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "the platform tags are not known: %s",
                       python->platform_tags.source);
    const struct af_interpreter interpreter = {
        .major = (int)version.release[0],
        .minor = (int)version.release[1],
        .free_threaded = strchr(flags, 't') != NULL,
        .debug = strchr(flags, 'd') != NULL,
        .platform_tags = python->platform_tags.value.list.items,
        .platform_count = python->platform_tags.value.list.count,
    };
    enum anyflash_status status = af_tags_list(&interpreter, &cli->arena, &tags, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        af_text_format(&cli->out, "%s\n", tags[i]);
    return ANYFLASH_OK;
}

enum anyflash_status af_cmd_machine(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    (void)exit_out;
    struct af_machines machines = {0};
    if (af_option_given(&cli->options, AF_OPTION_SCHEMA) &&
        af_option_given(&cli->options, AF_OPTION_TAGS))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--schema cannot be used with --tags");
    if (af_option_given(&cli->options, AF_OPTION_TAGS) &&
        af_option_given(&cli->options, AF_OPTION_JSON))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--tags cannot be used with --json");
    if (af_option_given(&cli->options, AF_OPTION_SCHEMA))
        return write_schema(cli, err);
    if (cli->options.machines.count > 1)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'machine' takes at most one --machine");
    enum anyflash_status status = af_machines_load(cli, &machines, err);
    if (status != ANYFLASH_OK)
        return status;
    if (af_option_given(&cli->options, AF_OPTION_TAGS))
        status = write_tags(cli, &machines.items[0], err);
    else
        af_machine_write(&machines.items[0], &cli->out);
    if (cli->out.len > 0 && cli->out.data[cli->out.len - 1] != '\n')
        af_text_add(&cli->out, "\n");
    af_machines_release(&machines);
    return status;
}
