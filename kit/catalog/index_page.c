/*
 * index_page.c: PEP 503 and PEP 691 pages. Of HTML only links are read: their
 * href, which may end with "#sha256=HEX". The file name is compared as the end of
 * the href's path, so that the text of the link, which some indexes shorten, does
 * not matter.
 */
#include "kit/catalog/index_page.h"

#include <string.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/base/url.h"

/* The text of a link is at most this long; a longer one is no wheel's. */
#define HREF_BYTES_MAX AF_URL_BYTES_MAX

static const char *hash_after(struct af_arena *arena, const char *fragment)
{
    static const char start[] = "#sha256=";
    if (!af_starts_with(fragment, start))
        return NULL;
    const char *hex = af_arena_text_n(arena, fragment + sizeof start - 1,
                                      strcspn(fragment + sizeof start - 1, "&"));
    return af_sha256_is_hex(hex) ? hex : NULL;
}

/* The next value of an href attribute in quotes; false at the end of the page. */
static bool next_href(struct af_span *rest, struct af_span *href)
{
    static const char word[] = "href=";
    size_t len = sizeof word - 1;
    for (; rest->len > len; rest->data++, rest->len--) {
        if (memcmp(rest->data, word, len) != 0)
            continue;
        char quote = rest->data[len];
        const char *start = rest->data + len + 1;
        size_t left = rest->len - len - 1;
        const char *end = quote == '"' || quote == '\'' ? memchr(start, quote, left) : NULL;
        if (end == NULL)
            continue;
        *href = (struct af_span){start, (size_t)(end - start)};
        rest->data = end;
        rest->len = left - href->len;
        return true;
    }
    return false;
}

static enum anyflash_status find_in_html(struct af_span page, const char *filename,
                                         struct af_arena *arena, bool *found_out,
                                         const char **sha256_out, struct anyflash_error *err)
{
    char text[HREF_BYTES_MAX];
    struct af_span href;
    while (!*found_out && next_href(&page, &href)) {
        if (href.len >= sizeof text || memchr(href.data, '\0', href.len) != NULL)
            continue;
        memcpy(text, href.data, href.len);
        text[href.len] = '\0';
        *found_out = af_url_names_file(text, filename);
        if (*found_out)
            *sha256_out = hash_after(arena, text + strcspn(text, "#"));
    }
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

static enum anyflash_status find_in_json(struct af_span page, const char *name,
                                         const char *filename, struct af_arena *arena,
                                         bool *found_out, const char **sha256_out,
                                         struct anyflash_error *err)
{
    json_t *json = NULL;
    enum anyflash_status status =
        af_json_parse(page, AF_INDEX_PAGE_BYTES_MAX, name, &json, err);
    if (status != ANYFLASH_OK)
        return status;
    const json_t *files = json_object_get(json, "files");
    if (!json_is_array(files))
        status =
            af_fail(err, ANYFLASH_E_DATA, "'%s' is not a project's page of an index", name);
    for (size_t i = 0; !*found_out && i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);
        const char *hash =
            json_string_value(json_object_get(json_object_get(file, "hashes"), "sha256"));
        *found_out = af_equal(json_string_value(json_object_get(file, "filename")), filename);
        if (*found_out && af_sha256_is_hex(hash))
            *sha256_out = af_arena_text(arena, hash);
    }
    json_decref(json);
    return status == ANYFLASH_OK && arena->failed ? af_fail_memory(err) : status;
}

enum anyflash_status af_index_page_find(struct af_span page, const char *name,
                                        const char *filename, struct af_arena *arena,
                                        bool *found_out, const char **sha256_out,
                                        struct anyflash_error *err)
{
    struct af_span text = af_text_trim(page);
    *found_out = false;
    *sha256_out = NULL;
    return text.len > 0 && text.data[0] == '{'
               ? find_in_json(page, name, filename, arena, found_out, sha256_out, err)
               : find_in_html(page, filename, arena, found_out, sha256_out, err);
}
