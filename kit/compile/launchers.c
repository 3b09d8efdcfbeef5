/*
 * launchers.c: decides flash-attn's questions about the GPU at compile time.
 *
 * Its launchers ask the GPU how much shared memory it has and instantiate kernels for
 * every answer. If all GPUs of the build give the same answer, `if (condition)` becomes
 * `if constexpr (condition)`, and kernels that never run are not compiled. Conditions on
 * anything but these properties, numbers and the head size stay as they are.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/compile/build_steps.h"

#define VALUE_BYTES 16
#define PROPERTIES 3

/* A variable of the launchers, and its value for all GPUs of the build. */
struct property {
    const char *name;
    char value[VALUE_BYTES]; /* "": not known */
};

static void read_properties(const struct af_selection *selection,
                            struct property properties[PROPERTIES])
{
    struct af_selection_gpu gpu;
    af_selection_gpu(selection, &gpu);
    properties[0] = (struct property){"is_sm8x", ""};
    properties[1] = (struct property){"max_smem_per_block", ""};
    properties[2] = (struct property){"max_smem_per_sm", ""};
    if (gpu.is_sm8x != AF_UNKNOWN)
        snprintf(properties[0].value, VALUE_BYTES, "%s",
                 gpu.is_sm8x == AF_YES ? "true" : "false");
    if (gpu.smem_per_block > 0) {
        snprintf(properties[1].value, VALUE_BYTES, "%d", gpu.smem_per_block);
        snprintf(properties[2].value, VALUE_BYTES, "%d", gpu.smem_per_sm);
    }
}

static bool is_word(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_';
}

static size_t word_length(const char *text)
{
    size_t len = 0;
    while (is_word(text[len]))
        len++;
    return len;
}

static bool is_text(const char *word, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(word, text, len) == 0;
}

/* The value of a word of a condition; NULL: it is not one of the properties. */
static const char *value_of(const struct property properties[PROPERTIES], const char *word,
                            size_t len)
{
    for (size_t i = 0; i < PROPERTIES; i++) {
        if (is_text(word, len, properties[i].name) && properties[i].value[0] != '\0')
            return properties[i].value;
    }
    return NULL;
}

/* Bytes of "(...)" with its inner parentheses; 0 if it is not closed, or has braces. */
static size_t condition_length(const char *text)
{
    int depth = 0;
    for (size_t i = 0; text[i] != '\0' && text[i] != '{' && text[i] != '}'; i++) {
        depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

/* Adds the condition with values instead of properties; false: it depends on more. */
static bool add_settled(struct af_text *out, const struct property properties[PROPERTIES],
                        const char *text, size_t len)
{
    bool any = false;
    size_t next;
    for (size_t i = 0; i < len; i += next) {
        next = word_length(text + i);
        const char *value = next == 0 ? NULL : value_of(properties, text + i, next);
        if (value == NULL && next > 0 && !isdigit((unsigned char)text[i]) &&
            !is_text(text + i, next, "Headdim"))
            return false;
        next = next == 0 ? 1 : next;
        any = any || value != NULL;
        if (value != NULL)
            af_text_add(out, value);
        else
            af_text_add_n(out, text + i, next);
    }
    return any;
}

/* Adds the `if` at `at` if it can be settled; returns the bytes of it that are done, or 0. */
static size_t settle_one(struct af_text *out, const struct property properties[PROPERTIES],
                         const char *at)
{
    static const char start[] = "if (";
    struct af_text condition = {0};
    size_t len = 0;
    if (af_starts_with(at, start))
        len = condition_length(at + strlen("if "));
    bool good = len > 0 && af_starts_with(at + strlen("if ") + len, " {") &&
                add_settled(&condition, properties, at + strlen("if "), len);
    if (good)
        af_text_format(out, "if constexpr %s", af_text_get(&condition));
    out->failed |= condition.failed;
    af_text_release(&condition);
    return good ? strlen("if ") + len : 0;
}

const char *af_build_settle(const struct af_selection *selection, const char *text,
                            struct af_arena *arena)
{
    struct property properties[PROPERTIES];
    struct af_text out = {0};
    const char *copied = text;
    read_properties(selection, properties);
    for (const char *at = text; (at = strstr(at, "if (")) != NULL;) {
        af_text_add_n(&out, copied, (size_t)(at - copied));
        bool whole = at == text || !is_word(at[-1]);
        size_t done = whole ? settle_one(&out, properties, at) : 0;
        copied = at + done;
        at += done > 0 ? done : 1;
        if (done == 0) {
            af_text_add_n(&out, copied, 1);
            copied = at;
        }
    }
    af_text_add(&out, copied);
    const char *settled = out.failed ? NULL : af_arena_text(arena, af_text_get(&out));
    arena->failed |= out.failed;
    af_text_release(&out);
    return settled;
}
