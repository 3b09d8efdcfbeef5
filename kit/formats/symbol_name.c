/*
 * symbol_name.c: the nested names at the start of mangled names.
 */
#include "kit/formats/symbol_name.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"

/*
 * The text after "_Z", a special name ("TV", "TI", "GV", ...) and "N" with qualifiers; NULL
 * when the name is not nested.
 */
static const char *nested_name(const char *name)
{
    if (!af_starts_with(name, "_Z"))
        return NULL;
    name += 2;
    if ((name[0] == 'T' || name[0] == 'G') && isalpha((unsigned char)name[1]))
        name += 2;
    if (name[0] != 'N')
        return NULL;
    name++;
    return name + strspn(name, "rVKRO");
}

bool af_symbol_is_torch(const char *name)
{
    static const char *const spaces[] = {"3c10", "2at", "5torch", "6caffe2"};
    const char *nested = nested_name(name);
    return nested != NULL && af_starts_with_any(nested, spaces, AF_COUNT(spaces));
}

/* Parses one "<length><identifier>" at *at; false when there is none. */
static bool take_identifier(const char **at, const char **text_out, size_t *len_out)
{
    size_t len = 0;
    const char *digits = *at;
    while (isdigit((unsigned char)**at) && len < 1000)
        len = len * 10 + (size_t)(*(*at)++ - '0');
    if (*at == digits || len == 0 || strnlen(*at, len) < len)
        return false;
    *text_out = *at;
    *len_out = len;
    *at += len;
    return true;
}

const char *af_symbol_readable(struct af_arena *arena, const char *name)
{
    const char *at = nested_name(name);
    const char *text;
    const char *last = NULL;
    size_t last_len = 0;
    size_t len;
    const char *readable = NULL;
    while (at != NULL && take_identifier(&at, &text, &len)) {
        readable = readable == NULL
                       ? af_arena_text_n(arena, text, len)
                       : af_arena_format(arena, "%s::%.*s", readable, (int)len, text);
        last = text;
        last_len = len;
    }
    if (readable == NULL)
        return af_arena_text(arena, name);
    if (at[0] == 'C' && isdigit((unsigned char)at[1])) /* a constructor */
        readable = af_arena_format(arena, "%s::%.*s", readable, (int)last_len, last);
    else if (at[0] == 'D' && isdigit((unsigned char)at[1]))
        readable = af_arena_format(arena, "%s::~%.*s", readable, (int)last_len, last);
    return readable;
}

enum af_answer af_symbol_cxx11abi(const char *name)
{
    if (strstr(name, "NSt7__cxx11") != NULL)
        return AF_YES;
    if (strstr(name, "RKSs") != NULL || strstr(name, "LocationESs") != NULL)
        return AF_NO;
    return AF_UNKNOWN;
}
