/*
 * python_tokens.c: the tokens of Python, and the indentation of its logical lines.
 */
#include "kit/project/python_tokens.h"

#include <ctype.h>
#include <string.h>

#define TAB_COLUMNS 8

static char peek(const struct af_project_tokens *tokens, size_t ahead)
{
    size_t at = tokens->at + ahead;
    return at < tokens->text.len ? tokens->text.data[at] : '\0';
}

bool af_project_token_is_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || (unsigned char)letter >= 0x80;
}

/* Steps over one byte. */
static void step(struct af_project_tokens *tokens)
{
    tokens->line += tokens->text.data[tokens->at++] == '\n';
}

static void skip_comment(struct af_project_tokens *tokens)
{
    while (tokens->at < tokens->text.len && peek(tokens, 0) != '\n')
        tokens->at++;
}

/* Steps over blank lines, and measures the indentation of the line that follows. */
static void start_line(struct af_project_tokens *tokens)
{
    size_t column = 0;
    for (; tokens->at < tokens->text.len; step(tokens)) {
        char letter = peek(tokens, 0);
        if (letter == '#')
            skip_comment(tokens);
        letter = peek(tokens, 0);
        if (letter == '\n')
            column = 0;
        else if (letter == '\t')
            column += TAB_COLUMNS - column % TAB_COLUMNS;
        else if (letter == ' ')
            column++;
        else if (letter != '\r' && letter != '\f')
            break;
        if (tokens->at == tokens->text.len)
            break;
    }
    tokens->indent = column;
    tokens->is_fresh = false;
    tokens->token_count = 0;
}

/* Steps over blanks, comments, and line ends that do not end a logical line. */
static void skip_blanks(struct af_project_tokens *tokens)
{
    while (tokens->at < tokens->text.len) {
        char letter = peek(tokens, 0);
        size_t joined = letter != '\\'                                       ? 0
                        : peek(tokens, 1) == '\n'                            ? 2
                        : peek(tokens, 1) == '\r' && peek(tokens, 2) == '\n' ? 3
                                                                             : 0;
        if (letter == '#')
            skip_comment(tokens);
        else if (joined > 0)
            for (; joined > 0; joined--)
                step(tokens);
        else if (letter == ' ' || letter == '\t' || letter == '\r' || letter == '\f' ||
                 (letter == '\n' && tokens->depth > 0))
            step(tokens);
        else
            return;
    }
}

/* A string whose first quote is next. Without the last one it ends with its line or file. */
static void read_string(struct af_project_tokens *tokens)
{
    char quote = peek(tokens, 0);
    size_t quotes = peek(tokens, 1) == quote && peek(tokens, 2) == quote ? 3 : 1;
    tokens->at += quotes;
    size_t start = tokens->at, found = 0;
    while (tokens->at < tokens->text.len && found < quotes) {
        char letter = peek(tokens, 0);
        if (letter == '\n' && quotes == 1)
            break;
        found = letter == quote ? found + 1 : 0;
        if (letter == '\\' && tokens->at + 1 < tokens->text.len)
            step(tokens);
        step(tokens);
    }
    tokens->token.kind = AF_PROJECT_TOKEN_STRING;
    tokens->token.text = (struct af_span){tokens->text.data + start,
                                          tokens->at - start - (found == quotes ? quotes : 0)};
}

static bool is_string_prefix(struct af_span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (strchr("rRbBuUfFtT", name.data[i]) == NULL)
            return false;
    return name.len <= 2;
}

static void read_name(struct af_project_tokens *tokens)
{
    size_t start = tokens->at;
    while (tokens->at < tokens->text.len && af_project_token_is_letter(peek(tokens, 0)))
        tokens->at++;
    struct af_span name = {tokens->text.data + start, tokens->at - start};
    char next = peek(tokens, 0);
    if ((next == '"' || next == '\'') && is_string_prefix(name)) {
        read_string(tokens);
        return;
    }
    tokens->token.kind = AF_PROJECT_TOKEN_NAME;
    tokens->token.text = name;
}

static void read_mark(struct af_project_tokens *tokens)
{
    char mark = peek(tokens, 0);
    tokens->token.kind = mark == '\n' ? AF_PROJECT_TOKEN_LINE_END : AF_PROJECT_TOKEN_MARK;
    tokens->token.text = (struct af_span){tokens->text.data + tokens->at, 1};
    step(tokens);
    if (mark == '(' || mark == '[' || mark == '{')
        tokens->depth++;
    else if ((mark == ')' || mark == ']' || mark == '}') && tokens->depth > 0)
        tokens->depth--;
    tokens->is_fresh = mark == '\n';
}

void af_project_tokens_next(struct af_project_tokens *tokens)
{
    if (tokens->is_fresh)
        start_line(tokens);
    skip_blanks(tokens);
    tokens->token = (struct af_project_token){.kind = AF_PROJECT_TOKEN_END,
                                              .start = tokens->at,
                                              .line = tokens->line,
                                              .text = {"", 0}};
    char letter = peek(tokens, 0);
    if (tokens->at < tokens->text.len && (letter == '"' || letter == '\''))
        read_string(tokens);
    else if (tokens->at < tokens->text.len && af_project_token_is_letter(letter))
        read_name(tokens);
    else if (tokens->at < tokens->text.len)
        read_mark(tokens);
    tokens->token.end = tokens->at;
    tokens->token_count++;
}

const char *af_project_token_find(struct af_span text, size_t at, const char *name)
{
    const size_t len = strlen(name);
    while (at + len <= text.len) {
        const char *found = memmem(text.data + at, text.len - at, name, len);
        if (found == NULL)
            return NULL;
        at = (size_t)(found - text.data);
        const bool starts = at == 0 || !af_project_token_is_letter(found[-1]);
        if (starts && (at + len == text.len || !af_project_token_is_letter(found[len])))
            return found;
        at += len;
    }
    return NULL;
}
