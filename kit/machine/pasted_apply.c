/*
 * pasted_apply.c: turns the values from pasted text into facts of the machine.
 * Values go through the handlers of --given, which derive further facts, in an
 * order in which later ones refine earlier ones.
 */
#include "kit/machine/pasted_parts.h"
#include "kit/machine/platform_tags.h"

#include <stdio.h>
#include <string.h>

/* Makes `value` the value of `given`; false if the text did not state it. */
static bool load(struct af_given *given, const char *key, const struct af_pasted_value *value)
{
    if (value->text == NULL || given->arena->failed)
        return false;
    af_given_begin(given, key, value->text, value->source);
    return given->lower != NULL;
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

/* A number from the text; false if the text did not state it. */
static bool number_of(const struct af_pasted_value *value, int64_t *number_out)
{
    return value->text != NULL && af_parse_i64(value->text, 0, INT64_MAX / 1048576, number_out);
}

static void apply_number(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                         struct af_fact *target)
{
    int64_t number;
    if (number_of(&reader->values[fact], &number))
        af_fact_int(&reader->machine.arena, target, number, reader->values[fact].source);
}

static void apply_platform(struct af_pasted_reader *reader, struct af_given *given)
{
    struct af_platform *platform = &reader->machine.platform;
    const struct af_pasted_value *values = reader->values;
    const struct af_pasted_value *os = &values[AF_PASTED_SYSTEM];
    for (size_t i = AF_PASTED_TRACE; i <= AF_PASTED_SYSTEM_WORD; i++) {
        if (os->text == NULL && values[AF_PASTED_OS].text == NULL)
            os = &values[i];
    }
    if (load(given, "os", &values[AF_PASTED_OS]))
        af_given_os(given);
    if (given->remark != NULL && os->text == NULL)
        af_pasted_note(reader, "%s: %s", given->source, given->remark);
    give(reader, given, "os", os, af_given_os);
    if (values[AF_PASTED_WSL].text != NULL)
        af_fact_bool(given->arena, &platform->wsl, true, values[AF_PASTED_WSL].source);
    if (values[AF_PASTED_KERNEL].text != NULL)
        af_fact_text(given->arena, &platform->kernel, values[AF_PASTED_KERNEL].text,
                     values[AF_PASTED_KERNEL].source);
    give(reader, given, "arch", &values[AF_PASTED_ARCH], af_given_arch);
    give(reader, given, "libc", &values[AF_PASTED_LIBC], af_given_libc);
}

/* ComfyUI's portable Python comes with pip, and is on no path. */
static void apply_python(struct af_pasted_reader *reader, struct af_given *given)
{
    const struct af_pasted_value *executable = &reader->values[AF_PASTED_EXECUTABLE];
    give(reader, given, "python", &reader->values[AF_PASTED_PYTHON], af_given_python);
    if (executable->text == NULL)
        return;
    af_fact_text(given->arena, &reader->machine.python.executable, executable->text,
                 executable->source);
    if (strstr(executable->text, "python_embeded") == NULL)
        return;
    const struct af_pasted_value uv = {"none", executable->source, false};
    const struct af_pasted_value pip = {"yes", executable->source, false};
    give(reader, given, "uv", &uv, af_given_tool);
    give(reader, given, "pip", &pip, af_given_tool);
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
    if (source != NULL)
        values[AF_PASTED_TORCH_CUDA] = (struct af_pasted_value){runtime->text, source, false};
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
            "none", af_arena_format(given->arena, "the list of packages in %s", reader->name),
            false};
    infer_torch_cuda(reader);
    give(reader, given, "torch", &values[AF_PASTED_TORCH], af_given_torch);
    if (torch->version.state == AF_FACT_ABSENT)
        return;
    correct_build(reader);
    give(reader, given, "torch_cuda", &values[AF_PASTED_TORCH_CUDA], af_given_torch_cuda);
    if (hip->text != NULL && strcmp(hip->text, "none") == 0) {
        af_fact_absent(given->arena, &torch->hip, hip->source);
    } else if (hip->text != NULL) {
        af_fact_text(given->arena, &torch->hip, hip->text, hip->source);
        af_fact_absent(given->arena, &torch->cuda, hip->source);
    }
}

static void apply_gpu(struct af_pasted_reader *reader, struct af_given *given, size_t index)
{
    const struct af_pasted_gpu *said = &reader->gpus[index];
    const struct af_pasted_value *first = said->name.text != NULL ? &said->name : &said->sm;
    int64_t mib;
    if (!load(given, "gpu", first))
        return;
    af_given_gpu_describe(given, index, given->value, given->lower);
    if (given->arena->failed)
        return;
    struct af_gpu *gpu = &reader->machine.gpus.rows[index];
    if (said->sm.text != NULL) {
        bool amd = said->sm.text[0] == 'g';
        af_fact_text(given->arena, &gpu->sm, said->sm.text, said->sm.source);
        af_fact_text(given->arena, &gpu->vendor, amd ? "amd" : "nvidia", said->sm.source);
    } else if (given->remark != NULL) {
        af_pasted_note(reader,
                       "%s: '%s' is not a known GPU, so its compute capability is unknown",
                       first->source, first->text);
    }
    if (number_of(&said->memory_mib, &mib))
        af_fact_int(given->arena, &gpu->memory_bytes, mib * 1048576, said->memory_mib.source);
    af_fact_unknown(given->arena, &gpu->visible, "%s does not say CUDA_VISIBLE_DEVICES",
                    reader->name);
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
    for (size_t i = 0; i < count; i++)
        apply_gpu(reader, given, i);
    give(reader, given, "driver", &reader->values[AF_PASTED_DRIVER], af_given_driver);
    give(reader, given, "cuda_api", &reader->values[AF_PASTED_CUDA_API], af_given_cuda_api);
    give(reader, given, "rocm", &reader->values[AF_PASTED_ROCM], af_given_named_fact);
    give(reader, given, "visible_devices", &reader->values[AF_PASTED_VISIBLE],
         af_given_visible_devices);
}

/* nvcc was run by its name, so it is on PATH, and torch uses it unless CUDA_HOME is set. */
static void apply_toolkit(struct af_pasted_reader *reader)
{
    struct af_machine *machine = &reader->machine;
    struct af_arena *arena = &machine->arena;
    const struct af_pasted_value *said = &reader->values[AF_PASTED_TOOLKIT];
    if (said->text == NULL)
        return;
    machine->toolkits =
        (struct af_toolkit_rows){.state = AF_FACT_KNOWN, .source = said->source};
    if (strcmp(said->text, "none") == 0)
        return;
    const char *why = af_arena_format(arena, "not said in %s", reader->name);
    struct af_toolkit *toolkit =
        af_machine_row_add(machine, offsetof(struct af_machine, toolkits), why);
    const char *taken = af_arena_format(
        arena, "%s: the nvcc on PATH, which torch uses unless CUDA_HOME is set", said->source);
    if (toolkit == NULL || taken == NULL)
        return;
    af_fact_text(arena, &toolkit->version, said->text, said->source);
    af_fact_text(arena, &toolkit->nvcc, "nvcc", said->source);
    af_fact_text(arena, &toolkit->found_by, "PATH", said->source);
    af_fact_bool(arena, &toolkit->first_on_path, true, said->source);
    af_fact_bool(arena, &toolkit->torch_takes_it, true, taken);
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
    bool gcc = reader->values[AF_PASTED_GCC].text != NULL;
    apply_platform(reader, &given);
    apply_python(reader, &given);
    apply_torch(reader, &given);
    apply_gpus(reader, &given);
    apply_toolkit(reader);
    machine->cuda_named = reader->values[AF_PASTED_CUDA_NAMED].text;
    give(reader, &given, gcc ? "gcc" : "clang",
         &reader->values[gcc ? AF_PASTED_GCC : AF_PASTED_CLANG], af_given_compiler);
    apply_number(reader, AF_PASTED_CORES, &machine->resources.cores);
    apply_number(reader, AF_PASTED_MEMORY, &machine->resources.memory_total_bytes);
    apply_number(reader, AF_PASTED_MEMORY_AVAILABLE,
                 &machine->resources.memory_available_bytes);
    apply_number(reader, AF_PASTED_SWAP_FREE, &machine->resources.swap_free_bytes);
    apply_packages(reader, &given);
    af_given_derive_tags(&given, reader->name);
    af_given_derive_soabi(&given, reader->name);
}
