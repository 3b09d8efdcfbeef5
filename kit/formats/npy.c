/*
 * npy.c: reads the header of a .npy file with a small scanner for the dictionary
 * that NumPy writes: keys 'descr', 'fortran_order' and 'shape' in any order.
 */
#include "kit/formats/npy.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define ALIGN_BYTES 64
#define DESCR_BYTES 16

/* The parsed part of the dictionary. */
struct scan {
    const char *at;
    const char *end;
    char descr[DESCR_BYTES];
    bool is_fortran;
    int64_t dims[AF_NPY_DIMS_MAX];
    size_t dim_count;
    bool has_descr;
    bool has_order;
    bool has_shape;
};

const char *af_npy_element_text(enum af_npy_element element)
{
    switch (element) {
    case AF_NPY_F32:
        return "f32";
    case AF_NPY_F16:
        return "f16";
    case AF_NPY_BF16:
        return "bf16";
    default:
        return "16 bits without a type";
    }
}

size_t af_npy_element_bytes(enum af_npy_element element)
{
    return element == AF_NPY_F32 ? 4 : 2;
}

bool af_npy_array_bytes(const struct af_npy_array *array, size_t *bytes_out)
{
    size_t bytes = af_npy_element_bytes(array->element);
    bool is_empty = false;
    for (size_t i = 0; i < array->dim_count; i++) {
        if (array->dims[i] < 0)
            return false;
        is_empty = is_empty || array->dims[i] == 0;
    }
    for (size_t i = 0; i < array->dim_count && !is_empty; i++)
        if (!af_size_mul(bytes, (size_t)array->dims[i], &bytes))
            return false;
    *bytes_out = is_empty ? 0 : bytes;
    return true;
}

static bool has_magic(struct af_span bytes)
{
    return bytes.len >= MAGIC_BYTES && memcmp(bytes.data, MAGIC, MAGIC_BYTES) == 0;
}

static void skip_blanks(struct scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n'))
        scan->at++;
}

/* Skips blanks, and `letter` if it is next; returns whether it was. */
static bool take(struct scan *scan, char letter)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != letter)
        return false;
    scan->at++;
    return true;
}

/* Reads a quoted text of less than `size_bytes`, without escapes. */
static bool take_text(struct scan *scan, char *text, size_t size_bytes)
{
    char quote = take(scan, '\'') ? '\'' : take(scan, '"') ? '"' : '\0';
    size_t len = 0;
    if (quote == '\0')
        return false;
    while (scan->at < scan->end && *scan->at != quote) {
        if (*scan->at == '\\' || len + 1 >= size_bytes)
            return false;
        text[len++] = *scan->at++;
    }
    text[len] = '\0';
    return take(scan, quote);
}

static bool take_word(struct scan *scan, const char *word)
{
    size_t len = strlen(word);
    skip_blanks(scan);
    if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, word, len) != 0)
        return false;
    scan->at += len;
    return true;
}

static bool take_number(struct scan *scan, int64_t *number_out)
{
    int64_t number = 0;
    size_t digits = 0;
    skip_blanks(scan);
    for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; digits++) {
        if (number > (INT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (*scan->at++ - '0');
    }
    take(scan, 'L'); /* written by Python 2 */
    *number_out = number;
    return digits > 0;
}

static bool take_shape(struct scan *scan)
{
    if (!take(scan, '('))
        return false;
    while (!take(scan, ')')) {
        if (scan->dim_count == AF_NPY_DIMS_MAX ||
            !take_number(scan, &scan->dims[scan->dim_count]))
            return false;
        scan->dim_count++;
        if (!take(scan, ','))
            return take(scan, ')');
    }
    return true;
}

/* Each key may occur once; a second one is refused. */
static bool take_value(struct scan *scan, const char *key)
{
    if (strcmp(key, "descr") == 0 && !scan->has_descr) {
        scan->has_descr = true;
        return take_text(scan, scan->descr, sizeof scan->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !scan->has_order) {
        scan->has_order = true;
        scan->is_fortran = take_word(scan, "True");
        return scan->is_fortran || take_word(scan, "False");
    }
    if (strcmp(key, "shape") == 0 && !scan->has_shape) {
        scan->has_shape = true;
        return take_shape(scan);
    }
    return false;
}

static bool take_dictionary(struct scan *scan)
{
    if (!take(scan, '{'))
        return false;
    while (!take(scan, '}')) {
        char key[16];
        if (!take_text(scan, key, sizeof key) || !take(scan, ':') || !take_value(scan, key))
            return false;
        if (!take(scan, ',') && !take(scan, '}'))
            return false;
        if (scan->at[-1] == '}')
            break;
    }
    return scan->has_descr && scan->has_order && scan->has_shape;
}

static enum anyflash_status element_of(const char *descr, const char *name,
                                       enum af_npy_element *element_out,
                                       struct anyflash_error *err)
{
    static const struct {
        const char *descr;
        enum af_npy_element element;
    } known[] = {
        {"<f4", AF_NPY_F32},   {"<f2", AF_NPY_F16},   {"<V2", AF_NPY_RAW16},
        {"|V2", AF_NPY_RAW16}, {"<u2", AF_NPY_RAW16},
    };
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        if (strcmp(descr, known[i].descr) == 0) {
            *element_out = known[i].element;
            return ANYFLASH_OK;
        }
    }
    char shown[64];
    af_text_quote(shown, sizeof shown, descr, strlen(descr));
    return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                   "'%s' holds numbers of type '%s'; only '<f4', '<f2' and bf16 can be read",
                   name, shown);
}

/* Finds the start of the dictionary and of the data. */
static enum anyflash_status find_parts(struct af_span bytes, const char *name,
                                       struct af_span *head_out, size_t *data_at_out,
                                       struct anyflash_error *err)
{
    if (!has_magic(bytes))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not a .npy file", name);
    const unsigned char *raw = (const unsigned char *)bytes.data;
    unsigned version = bytes.len > MAGIC_BYTES ? raw[MAGIC_BYTES] : 0;
    size_t length_bytes = version == 1 ? 2 : 4;
    size_t head_at = MAGIC_BYTES + 2 + length_bytes;
    if (bytes.len >= MAGIC_BYTES + 2 && (version < 1 || version > 3))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' has .npy version %u; only versions 1 to 3 can be read", name,
                       version);
    if (bytes.len < head_at)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is truncated inside its header (%zu bytes)",
                       name, bytes.len);
    size_t len = 0;
    for (size_t i = 0; i < length_bytes; i++)
        len |= (size_t)raw[MAGIC_BYTES + 2 + i] << 8 * i;
    if (len > AF_NPY_HEAD_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT,
                       "'%s' has a header of %zu bytes; at most %u are allowed", name, len,
                       AF_NPY_HEAD_BYTES_MAX);
    if (len > bytes.len - head_at)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is truncated inside its header (%zu bytes)",
                       name, bytes.len);
    *head_out = (struct af_span){bytes.data + head_at, len};
    *data_at_out = head_at + len;
    return ANYFLASH_OK;
}

enum anyflash_status af_npy_read(struct af_span bytes, const char *name,
                                 struct af_npy_array *array_out, struct anyflash_error *err)
{
    struct af_span head = {NULL, 0};
    size_t data_at = 0;
    enum anyflash_status status = find_parts(bytes, name, &head, &data_at, err);
    if (status != ANYFLASH_OK)
        return status;
    struct scan scan = {.at = head.data, .end = head.data + head.len};
    if (!take_dictionary(&scan))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has an invalid .npy header", name);
    struct af_npy_array array = {.dim_count = scan.dim_count};
    status = element_of(scan.descr, name, &array.element, err);
    if (status != ANYFLASH_OK)
        return status;
    if (scan.is_fortran && scan.dim_count > 1)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' is in Fortran order; write it with numpy.ascontiguousarray", name);
    memcpy(array.dims, scan.dims, sizeof array.dims);
    if (!af_npy_array_bytes(&array, &array.len))
        return af_fail(err, ANYFLASH_E_DATA, "the shape of '%s' is too large", name);
    if (array.len > bytes.len - data_at)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is truncated: its shape needs %zu bytes but it has %zu", name,
                       array.len, bytes.len - data_at);
    array.data = (const unsigned char *)bytes.data + data_at;
    *array_out = array;
    return ANYFLASH_OK;
}

static const char *descr_of(enum af_npy_element element)
{
    switch (element) {
    case AF_NPY_F32:
        return "<f4";
    case AF_NPY_F16:
        return "<f2";
    default:
        return "<V2";
    }
}

size_t af_npy_head(const struct af_npy_array *array, char *buffer)
{
    const size_t start = MAGIC_BYTES + 4;
    char *text = buffer + start;
    size_t capacity = AF_NPY_WRITTEN_BYTES_MAX - start;
    size_t len = (size_t)snprintf(text, capacity,
                                  "{'descr': '%s', 'fortran_order': False, "
                                  "'shape': (",
                                  descr_of(array->element));
    for (size_t i = 0; i < array->dim_count; i++)
        len +=
            (size_t)snprintf(text + len, capacity - len, "%lld, ", (long long)array->dims[i]);
    len += (size_t)snprintf(text + len, capacity - len, "), }");
    size_t total = (start + len + 1 + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    memset(text + len, ' ', total - start - len);
    buffer[total - 1] = '\n';
    memcpy(buffer, MAGIC "\x01\x00", MAGIC_BYTES + 2);
    buffer[MAGIC_BYTES + 2] = (char)((total - start) & 0xff);
    buffer[MAGIC_BYTES + 3] = (char)((total - start) >> 8);
    return total;
}
