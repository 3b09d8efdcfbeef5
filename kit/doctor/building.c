/*
 * building.c: what a source build would meet: for those who tried `pip install
 * flash-attn` and for those whose only way it is.
 */
#include <string.h>

#include "kit/doctor/rules.h"
#include "kit/formats/version.h"

static int64_t major_of(const struct af_fact *fact)
{
    struct af_version version;
    const char *text = af_fact_text_or(fact, NULL);
    if (text == NULL || !af_version_parse(text, strlen(text), &version))
        return -1;
    return version.release[0];
}

/* The toolkit that torch's builder takes, or NULL. */
static const struct af_toolkit *taken_toolkit(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->toolkits.count; i++)
        if (af_fact_truth(&machine->toolkits.rows[i].torch_takes_it) == AF_YES)
            return &machine->toolkits.rows[i];
    return NULL;
}

static void check_compiler(struct af_examination *examination, const struct af_toolkit *toolkit)
{
    const struct af_compiler_rows *compilers = &examination->machine->compilers;
    if (compilers->count == 0)
        return;
    /* The first is the one that a build takes. */
    const struct af_compiler *compiler = &compilers->rows[0];
    bool is_clang = af_fact_is(&compiler->family, "clang");
    int64_t limit = af_fact_int_or(is_clang ? &toolkit->clang_max : &toolkit->gcc_max, -1);
    int64_t major = major_of(&compiler->version);
    if (limit >= 0 && major > limit)
        af_examination_add(
            examination, AF_REASON_GCC_NEW, "%s is %s %s; CUDA %s takes up to %lld (%s)",
            af_fact_text_or(&compiler->command, "the compiler"), is_clang ? "clang" : "gcc",
            compiler->version.value.text, af_fact_text_or(&toolkit->version, "?"),
            (long long)limit, is_clang ? toolkit->clang_max.source : toolkit->gcc_max.source);
}

static void check_path(struct af_examination *examination, const struct af_toolkit *taken)
{
    const struct af_toolkit_rows *toolkits = &examination->machine->toolkits;
    for (size_t i = 0; i < toolkits->count; i++) {
        const struct af_toolkit *toolkit = &toolkits->rows[i];
        if (toolkit == taken || af_fact_truth(&toolkit->first_on_path) != AF_YES ||
            af_equal(af_fact_text_or(&toolkit->version, NULL),
                     af_fact_text_or(&taken->version, NULL)))
            continue;
        af_examination_add(
            examination, AF_REASON_NVCC_CUDA,
            "first on PATH: CUDA %s (%s); a build takes CUDA %s (%s)",
            af_fact_text_or(&toolkit->version, "?"), af_fact_text_or(&toolkit->root, "?"),
            af_fact_text_or(&taken->version, "?"), af_fact_text_or(&taken->root, "?"));
    }
}

void af_examine_building(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    const struct af_toolkit *taken = taken_toolkit(machine);
    if (taken != NULL) {
        int64_t toolkit = major_of(&taken->version);
        int64_t torch = major_of(&machine->torch.cuda);
        if (toolkit >= 0 && torch >= 0 && toolkit != torch)
            af_examination_add(examination, AF_REASON_TOOLKIT_MAJOR,
                               "CUDA %s in %s, torch is built for CUDA %s",
                               taken->version.value.text,
                               af_fact_text_or(&taken->root, "an unknown folder"),
                               machine->torch.cuda.value.text);
        check_path(examination, taken);
        check_compiler(examination, taken);
    }
    for (size_t i = 0; i < machine->disks.count; i++) {
        const struct af_disk *disk = &machine->disks.rows[i];
        if (af_fact_is(&disk->use, "temporary") && af_fact_truth(&disk->in_memory) == AF_YES)
            af_examination_add(examination, AF_REASON_TMP_IN_MEMORY, "%s (%s)",
                               af_fact_text_or(&disk->path, "the temporary folder"),
                               disk->in_memory.source);
    }
}
