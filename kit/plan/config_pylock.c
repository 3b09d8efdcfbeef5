/*
 * config_pylock.c: pylock.toml (PEP 751): the wheel as an archive without a
 * version, the one form that pip and uv both take for a wheel whose name and
 * METADATA disagree: with a version uv refuses the file name, under `wheels`
 * pip does.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/wheel_name.h"
#include "kit/plan/config_parts.h"

/* The first [[packages]] about `package` with no marker of an earlier pin; or NULL. */
static const struct af_toml_item *find_entry(const struct af_toml *toml, const char *package,
                                             size_t skip)
{
    const struct af_toml_item *list = af_toml_get(toml->root, "packages");
    const struct af_toml_item *entry = list == NULL ? NULL : list->first;
    for (; entry != NULL; entry = entry->next) {
        const struct af_toml_item *name = af_toml_get(entry, "name");
        bool is_it = name != NULL && name->text != NULL &&
                     af_name_is((struct af_span){name->text, strlen(name->text)}, package);
        if (is_it && skip-- == 0)
            return entry;
    }
    return NULL;
}

static const char *archive_text(struct af_config_lock *lock, const struct af_pin *pin)
{
    const char *url = af_toml_quote(lock->arena, pin->url);
    return url == NULL
               ? NULL
               : af_arena_format(lock->arena, "{ url = %s, hashes = { sha256 = \"%s\" } }", url,
                                 pin->facts.sha256);
}

/* An entry as pip writes it, with [packages.archive] and its hashes as tables. */
static enum anyflash_status set_tables(struct af_toml *toml, size_t index,
                                       const struct af_pin *pin, const char *package,
                                       struct anyflash_error *err)
{
    const char *url = af_toml_quote(toml->arena, pin->url);
    const char *hash = af_arena_format(toml->arena, "\"%s\"", pin->facts.sha256);
    const char *hashes = af_arena_format(toml->arena, "{ sha256 = %s }", hash);
    const struct af_toml_item *archive =
        af_toml_get(find_entry(toml, package, index), "archive");
    enum anyflash_status status = af_toml_set_in(toml, archive, "url", url, err);
    archive = af_toml_get(find_entry(toml, package, index), "archive");
    const struct af_toml_item *old = af_toml_get(archive, "hashes");
    if (status != ANYFLASH_OK)
        return status;
    return old != NULL && old->kind == AF_TOML_TABLE
               ? af_toml_set_in(toml, old, "sha256", hash, err)
               : af_toml_set_in(toml, archive, "hashes", hashes, err);
}

/* Takes out what must not stand beside the archive. */
static enum anyflash_status clear_entry(struct af_toml *toml, size_t index, const char *package,
                                        struct anyflash_error *err)
{
    static const char *const keys[] = {"version", "index", "sdist",
                                       "wheels",  "vcs",   "directory"};
    for (size_t i = 0; i < AF_COUNT(keys); i++) {
        const struct af_toml_item *item =
            af_toml_get(find_entry(toml, package, index), keys[i]);
        if (item == NULL)
            continue;
        enum anyflash_status status = af_toml_remove(toml, item, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status set_entry(struct af_config_lock *lock, struct af_toml *toml,
                                      size_t index, struct anyflash_error *err)
{
    static const char *const keys[] = {"name", "marker", "archive"};
    const struct af_pin *pin = &lock->pins[index];
    const char *name = af_toml_quote(lock->arena, lock->package);
    const char *marker = af_toml_quote(lock->arena, pin->marker);
    const char *archive = archive_text(lock, pin);
    const struct af_toml_item *entry = find_entry(toml, lock->package, index);
    if (lock->arena->failed)
        return af_fail_memory(err);
    if (entry == NULL)
        return af_toml_append_table(toml, AF_TOML_PATH("packages"), keys,
                                    (const char *const[]){name, marker, archive},
                                    AF_COUNT(keys), err);
    enum anyflash_status status = clear_entry(toml, index, lock->package, err);
    if (status == ANYFLASH_OK)
        status =
            af_toml_set_in(toml, find_entry(toml, lock->package, index), "marker", marker, err);
    entry = find_entry(toml, lock->package, index);
    const struct af_toml_item *old = af_toml_get(entry, "archive");
    if (status != ANYFLASH_OK)
        return status;
    return old != NULL && old->kind == AF_TOML_TABLE
               ? set_tables(toml, index, pin, lock->package, err)
               : af_toml_set_in(toml, entry, "archive", archive, err);
}

static enum anyflash_status check_file(struct af_config_lock *lock, const struct af_toml *toml,
                                       struct anyflash_error *err)
{
    const char *version = af_toml_text(toml, AF_TOML_PATH("lock-version"));
    if (version != NULL && !af_starts_with(version, "1."))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "%s has a lock-version that is not 1.x",
                       toml->name);
    for (size_t i = 0; i < lock->pin_count; i++)
        if (lock->pins[i].facts.sha256 == NULL)
            return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                           "pylock.toml must have the hash of '%s': give the file with --from",
                           lock->pins[i].file);
    return ANYFLASH_OK;
}

enum anyflash_status af_config_pylock(struct af_config_lock *lock,
                                      const struct af_config_options *options,
                                      struct af_span old, const char *name,
                                      struct af_span *new_out, struct anyflash_error *err)
{
    struct af_toml toml;
    (void)options;
    enum anyflash_status status = af_config_lock_wants_wheels(lock, "pylock.toml", err);
    if (status == ANYFLASH_OK)
        status = af_toml_parse(&toml, lock->arena, old, name, err);
    if (status == ANYFLASH_OK)
        status = check_file(lock, &toml, err);
    if (status == ANYFLASH_OK && af_toml_get(toml.root, "lock-version") == NULL)
        status = af_toml_set(&toml, AF_TOML_PATH("lock-version"), "\"1.0\"", err);
    if (status == ANYFLASH_OK && af_toml_get(toml.root, "created-by") == NULL)
        status = af_toml_set(&toml, AF_TOML_PATH("created-by"), "\"anyflash\"", err);
    for (size_t i = 0; status == ANYFLASH_OK && i < lock->pin_count; i++)
        status = set_entry(lock, &toml, i, err);
    const struct af_toml_item *more;
    while (status == ANYFLASH_OK &&
           (more = find_entry(&toml, lock->package, lock->pin_count)) != NULL)
        status = af_toml_remove(&toml, more, err);
    if (old.len == 0)
        af_config_lock_note(
            lock, "the file holds flash-attn alone: install it with --no-deps, beside "
                  "a torch that is there");
    if (status == ANYFLASH_OK)
        *new_out = toml.text;
    return status;
}
