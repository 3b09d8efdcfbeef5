/*
 * wheel_local.c: CUDA, torch and C++ ABI out of the local version of a
 * flash-attn wheel, in all the spellings that publishers use.
 *
 * Read in any order, without case: "cu12torch2.8cxx11abiTRUE",
 * "cu128torch2.9", "20251124.cu130torch2100cxx11abitrue.ff2241",
 * "cu128.torch29", "cu.12.8.torch.2.11". The rest is decoration.
 */
#include "kit/formats/wheel_name.h"

#include "kit/base/text.h"

#include <stdio.h>
#include <string.h>

#define LOCAL_BYTES 128
#define DIGITS_MAX 4

enum af_formats_torch_digits af_formats_torch_digits_of(const char *source)
{
    static const struct {
        const char *source;
        enum af_formats_torch_digits digits;
    } habits[] = {{"windreamer/flash-attention3-wheels", AF_FORMATS_TORCH_DIGITS_PATCH_LAST},
                  {"nvidia-cosmos/cosmos-dependencies", AF_FORMATS_TORCH_DIGITS_PATCH_MAYBE}};
    for (size_t i = 0; i < AF_COUNT(habits); i++) {
        if (af_equal(habits[i].source, source))
            return habits[i].digits;
    }
    return AF_FORMATS_TORCH_DIGITS_NONE;
}

static size_t digits_at(const char *text)
{
    return strspn(text, "0123456789");
}

/* The place after `word` and an optional '.', where digits follow; or NULL. */
static const char *find_number(const char *local, const char *word)
{
    for (const char *at = strstr(local, word); at != NULL; at = strstr(at + 1, word)) {
        const char *number = at + strlen(word);
        number += *number == '.';
        if (digits_at(number) > 0)
            return number;
    }
    return NULL;
}

/* "12.8" from "12.8", "128" or "12"; nothing from other counts of digits. */
static void read_cuda(const char *number, char *cuda)
{
    size_t len = digits_at(number);
    size_t minor = number[len] == '.' ? digits_at(number + len + 1) : 0;
    if (len <= 2 && minor > 0 && minor <= 2)
        snprintf(cuda, AF_WHEEL_WORD_BYTES, "%.*s", (int)(len + 1 + minor), number);
    else if (len == 2)
        snprintf(cuda, AF_WHEEL_WORD_BYTES, "%.2s", number);
    else if (len == 3)
        snprintf(cuda, AF_WHEEL_WORD_BYTES, "%.2s.%c", number, number[2]);
}

/* Dotted digits: two or three numbers of at most DIGITS_MAX digits. */
static size_t dotted_len(const char *number)
{
    size_t len = digits_at(number);
    for (int parts = 1; parts < 3 && number[len] == '.'; parts++) {
        size_t part = digits_at(number + len + 1);
        if (part == 0 || part > DIGITS_MAX)
            break;
        len += 1 + part;
    }
    return len;
}

/* Digits without a dot: the first is the major, the last may be the patch. */
static void read_torch_digits(const char *number, size_t len,
                              enum af_formats_torch_digits digits, char *torch)
{
    bool patch = digits == AF_FORMATS_TORCH_DIGITS_PATCH_LAST || len == 4 ||
                 (len == 3 && number[1] != '1');
    if (digits == AF_FORMATS_TORCH_DIGITS_NONE || len < 2 || len > 4 || (patch && len < 3))
        return;
    size_t minor = len - 1 - patch;
    int used =
        snprintf(torch, AF_WHEEL_WORD_BYTES, "%c.%.*s", number[0], (int)minor, number + 1);
    if (patch)
        snprintf(torch + used, AF_WHEEL_WORD_BYTES - (size_t)used, ".%c", number[len - 1]);
}

static void read_torch(const char *number, enum af_formats_torch_digits digits, char *torch)
{
    size_t len = digits_at(number);
    size_t dotted = dotted_len(number);
    if (dotted == len)
        read_torch_digits(number, len, digits, torch);
    else if (len <= DIGITS_MAX && dotted < AF_WHEEL_WORD_BYTES)
        snprintf(torch, AF_WHEEL_WORD_BYTES, "%.*s", (int)dotted, number);
}

/* "cxx11abitrue"; the x and c before it are misspelled at times. */
static enum af_answer read_abi(const char *local)
{
    static const char word[] = "x11abi";
    for (const char *at = strstr(local, word); at != NULL; at = strstr(at + 1, word)) {
        const char *value = at + strlen(word);
        if (af_starts_with(value, "true"))
            return AF_YES;
        if (af_starts_with(value, "false"))
            return AF_NO;
    }
    return AF_UNKNOWN;
}

void af_wheel_local_parse(const char *local, enum af_formats_torch_digits digits,
                          struct af_wheel_local *local_out)
{
    struct af_wheel_local parsed = {.cxx11abi = AF_UNKNOWN};
    char lower[LOCAL_BYTES];
    size_t len = 0;
    for (; len + 1 < sizeof lower && local[len] != '\0'; len++) {
        char c = local[len];
        lower[len] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    lower[len] = '\0';
    const char *cuda = find_number(lower, "cu");
    const char *torch = find_number(lower, "torch");
    if (cuda != NULL)
        read_cuda(cuda, parsed.cuda);
    if (torch != NULL)
        read_torch(torch, digits, parsed.torch);
    parsed.cxx11abi = read_abi(lower);
    parsed.rocm = strstr(lower, "rocm") != NULL;
    *local_out = parsed;
}
