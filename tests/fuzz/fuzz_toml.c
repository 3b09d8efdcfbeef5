/*
 * fuzz_toml.c: any text as TOML. What was parsed is edited; each edit must keep
 * all other bytes and give valid TOML again.
 */
#include <stdlib.h>
#include <string.h>

#include "kit/formats/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/*
 * Whether removing some bytes from `made` gives `old`. Blanks between empty
 * brackets may be missing.
 */
static bool only_added(struct af_span old, struct af_span made)
{
    size_t at = 0;
    for (size_t i = 0; i < made.len && at < old.len; i++) {
        while (at < old.len && is_blank(old.data[at]))
            at++;
        at += at < old.len && made.data[i] == old.data[at] ? 1 : 0;
    }
    while (at < old.len && is_blank(old.data[at]))
        at++;
    return at == old.len;
}

static void require(bool good)
{
    if (!good)
        abort();
}

static void set_key(struct af_toml *toml, struct af_toml_path path)
{
    struct af_span old = toml->text;
    bool was_there = af_toml_find(toml, path) != NULL;
    enum anyflash_status status = af_toml_set(toml, path, "\"value\"", NULL);
    require(status == ANYFLASH_OK || status == ANYFLASH_E_DATA || status == ANYFLASH_E_LIMIT);
    if (status != ANYFLASH_OK) {
        require(toml->text.data == old.data);
        return;
    }
    require(was_there || only_added(old, toml->text));
    const char *text = af_toml_text(toml, path);
    require(text != NULL && strcmp(text, "value") == 0);
}

static void append(struct af_toml *toml, struct af_toml_path path, bool is_table)
{
    struct af_span old = toml->text;
    const struct af_toml_item *list = af_toml_find(toml, path);
    size_t count = list == NULL ? 0 : list->child_count;
    static const char *const keys[] = {"name"};
    static const char *const values[] = {"\"x\""};
    enum anyflash_status status = is_table
                                      ? af_toml_append_table(toml, path, keys, values, 1, NULL)
                                      : af_toml_append(toml, path, "\"x\"", NULL);
    require(status == ANYFLASH_OK || status == ANYFLASH_E_DATA || status == ANYFLASH_E_LIMIT);
    if (status != ANYFLASH_OK)
        return;
    list = af_toml_find(toml, path);
    require(only_added(old, toml->text) && list != NULL && list->child_count == count + 1);
}

/* Removes the first child of an element, then the element. */
static void remove_some(struct af_toml *toml, struct af_toml_path path)
{
    for (int i = 0; i < 4; i++) {
        struct af_span old = toml->text;
        const struct af_toml_item *item = af_toml_find(toml, path);
        if (item == NULL)
            return;
        if (i < 3 && item->first != NULL)
            item = item->first;
        enum anyflash_status status = af_toml_remove(toml, item, NULL);
        require(status == ANYFLASH_OK || status == ANYFLASH_E_DATA);
        require(only_added(toml->text, old));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_arena arena;
    struct af_toml toml;
    af_arena_init(&arena);
    struct af_span text = {(const char *)data, size};
    if (size < 65536 && af_toml_parse(&toml, &arena, text, "fuzz", NULL) == ANYFLASH_OK) {
        require(toml.text.len == size && memcmp(toml.text.data, data, size) == 0);
        set_key(&toml, AF_TOML_PATH("tool", "uv", "sources", "flash-attn"));
        append(&toml, AF_TOML_PATH("project", "dependencies"), false);
        append(&toml, AF_TOML_PATH("tool", "uv", "dependency-metadata"), true);
        set_key(&toml, AF_TOML_PATH("a", "b"));
        append(&toml, AF_TOML_PATH("a", "c"), false);
        remove_some(&toml, AF_TOML_PATH("a"));
        remove_some(&toml, AF_TOML_PATH("tool", "uv", "dependency-metadata"));
        remove_some(&toml, AF_TOML_PATH("project", "dependencies"));
    }
    af_arena_release(&arena);
    return 0;
}
