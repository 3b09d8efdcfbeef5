/*
 * safetensors.c: finds one tensor in the header of a safetensors file and checks
 * that its bytes are there.
 */
#include "kit/formats/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/json.h"
#include "kit/base/text.h"

#define LENGTH_BYTES 8
#define LISTED_MAX 4
#define SHOWN_BYTES 80

static uint64_t head_length(struct af_span bytes)
{
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)(unsigned char)bytes.data[i] << 8 * i;
    return length;
}

bool af_safetensors_is(struct af_span bytes)
{
    return bytes.len > LENGTH_BYTES && bytes.data[LENGTH_BYTES] == '{' &&
           head_length(bytes) <= bytes.len - LENGTH_BYTES;
}

static enum anyflash_status find_head(struct af_span bytes, const char *name,
                                      struct af_span *head_out, struct anyflash_error *err)
{
    if (bytes.len < LENGTH_BYTES)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is cut short (%zu bytes)", name, bytes.len);
    uint64_t length = head_length(bytes);
    if (length > bytes.len - LENGTH_BYTES)
        return af_fail(
            err, ANYFLASH_E_DATA,
            "'%s' is cut short or no safetensors file: its head would have %llu bytes", name,
            (unsigned long long)length);
    if (length > AF_SAFETENSORS_HEAD_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT,
                       "'%s' has a head of %llu bytes; at most %u are read", name,
                       (unsigned long long)length, AF_SAFETENSORS_HEAD_BYTES_MAX);
    *head_out = (struct af_span){bytes.data + LENGTH_BYTES, (size_t)length};
    return ANYFLASH_OK;
}

/* Says which tensors the file has instead. */
static enum anyflash_status not_found(json_t *head, const char *name, const char *tensor,
                                      struct anyflash_error *err)
{
    char wanted[SHOWN_BYTES], shown[SHOWN_BYTES], list[LISTED_MAX * (SHOWN_BYTES + 2) + 8] = "";
    size_t count = 0, len = 0;
    const char *key;
    json_t *value;
    json_object_foreach(head, key, value)
    {
        if (strcmp(key, "__metadata__") == 0 || count == LISTED_MAX)
            continue;
        af_text_quote(shown, sizeof shown, key, strlen(key));
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", count > 0 ? ", " : "",
                                shown);
        count++;
    }
    af_text_quote(wanted, sizeof wanted, tensor, strlen(tensor));
    return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' has no tensor '%s'; it has %s%s", name,
                   wanted, count > 0 ? list : "none",
                   json_object_size(head) > LISTED_MAX ? ", ..." : "");
}

static enum anyflash_status element_of(const char *dtype, const char *shown_tensor,
                                       enum af_element *element_out, struct anyflash_error *err)
{
    char shown[SHOWN_BYTES];
    if (strcmp(dtype, "F32") == 0)
        *element_out = AF_ELEMENT_F32;
    else if (strcmp(dtype, "F16") == 0)
        *element_out = AF_ELEMENT_F16;
    else if (strcmp(dtype, "BF16") == 0)
        *element_out = AF_ELEMENT_BF16;
    else
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "tensor '%s' has type '%s'; F32, F16 and BF16 are read", shown_tensor,
                       af_text_quote(shown, sizeof shown, dtype, strlen(dtype)));
    return ANYFLASH_OK;
}

static bool read_shape(json_t *shape, struct af_npy_array *array)
{
    if (!json_is_array(shape) || json_array_size(shape) > AF_FORMATS_ARRAY_DIMS_MAX)
        return false;
    array->dim_count = json_array_size(shape);
    for (size_t i = 0; i < array->dim_count; i++) {
        json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim))
            return false;
        array->dims[i] = (int64_t)json_integer_value(dim);
    }
    return true;
}

/* Start and end of the tensor's bytes, within `room`. */
static bool read_range(json_t *offsets, size_t capacity, size_t *start_out, size_t *len_out)
{
    json_t *first = json_array_get(offsets, 0);
    json_t *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return false;
    json_int_t start = json_integer_value(first);
    json_int_t end = json_integer_value(last);
    if (start < 0 || end < start || (uint64_t)end > capacity)
        return false;
    *start_out = (size_t)start;
    *len_out = (size_t)(end - start);
    return true;
}

static enum anyflash_status read_entry(json_t *entry, struct af_span data, const char *name,
                                       const char *tensor, struct af_npy_array *array_out,
                                       struct anyflash_error *err)
{
    char shown[SHOWN_BYTES];
    struct af_npy_array array = {0};
    size_t start = 0, needed = 0;
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    af_text_quote(shown, sizeof shown, tensor, strlen(tensor));
    if (dtype == NULL || !read_shape(json_object_get(entry, "shape"), &array))
        return af_fail(err, ANYFLASH_E_DATA, "'%s': tensor '%s' has no legal dtype and shape",
                       name, shown);
    enum anyflash_status status = element_of(dtype, shown, &array.element, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!read_range(json_object_get(entry, "data_offsets"), data.len, &start, &array.len))
        return af_fail(
            err, ANYFLASH_E_DATA,
            "'%s': tensor '%s' has offsets outside of the file, which may be cut short", name,
            shown);
    if (!af_formats_array_bytes(&array, &needed) || needed != array.len)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s': tensor '%s' has %zu bytes, which its shape does not agree with",
                       name, shown, array.len);
    array.data = (const unsigned char *)data.data + start;
    *array_out = array;
    return ANYFLASH_OK;
}

enum anyflash_status af_safetensors_read(struct af_span bytes, const char *name,
                                         const char *tensor, struct af_npy_array *array_out,
                                         struct anyflash_error *err)
{
    struct af_span head = {NULL, 0};
    json_t *json = NULL;
    enum anyflash_status status = find_head(bytes, name, &head, err);
    if (status == ANYFLASH_OK)
        status = af_json_parse(head, AF_SAFETENSORS_HEAD_BYTES_MAX, name, &json, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t data_at = LENGTH_BYTES + head.len;
    struct af_span data = {bytes.data + data_at, bytes.len - data_at};
    json_t *entry = json_object_get(json, tensor);
    if (!json_is_object(json) || strcmp(tensor, "__metadata__") == 0)
        status = af_fail(err, ANYFLASH_E_DATA, "'%s' has no list of tensors", name);
    else if (entry == NULL)
        status = not_found(json, name, tensor, err);
    else
        status = read_entry(entry, data, name, tensor, array_out, err);
    json_decref(json);
    return status;
}
