/*
 * page.c: wraps, shortens and colours text.
 */
#include "kit/cli/page.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FORMAT_BYTES 2048
#define PIECE_BYTES 80
#define ELISION "..."
#define ELISION_COLUMNS 3

int af_page_columns(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
        size.ws_col == 0 || size.ws_col >= AF_PAGE_COLUMNS)
        return AF_PAGE_COLUMNS;
    return size.ws_col < AF_PAGE_COLUMNS_MIN ? AF_PAGE_COLUMNS_MIN : size.ws_col;
}

struct range {
    uint32_t first;
    uint32_t last;
};

/* Common combining marks and joiners. */
static const struct range narrow[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F}, {0x1AB0, 0x1AFF},
    {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
};

/* Characters that are wide by Unicode's East_Asian_Width, in blocks. */
static const struct range wide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
    {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF},
    {0x20000, 0x3FFFD},
};

static bool in_ranges(const struct range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* Bytes and columns of the character at `text`; an invalid byte counts as one of each. */
static size_t take_character(const char *text, size_t len, int *columns_out)
{
    unsigned char lead = (unsigned char)text[0];
    size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    *columns_out = 1;
    if (size == 1 || size > len)
        return 1;
    uint32_t code = lead & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (((unsigned char)text[i] & 0xC0) != 0x80)
            return 1;
        code = code << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    if (in_ranges(narrow, AF_COUNT(narrow), code))
        *columns_out = 0;
    else if (in_ranges(wide, AF_COUNT(wide), code))
        *columns_out = 2;
    return size;
}

int af_cli_text_columns(const char *text, size_t len)
{
    int total = 0;
    for (size_t at = 0; at < len;) {
        int columns = 0;
        at += take_character(text + at, len - at, &columns);
        total += columns;
    }
    return total;
}

/* Bytes of the longest prefix of `text` that fits `limit` columns. */
static size_t fitting_start(const char *text, size_t len, int limit)
{
    size_t at = 0;
    for (int used = 0; at < len;) {
        int columns = 0;
        size_t size = take_character(text + at, len - at, &columns);
        if (used + columns > limit)
            break;
        used += columns;
        at += size;
    }
    return at;
}

/* Offset of the longest suffix of `text` that fits `limit` columns. */
static size_t fitting_end(const char *text, size_t len, int limit)
{
    size_t at = 0;
    int left = af_cli_text_columns(text, len);
    while (at < len && left > limit) {
        int columns = 0;
        at += take_character(text + at, len - at, &columns);
        left -= columns;
    }
    return at;
}

/*
 * Appends `len` bytes in at most `limit` columns; if they are too long, without
 * their middle.
 */
static void add_elided(struct af_text *out, const char *text, size_t len, int limit)
{
    if (af_cli_text_columns(text, len) <= limit || limit <= ELISION_COLUMNS) {
        af_text_add_n(out, text, fitting_start(text, len, limit));
        return;
    }
    int kept = limit - ELISION_COLUMNS;
    size_t end = fitting_end(text, len, kept - kept / 3);
    af_text_add_n(out, text, fitting_start(text, len, kept / 3));
    af_text_add(out, ELISION);
    af_text_add_n(out, text + end, len - end);
}

static const char *tone_start(enum af_tone tone)
{
    switch (tone) {
    case AF_TONE_STRONG:
        return "\x1b[1m";
    case AF_TONE_GOOD:
        return "\x1b[32m";
    case AF_TONE_BAD:
        return "\x1b[31m";
    case AF_TONE_DIM:
        return "\x1b[2m";
    default:
        return "";
    }
}

static void add_blanks(struct af_text *out, int count)
{
    for (int i = 0; i < count; i++)
        af_text_add(out, " ");
}

/* Adds one paragraph from column `*column` on, and sets `*column` to where it ends. */
static void add_words(struct af_page *page, int indent, int *column, struct af_span line)
{
    int capacity = page->columns - indent;
    bool at_start = true;
    for (size_t at = 0; at < line.len;) {
        size_t len = 0;
        while (at + len < line.len && line.data[at + len] != ' ')
            len++;
        int width = af_cli_text_columns(line.data + at, len);
        if (len > 0) {
            bool fits =
                *column + !at_start + (width < capacity ? width : capacity) <= page->columns;
            if (!fits && *column > indent) {
                af_text_add(page->out, "\n");
                add_blanks(page->out, indent);
                *column = indent;
                at_start = true;
            }
            if (!at_start)
                af_text_add(page->out, " ");
            add_elided(page->out, line.data + at, len, capacity);
            *column += !at_start + (width < capacity ? width : capacity);
            at_start = false;
        }
        at += len + 1;
    }
}

void af_page_add(struct af_page *page, int indent, const char *lead, enum af_tone tone,
                 const char *text)
{
    struct af_span rest = {text, strlen(text)};
    struct af_span line;
    int column = af_cli_text_columns(lead, strlen(lead));
    bool colored = page->color && tone != AF_TONE_PLAIN;
    af_text_add(page->out, lead);
    add_blanks(page->out, indent - column);
    if (column < indent)
        column = indent;
    if (colored)
        af_text_add(page->out, tone_start(tone));
    for (bool is_first = true; af_text_line(&rest, &line); is_first = false) {
        if (!is_first) {
            af_text_add(page->out, "\n");
            add_blanks(page->out, line.len > 0 ? indent : 0);
            column = indent;
        }
        add_words(page, indent, &column, line);
    }
    if (colored)
        af_text_add(page->out, "\x1b[0m");
    af_text_add(page->out, "\n");
}

void af_page_format(struct af_page *page, int indent, const char *lead, enum af_tone tone,
                    const char *format, ...)
{
    char text[FORMAT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    af_page_add(page, indent, lead, tone, text);
}

void af_page_gap(struct af_page *page)
{
    af_text_add(page->out, "\n");
}

/*
 * Bytes of `text` up to the next place where a shell word or path may be
 * broken: after a blank, after a '/', or within a very long name.
 */
static size_t command_piece(const char *text, bool *in_quotes)
{
    size_t len = 0;
    while (text[len] != '\0') {
        char letter = text[len++];
        if (letter == '\'')
            *in_quotes = !*in_quotes;
        if (letter == '\\' && !*in_quotes && text[len] != '\0')
            len++;
        if (letter == ' ' || letter == '/')
            break;
        if (len >= PIECE_BYTES && isalnum((unsigned char)letter) &&
            isalnum((unsigned char)text[len]))
            break;
    }
    return len;
}

/*
 * Breaks the line so that the shell continues reading: between words, or within
 * a quoted or unquoted one.
 */
static void add_break(struct af_page *page, int indent, bool after_blank, bool in_quotes)
{
    af_text_add(page->out, in_quotes ? "'\\\n" : "\\\n");
    if (after_blank)
        add_blanks(page->out, indent);
    if (in_quotes)
        af_text_add(page->out, "'");
}

/* Columns up to the next blank outside quotes. */
static int command_word_columns(const char *command)
{
    bool in_quotes = false;
    size_t len = 0;
    while (command[len] != '\0' && (command[len] != ' ' || in_quotes)) {
        if (command[len] == '\'')
            in_quotes = !in_quotes;
        len += command[len] == '\\' && !in_quotes && command[len + 1] != '\0' ? 2 : 1;
    }
    return af_cli_text_columns(command, len);
}

void af_page_command(struct af_page *page, int indent, const char *command)
{
    int column = indent;
    bool in_quotes = false;
    bool after_blank = true;
    bool is_first = true;
    add_blanks(page->out, indent);
    while (command[0] != '\0') {
        bool was_quoted = in_quotes;
        size_t len = command_piece(command, &in_quotes);
        int width = af_cli_text_columns(command, len);
        /* Prefer to move a whole word to a new line. Leave space for "'\" after the piece. */
        int needed = after_blank ? command_word_columns(command) : width;
        if (!is_first && column + needed > page->columns - 2) {
            add_break(page, indent + 2, after_blank, was_quoted);
            column = (after_blank ? indent + 2 : 0) + was_quoted;
        }
        af_text_add_n(page->out, command, len);
        column += width;
        after_blank = command[len - 1] == ' ' && !in_quotes;
        is_first = false;
        command += len;
    }
    af_text_add(page->out, "\n");
}
