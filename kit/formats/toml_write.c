/*
 * toml_write.c: strings, keys and lists of values as TOML text.
 */
#include "kit/formats/toml.h"

#include <string.h>

#include "kit/base/text.h"

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
    return af_text_take(&out, arena);
}

const char *af_toml_key_text(struct af_arena *arena, const char *key)
{
    bool bare = key[0] != '\0';
    for (const char *at = key; *at != '\0'; at++)
        bare = bare && (strchr("_-", *at) != NULL || (*at >= '0' && *at <= '9') ||
                        (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z'));
    return bare ? key : af_toml_quote(arena, key);
}

const char *af_toml_dotted(struct af_arena *arena, const char *const *keys, size_t count)
{
    const char *text = "";
    for (size_t i = 0; i < count; i++)
        text = af_arena_format(arena, "%s%s%s", text, i > 0 ? "." : "",
                               af_toml_key_text(arena, keys[i]));
    return text;
}

const char *af_toml_joined(struct af_arena *arena, const char *const *keys,
                           const char *const *values, size_t count, bool is_inline)
{
    const char *text = is_inline ? "{ " : "";
    for (size_t i = 0; i < count; i++)
        text = af_arena_format(arena, "%s%s = %s%s", text, keys[i], values[i],
                               !is_inline      ? "\n"
                               : i + 1 < count ? ", "
                                               : " }");
    return text;
}
