/*
 * publisher.c: publishers of wheels, from the catalog's sources and from addresses.
 */
#include "kit/catalog/publisher.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"

#define PUBLISHERS_MAX 4096u
#define OWNER_BYTES_MAX 100u

/*
 * Where only the owner of a repository can put files. Other addresses of a repository serve
 * what others have proposed: commits of forks on GitHub, of pull requests on Hugging Face.
 */
static const struct {
    const char *start;
    const char *prefix;
    const char *folder; /* behind the repository's name */
} hosts[] = {{"https://github.com/", "", "releases/download/"},
             {"https://huggingface.co/", "huggingface:", "resolve/main/"}};

size_t af_publisher_len(const char *source)
{
    return strcspn(source, "/");
}

const char *af_publisher_of_url(struct af_arena *arena, const char *url)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.";
    for (size_t i = 0; i < AF_COUNT(hosts); i++) {
        const char *owner = url + strlen(hosts[i].start);
        if (strncasecmp(url, hosts[i].start, strlen(hosts[i].start)) != 0)
            continue;
        size_t len = strspn(owner, letters);
        /* A client resolves "owner/../other" before it asks. */
        if (len == 0 || len > OWNER_BYTES_MAX || owner[len] != '/' ||
            strstr(owner, "..") != NULL || strstr(owner, "%2e") != NULL ||
            strstr(owner, "%2E") != NULL)
            return NULL;
        const char *name = owner + len + 1;
        size_t name_len = strspn(name, letters);
        if (name_len == 0 || name[name_len] != '/' ||
            !af_starts_with(name + name_len + 1, hosts[i].folder))
            return NULL;
        return af_arena_format(arena, "%s%.*s", hosts[i].prefix, (int)len, owner);
    }
    return NULL;
}

bool af_publisher_is(const struct af_catalog_wheel *wheel, const char *name)
{
    size_t len = af_publisher_len(wheel->source);
    return af_equal_fold(wheel->source, name) ||
           (strlen(name) == len && strncasecmp(wheel->source, name, len) == 0) ||
           (wheel->official && af_equal_fold(name, AF_PUBLISHER_OFFICIAL));
}

enum anyflash_status af_publisher_list(const struct af_catalog *catalog, struct af_arena *arena,
                                       const char *const **names_out, size_t *count_out,
                                       struct anyflash_error *err)
{
    const char **names = af_arena_array(arena, PUBLISHERS_MAX, sizeof *names);
    size_t count = 0;
    const char *last = NULL; /* equal sources share one text */
    for (size_t i = 0; !arena->failed && i < catalog->count && count < PUBLISHERS_MAX; i++) {
        const char *source = catalog->wheels[i].source;
        bool found = source == last;
        last = source;
        for (size_t n = 0; n < count && !found; n++)
            found = strlen(names[n]) == af_publisher_len(source) &&
                    strncmp(names[n], source, af_publisher_len(source)) == 0;
        if (!found)
            names[count++] = af_arena_text_n(arena, source, af_publisher_len(source));
    }
    if (arena->failed)
        return af_fail_memory(err);
    *names_out = names;
    *count_out = count;
    return ANYFLASH_OK;
}
