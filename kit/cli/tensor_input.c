/*
 * tensor_input.c: from a word of the command line to mapped numbers. Called by
 * cmd_attend.c.
 */
#include "kit/cli/tensor_input.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/npy.h"
#include "kit/formats/safetensors.h"

#define SHOWN_BYTES 160

/* Splits "FILE:NAME"; a file that is there under the whole word has no name. */
static const char *split_word(struct af_arena *arena, const char *word, const char **tensor)
{
    const char *colon = strrchr(word, ':');
    if (colon == NULL || af_file_exists(word))
        return word;
    const char *path = af_arena_text_n(arena, word, (size_t)(colon - word));
    if (path != NULL && af_file_exists(path))
        *tensor = colon + 1;
    else
        path = word;
    return path;
}

static enum anyflash_status parse(struct af_tensor_input *input, const char *tensor,
                                  struct anyflash_error *err)
{
    struct af_span bytes = {(const char *)input->mapping.data, input->mapping.len};
    if (af_npy_is(bytes))
        return af_npy_read(bytes, input->shown, &input->array, err);
    if (af_safetensors_is(bytes) || af_ends_with(input->shown, ".safetensors"))
        return af_safetensors_read(bytes, input->shown, tensor, &input->array, err);
    return af_fail(err, ANYFLASH_E_DATA, "'%s' is neither a .npy nor a safetensors file",
                   input->shown);
}

/* Numbers must lie at multiples of their size; the formats do not promise it. */
static enum anyflash_status align(struct af_tensor_input *input, struct anyflash_error *err)
{
    struct af_npy_array *array = &input->array;
    if ((uintptr_t)array->data % af_element_bytes(array->element) == 0 || array->len == 0)
        return ANYFLASH_OK;
    input->copy = af_mem_alloc(array->len);
    if (input->copy == NULL)
        return af_fail_memory(err);
    memcpy(input->copy, array->data, array->len);
    array->data = input->copy;
    return ANYFLASH_OK;
}

enum anyflash_status af_tensor_input_open(struct af_arena *arena, const char *word,
                                          const char *tensor, enum af_element raw,
                                          struct af_tensor_input *input, const char **hint_out,
                                          struct anyflash_error *err)
{
    const char *path = split_word(arena, word, &tensor);
    input->shown = path != NULL ? af_text_scrub(arena, path, SHOWN_BYTES) : NULL;
    if (input->shown == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_file_map(path, &input->mapping, err);
    if (status == ANYFLASH_OK)
        status = parse(input, tensor, err);
    if (status != ANYFLASH_OK)
        return status;
    if (input->array.element == AF_ELEMENT_RAW16) {
        input->array.element = raw;
        if (raw == AF_ELEMENT_RAW16) {
            *hint_out = "`--dtype bf16` says that they are bf16";
            return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                           "'%s' holds two bytes a number and does not say of which type",
                           input->shown);
        }
    }
    return align(input, err);
}

void af_tensor_input_release(struct af_tensor_input *input)
{
    af_mem_free(input->copy);
    af_file_unmap(&input->mapping);
    *input = (struct af_tensor_input){0};
}
