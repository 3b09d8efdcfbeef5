/*
 * screen.h: text in lines of limited width: wrapping, hanging indents, colour.
 * Columns are a terminal's: combining marks take none, wide East Asian characters
 * and emoji two.
 */
#ifndef AF_KIT_CLI_SCREEN_H
#define AF_KIT_CLI_SCREEN_H

#include "kit/base/shell.h"
#include "kit/base/text.h"

#define AF_SCREEN_COLUMNS 96
#define AF_SCREEN_COLUMNS_MIN 60
#define AF_HELP_COLUMNS 79

/*
 * The width for standard output: AF_SCREEN_COLUMNS, or that of a narrower
 * terminal, but at least AF_SCREEN_COLUMNS_MIN.
 */
int af_screen_columns(void);

/* The output of lines. `color` false: no escape sequences. */
struct af_screen {
    struct af_text *out;
    int columns;
    bool color;
};

/* Colour never carries information that the words do not. */
enum af_tone { AF_TONE_PLAIN, AF_TONE_STRONG, AF_TONE_GOOD, AF_TONE_BAD, AF_TONE_DIM };

/* Good for yes, bad for no. */
enum af_tone af_tone_of(enum af_answer answer);

/* The number of columns that `len` bytes of UTF-8 take. */
int af_cli_text_columns(const char *text, size_t len);

/*
 * Appends `lead` (a label or a bullet; may be "") padded to `indent` columns,
 * then `text` wrapped between `indent` and the screen's width; the following
 * lines are indented too. A word that is too long for a line, such as a URL, and a
 * command in backquotes stay whole. Newlines in `text` start a new line.
 */
void af_screen_add(struct af_screen *screen, int indent, const char *lead, enum af_tone tone,
                   const char *text);

/* Like af_screen_add(), with a formatted text. */
void af_screen_format(struct af_screen *screen, int indent, const char *lead, enum af_tone tone,
                      const char *format, ...) AF_PRINTF(5, 6);

/* Like af_screen_add(); releases the text. */
void af_screen_take(struct af_screen *screen, int indent, const char *lead, enum af_tone tone,
                    struct af_text *text);

/* An empty line; and a heading below one. */
void af_screen_gap(struct af_screen *screen);
void af_screen_heading(struct af_screen *screen, const char *text);

/*
 * Appends a command that can still be copied: for a POSIX shell it is broken between
 * words, where the shell joins the lines again; for others it stays in one line.
 */
void af_screen_command(struct af_screen *screen, int indent, enum af_shell shell,
                       const char *command);

#endif
