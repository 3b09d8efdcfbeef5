/*
 * assertion_texts.c: looks for the end that all texts of torch's assertions
 * have, and reads header and line before it.
 */
#include "kit/formats/assertion_texts.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"

#define PATH_BYTES_MAX 512
#define LINE_DIGITS_MAX 6

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/* Where the line number before `end` begins; `end` when there is none. */
static const char *line_start(const char *start, const char *end)
{
    const char *at = end;
    while (at > start && end - at < LINE_DIGITS_MAX && is_digit(at[-1]))
        at--;
    return at;
}

/* Where the path that ends at `end` begins, behind its quote; NULL when it is none. */
static const char *path_start(const char *start, const char *end)
{
    const char *at = end;
    while (at > start && end - at < PATH_BYTES_MAX && at[-1] != '"') {
        at--;
        if (*at <= ' ' || *at > '~')
            return NULL;
    }
    return at > start && at[-1] == '"' ? at : NULL;
}

/* The part of torch's header's path behind its last "/include/"; empty for other files. */
static struct af_span header_name(const char *path, const char *end)
{
    static const char torch[] = "/torch/include/";
    static const char include[] = "/include/";
    const char *at = memmem(path, (size_t)(end - path), torch, sizeof torch - 1);
    const char *name = NULL;
    while (at != NULL && (at = memmem(at, (size_t)(end - at), include, sizeof include - 1))) {
        at += sizeof include - 1;
        name = at--;
    }
    return name == NULL ? (struct af_span){NULL, 0}
                        : (struct af_span){name, (size_t)(end - name)};
}

/* "HEADER:LINE" of the text that goes on at `at`; NULL when it is no assertion of torch. */
static const char *text_before(struct af_arena *arena, const char *start, const char *at)
{
    const char *line = line_start(start, at);
    if (line == at || line - start < 2 || line[-1] != ':' || line[-2] != '"')
        return NULL;
    const char *path_end = line - 2;
    const char *path = path_start(start, path_end);
    if (path == NULL)
        return NULL;
    struct af_span header = header_name(path, path_end);
    if (header.len == 0)
        return NULL;
    return af_arena_format(arena, "%.*s:%.*s", (int)header.len, header.data, (int)(at - line),
                           line);
}

struct af_texts af_assertion_texts(struct af_arena *arena, struct af_span bytes)
{
    static const char ending[] = ", please report a bug to PyTorch";
    const char **items = af_arena_array(arena, AF_ASSERTION_TEXTS_MAX, sizeof *items);
    const char *end = bytes.data + bytes.len;
    const char *at = bytes.data;
    size_t count = 0;
    while (items != NULL && count < AF_ASSERTION_TEXTS_MAX &&
           (at = memmem(at, (size_t)(end - at), ending, sizeof ending - 1)) != NULL) {
        const char *text = text_before(arena, bytes.data, at);
        bool known = text == NULL;
        for (size_t i = 0; i < count && !known; i++)
            known = strcmp(items[i], text) == 0;
        if (!known)
            items[count++] = text;
        at += sizeof ending - 1;
    }
    return (struct af_texts){items, items == NULL ? 0 : count};
}
