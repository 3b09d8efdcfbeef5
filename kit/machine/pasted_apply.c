/*
 * pasted_apply.c: turns the values from pasted text into facts of the machine.
 * Values go through the handlers of --given, which derive further facts, in an
 * order in which later ones refine earlier ones.
 */
#include "kit/machine/pasted_parts.h"

#include <string.h>

/* Makes `value` the value of `given`; false if the text did not state it. */
static bool load(struct af_given *given, const char *key, const struct af_pasted_value *value)
{
    if (value->text == NULL)
        return false;
    af_given_begin(given, key, value->text, value->source, value->origin);
    return true;
}

/* Hands the value to a handler of --given and keeps its remark. */
static void give(struct af_pasted_reader *reader, struct af_given *given, const char *key,
                 const struct af_pasted_value *value, void (*handler)(struct af_given *given))
{
    if (!load(given, key, value))
        return;
    handler(given);
    if (given->remark != NULL)
        af_pasted_note(reader, "%s: %s", value->source, given->remark);
}

static void give_number(struct af_given *given, struct af_fact *fact, int64_t unit)
{
    int64_t number;
    if (af_parse_i64(given->value, 0, INT64_MAX / 1048576, &number))
        af_given_int(given, fact, number * unit);
}

/* What becomes of a value, in the order of the table: a key of --given, or a fact. */
static const struct {
    enum af_pasted_fact fact;
    const char *key;
    void (*handler)(struct af_given *given);
    size_t offset;
} targets[] = {
    {AF_PASTED_WSL, "wsl", af_given_named_fact, 0},
    {AF_PASTED_KERNEL, "kernel", NULL, offsetof(struct af_machine, platform.kernel)},
    {AF_PASTED_ARCH, "arch", af_given_arch, 0},
    {AF_PASTED_LIBC, "libc", af_given_libc, 0},
    {AF_PASTED_PYTHON, "python", af_given_python, 0},
    {AF_PASTED_EXECUTABLE, "", NULL, offsetof(struct af_machine, python.executable)},
    {AF_PASTED_DRIVER, "driver", af_given_driver, 0},
    {AF_PASTED_CUDA_API, "cuda_api", af_given_cuda_api, 0},
    {AF_PASTED_ROCM, "rocm", af_given_named_fact, 0},
    {AF_PASTED_VISIBLE, "visible_devices", af_given_visible_devices, 0},
    {AF_PASTED_CLANG, "clang", af_given_compiler, 0},
    {AF_PASTED_GCC, "gcc", af_given_compiler, 0}, /* replaces clang */
    {AF_PASTED_INSTALLER, "installer", af_given_installer, 0},
    {AF_PASTED_CORES, NULL, NULL, offsetof(struct af_machine, resources.cores)},
    {AF_PASTED_MEMORY, NULL, NULL, offsetof(struct af_machine, resources.memory_total_bytes)},
    {AF_PASTED_MEMORY_AVAILABLE, NULL, NULL,
     offsetof(struct af_machine, resources.memory_available_bytes)},
};

static void apply_values(struct af_pasted_reader *reader, struct af_given *given)
{
    for (size_t i = 0; i < AF_COUNT(targets); i++) {
        const struct af_pasted_value *value = &reader->values[targets[i].fact];
        void *fact = (char *)&reader->machine + targets[i].offset;
        if (targets[i].handler != NULL)
            give(reader, given, targets[i].key, value, targets[i].handler);
        else if (load(given, targets[i].key, value) && targets[i].key == NULL)
            give_number(given, fact, 1);
        else if (value->text != NULL)
            af_given_text(given, fact, value->text, NULL);
    }
}

/* A description of the system counts before its traces, which count before words. */
static void apply_system(struct af_pasted_reader *reader, struct af_given *given)
{
    const struct af_pasted_value *values = reader->values;
    const struct af_pasted_value *os = &values[AF_PASTED_SYSTEM];
    for (size_t i = AF_PASTED_TRACE; i <= AF_PASTED_SYSTEM_WORD; i++) {
        if (os->text == NULL && values[AF_PASTED_OS].origin.kind != AF_ORIGIN_LINE)
            os = &values[i];
    }
    bool other = os->text != NULL && !af_equal(os->text, "linux") &&
                 values[AF_PASTED_OS].origin.kind == AF_ORIGIN_PROSE;
    if (!other && load(given, "os", &values[AF_PASTED_OS]))
        af_given_os(given);
    if (given->remark != NULL && os->text == NULL)
        af_pasted_note(reader, "%s: %s", given->source, given->remark);
    give(reader, given, "os", os, af_given_os);
}

/* ComfyUI's portable Python comes with pip, and is on no path. */
static void apply_portable(struct af_pasted_reader *reader, struct af_given *given)
{
    struct af_pasted_value said = reader->values[AF_PASTED_EXECUTABLE];
    if (said.text == NULL || strstr(said.text, "python_embeded") == NULL)
        return;
    said.text = "none";
    give(reader, given, "uv", &said, af_given_tool);
    said.text = "yes";
    give(reader, given, "pip", &said, af_given_tool);
}

/* PyPI's torch needs exactly the CUDA runtime that it was built with. */
static void infer_torch_cuda(struct af_pasted_reader *reader)
{
    struct af_pasted_value *values = reader->values;
    const struct af_pasted_value *runtime = &values[AF_PASTED_TORCH_RUNTIME];
    if (runtime->text == NULL || values[AF_PASTED_TORCH].text == NULL ||
        values[AF_PASTED_TORCH_CUDA].text != NULL || values[AF_PASTED_TORCH_HIP].text != NULL ||
        strchr(values[AF_PASTED_TORCH].text, '+') != NULL)
        return;
    const char *source =
        af_arena_format(&reader->machine.arena, "%s: nvidia-cuda-runtime %s, which torch needs",
                        runtime->source, runtime->text);
    values[AF_PASTED_TORCH_CUDA] =
        (struct af_pasted_value){runtime->text, source, runtime->origin};
}

/* Only conda-forge splits torch; PyTorch's own builds have no package libtorch. */
static void correct_build(struct af_pasted_reader *reader)
{
    struct af_torch *torch = &reader->machine.torch;
    const struct af_pasted_value *conda = &reader->values[AF_PASTED_TORCH_CONDA];
    if (conda->text == NULL || !af_fact_is(&torch->build, "release"))
        return;
    af_fact_text(&reader->machine.arena, &torch->build, "distribution", conda->source);
    af_fact_unknown(&reader->machine.arena, &torch->c10_soname, "%s: conda-forge's torch",
                    conda->source);
}

static void apply_torch(struct af_pasted_reader *reader, struct af_given *given)
{
    struct af_torch *torch = &reader->machine.torch;
    struct af_pasted_value *values = reader->values;
    const struct af_pasted_value *hip = &values[AF_PASTED_TORCH_HIP];
    if (values[AF_PASTED_TORCH].text == NULL && reader->list_complete && !reader->list_cut)
        values[AF_PASTED_TORCH] = (struct af_pasted_value){
            "none",
            af_arena_format(given->arena, "the list of packages in %s", reader->name),
            {.kind = AF_ORIGIN_LINE}};
    infer_torch_cuda(reader);
    give(reader, given, "torch", &values[AF_PASTED_TORCH], af_given_torch);
    if (torch->version.state == AF_FACT_ABSENT)
        return;
    correct_build(reader);
    give(reader, given, "torch_cuda", &values[AF_PASTED_TORCH_CUDA], af_given_torch_cuda);
    if (!load(given, "hip", hip))
        return;
    if (af_given_is_none(given)) {
        af_given_absent(given, &torch->hip, NULL);
        return;
    }
    af_given_text(given, &torch->hip, hip->text, NULL);
    af_given_absent(given, &torch->cuda, NULL);
}

static void apply_gpu(struct af_pasted_reader *reader, struct af_given *given, size_t index)
{
    const struct af_pasted_gpu *said = &reader->gpus[index];
    const struct af_pasted_value *first = said->name.text != NULL ? &said->name : &said->sm;
    if (!load(given, "gpu", first))
        return;
    af_given_gpu_describe(given, index, given->value, given->lower);
    struct af_gpu *gpu = &reader->machine.gpus.rows[index];
    if (given->remark != NULL && said->sm.text == NULL)
        af_pasted_note(reader,
                       "%s: '%s' is not a known GPU, so its compute capability is unknown",
                       first->source, first->text);
    if (load(given, "sm", &said->sm)) {
        af_given_text(given, &gpu->sm, said->sm.text, NULL);
        af_given_text(given, &gpu->vendor, said->sm.text[0] == 'g' ? "amd" : "nvidia", NULL);
    }
    if (load(given, "memory", &said->memory_mib))
        give_number(given, &gpu->memory_bytes, 1048576);
    af_fact_unknown(given->arena, &gpu->visible, "%s does not say CUDA_VISIBLE_DEVICES",
                    reader->name);
}

static void note_gpu(struct af_pasted_reader *reader)
{
    const struct af_pasted_value *listed = &reader->gpus[0].name;
    const struct af_pasted_value *named = &reader->gpu_named.name;
    af_pasted_note(reader, "GPU is %s on %s but %s on line %zu; the listed one is used",
                   listed->text, listed->source, named->text, named->origin.line);
}

static void apply_gpus(struct af_pasted_reader *reader, struct af_given *given)
{
    const struct af_pasted_value *none = &reader->values[AF_PASTED_GPUS_NONE];
    struct af_gpu_rows *gpus = &reader->machine.gpus;
    size_t count = 0;
    while (count < reader->gpu_count &&
           (reader->gpus[count].name.text != NULL || reader->gpus[count].sm.text != NULL))
        count++;
    if (count > 0 || none->text != NULL)
        *gpus = (struct af_gpu_rows){.state = AF_FACT_KNOWN, .source = none->source};
    bool agrees = reader->gpu_named.row == NULL || count == 0;
    for (size_t i = 0; i < count; i++) {
        apply_gpu(reader, given, i);
        agrees = agrees || !af_fact_is(&gpus->rows[i].vendor, reader->gpu_named.row[0]) ||
                 af_fact_is(&gpus->rows[i].sm, reader->gpu_named.row[2]);
    }
    if (!agrees)
        note_gpu(reader);
}

/* nvcc was run by its name, so it is on PATH, and torch uses it unless CUDA_HOME is set. */
static void apply_toolkit(struct af_pasted_reader *reader, struct af_given *given)
{
    struct af_machine *machine = &reader->machine;
    if (!load(given, "nvcc", &reader->values[AF_PASTED_TOOLKIT]))
        return;
    machine->toolkits =
        (struct af_toolkit_rows){.state = AF_FACT_KNOWN, .source = given->source};
    if (af_given_is_none(given))
        return;
    const char *why = af_arena_format(given->arena, "not said in %s", reader->name);
    struct af_toolkit *toolkit =
        af_machine_row_add(machine, offsetof(struct af_machine, toolkits), why);
    if (toolkit == NULL)
        return;
    af_given_text(given, &toolkit->version, given->value, NULL);
    af_given_text(given, &toolkit->nvcc, "nvcc", NULL);
    af_given_text(given, &toolkit->found_by, "PATH", NULL);
    af_given_bool(given, &toolkit->first_on_path, true, NULL);
    af_given_bool(given, &toolkit->torch_takes_it, true,
                  "the nvcc on PATH, which torch uses unless CUDA_HOME is set");
}

/*
 * An incomplete list keeps its rows but becomes unknown, because other packages
 * may be installed, too; unless it has flash-attn, the package that decisions
 * ask for.
 */
static void apply_packages(struct af_pasted_reader *reader, struct af_given *given)
{
    struct af_package_rows *packages = &reader->machine.packages;
    bool complete = reader->list_complete && !reader->list_cut;
    for (size_t i = 0; af_pasted_package_name(i) != NULL; i++)
        give(reader, given, af_pasted_package_name(i), &reader->packages[i], af_given_package);
    const char *source = af_arena_format(
        given->arena, complete ? "the list of packages in %s" : "%s does not list all packages",
        reader->name);
    if (complete && packages->state == AF_FACT_UNKNOWN)
        packages->state = AF_FACT_KNOWN;
    else if (!complete && af_machine_package(&reader->machine, "flash-attn") == NULL)
        packages->state = AF_FACT_UNKNOWN;
    if (packages->count > 0 || complete)
        packages->source = source;
}

void af_pasted_apply(struct af_pasted_reader *reader)
{
    struct af_machine *machine = &reader->machine;
    struct af_given given = {.machine = machine, .arena = &machine->arena};
    apply_system(reader, &given);
    apply_gpus(reader, &given);
    apply_values(reader, &given);
    apply_portable(reader, &given);
    apply_torch(reader, &given);
    apply_toolkit(reader, &given);
    apply_packages(reader, &given);
    machine->cuda_named = reader->values[AF_PASTED_CUDA_NAMED].text;
    af_given_derive_tags(&given, reader->name);
    af_given_derive_soabi(&given, reader->name);
}
