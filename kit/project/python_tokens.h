/*
 * python_tokens.h: the tokens of a Python source, one after the other: names, strings, line
 * ends, and single bytes of everything else. Private to this room.
 *
 * Source: "Lexical analysis" of the Python language reference.
 */
#ifndef AF_KIT_PROJECT_PYTHON_TOKENS_H
#define AF_KIT_PROJECT_PYTHON_TOKENS_H

#include "engine/base/base.h"
#include "kit/base/text.h"

enum af_project_token_kind {
    AF_PROJECT_TOKEN_END,
    AF_PROJECT_TOKEN_LINE_END,
    AF_PROJECT_TOKEN_NAME,
    AF_PROJECT_TOKEN_STRING,
    AF_PROJECT_TOKEN_MARK
};

struct af_project_token {
    enum af_project_token_kind kind;
    struct af_span text; /* of a string: without prefix and quotes */
    size_t start;
    size_t end;
    size_t line;
};

/* Where the reader is. Set text, line (1) and is_fresh (true) first. */
struct af_project_tokens {
    struct af_span text;
    size_t at;
    size_t line;
    size_t depth;  /* of brackets */
    bool is_fresh; /* at the start of a logical line */
    size_t indent; /* of the logical line */
    struct af_project_token token;
    size_t token_count; /* of the logical line */
};

/* Reads the next token into tokens->token. Its text points into the source. */
void af_project_tokens_next(struct af_project_tokens *tokens);

/* Whether a name can have this byte. */
bool af_project_token_is_letter(char letter);

/* Where the name stands as a word of its own in `text` from byte `at` on; NULL: nowhere. */
const char *af_project_token_find(struct af_span text, size_t at, const char *name);

#endif
