/*
 * kernel_selection.c: parses selections and prints them.
 */
#include "kit/compile/offer/kernel_selection.h"

#include "kit/base/text.h"

#include <stdio.h>
#include <string.h>

#define ALL_HEAD_DIMS ((1u << AF_SELECTION_HEAD_DIMS) - 1)
#define WORD_BYTES 32

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
} features[] = {
    {"window", AF_FLASH_LOCAL},
    {"softcap", AF_FLASH_SOFTCAP},
    {"alibi", AF_FLASH_ALIBI},
    {"dropout", AF_FLASH_DROPOUT},
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
    return af_text_take(&text, arena);
}

const char *af_selection_sizes(const struct af_selection *selection, struct af_arena *arena)
{
    struct af_text text = {0};
    int sizes[AF_SELECTION_HEAD_DIMS];
    add_numbers(&text, "", ",", sizes, af_selection_head_dims(selection, sizes));
    return af_text_take(&text, arena);
}
