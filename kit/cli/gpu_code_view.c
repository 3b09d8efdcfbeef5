/*
 * gpu_code_view.c: prints the GPU code of an extension as text and as JSON: its targets, then
 * the kernels as operations with their head dimensions.
 */
#include "kit/cli/inspect_view.h"

#include <stdio.h>

#include "kit/base/text.h"
#include "kit/cli/screen.h"

static const struct {
    unsigned bit;
    const char *text;
} features[] = {{AF_FLASH_CAUSAL, "causal"},   {AF_FLASH_DROPOUT, "dropout"},
                {AF_FLASH_LOCAL, "window"},    {AF_FLASH_ALIBI, "alibi"},
                {AF_FLASH_SOFTCAP, "softcap"}, {AF_FLASH_APPEND, "append"}};

/* "SASS: sm_80, sm_90a in 72" for one kind; with the ISA for PTX. */
static void add_targets(struct af_text *text, const struct af_gpu_code *code,
                        enum af_gpu_kind kind)
{
    for (size_t i = 0; i < code->target_count; i++) {
        const struct af_gpu_target *target = &code->targets[i];
        char name[AF_GPU_TARGET_TEXT];
        if (target->kind != kind)
            continue;
        if (text->len == 0)
            af_text_format(text, "%s: ", af_gpu_kind_text(kind));
        else
            af_text_add(text, ", ");
        af_text_add(text, af_gpu_target_text(target, name));
        if (kind == AF_GPU_PTX)
            af_text_format(text, " (ISA %u.%u)", target->version_major, target->version_minor);
        size_t units = code->container_count - code->relocatable_container_count;
        if (target->container_count != units)
            af_text_format(text, " in %zu", target->container_count);
    }
}

static void show_targets(struct af_screen *screen, int indent, const struct af_gpu_code *code)
{
    static const enum af_gpu_kind kinds[] = {AF_GPU_SASS, AF_GPU_PTX, AF_GPU_LTOIR,
                                             AF_GPU_OTHER};
    for (size_t i = 0; i < AF_COUNT(kinds); i++) {
        struct af_text text = {0};
        add_targets(&text, code, kinds[i]);
        if (text.len > 0)
            af_screen_take(screen, indent, "", AF_TONE_PLAIN, &text);
    }
}

/* Whether two families go on one line: they differ only in the head dimension. */
static bool is_same_line(const struct af_flash_kernel *a, const struct af_flash_kernel *b)
{
    return a->operation == b->operation && a->generation == b->generation &&
           a->sm_min == b->sm_min && a->dtype == b->dtype;
}

static void show_line(struct af_screen *screen, int indent, const struct af_flash_family *first,
                      size_t count)
{
    const struct af_flash_kernel *kernel = &first->kernel;
    struct af_text text = {0};
    unsigned all = 0;
    af_text_add(&text, af_flash_operation_text(kernel->operation));
    if (kernel->generation == 3)
        af_text_add(&text, " (3)");
    if (kernel->dtype != NULL)
        af_text_format(&text, " %s", kernel->dtype);
    for (size_t i = 0; i < count; i++) {
        all |= first[i].kernel.features;
        if (first[i].kernel.head_dim >= 0)
            af_text_format(&text, "%s%d", i == 0 ? ": head dim " : " ",
                           first[i].kernel.head_dim);
    }
    for (size_t i = 0, shown = 0; i < AF_COUNT(features); i++) {
        if ((all & features[i].bit) != 0)
            af_text_format(&text, "%s%s", shown++ == 0 ? "; " : ", ", features[i].text);
    }
    if (kernel->sm_max > 0)
        af_text_format(&text, "; for %d.%d to %d.%d", kernel->sm_min / 10, kernel->sm_min % 10,
                       kernel->sm_max / 10, kernel->sm_max % 10);
    af_screen_take(screen, indent + 2, "", AF_TONE_PLAIN, &text);
}

static void show_kernels(struct af_screen *screen, int indent,
                         const struct af_flash_kernels *kernels)
{
    for (size_t i = 0; i < kernels->family_count;) {
        size_t end = i + 1;
        while (end < kernels->family_count &&
               is_same_line(&kernels->families[i].kernel, &kernels->families[end].kernel))
            end++;
        show_line(screen, indent, &kernels->families[i], end - i);
        i = end;
    }
    if (kernels->problem != NULL)
        af_screen_format(screen, indent + 2, "", AF_TONE_BAD, "some kernels were not read: %s",
                         kernels->problem);
}

void af_cli_gpu_code_show(struct af_screen *screen, int indent, const struct af_gpu_code *code,
                          const struct af_flash_kernels *kernels)
{
    if (code->container_count == 0 && code->problem == NULL)
        return;
    size_t units = code->container_count - code->relocatable_container_count;
    af_screen_format(screen, indent, "", AF_TONE_PLAIN, "%zu translation unit%s with GPU code",
                     units, units == 1 ? "" : "s");
    show_targets(screen, indent, code);
    if (code->empty_count > 0)
        af_screen_format(screen, indent, "", AF_TONE_DIM, "%zu cubin%s without any kernel",
                         code->empty_count, code->empty_count == 1 ? "" : "s");
    if (code->relocatable_container_count > 0)
        af_screen_format(screen, indent, "", AF_TONE_DIM,
                         "%zu translation units for a later device link, never loaded",
                         code->relocatable_container_count);
    if (code->problem != NULL)
        af_screen_add(screen, indent, "", AF_TONE_BAD, code->problem);
    if (kernels != NULL && kernels->family_count > 0) {
        af_screen_format(screen, indent, "", AF_TONE_PLAIN, "FlashAttention kernels:");
        show_kernels(screen, indent, kernels);
    }
}

static json_t *version_json(const struct af_gpu_target *target)
{
    char text[16];
    if (target->kind != AF_GPU_PTX)
        return json_null();
    snprintf(text, sizeof text, "%u.%u", target->version_major, target->version_minor);
    return json_string(text);
}

static json_t *target_json(const struct af_gpu_target *target)
{
    char name[AF_GPU_TARGET_TEXT];
    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I}", "kind",
                     af_gpu_kind_text(target->kind), "target", af_gpu_target_text(target, name),
                     "ptx_isa", version_json(target), "images", (json_int_t)target->image_count,
                     "translation_units", (json_int_t)target->container_count, "lz4",
                     (json_int_t)target->lz4_count, "zstd", (json_int_t)target->zstd_count,
                     "bytes", (json_int_t)target->stored_bytes);
}

static json_t *features_json(unsigned bits)
{
    json_t *list = json_array();
    for (size_t i = 0; i < AF_COUNT(features); i++) {
        if ((bits & features[i].bit) != 0)
            list = af_json_append(list, json_string(features[i].text));
    }
    return list;
}

static json_t *family_json(const struct af_flash_family *family)
{
    const struct af_flash_kernel *kernel = &family->kernel;
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "operation",
                     af_flash_operation_text(kernel->operation), "generation",
                     kernel->generation, "head_dim", af_json_count(kernel->head_dim), "dtype",
                     af_json_text(kernel->dtype), "features", features_json(kernel->features),
                     "sm_min", kernel->sm_max > 0 ? json_integer(kernel->sm_min) : json_null(),
                     "sm_max", kernel->sm_max > 0 ? json_integer(kernel->sm_max) : json_null(),
                     "kernels", (json_int_t)family->kernel_count, "translation_units",
                     (json_int_t)family->container_count);
}

static json_t *families_json(const struct af_flash_kernels *kernels)
{
    if (kernels == NULL)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < kernels->family_count; i++)
        list = af_json_append(list, family_json(&kernels->families[i]));
    return list;
}

json_t *af_cli_gpu_code_json(const struct af_gpu_code *code,
                             const struct af_flash_kernels *kernels)
{
    json_t *targets = json_array();
    for (size_t i = 0; i < code->target_count; i++)
        targets = af_json_append(targets, target_json(&code->targets[i]));
    json_t *problem = af_json_text(code->problem != NULL ? code->problem
                                   : kernels != NULL     ? kernels->problem
                                                         : NULL);
    return json_pack("{s:I, s:o, s:I, s:{s:I, s:I}, s:o, s:o, s:o}", "translation_units",
                     (json_int_t)(code->container_count - code->relocatable_container_count),
                     "targets", targets, "empty_images", (json_int_t)code->empty_count,
                     "relocatable", "translation_units",
                     (json_int_t)code->relocatable_container_count, "images",
                     (json_int_t)code->relocatable_image_count, "registered",
                     af_json_count(code->wrapper_count), "flash_kernels",
                     families_json(kernels), "problem", problem);
}
