/*
 * kernel_selection.c: selections: parses them, derives their GPUs and files, and prints
 * them.
 */
#include "kit/compile/offer/kernel_selection.h"

#include "kit/base/text.h"

#include <stdio.h>
#include <string.h>

#define ALL_HEAD_DIMS ((1u << AF_SELECTION_HEAD_DIMS) - 1)
#define WORD_BYTES 32
#define JOIN_KERNELS_MAX 48 /* of both files together */
#define KIB 1024

static const int head_dims[AF_SELECTION_HEAD_DIMS] = {32, 64, 96, 128, 192, 256};

void af_selection_all(struct af_selection *selection)
{
    selection->head_dims = ALL_HEAD_DIMS;
    selection->dtypes = AF_SELECTION_FP16 | AF_SELECTION_BF16;
    selection->features = AF_SELECTION_FEATURES;
    selection->backward = true;
}

size_t af_selection_head_dims(const struct af_selection *selection,
                              int head_dims_out[AF_SELECTION_HEAD_DIMS])
{
    size_t count = 0;
    for (size_t i = 0; i < AF_SELECTION_HEAD_DIMS; i++) {
        if ((selection->head_dims & 1u << i) != 0)
            head_dims_out[count++] = head_dims[i];
    }
    return count;
}

bool af_selection_add_head_dim(struct af_selection *selection, int64_t head_dim)
{
    if (head_dim < 1)
        return false;
    for (size_t i = 0; i < AF_SELECTION_HEAD_DIMS; i++) {
        if (head_dim <= head_dims[i]) {
            selection->head_dims |= 1u << i;
            return true;
        }
    }
    return false;
}

/*
 * Compute capability of GPUs, the target that is compiled for them, and shared memory:
 * the maximum of a block, and that of a multiprocessor. 80 is for all of 8.x but 8.7,
 * with no property known; 86 is for 8.6 and 8.9 only. 8.7 (Orin) may not run code for 8.0.
 */
static const struct {
    int arch, target;
    struct af_selection_gpu gpu;
} targets[] = {
    {80, 80, {0, 0, AF_UNKNOWN}},
    {86, 80, {99 * KIB, 100 * KIB, AF_YES}},
    {87, 87, {163 * KIB, 164 * KIB, AF_YES}},
    {90, 90, {227 * KIB, 228 * KIB, AF_NO}},
    {100, 100, {227 * KIB, 228 * KIB, AF_NO}},
    {110, 110, {227 * KIB, 228 * KIB, AF_NO}},
    {120, 120, {99 * KIB, 100 * KIB, AF_NO}},
};

static size_t row_of(int arch)
{
    size_t row = 0;
    while (targets[row].arch != arch)
        row++;
    return row;
}

int af_selection_target(int arch)
{
    return targets[row_of(arch)].target;
}

static int arch_of(int sm)
{
    switch (sm / 10) {
    case 8:
        return sm == 87 ? 87 : sm == 86 || sm == 89 ? 86 : 80;
    case 9:
        return 90;
    case 10: /* Thor was 10.1 up to CUDA 12.9 */
        return sm == 101 ? 110 : 100;
    case 11:
        return 110;
    case 12:
        return 120;
    default:
        return 0;
    }
}

bool af_selection_add_arch(struct af_selection *selection, int sm)
{
    int arch = arch_of(sm);
    size_t at = 0;
    if (arch == 0)
        return false;
    while (at < selection->arch_count && selection->archs[at] < arch)
        at++;
    if (at < selection->arch_count && selection->archs[at] == arch)
        return true;
    if (at > 0 && arch == 86 && selection->archs[at - 1] == 80)
        return true;
    if (at < selection->arch_count && arch == 80 && selection->archs[at] == 86) {
        selection->archs[at] = arch;
        return true;
    }
    memmove(&selection->archs[at + 1], &selection->archs[at],
            (selection->arch_count - at) * sizeof selection->archs[0]);
    selection->archs[at] = arch;
    selection->arch_count++;
    return true;
}

/*
 * Backward of head size 256 with dropout: for GPUs with little shared memory the
 * launcher silently launches nothing. A wheel for 8.6 also runs on 8.0, so it must
 * keep the kernel for much memory.
 */
static bool needs_much_memory(const struct af_selection *selection)
{
    return selection->backward && (selection->features & AF_FLASH_DROPOUT) != 0 &&
           (selection->head_dims & 1u << (AF_SELECTION_HEAD_DIMS - 1)) != 0;
}

void af_selection_gpu(const struct af_selection *selection, struct af_selection_gpu *gpu_out)
{
    struct af_selection_gpu all = {0, 0, AF_UNKNOWN};
    for (size_t i = 0; i < selection->arch_count; i++) {
        const struct af_selection_gpu *one = &targets[row_of(selection->archs[i])].gpu;
        if (i == 0)
            all = *one;
        if (one->smem_per_block != all.smem_per_block ||
            (selection->archs[i] == 86 && needs_much_memory(selection)))
            all.smem_per_block = all.smem_per_sm = 0;
        if (one->is_sm8x != all.is_sm8x)
            all.is_sm8x = AF_UNKNOWN;
    }
    *gpu_out = all;
}

/* The next word of a list with commas; false at its end. */
static bool next_word(const char **list, char word[WORD_BYTES])
{
    size_t len = strcspn(*list, ",");
    if (**list == '\0')
        return false;
    snprintf(word, WORD_BYTES, "%.*s", (int)(len < WORD_BYTES ? len : WORD_BYTES - 1), *list);
    *list += len + ((*list)[len] == ',');
    return true;
}

static enum anyflash_status refuse(struct anyflash_error *err, const char *what,
                                   const char *word, const char *allowed)
{
    char quoted[2 * WORD_BYTES];
    af_text_quote(quoted, sizeof quoted, word, strlen(word));
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s '%s' is not valid: use %s", what, quoted,
                   allowed);
}

enum anyflash_status af_selection_read_head_dims(const char *list,
                                                 struct af_selection *selection,
                                                 struct anyflash_error *err)
{
    char word[WORD_BYTES];
    int64_t head_dim;
    selection->head_dims = 0;
    if (strcmp(list, "all") == 0)
        selection->head_dims = ALL_HEAD_DIMS;
    else
        while (next_word(&list, word)) {
            if (!af_parse_i64(word, 1, 100000, &head_dim) ||
                !af_selection_add_head_dim(selection, head_dim))
                return refuse(err, "head size", word, "1 to 256, or 'all'");
        }
    return selection->head_dims != 0 ? ANYFLASH_OK : refuse(err, "head size", "", "1 to 256");
}

enum anyflash_status af_selection_read_dtypes(const char *list, struct af_selection *selection,
                                              struct anyflash_error *err)
{
    char word[WORD_BYTES];
    selection->dtypes = 0;
    while (next_word(&list, word)) {
        if (strcmp(word, "bf16") == 0 || strcmp(word, "bfloat16") == 0)
            selection->dtypes |= AF_SELECTION_BF16;
        else if (strcmp(word, "fp16") == 0 || strcmp(word, "float16") == 0)
            selection->dtypes |= AF_SELECTION_FP16;
        else
            return refuse(err, "type", word, "bf16 or fp16");
    }
    return selection->dtypes != 0 ? ANYFLASH_OK : refuse(err, "type", "", "bf16 or fp16");
}

/* The features that can be left out, in the order in which they are shown. */
static const struct {
    const char *word;
    enum af_flash_feature feature;
    const char *macro;
} features[] = {
    {"window", AF_FLASH_LOCAL, "-DFLASHATTENTION_DISABLE_LOCAL"},
    {"softcap", AF_FLASH_SOFTCAP, "-DFLASHATTENTION_DISABLE_SOFTCAP"},
    {"alibi", AF_FLASH_ALIBI, "-DFLASHATTENTION_DISABLE_ALIBI"},
    {"dropout", AF_FLASH_DROPOUT, "-DFLASHATTENTION_DISABLE_DROPOUT"},
};

enum anyflash_status af_selection_read_features(const char *list,
                                                struct af_selection *selection,
                                                struct anyflash_error *err)
{
    char word[WORD_BYTES];
    selection->features = 0;
    while (next_word(&list, word)) {
        size_t i = 0;
        while (i < AF_COUNT(features) && strcmp(word, features[i].word) != 0)
            i++;
        if (i < AF_COUNT(features))
            selection->features |= features[i].feature;
        else if (strcmp(word, "all") == 0)
            selection->features = AF_SELECTION_FEATURES;
        else if (strcmp(word, "none") != 0)
            return refuse(err, "feature", word,
                          "window, softcap, alibi, dropout, 'all' or 'none'");
    }
    return ANYFLASH_OK;
}

static const struct {
    const char *word;
    enum af_flash_operation pass;
} passes[] = {
    /* the longest to compile first; */
    {"bwd", AF_FLASH_BACKWARD},
    {"fwd_split", AF_FLASH_FORWARD_SPLIT},
    {"fwd", AF_FLASH_FORWARD},
};

static const char *pass_word(enum af_flash_operation pass)
{
    for (size_t i = 0; i < AF_COUNT(passes); i++) {
        if (passes[i].pass == pass)
            return passes[i].word;
    }
    return "";
}

const char *af_selection_file_name(const struct af_selection_file *file, struct af_arena *arena)
{
    return af_arena_format(arena, "flash_%s_hdim%d_%s%s_sm80.cu", pass_word(file->pass),
                           file->head_dim, file->dtype == AF_SELECTION_FP16 ? "fp16" : "bf16",
                           file->joined   ? "_both"
                           : file->causal ? "_causal"
                                          : "");
}

size_t af_selection_units(const struct af_selection *selection,
                          struct af_selection_file *units_out)
{
    static const enum af_selection_dtype dtypes[] = {AF_SELECTION_BF16, AF_SELECTION_FP16};
    size_t count = 0;
    for (size_t pass = 0; pass < AF_COUNT(passes); pass++)
        for (size_t size = AF_SELECTION_HEAD_DIMS; size-- > 0;)
            for (size_t type = 0; type < AF_COUNT(dtypes); type++) {
                struct af_selection_file unit = {passes[pass].pass, head_dims[size],
                                                 dtypes[type], false, selection->joins};
                if ((selection->head_dims & 1u << size) == 0 ||
                    (selection->dtypes & unit.dtype) == 0 ||
                    (unit.pass == AF_FLASH_BACKWARD && !selection->backward))
                    continue;
                unit.joined =
                    unit.joined && af_selection_kernels(selection, &unit) <= JOIN_KERNELS_MAX;
                units_out[count++] = unit;
                unit.causal = true;
                if (!unit.joined)
                    units_out[count++] = unit;
            }
    return count;
}

void af_selection_macros(const struct af_selection *selection,
                         const char *macros_out[AF_SELECTION_MACROS_MAX + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < AF_COUNT(features); i++) {
        if ((selection->features & features[i].feature) == 0)
            macros_out[count++] = features[i].macro;
    }
    macros_out[count] = NULL;
}

/* Whether it is everything. */
static bool is_all(const struct af_selection *selection)
{
    struct af_selection full;
    af_selection_all(&full);
    return selection->head_dims == full.head_dims && selection->dtypes == full.dtypes &&
           selection->features == full.features && selection->backward;
}

/* Adds `text` after `separator`, which the first one does not get. */
static void add(struct af_text *all, const char *separator, const char *text)
{
    af_text_add(all, all->len > 0 ? separator : "");
    af_text_add(all, text);
}

static void add_numbers(struct af_text *all, const char *first, const char *next,
                        const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        af_text_format(all, "%s%d", i == 0 ? first : next, numbers[i]);
}

static void add_dtypes(const struct af_selection *selection, struct af_text *all,
                       const char *separator)
{
    if ((selection->dtypes & AF_SELECTION_BF16) != 0)
        add(all, separator, "bf16");
    if ((selection->dtypes & AF_SELECTION_FP16) != 0)
        add(all, separator, "fp16");
}

static void add_features(const struct af_selection *selection, struct af_text *all,
                         const char *separator)
{
    for (size_t i = 0; i < AF_COUNT(features); i++) {
        if ((selection->features & features[i].feature) != 0)
            add(all, separator, features[i].word);
    }
}

const char *af_selection_dtypes(const struct af_selection *selection)
{
    return selection->dtypes == AF_SELECTION_BF16   ? "bf16"
           : selection->dtypes == AF_SELECTION_FP16 ? "fp16"
                                                    : "bf16,fp16";
}

const char *af_selection_features(const struct af_selection *selection, struct af_arena *arena)
{
    struct af_text text = {0};
    add_features(selection, &text, ",");
    if (text.len == 0)
        af_text_add(&text, "none");
    return af_text_take(&text, arena);
}

const char *af_selection_text(const struct af_selection *selection, struct af_arena *arena)
{
    struct af_text text = {0};
    int sizes[AF_SELECTION_HEAD_DIMS];
    add_numbers(&text, "head size ", ", ", sizes, af_selection_head_dims(selection, sizes));
    add_dtypes(selection, &text, ", ");
    add(&text, ", ", selection->backward ? "forward and backward" : "forward only");
    add_features(selection, &text, ", ");
    for (size_t i = 0; i < selection->arch_count; i++)
        af_text_format(&text, ", SM %d.%d%s", selection->archs[i] / 10,
                       selection->archs[i] % 10, selection->archs[i] == 86 ? " and 8.9" : "");
    return af_text_take(&text, arena);
}

const char *af_selection_local(const struct af_selection *selection, struct af_arena *arena)
{
    struct af_text text = {0};
    int sizes[AF_SELECTION_HEAD_DIMS];
    bool full = is_all(selection);
    if (full)
        add(&text, ".", "full");
    add_numbers(&text, full ? ".sm" : "sm", ".sm", selection->archs, selection->arch_count);
    if (full)
        return af_text_take(&text, arena);
    size_t count = af_selection_head_dims(selection, sizes);
    add_numbers(&text, text.len > 0 ? ".hd" : "hd", ".hd", sizes, count);
    add_dtypes(selection, &text, ".");
    if (selection->backward)
        add(&text, ".", "bwd");
    add_features(selection, &text, ".");
    return af_text_take(&text, arena);
}

const char *af_selection_options(const struct af_selection *selection, struct af_arena *arena)
{
    struct af_text text = {0};
    int sizes[AF_SELECTION_HEAD_DIMS];
    add_numbers(&text, "--head-dim ", ",", sizes, af_selection_head_dims(selection, sizes));
    af_text_format(&text, " --dtype %s --features %s", af_selection_dtypes(selection),
                   af_selection_features(selection, arena));
    af_text_add(&text, selection->backward ? "" : " --inference");
    add_numbers(&text, " --arch ", ",", selection->archs, selection->arch_count);
    return af_text_take(&text, arena);
}
