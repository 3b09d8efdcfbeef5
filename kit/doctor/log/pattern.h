/*
 * pattern.h: the pattern language of data/signatures.jsonl.
 *
 *   text            itself; letters match in either case, and the quotes ' " ` match each other
 *   blank           one blank; lines have runs of blanks as one (log_lines.h)
 *   *               any run within the line, also an empty one
 *   ?               one character
 *   {name}          captures a run of characters other than blanks, quotes, parentheses and
 *                   commas: the shortest, or the longest if nothing or * follows
 *   {name:version}  captures a version: begins with a digit and ends with a digit or letter;
 *                   within it digits, letters, dots, and one '+' before the local part
 *   {name:rest}     captures the rest of the line, of which only the beginning counts
 *   {NAME}          in capitals: a part with a meaning in data/log_parts.tsv (condition.h)
 *   ^ at the start, $ at the end    the line's start and end; without them any part matches
 *   \               takes the special meaning from the next character
 *
 * A match takes time proportional to the length of the line (times that of a capture).
 */
#ifndef AF_KIT_DOCTOR_LOG_PATTERN_H
#define AF_KIT_DOCTOR_LOG_PATTERN_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

#define AF_PATTERN_PARTS_MAX 32u
#define AF_PATTERN_CAPTURES_MAX 6u
#define AF_PATTERN_LINE_MAX 4096u
#define AF_PATTERN_LITERAL_MIN 4u /* bytes of the longest literal */
#define AF_PATTERN_NAME_LETTERS                                                                \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

enum af_pattern_kind {
    AF_PATTERN_LITERAL,
    AF_PATTERN_ANY,
    AF_PATTERN_ONE,
    AF_PATTERN_CAPTURE,
    AF_PATTERN_VERSION,
    AF_PATTERN_REST
};

struct af_pattern_part {
    enum af_pattern_kind kind;
    struct af_span text; /* the literal, folded; the capture's name */
};

struct af_pattern {
    const char *source; /* as written */
    const struct af_pattern_part *parts;
    size_t part_count;
    struct af_span literal; /* the longest, folded: every matching line contains it */
    bool at_start;
    bool at_end;
};

struct af_capture {
    const char *name; /* in the pattern's arena */
    struct af_span value;
};

/* Where a pattern matched, in bytes of the line. */
struct af_pattern_match {
    size_t start;
    size_t end;
    struct af_capture captures[AF_PATTERN_CAPTURES_MAX];
    size_t capture_count;
};

/* The byte as matching sees it: ASCII letters in lower case, quotes as '. */
extern const unsigned char af_pattern_fold[256];

/* Folds `len` bytes; the two texts do not overlap. */
void af_pattern_fold_text(const char *restrict text, size_t len, char *restrict folded);

/*
 * Compiles `source` in the arena. Fails with DATA (malformed, or no literal of
 * AF_PATTERN_LITERAL_MIN bytes); the message quotes the pattern.
 */
enum anyflash_status af_pattern_compile(const char *source, struct af_arena *arena,
                                        struct af_pattern *out, struct anyflash_error *err);

/*
 * Whether the pattern matches the line: `folded` is `text` with every byte
 * folded, both `len` bytes (at most AF_PATTERN_LINE_MAX). `begins` says whether
 * the text begins a line, for '^'. Captures point into `text`. The leftmost match
 * is reported; *match_out is set only then.
 */
bool af_pattern_find(const struct af_pattern *pattern, const char *text, const char *folded,
                     size_t len, bool begins, struct af_pattern_match *match_out);

#endif
