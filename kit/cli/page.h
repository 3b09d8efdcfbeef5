/*
 * page.h: lines of text within a number of columns: wrapping, hanging
 * indents, elision, colour. Columns are those of a terminal: combining marks
 * take none, wide East Asian characters and emoji two.
 */
#ifndef AF_KIT_CLI_PAGE_H
#define AF_KIT_CLI_PAGE_H

#include "kit/base/text.h"

#define AF_PAGE_COLUMNS 96
#define AF_PAGE_COLUMNS_MIN 60
#define AF_HELP_COLUMNS 79

/*
 * Columns for what goes to standard output: AF_PAGE_COLUMNS, or those of a
 * terminal that has fewer, but no fewer than AF_PAGE_COLUMNS_MIN.
 */
int af_page_columns(void);

/* Where lines go. `color` false: no escapes. */
struct af_page {
    struct af_text *out;
    int columns;
    bool color;
};

/* What colour says is said by words too: it only helps the eye. */
enum af_tone { AF_TONE_PLAIN, AF_TONE_STRONG, AF_TONE_GOOD, AF_TONE_BAD, AF_TONE_DIM };

/* Columns that `len` bytes of UTF-8 take. */
int af_cli_text_columns(const char *text, size_t len);

/*
 * `text` in at most `columns` columns: the middle is replaced by "..." when it
 * is longer. In the arena; never NULL.
 */
const char *af_cli_text_elide(struct af_arena *arena, const char *text, int columns);

/*
 * Appends `lead` (a label, a bullet; may be "") padded to `indent` columns, then
 * `text` wrapped between `indent` and the page's width; lines that follow are
 * indented too. A single word that is too long loses its middle. Newlines in
 * `text` start a new line.
 */
void af_page_add(struct af_page *page, int indent, const char *lead, enum af_tone tone,
                 const char *text);

/* af_page_add() with a formatted text. */
void af_page_format(struct af_page *page, int indent, const char *lead, enum af_tone tone,
                    const char *format, ...) AF_PRINTF(5, 6);

/* An empty line. */
void af_page_gap(struct af_page *page);

/*
 * Appends a shell command that must stay copyable: it is broken only where a
 * POSIX shell reads it as one line again.
 */
void af_page_command(struct af_page *page, int indent, const char *command);

#endif
