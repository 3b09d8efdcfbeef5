/*
 * facts_json.c: the facts of the one-screen view as JSON: values only. The
 * whole record with sources is `anyflash machine`.
 */
#include "kit/cli/facts_view.h"
#include "kit/cli/json_parts.h"

static json_t *text(const struct af_fact *fact)
{
    return af_cli_json_text(fact->state == AF_FACT_KNOWN ? fact->value.text : NULL);
}

static json_t *number(const struct af_fact *fact)
{
    return af_cli_json_count(af_fact_int_or(fact, -1));
}

static json_t *truth(const struct af_fact *fact)
{
    return fact->state == AF_FACT_KNOWN ? json_boolean(fact->value.truth) : json_null();
}

static json_t *gpus(const struct af_machine *machine)
{
    json_t *list = machine->gpus.state == AF_FACT_UNKNOWN && machine->gpus.count == 0
                       ? json_null()
                       : json_array();
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const struct af_gpu *gpu = &machine->gpus.rows[i];
        list = af_cli_json_append(list, json_pack("{s:o, s:o, s:o, s:o}", "name",
                                                  text(&gpu->name), "sm", text(&gpu->sm),
                                                  "memory_bytes", number(&gpu->memory_bytes),
                                                  "visible", truth(&gpu->visible)));
    }
    return list;
}

static json_t *toolkits(const struct af_machine *machine)
{
    json_t *list = machine->toolkits.state == AF_FACT_UNKNOWN && machine->toolkits.count == 0
                       ? json_null()
                       : json_array();
    for (size_t i = 0; i < machine->toolkits.count; i++) {
        const struct af_toolkit *toolkit = &machine->toolkits.rows[i];
        list =
            af_cli_json_append(list, json_pack("{s:o, s:o}", "version", text(&toolkit->version),
                                               "root", text(&toolkit->root)));
    }
    return list;
}

static json_t *flash_attn(const struct af_machine *machine)
{
    const struct af_package *package = af_machine_package(machine, "flash-attn");
    if (package == NULL)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "version", text(&package->version), "folder",
                     text(&package->folder), "origin", text(&package->origin), "installer",
                     text(&package->installer));
}

json_t *af_cli_facts_json(const struct af_machine *machine)
{
    const struct af_platform *platform = &machine->platform;
    const struct af_resources *resources = &machine->resources;
    const struct af_python *python = &machine->python;
    const struct af_torch *torch = &machine->torch;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "os", text(&platform->os), "arch", text(&platform->arch), "distribution",
        text(&platform->distribution), "libc", text(&platform->libc), "libc_version",
        text(&platform->libc_version), "cores", number(&resources->cores),
        "memory_available_bytes", number(&resources->memory_available_bytes), "gpus",
        gpus(machine), "driver", text(&machine->driver.kernel_version), "driver_cuda",
        text(&machine->driver.cuda_api), "toolkits", toolkits(machine), "python",
        text(&python->version), "prefix", text(&python->prefix), "torch", text(&torch->version),
        "torch_cuda", text(&torch->cuda), "cxx11abi", truth(&torch->cxx11abi), "flash_attn",
        flash_attn(machine));
}
