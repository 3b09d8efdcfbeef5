/*
 * text.c: growing text, quoting, small string helpers, paths, and the edit distance between
 * short words, for suggestions in error messages.
 */
#include "kit/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void af_text_release(struct af_text *text)
{
    af_memory_free(text->data);
    *text = (struct af_text){0};
}

static void text_reserve(struct af_text *text, size_t added_bytes)
{
    size_t needed_bytes;
    if (!af_size_add(text->len, added_bytes, &needed_bytes) ||
        !af_size_add(needed_bytes, 1, &needed_bytes))
        af_memory_end();
    if (needed_bytes <= text->size_bytes)
        return;
    size_t size_bytes = text->size_bytes < 128 ? 256 : text->size_bytes * 2;
    if (size_bytes < needed_bytes)
        size_bytes = needed_bytes;
    text->data = af_memory_resize(text->data, size_bytes);
    text->size_bytes = size_bytes;
}

void af_text_add_n(struct af_text *text, const char *added, size_t len)
{
    if (len == 0)
        return;
    text_reserve(text, len);
    memcpy(text->data + text->len, added, len);
    text->len += len;
    text->data[text->len] = '\0';
}

void af_text_add(struct af_text *text, const char *added)
{
    af_text_add_n(text, added, strlen(added));
}

void af_text_format(struct af_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        af_memory_end(); /* longer than any text of ours */
    text_reserve(text, (size_t)len);
    va_start(args, format);
    vsnprintf(text->data + text->len, (size_t)len + 1, format, args);
    va_end(args);
    text->len += (size_t)len;
}

const char *af_text_get(const struct af_text *text)
{
    return text->data == NULL ? "" : text->data;
}

const char *af_text_take(struct af_text *text, struct af_arena *arena)
{
    const char *taken = af_arena_text(arena, af_text_get(text));
    af_text_release(text);
    return taken;
}

/*
 * Bytes of the well-formed UTF-8 sequence at `text`, 0 when there is none;
 * Unicode 15, table 3-7.
 */
static size_t utf8_len(const unsigned char *text, size_t len)
{
    unsigned char lead = text[0];
    if (lead < 0x80)
        return 1;
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || len < need)
        return 0;
    for (size_t i = 1; i < need; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    }
    unsigned char second = text[1];
    bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
               (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
    return bad ? 0 : need;
}

/* The code point of a well-formed sequence of `len` bytes. */
static uint32_t code_point(const unsigned char *text, size_t len)
{
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = text[0] & lead_bits[len];
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (text[i] & 0x3Fu);
    return code;
}

/*
 * Whether a terminal shows the character where it stands: controls, and format characters that
 * are invisible or reorder the text (Unicode 15, general category Cf), are not printable.
 */
static bool printable(const unsigned char *text, size_t len)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } hidden[] = {{0, 0x1F},        {0x7F, 0x9F},     {0xAD, 0xAD},      {0x61C, 0x61C},
                  {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                  {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF}};
    uint32_t code = code_point(text, len);
    for (size_t i = 0; i < AF_COUNT(hidden); i++)
        if (code >= hidden[i].first && code <= hidden[i].last)
            return false;
    return true;
}

bool af_text_is_utf8(const char *text, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t at = 0; at < len;) {
        size_t step = utf8_len(bytes + at, len - at);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

char *af_text_quote(char *buffer, size_t size_bytes, const char *text, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t used = 0;
    size_t cut = 0; /* last position where "..." still fits */
    for (size_t at = 0; at < len;) {
        char piece[20];
        size_t step = utf8_len(bytes + at, len - at);
        size_t piece_len = 0;
        if (step != 0 && printable(bytes + at, step)) {
            memcpy(piece, bytes + at, step);
            piece_len = step;
        } else {
            size_t escaped = step == 0 ? 1 : step;
            for (size_t i = 0; i < escaped; i++)
                piece_len += (size_t)snprintf(piece + piece_len, sizeof piece - piece_len,
                                              "\\x%02x", bytes[at + i]);
            step = escaped;
        }
        if (used + piece_len + 1 > size_bytes) {
            snprintf(buffer + cut, size_bytes - cut, "...");
            return buffer;
        }
        memcpy(buffer + used, piece, piece_len);
        used += piece_len;
        if (used + 4 <= size_bytes)
            cut = used;
        at += step;
    }
    if (size_bytes > 0)
        buffer[used] = '\0';
    return buffer;
}

const char *af_text_scrub(struct af_arena *arena, const char *text, size_t len_max)
{
    if (text == NULL)
        return NULL;
    size_t len = strlen(text);
    size_t size_bytes = (len < len_max / 4 ? len * 4 : len_max) + 4; /* \xNN is the longest */
    char *buffer = af_arena_alloc(arena, size_bytes);
    return buffer == NULL ? NULL : af_text_quote(buffer, size_bytes, text, len);
}

bool af_starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

bool af_ends_with(const char *text, const char *end)
{
    size_t text_len = strlen(text);
    size_t end_len = strlen(end);
    return text_len >= end_len && strcmp(text + text_len - end_len, end) == 0;
}

bool af_starts_with_any(const char *text, const char *const *starts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (af_starts_with(text, starts[i]))
            return true;
    return false;
}

bool af_is_one_of(const char *text, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, texts[i]) == 0)
            return true;
    return false;
}

int af_text_word_index(const char *words, const char *word)
{
    size_t len = strlen(word);
    int index = 0;
    for (const char *at = words; *at != '\0'; index++) {
        size_t count = strcspn(at, " ");
        if (count == len && memcmp(at, word, len) == 0)
            return index;
        at += count + (at[count] == ' ' ? 1 : 0);
    }
    return -1;
}

bool af_equal_fold(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcasecmp(a, b) == 0;
}

bool af_equal(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

bool af_parse_i64(const char *text, int64_t min, int64_t max, int64_t *number_out)
{
    char *end;
    if (text == NULL || !((*text >= '0' && *text <= '9') || (*text == '-' && text[1] >= '0')))
        return false;
    errno = 0;
    intmax_t number = strtoimax(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < min || number > max)
        return false;
    *number_out = (int64_t)number;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct af_span af_text_trim(struct af_span span)
{
    while (span.len > 0 && is_blank(span.data[0])) {
        span.data++;
        span.len--;
    }
    while (span.len > 0 && is_blank(span.data[span.len - 1]))
        span.len--;
    return span;
}

bool af_text_line(struct af_span *rest, struct af_span *line_out)
{
    if (rest->len == 0)
        return false;
    const char *newline = memchr(rest->data, '\n', rest->len);
    size_t len = newline == NULL ? rest->len : (size_t)(newline - rest->data);
    *line_out = (struct af_span){rest->data, len};
    size_t taken = newline == NULL ? len : len + 1;
    rest->data += taken;
    rest->len -= taken;
    return true;
}

bool af_text_span_equal(struct af_span span, const char *text)
{
    size_t len = strlen(text);
    return span.len == len && (len == 0 || memcmp(span.data, text, len) == 0);
}

bool af_text_span_has_fold(struct af_span span, const char *part)
{
    const size_t len = strlen(part);
    for (size_t at = 0; at + len <= span.len; at++)
        if (strncasecmp(span.data + at, part, len) == 0)
            return true;
    return false;
}

const char *af_text_bytes(struct af_arena *arena, int64_t bytes)
{
    double mib = (double)bytes / (1024.0 * 1024.0);
    const char *text =
        mib < 1000 ? af_arena_format(arena, "%.0f MiB", mib)
                   : af_arena_format(arena, "%.*f GiB", mib < 102400 ? 1 : 0, mib / 1024);
    return text != NULL ? text : "";
}

const char *af_path_join(struct af_arena *arena, const char *folder, const char *name)
{
    if (folder == NULL || name == NULL)
        return NULL;
    const char *slash = folder[0] == '\0' || af_ends_with(folder, "/") ? "" : "/";
    return af_arena_format(arena, "%s%s%s", folder, slash, name);
}

const char *af_path_folder(struct af_arena *arena, const char *path)
{
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    if (slash == NULL)
        return af_arena_text(arena, ".");
    return af_arena_text_n(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

const char *af_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

#define LETTERS_MAX 32
#define STARTS_MIN 3

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance: changes, additions, removals and swaps of neighbours. */
static int distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int cost[LETTERS_MAX + 1][LETTERS_MAX + 1];
    for (size_t i = 0; i <= a_len; i++)
        cost[i][0] = (int)i;
    for (size_t j = 0; j <= b_len; j++)
        cost[0][j] = (int)j;
    for (size_t i = 1; i <= a_len; i++) {
        for (size_t j = 1; j <= b_len; j++) {
            int change = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = smaller(change, smaller(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = smaller(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a_len][b_len];
}

/* The first word that starts with `typed`, ignoring case: "astral-sh-build" for "Astral". */
static const char *starting_with(const char *typed, const char *const *words, size_t count)
{
    size_t len = strlen(typed);
    for (size_t i = 0; len >= STARTS_MIN && i < count; i++)
        if (strncasecmp(words[i], typed, len) == 0)
            return words[i];
    return NULL;
}

const char *af_nearest(const char *typed, const char *const *words, size_t count)
{
    size_t typed_len = strlen(typed);
    const char *best = NULL;
    int best_cost = typed_len < 6 ? 2 : (int)(typed_len / 3) + 1;
    if (typed_len < 2 || typed_len > LETTERS_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(words[i]);
        int cost = len > LETTERS_MAX ? best_cost : distance(typed, typed_len, words[i], len);
        if (cost < best_cost) {
            best = words[i];
            best_cost = cost;
        }
    }
    return best != NULL ? best : starting_with(typed, words, count);
}
