/*
 * text.h: growing text, scrubbing of text from outside, small string helpers, paths, and which
 * known word a mistyped word stands for.
 */
#ifndef AF_KIT_BASE_TEXT_H
#define AF_KIT_BASE_TEXT_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/*
 * Growing text on the heap. A zero-initialised one is empty; `data` is NULL or
 * NUL-terminated. Release with af_text_release().
 */
struct af_text {
    char *data;
    size_t len;
    size_t size_bytes;
};

void af_text_release(struct af_text *text);
void af_text_add(struct af_text *text, const char *added);
void af_text_add_n(struct af_text *text, const char *added, size_t len);
void af_text_format(struct af_text *text, const char *format, ...) AF_PRINTF(2, 3);

/* The collected text; "" if nothing was added, never NULL. */
const char *af_text_get(const struct af_text *text);

/* Moves it into the arena, and releases `text`. */
const char *af_text_take(struct af_text *text, struct af_arena *arena);

/*
 * Escapes untrusted text so that it can be printed safely: valid UTF-8 stays,
 * control characters, terminal escapes, bidirectional controls and invalid bytes
 * become \xNN. Writes at most `size_bytes` including the NUL; longer text is cut
 * and ends in "...". Returns `buffer`.
 */
char *af_text_quote(char *buffer, size_t size_bytes, const char *text, size_t len);

/* As af_text_quote(), with the result in an arena; at most `len_max` bytes are shown. */
const char *af_text_scrub(struct af_arena *arena, const char *text, size_t len_max);

/* A size for people, such as "24.0 GiB" or "850 MiB", in the arena. */
const char *af_text_bytes(struct af_arena *arena, int64_t bytes);

bool af_text_is_utf8(const char *text, size_t len);

bool af_starts_with(const char *text, const char *start);
bool af_ends_with(const char *text, const char *end);

/* Whether the text starts with one of `starts`; whether it is one of `texts`. */
bool af_starts_with_any(const char *text, const char *const *starts, size_t count);
bool af_is_one_of(const char *text, const char *const *texts, size_t count);

/* The position of `word` among the words of `words`, with one blank between, or -1. */
int af_text_word_index(const char *words, const char *word);

/* Whether the texts are equal, ignoring the case of ASCII letters. NULL equals nothing. */
bool af_equal_fold(const char *a, const char *b);

/* Whether the texts are equal. NULL equals nothing. */
bool af_equal(const char *a, const char *b);

/*
 * Parses the whole of `text` as a decimal number; false if it is not one or is
 * outside [min, max].
 */
bool af_parse_i64(const char *text, int64_t min, int64_t max, int64_t *number_out);

/* `span` without blanks (space, tab, CR, LF) on either side. */
struct af_span af_text_trim(struct af_span span);

/* The next line of *rest without its newline; false when nothing is left. */
bool af_text_line(struct af_span *rest, struct af_span *line_out);

bool af_text_span_equal(struct af_span span, const char *text);

/* Whether `part`, in lower case, is in the span, in any case of ASCII letters. */
bool af_text_span_has_fold(struct af_span span, const char *part);

/* ---- POSIX paths as text ---- */

/* Returns folder + "/" + name, without a doubled slash. */
const char *af_path_join(struct af_arena *arena, const char *folder, const char *name);

/* The folder part of `path`: "/a" for "/a/b", "/" for "/a", "." for "a". */
const char *af_path_folder(struct af_arena *arena, const char *path);

/* The part after the last slash; points into `path`. */
const char *af_path_name(const char *path);

/*
 * The word with the smallest edit distance from `typed` (changed, added,
 * removed or swapped letters), or else the first that starts with `typed`, of at
 * least 3 letters; NULL if none is near (more than a third of the letters, at least 1).
 */
const char *af_nearest(const char *typed, const char *const *words, size_t count);

#endif
