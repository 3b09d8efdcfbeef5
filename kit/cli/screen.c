/*
 * screen.c: wraps and colours text.
 */
#include "kit/cli/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FORMAT_BYTES 2048

int af_screen_columns(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
        size.ws_col == 0 || size.ws_col >= AF_SCREEN_COLUMNS)
        return AF_SCREEN_COLUMNS;
    return size.ws_col < AF_SCREEN_COLUMNS_MIN ? AF_SCREEN_COLUMNS_MIN : size.ws_col;
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

static const char *const tone_starts[] = {[AF_TONE_STRONG] = "\x1b[1m",
                                          [AF_TONE_GOOD] = "\x1b[32m",
                                          [AF_TONE_BAD] = "\x1b[31m",
                                          [AF_TONE_DIM] = "\x1b[2m"};

enum af_tone af_tone_of(enum af_answer answer)
{
    return answer == AF_YES ? AF_TONE_GOOD : answer == AF_NO ? AF_TONE_BAD : AF_TONE_PLAIN;
}

static void add_blanks(struct af_text *out, int count)
{
    for (int i = 0; i < count; i++)
        af_text_add(out, " ");
}

/* Bytes up to the next blank outside backquotes: a command is one word. */
static size_t word_len(struct af_span line, size_t at)
{
    bool in_command = false;
    size_t len = 0;
    while (at + len < line.len && (line.data[at + len] != ' ' || in_command)) {
        if (line.data[at + len] == '`')
            in_command = !in_command &&
                         memchr(line.data + at + len + 1, '`', line.len - at - len - 1) != NULL;
        len++;
    }
    return len;
}

/* Adds one paragraph from column `*column` on, and sets `*column` to where it ends. */
static void add_words(struct af_screen *screen, int indent, int *column, struct af_span line)
{
    bool at_start = true;
    for (size_t at = 0; at < line.len;) {
        size_t len = word_len(line, at);
        int width = af_cli_text_columns(line.data + at, len);
        if (len > 0) {
            bool fits = *column + !at_start + width <= screen->columns;
            if (!fits && *column > indent) {
                af_text_add(screen->out, "\n");
                add_blanks(screen->out, indent);
                *column = indent;
                at_start = true;
            }
            if (!at_start)
                af_text_add(screen->out, " ");
            af_text_add_n(screen->out, line.data + at, len);
            *column += !at_start + width;
            at_start = false;
        }
        at += len + 1;
    }
}

void af_screen_add(struct af_screen *screen, int indent, const char *lead, enum af_tone tone,
                   const char *text)
{
    struct af_span rest = {text, strlen(text)};
    struct af_span line;
    int column = af_cli_text_columns(lead, strlen(lead));
    bool colored = screen->color && tone != AF_TONE_PLAIN;
    af_text_add(screen->out, lead);
    add_blanks(screen->out, indent - column);
    if (column < indent)
        column = indent;
    if (colored)
        af_text_add(screen->out, tone_starts[tone]);
    for (bool is_first = true; af_text_line(&rest, &line); is_first = false) {
        if (!is_first) {
            af_text_add(screen->out, "\n");
            add_blanks(screen->out, line.len > 0 ? indent : 0);
            column = indent;
        }
        add_words(screen, indent, &column, line);
    }
    if (colored)
        af_text_add(screen->out, "\x1b[0m");
    af_text_add(screen->out, "\n");
}

void af_screen_format(struct af_screen *screen, int indent, const char *lead, enum af_tone tone,
                      const char *format, ...)
{
    char text[FORMAT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    af_screen_add(screen, indent, lead, tone, text);
}

void af_screen_take(struct af_screen *screen, int indent, const char *lead, enum af_tone tone,
                    struct af_text *text)
{
    af_screen_add(screen, indent, lead, tone, af_text_get(text));
    af_text_release(text);
}

void af_screen_gap(struct af_screen *screen)
{
    af_text_add(screen->out, "\n");
}

void af_screen_heading(struct af_screen *screen, const char *text)
{
    af_screen_gap(screen);
    af_screen_add(screen, 0, "", AF_TONE_STRONG, text);
}

/* Bytes up to the next blank outside quotes. */
static size_t command_word(const char *command)
{
    bool in_quotes = false;
    size_t len = 0;
    while (command[len] != '\0' && (command[len] != ' ' || in_quotes)) {
        if (command[len] == '\'')
            in_quotes = !in_quotes;
        len += command[len] == '\\' && !in_quotes && command[len + 1] != '\0' ? 2 : 1;
    }
    return len;
}

void af_screen_command(struct af_screen *screen, int indent, enum af_shell shell,
                       const char *command)
{
    int column = 0;
    while (shell == AF_SHELL_POSIX && command[0] != '\0') {
        size_t len = command_word(command);
        int width = af_cli_text_columns(command, len);
        bool is_first = column == 0;
        bool fits = column + 1 + width <= screen->columns - 2; /* leaves space for " \" */
        if (!is_first)
            af_text_add(screen->out, fits ? " " : " \\\n");
        if (is_first || !fits) {
            column = is_first ? indent : indent + 2;
            add_blanks(screen->out, column);
        }
        af_text_add_n(screen->out, command, len);
        column += width + (!is_first && fits);
        command += command[len] == ' ' ? len + 1 : len;
    }
    if (shell != AF_SHELL_POSIX) {
        add_blanks(screen->out, indent);
        af_text_add(screen->out, command);
    }
    af_text_add(screen->out, "\n");
}
