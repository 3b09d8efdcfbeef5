/*
 * facts_view.c: the facts of a machine on one screen, and as JSON: values only.
 * `anyflash machine` prints the whole record with sources.
 */
#include "kit/cli/decision_view.h"

#include <stdarg.h>
#include <stdio.h>

#include "kit/base/json.h"
#include "kit/system/file.h"

static json_t *text(const struct af_fact *fact)
{
    return af_json_text(fact->state == AF_FACT_KNOWN ? fact->value.text : NULL);
}

static json_t *number(const struct af_fact *fact)
{
    return af_json_count(af_fact_int_or(fact, -1));
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
        list = af_json_append(list, json_pack("{s:o, s:o, s:o, s:o}", "name", text(&gpu->name),
                                              "sm", text(&gpu->sm), "memory_bytes",
                                              number(&gpu->memory_bytes), "visible",
                                              truth(&gpu->visible)));
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
        list = af_json_append(list, json_pack("{s:o, s:o}", "version", text(&toolkit->version),
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

#define LABEL_COLUMNS 16
#define PART_BYTES 600
#define GPUS_SHOWN 4
#define PEERS_SHOWN 5

struct view {
    struct af_screen *screen;
    const struct af_machine *machine;
    struct af_arena *arena;
    bool with_sources;
};

/* Adds a part to a line; the parts are joined with ", ". */
AF_PRINTF(2, 3)
static void add_part(struct af_text *line, const char *format, ...)
{
    char part[PART_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof part, format, arguments);
    va_end(arguments);
    if (line->len > 0)
        af_text_add(line, ", ");
    af_text_add(line, part);
}

/* Prints and releases the line; the source shown is that of `fact` (or NULL). */
static void show(struct view *view, const char *label, struct af_text *line,
                 const struct af_fact *fact)
{
    char lead[LABEL_COLUMNS + 8];
    snprintf(lead, sizeof lead, "  %s", label);
    if (view->with_sources && fact != NULL && fact->source != NULL)
        af_text_format(line, "\nsource: %s", fact->source);
    af_screen_take(view->screen, LABEL_COLUMNS, lead, AF_TONE_PLAIN, line);
}

/* "unknown: REASON" for an unknown fact, else "none". */
static void add_missing(struct af_text *line, enum af_fact_state state, const char *source)
{
    if (state == AF_FACT_UNKNOWN)
        add_part(line, "unknown: %s", source != NULL ? source : "nothing was read");
    else
        add_part(line, "none");
}

static void show_system(struct view *view)
{
    const struct af_platform *platform = &view->machine->platform;
    struct af_text line = {0};
    const char *os = af_fact_text_or(&platform->os, NULL);
    const char *distribution = af_fact_text_or(&platform->distribution, os);
    if (distribution != NULL)
        add_part(&line, "%s", distribution);
    if (platform->arch.state == AF_FACT_KNOWN)
        add_part(&line, "%s", platform->arch.value.text);
    if (platform->libc.state == AF_FACT_KNOWN)
        add_part(&line, "%s %s", platform->libc.value.text,
                 af_fact_text_or(&platform->libc_version, "of unknown version"));
    if (af_fact_truth(&platform->wsl) == AF_YES)
        add_part(&line, "WSL");
    if (platform->container.state == AF_FACT_KNOWN)
        add_part(&line, "in a container (%s)", platform->container.value.text);
    if (line.len == 0)
        add_missing(&line, platform->os.state, platform->os.source);
    show(view, "system", &line, &platform->libc_version);
}

static void show_resources(struct view *view)
{
    const struct af_resources *resources = &view->machine->resources;
    struct af_text line = {0};
    int64_t cores = af_fact_int_or(&resources->cores, -1);
    int64_t total = af_fact_int_or(&resources->memory_total_bytes, -1);
    int64_t free_bytes = af_fact_int_or(&resources->memory_available_bytes, -1);
    int64_t limit = af_fact_int_or(&resources->memory_limit_bytes, -1);
    if (cores >= 0)
        add_part(&line, "%lld core%s", (long long)cores, cores == 1 ? "" : "s");
    if (total >= 0)
        add_part(&line, "%s memory", af_text_bytes(view->arena, total));
    if (limit >= 0)
        add_part(&line, "limited to %s", af_text_bytes(view->arena, limit));
    if (free_bytes >= 0)
        af_text_format(&line, " (%s free)", af_text_bytes(view->arena, free_bytes));
    if (line.len == 0)
        add_missing(&line, resources->cores.state, resources->cores.source);
    show(view, "resources", &line, &resources->memory_available_bytes);
}

static bool same_text(const struct af_fact *a, const struct af_fact *b)
{
    return af_equal(af_fact_text_or(a, ""), af_fact_text_or(b, ""));
}

static bool same_gpu(const struct af_gpu *a, const struct af_gpu *b)
{
    return same_text(&a->name, &b->name) && same_text(&a->sm, &b->sm) &&
           af_fact_truth(&a->visible) == af_fact_truth(&b->visible) &&
           af_fact_int_or(&a->memory_bytes, -1) == af_fact_int_or(&b->memory_bytes, -1);
}

static void show_gpu(struct view *view, const struct af_gpu *gpu, size_t count)
{
    struct af_text line = {0};
    int64_t memory = af_fact_int_or(&gpu->memory_bytes, -1);
    const char *name = af_fact_text_or(&gpu->name, "of unknown name");
    if (count > 1)
        add_part(&line, "%zu x %s", count, name);
    else
        add_part(&line, "%s", name);
    if (gpu->sm.state == AF_FACT_KNOWN)
        add_part(&line, "sm %s", gpu->sm.value.text);
    if (memory > 0)
        add_part(&line, "%s%s", af_text_bytes(view->arena, memory), count > 1 ? " each" : "");
    if (af_fact_truth(&gpu->visible) == AF_NO)
        add_part(&line, "hidden from CUDA programs");
    show(view, "GPU", &line, &gpu->name);
}

static void show_gpus(struct view *view)
{
    const struct af_gpu_rows *gpus = &view->machine->gpus;
    struct af_text line = {0};
    size_t shown = 0;
    if (gpus->count == 0) {
        add_missing(&line, gpus->state, gpus->source);
        show(view, "GPU", &line, NULL);
    }
    for (size_t i = 0; i < gpus->count && shown < GPUS_SHOWN; shown++) {
        size_t alike = 1;
        while (i + alike < gpus->count && same_gpu(&gpus->rows[i], &gpus->rows[i + alike]))
            alike++;
        show_gpu(view, &gpus->rows[i], alike);
        i += alike;
    }
}

static void show_driver(struct view *view)
{
    const struct af_driver *driver = &view->machine->driver;
    struct af_text line = {0};
    const struct af_fact *version = driver->kernel_version.state == AF_FACT_KNOWN
                                        ? &driver->kernel_version
                                        : &driver->user_version;
    if (version->state == AF_FACT_KNOWN)
        add_part(&line, "%s", version->value.text);
    if (driver->cuda_api.state == AF_FACT_KNOWN)
        add_part(&line, "supports CUDA up to %s", driver->cuda_api.value.text);
    if (driver->rocm.state == AF_FACT_KNOWN)
        add_part(&line, "ROCm %s", driver->rocm.value.text);
    if (line.len == 0)
        add_missing(&line, driver->kernel_version.state, driver->kernel_version.source);
    show(view, "driver", &line, version);
}

static void show_toolkit(struct view *view)
{
    const struct af_toolkit_rows *toolkits = &view->machine->toolkits;
    const struct af_compiler_rows *compilers = &view->machine->compilers;
    const struct af_toolkit *toolkit = af_machine_toolkit(view->machine);
    struct af_text line = {0};
    if (toolkit == NULL && toolkits->count > 0)
        toolkit = &toolkits->rows[0];
    if (toolkit == NULL) {
        add_missing(&line, toolkits->state, toolkits->source);
    } else {
        const char *root = af_fact_text_or(&toolkit->root, NULL);
        add_part(&line, "%s%s%s%s", af_fact_text_or(&toolkit->version, "of unknown version"),
                 root != NULL ? " in " : "", root != NULL ? root : "",
                 toolkit->nvcc.state == AF_FACT_ABSENT ? " (no nvcc)" : "");
        if (toolkits->count > 1)
            add_part(&line, "%zu more", toolkits->count - 1);
    }
    if (compilers->count > 0)
        af_text_format(&line, " (host compiler: %s %s)",
                       af_fact_text_or(&compilers->rows[0].family, "compiler"),
                       af_fact_text_or(&compilers->rows[0].version, "of unknown version"));
    show(view, "CUDA toolkit", &line, toolkit != NULL ? &toolkit->version : NULL);
}

static void show_python(struct view *view)
{
    const struct af_python *python = &view->machine->python;
    struct af_text line = {0};
    if (python->version.state == AF_FACT_KNOWN) {
        const char *prefix = af_fact_text_or(&python->prefix, NULL);
        const char *kind = af_fact_text_or(&python->kind, NULL);
        const char *chosen = af_fact_text_or(&python->chosen_by, NULL);
        add_part(&line, "%s%s%s%s", python->version.value.text,
                 af_fact_text_or(&python->abi_flags, ""), prefix != NULL ? " in " : "",
                 prefix != NULL ? prefix : "");
        if (kind != NULL)
            af_text_format(&line, " (%s%s%s)", kind, chosen != NULL ? ", found via " : "",
                           chosen != NULL ? chosen : "");
    } else {
        add_missing(&line, python->version.state, python->version.source);
    }
    show(view, "Python", &line, &python->version);
}

static void show_torch(struct view *view)
{
    const struct af_torch *torch = &view->machine->torch;
    struct af_text line = {0};
    if (torch->version.state == AF_FACT_KNOWN) {
        enum af_answer abi = af_fact_truth(&torch->cxx11abi);
        add_part(&line, "%s", torch->version.value.text);
        if (torch->cuda.state == AF_FACT_KNOWN)
            add_part(&line, "CUDA %s", torch->cuda.value.text);
        else if (torch->hip.state == AF_FACT_KNOWN)
            add_part(&line, "ROCm %s", torch->hip.value.text);
        else if (torch->cuda.state == AF_FACT_ABSENT)
            add_part(&line, "CPU only");
        if (abi != AF_UNKNOWN)
            add_part(&line, "%s C++ ABI", abi == AF_YES ? "new" : "old");
        if (torch->build.state == AF_FACT_KNOWN && !af_fact_is(&torch->build, "release"))
            add_part(&line, "%s build", torch->build.value.text);
    } else if (torch->version.state == AF_FACT_ABSENT) {
        add_part(&line, "not installed");
    } else {
        add_missing(&line, torch->version.state, torch->version.source);
    }
    show(view, "torch", &line, &torch->version);
}

static bool is_flash(const struct af_package *package)
{
    return af_starts_with(af_fact_text_or(&package->name, ""), "flash-attn");
}

static void show_flash(struct view *view)
{
    const struct af_package_rows *packages = &view->machine->packages;
    struct af_text line = {0};
    const struct af_fact *source = NULL;
    for (size_t i = 0; i < packages->count; i++) {
        const struct af_package *package = &packages->rows[i];
        if (!is_flash(package))
            continue;
        const char *name = af_fact_text_or(&package->name, "");
        const char *origin = af_fact_text_or(&package->origin, NULL);
        const char *installer = af_fact_text_or(&package->installer, NULL);
        add_part(&line, "%s%s%s", af_equal(name, "flash-attn") ? "" : name,
                 af_equal(name, "flash-attn") ? "" : " ",
                 af_fact_text_or(&package->version, "of unknown version"));
        if (origin != NULL)
            af_text_format(&line, " from %s", af_path_name(origin));
        if (installer != NULL)
            af_text_format(&line, " (by %s)", installer);
        source = &package->version;
    }
    if (line.len == 0 && packages->state == AF_FACT_KNOWN)
        add_part(&line, "not installed");
    else if (line.len == 0)
        add_missing(&line, packages->state, packages->source);
    show(view, "flash-attn", &line, source);
}

static void show_peers(struct view *view)
{
    const struct af_package_rows *packages = &view->machine->packages;
    struct af_text line = {0};
    size_t count = 0;
    for (size_t i = 0; i < packages->count; i++) {
        const struct af_package *package = &packages->rows[i];
        const char *name = af_fact_text_or(&package->name, "");
        if (is_flash(package) || af_equal(name, "torch"))
            continue;
        if (count < PEERS_SHOWN)
            add_part(&line, "%s %s", name, af_fact_text_or(&package->version, ""));
        count++;
    }
    if (count > PEERS_SHOWN)
        add_part(&line, "%zu more", count - PEERS_SHOWN);
    if (count > 0)
        show(view, "also found", &line, NULL);
}

static void show_tools(struct view *view)
{
    static const char *const installers[] = {"uv",   "pip",    "conda", "mamba",
                                             "pixi", "poetry", "pdm"};
    const struct af_tool_rows *tools = &view->machine->tools;
    struct af_text line = {0};
    for (size_t i = 0; i < tools->count; i++)
        for (size_t j = 0; j < AF_COUNT(installers); j++)
            if (af_fact_is(&tools->rows[i].name, installers[j]))
                add_part(&line, "%s%s%s", installers[j],
                         tools->rows[i].version.state == AF_FACT_KNOWN ? " " : "",
                         af_fact_text_or(&tools->rows[i].version, ""));
    if (line.len == 0)
        add_missing(&line, tools->state, tools->source);
    show(view, "installers", &line, NULL);
}

void af_cli_facts_view(struct af_screen *screen, const struct af_machine *machine,
                       bool with_sources, struct af_arena *arena)
{
    struct view view = {screen, machine, arena, with_sources};
    af_screen_add(screen, 0, "", AF_TONE_STRONG, "Machine");
    show_system(&view);
    show_resources(&view);
    show_gpus(&view);
    show_driver(&view);
    show_toolkit(&view);
    af_screen_add(screen, 0, "", AF_TONE_STRONG, "Environment");
    show_python(&view);
    show_torch(&view);
    show_flash(&view);
    show_peers(&view);
    show_tools(&view);
}
