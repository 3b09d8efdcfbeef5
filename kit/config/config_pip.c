/*
 * config_pip.c: requirements.txt and pylock.toml.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/config/config_parts.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"

/*
 * requirements.txt: the exact URL with its hash in the fragment, which pip and
 * uv check and which does not turn on hash mode for all other lines. torch is
 * pinned too, because upstream's metadata does not pin it.
 */

struct writer {
    struct af_config_lock *lock;
    struct af_text out;
    bool hash_mode; /* every line needs "==" and a hash */
    bool has_package;
    bool has_torch;
    bool has_binary;
    bool crlf;
};

static void end_line(struct writer *writer)
{
    af_text_add(&writer->out, writer->crlf ? "\r\n" : "\n");
}

/* "flash-attn @ URL#sha256=... ; MARKER": the form that does not turn on hash mode. */
static const char *pin_line(struct af_config_lock *lock, const struct af_pin *pin)
{
    const char *url = af_url_with_sha256(lock->arena, pin->url, pin->facts.sha256);
    return af_arena_format(lock->arena, "%s @ %s ; %s", lock->package, url == NULL ? "" : url,
                           pin->marker);
}

/* The lines that replace those of the package. */
static void add_pins(struct writer *writer)
{
    writer->has_package = true;
    for (size_t i = 0; i < writer->lock->pin_count; i++) {
        const char *line = pin_line(writer->lock, &writer->lock->pins[i]);
        af_text_add(&writer->out, line == NULL ? "" : line);
        end_line(writer);
    }
}

/* The torch requirement of all pins; NULL: none, or they differ. */
static const char *torch_requirement(struct writer *writer)
{
    const struct af_pin *first = &writer->lock->pins[0];
    for (size_t i = 1; i < writer->lock->pin_count; i++)
        if (!af_equal(first->torch, writer->lock->pins[i].torch))
            return NULL;
    return af_pin_torch_requirement(writer->lock, first);
}

/* Where the specifier is, or would be: after the name and its extras. */
static size_t specifier_at(struct af_span line, const struct af_requirement *requirement)
{
    if (requirement->specifier.len > 0)
        return (size_t)(requirement->specifier.data - line.data);
    size_t at = (size_t)(requirement->name.data - line.data) + requirement->name.len;
    const char *close = at < line.len && line.data[at] == '['
                            ? memchr(line.data + at, ']', line.len - at)
                            : NULL;
    return close != NULL ? (size_t)(close - line.data) + 1 : at;
}

/* A line about torch: its specifier is replaced by ours if it differs. */
static void add_torch(struct writer *writer, struct af_span line,
                      const struct af_requirement *old)
{
    const char *requirement = torch_requirement(writer);
    writer->has_torch = true;
    if (requirement == NULL || old->url.len > 0 || writer->hash_mode) {
        af_config_lock_note(writer->lock,
                            "the torch line of requirements.txt is unchanged; the wheel was "
                            "built for torch %s",
                            writer->lock->pins[0].torch == NULL ? "of any version"
                                                                : writer->lock->pins[0].torch);
        af_text_add_n(&writer->out, line.data, line.len);
        return;
    }
    if (!af_pin_torch_allowed(writer->lock->arena, &writer->lock->pins[0], old->specifier))
        af_config_lock_note(writer->lock,
                            "requirements.txt had another torch than the wheel needs: it has "
                            "%s now",
                            requirement);
    const char *pin = requirement + strlen("torch");
    size_t pinned = strlen(pin) - 2; /* without ".*" */
    bool fits = old->specifier.len >= pinned && memcmp(old->specifier.data, pin, pinned) == 0 &&
                (old->specifier.len == pinned || strchr(".+", old->specifier.data[pinned]));
    size_t at = specifier_at(line, old);
    af_text_add_n(&writer->out, line.data, at);
    af_text_add(&writer->out, fits ? "" : pin);
    size_t rest = fits ? at : at + old->specifier.len;
    af_text_add_n(&writer->out, line.data + rest, line.len - rest);
}

/* One line together with its continuation lines. */
static struct af_span take_line(struct af_span *rest)
{
    size_t len = 0;
    bool goes_on = true;
    while (len < rest->len && goes_on) {
        const char *end = memchr(rest->data + len, '\n', rest->len - len);
        size_t stop = end == NULL ? rest->len : (size_t)(end - rest->data);
        size_t last = stop > len && rest->data[stop - 1] == '\r' ? stop - 1 : stop;
        goes_on = last > len && rest->data[last - 1] == '\\';
        len = end == NULL ? rest->len : stop + 1;
    }
    struct af_span line = {rest->data, len};
    rest->data += len;
    rest->len -= len;
    return line;
}

/* The requirement in a line, without blanks, comment and options. */
static struct af_span bare(struct af_span line)
{
    for (size_t i = 1; i < line.len; i++) {
        bool is_blank = line.data[i - 1] == ' ' || line.data[i - 1] == '\t';
        if (is_blank && (line.data[i] == '#' || line.data[i] == '-' || line.data[i] == '\\'))
            line.len = i;
    }
    return af_text_trim(line);
}

static void add_line(struct writer *writer, struct af_span line)
{
    struct af_requirement requirement;
    struct af_span text = bare(line);
    bool is_option = text.len == 0 || text.data[0] == '-' || text.data[0] == '#';
    bool is_named = !is_option && af_requirement_parse(text, &requirement);
    if (is_named && af_name_is(requirement.name, writer->lock->package)) {
        af_config_lock_specifier(writer->lock, requirement.specifier);
        if (!writer->has_package)
            add_pins(writer);
        return;
    }
    if (is_named && af_name_is(requirement.name, "torch"))
        add_torch(writer, line, &requirement);
    else
        af_text_add_n(&writer->out, line.data, line.len);
    if (line.len > 0 && line.data[line.len - 1] != '\n')
        end_line(writer);
}

static bool contains(struct af_span text, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; len <= text.len && i <= text.len - len; i++)
        if (memcmp(text.data + i, word, len) == 0)
            return true;
    return false;
}

/*
 * The control characters that TOML refuses, too, are refused: they would reach the terminal,
 * and text in UTF-16 has NUL bytes.
 */
static enum anyflash_status check_text(struct af_span text, const char *name,
                                       struct anyflash_error *err)
{
    size_t line = 1;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        line += c == '\n' ? 1 : 0;
        if (c == 0x7F || (c < 0x20 && (c == '\0' || strchr("\t\n\f\r", c) == NULL)))
            return af_fail(
                err, ANYFLASH_E_DATA,
                "%s, line %zu: control character 0x%02X; the file must be UTF-8 text", name,
                line, c);
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_config_lock_wants_wheels(const struct af_config_lock *lock,
                                                 const char *tool, struct anyflash_error *err)
{
    return !lock->is_build
               ? ANYFLASH_OK
               : af_fail(
                     err, ANYFLASH_E_UNSUPPORTED,
                     "%s cannot lock a source build: it has no setting that names the torch "
                     "to build against",
                     tool);
}

void af_config_lock_note_hashes(struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->pin_count; i++)
        if (lock->pins[i].facts.sha256 == NULL)
            af_config_lock_note(
                lock, "no hash is written, because the catalog has none; name the folder "
                      "of the file with --from to add it");
}

enum anyflash_status af_config_pip(struct af_config_lock *lock,
                                   const struct af_config_options *options, struct af_span old,
                                   const char *name, struct af_span *new_out,
                                   struct anyflash_error *err)
{
    (void)options;
    struct writer writer = {.lock = lock};
    enum anyflash_status status = af_config_lock_wants_wheels(lock, "pip", err);
    if (status == ANYFLASH_OK)
        status = check_text(old, name, err);
    if (status != ANYFLASH_OK)
        return status;
    writer.crlf = contains(old, "\r\n");
    writer.hash_mode = contains(old, "--hash") || contains(old, "--require-hashes");
    writer.has_binary = contains(old, "--only-binary");
    for (struct af_span rest = old; rest.len > 0;)
        add_line(&writer, take_line(&rest));
    const char *torch =
        writer.has_torch || writer.hash_mode ? NULL : torch_requirement(&writer);
    if (torch != NULL)
        af_text_format(&writer.out, "%s%s", torch, writer.crlf ? "\r\n" : "\n");
    if (!writer.has_binary)
        af_text_format(&writer.out, "--only-binary %s%s", lock->package,
                       writer.crlf ? "\r\n" : "\n");
    if (!writer.has_package)
        add_pins(&writer);
    af_config_lock_note_hashes(lock);
    new_out->len = writer.out.len;
    new_out->data = writer.out.failed
                        ? NULL
                        : af_arena_text_n(lock->arena, writer.out.data, writer.out.len);
    af_text_release(&writer.out);
    return new_out->data == NULL || lock->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/*
 * pylock.toml (PEP 751): the wheel as an archive without a version. This is the
 * only form that both pip and uv accept for a wheel whose name and METADATA
 * disagree: with a version uv rejects the file name, and under `wheels` pip
 * does.
 */

/* The first [[packages]] about `package` that has no marker of an earlier pin; or NULL. */
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

/* An entry in the form that pip writes: [packages.archive] and its hashes as tables. */
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

/* Removes keys that must not be used together with an archive. */
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
                           "pylock.toml needs the hash of '%s', which the catalog does not "
                           "have: --from takes it from the file, in a folder",
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
        af_config_lock_note(lock,
                            "the file contains only flash-attn: install it with --no-deps into "
                            "an environment that has torch");
    if (status == ANYFLASH_OK)
        *new_out = toml.text;
    return status;
}
