/*
 * paged.c: writes the new keys and values of a step into vLLM's pages, and checks
 * whether the engine would append them at the same places. Torch has operators for
 * this, but in a small model they take longer than the attention of a layer.
 */
#include "anyflash/anyflash_torch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int by_number(const void *first, const void *second)
{
    int32_t a = *(const int32_t *)first, b = *(const int32_t *)second;
    return (a > b) - (a < b);
}

/* Whether no number occurs twice; sorts them. */
static bool are_distinct(int32_t *numbers, int64_t count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, by_number);
    for (int64_t i = 1; i < count; i++)
        if (numbers[i] == numbers[i - 1])
            return false;
    return true;
}

int32_t anyflash_torch_appends(const struct anyflash_torch_step *step, int32_t *past_out)
{
    int32_t *pages = past_out; /* until all of them are known */
    for (int64_t i = 0; i < step->requests; i++) {
        int64_t past = (int64_t)step->lengths[i] - 1;
        if (past < 0 || past / step->page_size >= step->table_pages)
            return 0;
        pages[i] = step->table[i * step->table_stride + past / step->page_size];
        if (pages[i] < 0 ||
            pages[i] * step->page_size + past % step->page_size != step->slots[i])
            return 0;
    }
    if (!are_distinct(pages, step->requests))
        return 0;
    for (int64_t i = 0; i < step->requests; i++)
        past_out[i] = step->lengths[i] - 1;
    return 1;
}

static bool has_slots(const struct anyflash_torch_rows *rows)
{
    for (int64_t t = 0; t < rows->tokens; t++)
        if (rows->slots[t] / rows->page_size >= rows->page_count)
            return false;
    return true;
}

int32_t anyflash_torch_write(const struct anyflash_torch_rows *rows)
{
    if (!has_slots(rows))
        return 0;
    for (int64_t t = 0; t < rows->tokens; t++) {
        int64_t slot = rows->slots[t];
        if (slot < 0)
            continue;
        const char *from = (const char *)rows->rows + t * rows->token_stride;
        char *to = (char *)rows->pages + slot / rows->page_size * rows->page_stride +
                   slot % rows->page_size * rows->row_bytes;
        for (int64_t g = 0; g < rows->heads; g++)
            memcpy(to + g * rows->page_head_stride, from + g * rows->head_stride,
                   (size_t)rows->row_bytes);
    }
    return 1;
}
