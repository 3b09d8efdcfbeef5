/*
 * package_window.c: the limits on flash-attn's version in the code of packages that use it.
 */
#include <ctype.h>
#include <string.h>

#include "kit/formats/embedded.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define CODE_BYTES_MAX (1u * 1024u * 1024u)
#define VALUE_BYTES 48

/* A row of data/version_windows.tsv: `section` restricts the search to a function. */
struct window {
    const char *package;
    const char *file;
    const char *section;
    const char *min_key;
    const char *max_key;
    const char *open_end; /* a text: the upper limit itself is not allowed */
};

/* NULL for "-". */
static const char *unless_dash(const char *text)
{
    return strcmp(text, "-") == 0 ? NULL : text;
}

/* The bytes after `key`, where `key` begins a word, or NULL. */
static const char *find_key(struct af_span text, const char *key)
{
    const char *at = text.data;
    const char *end = text.data + text.len;
    size_t len = strlen(key);
    while (text.len > 0 && (at = memmem(at, (size_t)(end - at), key, len)) != NULL) {
        bool begins = at == text.data || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        at += len;
        if (begins)
            return at;
    }
    return NULL;
}

/* Reads (2, 7, 1) as "2.7.1", or the first quoted text of the line. */
static bool read_value(const char *at, const char *end, char value[VALUE_BYTES])
{
    size_t len = 0;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop == NULL ? end : stop;
    char close = ')';
    while (at < stop && *at == ' ')
        at++;
    if (at < stop && *at == '(' && at + 1 < stop && isdigit((unsigned char)at[1])) {
        at++;
    } else {
        while (at < stop && *at != '"' && *at != '\'')
            at++;
        if (at == stop)
            return false;
        close = *at++;
    }
    for (; at < stop && *at != close; at++) {
        if (*at == ' ')
            continue;
        if (len + 1 >= VALUE_BYTES ||
            !(isalnum((unsigned char)*at) || strchr(".,+", *at) != NULL))
            return false;
        value[len++] = *at == ',' ? '.' : *at;
    }
    value[len] = '\0';
    return at < stop && len > 0 && isdigit((unsigned char)value[0]);
}

/* The text from `section` to the next function. */
static struct af_span narrow(struct af_span text, const char *section)
{
    static const char next[] = "\ndef ";
    const char *start =
        text.len == 0 ? NULL : memmem(text.data, text.len, section, strlen(section));
    if (start == NULL)
        return (struct af_span){NULL, 0};
    size_t len = text.len - (size_t)(start - text.data);
    const char *end = memmem(start, len, next, sizeof next - 1);
    return (struct af_span){start, end == NULL ? len : (size_t)(end - start)};
}

static void set_limit(const struct af_probe *probe, struct af_span text, const char *key,
                      const char *ending, const char *path, struct af_fact *fact)
{
    char value[VALUE_BYTES];
    const char *at = key == NULL ? NULL : find_key(text, key);
    if (key == NULL)
        af_fact_absent(probe->arena, fact, path);
    else if (at == NULL || !read_value(at, text.data + text.len, value))
        af_fact_unknown(probe->arena, fact, "'%s' has no '%s' in a known form", path, key);
    else
        af_fact_text(probe->arena, fact, af_arena_format(probe->arena, "%s%s", value, ending),
                     path);
}

static void read_window(const struct af_probe *probe, struct af_package *package,
                        const struct window *window, const char *path)
{
    struct anyflash_error err = {0};
    struct af_arena scratch;
    struct af_span text;
    af_arena_init(&scratch);
    if (af_file_read(&scratch, path, CODE_BYTES_MAX, &text, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &package->flash_attn_min, "%s", err.message);
        af_fact_unknown(probe->arena, &package->flash_attn_max, "%s", err.message);
        af_arena_release(&scratch);
        return;
    }
    /* "before 2.8.4" is written as "up to 2.8.4.dev0", because no release is in between. */
    bool open = window->open_end != NULL &&
                memmem(text.data, text.len, window->open_end, strlen(window->open_end)) != NULL;
    if (window->section != NULL)
        text = narrow(text, window->section);
    set_limit(probe, text, window->min_key, "", path, &package->flash_attn_min);
    set_limit(probe, text, window->max_key, open ? ".dev0" : "", path,
              &package->flash_attn_max);
    af_arena_release(&scratch);
}

void af_probe_package_read_window(const struct af_probe *probe, struct af_package *package,
                                  const char *name, const char *site)
{
    af_fact_absent(probe->arena, &package->flash_attn_min, "no check of flash-attn's version");
    af_fact_absent(probe->arena, &package->flash_attn_max, "no check of flash-attn's version");
    for (const char *const(*row)[6] = af_embedded_version_windows; (*row)[0] != NULL; row++) {
        const struct window window = {(*row)[0],
                                      (*row)[1],
                                      unless_dash((*row)[2]),
                                      (*row)[3],
                                      unless_dash((*row)[4]),
                                      unless_dash((*row)[5])};
        const char *path = af_path_join(probe->arena, site, window.file);
        if (strcmp(window.package, name) != 0 || !af_file_exists(path))
            continue;
        read_window(probe, package, &window, path);
        return;
    }
}
