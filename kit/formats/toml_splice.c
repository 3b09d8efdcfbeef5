/*
 * toml_splice.c: pieces put in place of byte ranges of a TOML document, after
 * which it is read again; and where lines and values end in its text. Called by
 * toml_edit.c.
 */
#include "kit/formats/toml_splice.h"

#include <string.h>

#include "kit/base/text.h"

static bool is_crlf(const struct af_toml *toml)
{
    const char *end = memchr(toml->text.data, '\n', toml->text.len);
    return end != NULL && end > toml->text.data && end[-1] == '\r';
}

static void add_lines(struct af_text *out, const char *text, bool crlf)
{
    for (const char *at = text; *at != '\0'; at++)
        af_text_add_n(out, crlf && *at == '\n' ? "\r\n" : at, crlf && *at == '\n' ? 2 : 1);
}

/* The splices, in order and apart, make the new document. */
enum anyflash_status af_splice_apply(struct af_toml *toml, const struct af_splice *splices,
                                     size_t count, struct anyflash_error *err)
{
    struct af_text out = {0};
    struct af_toml made;
    bool crlf = is_crlf(toml);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        af_text_add_n(&out, toml->text.data + at, splices[i].at - at);
        if (splices[i].text == NULL)
            out.failed = true;
        else
            add_lines(&out, splices[i].text, crlf);
        at = splices[i].end;
    }
    af_text_add_n(&out, toml->text.data + at, toml->text.len - at);
    struct af_span text = {af_text_get(&out), out.len};
    enum anyflash_status status =
        out.failed ? af_fail_memory(err)
                   : af_toml_parse(&made, toml->arena, text, toml->name, err);
    af_text_release(&out);
    if (status == ANYFLASH_E_DATA)
        return af_fail(err, ANYFLASH_E_INTERNAL, "%s: an edit would have broken it",
                       toml->name);
    if (status == ANYFLASH_OK)
        *toml = made;
    return status;
}

enum anyflash_status af_splice(struct af_toml *toml, size_t at, size_t end, const char *text,
                               struct anyflash_error *err)
{
    return af_splice_apply(toml, &(struct af_splice){at, end, text}, 1, err);
}

const char *af_toml_quote(struct af_arena *arena, const char *text)
{
    struct af_text out = {0};
    af_text_add(&out, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\')
            af_text_format(&out, "\\%c", *at);
        else if (byte < 0x20 || byte == 0x7F)
            af_text_format(&out, "\\u%04X", byte);
        else
            af_text_add_n(&out, at, 1);
    }
    af_text_add(&out, "\"");
    char *quoted = out.failed ? NULL : af_arena_text(arena, out.data);
    arena->failed |= out.failed;
    af_text_release(&out);
    return quoted;
}

/* A key as it is written: bare where it may be. */
const char *af_toml_key_text(struct af_arena *arena, const char *key)
{
    bool bare = key[0] != '\0';
    for (const char *at = key; *at != '\0'; at++)
        bare = bare && (strchr("_-", *at) != NULL || (*at >= '0' && *at <= '9') ||
                        (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z'));
    return bare ? key : af_toml_quote(arena, key);
}

/* "a.b.c"; "" of none. NULL when memory fails. */
const char *af_toml_dotted(struct af_arena *arena, const char *const *keys, size_t count)
{
    const char *text = "";
    for (size_t i = 0; text != NULL && i < count; i++) {
        const char *key = af_toml_key_text(arena, keys[i]);
        text =
            key == NULL ? NULL : af_arena_format(arena, "%s%s%s", text, i > 0 ? "." : "", key);
    }
    return text;
}

char af_toml_byte(const struct af_toml *toml, size_t at)
{
    return at < toml->text.len ? toml->text.data[at] : '\0';
}

/* Behind the line's end, or the text's, from a place where no string is open. */
size_t af_toml_line_after(const struct af_toml *toml, size_t at)
{
    while (at < toml->text.len && toml->text.data[at] != '\n')
        at++;
    return at < toml->text.len ? at + 1 : at;
}

/* Before the '\n' or "\r\n" of the line. */
size_t af_toml_line_stop(const struct af_toml *toml, size_t at)
{
    size_t end = af_toml_line_after(toml, at);
    if (end > at && toml->text.data[end - 1] == '\n')
        end--;
    return end > at && toml->text.data[end - 1] == '\r' ? end - 1 : end;
}

size_t af_toml_line_start(const struct af_toml *toml, size_t at)
{
    while (at > 0 && toml->text.data[at - 1] != '\n')
        at--;
    return at;
}

size_t af_toml_skip_space(const struct af_toml *toml, size_t at)
{
    while (af_toml_byte(toml, at) == ' ' || af_toml_byte(toml, at) == '\t')
        at++;
    return at;
}

bool af_toml_is_line_end(const struct af_toml *toml, size_t at)
{
    char byte = af_toml_byte(toml, at);
    return at >= toml->text.len || byte == '\n' || byte == '\r';
}

/* From behind a value: the next ',' or bracket, past blanks and comments. */
size_t af_toml_separator(const struct af_toml *toml, size_t at)
{
    for (;; at++) {
        char byte = af_toml_byte(toml, at);
        if (byte == '#')
            at = af_toml_line_stop(toml, at);
        if (at >= toml->text.len || byte == ',' || byte == ']' || byte == '}')
            return at;
    }
}

enum anyflash_status af_toml_taken(const struct af_toml *toml, struct af_toml_path path,
                                   struct anyflash_error *err)
{
    char name[200];
    const char *text = af_toml_dotted(toml->arena, path.keys, path.count);
    if (text == NULL)
        return af_fail_memory(err);
    return af_fail(err, ANYFLASH_E_DATA, "%s: '%s' has another form than is understood here",
                   toml->name, af_text_quote(name, sizeof name, text, strlen(text)));
}
