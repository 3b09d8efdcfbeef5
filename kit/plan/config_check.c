/*
 * config_check.c: compares uv.lock, which uv wrote, with the lock. A
 * right-looking name is not enough: uv silently drops a wheel for a Python that
 * the project excludes, and silently uses the source archive if none of our
 * sources applies.
 */
#include <string.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/version.h"
#include "kit/plan/config_parts.h"

#define CHECKS_MAX (4 * AF_PINS_MAX + 8)

struct checker {
    struct af_config_lock *lock;
    const struct af_toml_item *packages; /* NULL: the file has none */
    struct af_config_lock_check *checks;
    size_t count;
};

static void add(struct checker *checker, enum af_answer answer, const char *what,
                const char *evidence)
{
    if (checker->count < CHECKS_MAX)
        checker->checks[checker->count++] =
            (struct af_config_lock_check){answer, what, evidence == NULL ? "" : evidence};
}

/* A text of a package, scrubbed; "none" if it is missing. */
static const char *text_of(const struct checker *checker, const struct af_toml_item *table,
                           const char *key)
{
    const struct af_toml_item *item = af_toml_get(table, key);
    const char *text = item == NULL || item->text == NULL ? "none" : item->text;
    const char *shown = af_text_scrub(checker->lock->arena, text, 300);
    return shown == NULL ? "" : shown;
}

static bool is_named(const struct af_toml_item *package, const char *name)
{
    const struct af_toml_item *item = af_toml_get(package, "name");
    return item != NULL && af_equal(item->text, name);
}

/* What uv.lock names as the pin's source. */
static const char *place_of(const struct af_pin *pin)
{
    return pin->index != NULL ? pin->index : pin->path != NULL ? pin->path : pin->url;
}

/* Whether they are one place; uv may drop the '/' at the end of an index. */
static bool is_place(const char *found, const char *place)
{
    size_t len = strlen(place);
    return af_url_equal(found, place) ||
           (len > 1 && place[len - 1] == '/' && strlen(found) == len - 1 &&
            memcmp(found, place, len - 1) == 0);
}

/* The package with the pin's source, or NULL. */
static const struct af_toml_item *find_pin(const struct checker *checker,
                                           const struct af_pin *pin)
{
    const char *key = pin->index != NULL ? "registry" : pin->path != NULL ? "path" : "url";
    const char *place = place_of(pin);
    const struct af_toml_item *package = checker->packages;
    for (; package != NULL; package = package->next) {
        const struct af_toml_item *source = af_toml_get(package, "source");
        const struct af_toml_item *found = af_toml_get(source, key);
        if (is_named(package, checker->lock->package) && found != NULL && found->text != NULL &&
            is_place(found->text, place))
            return package;
    }
    return NULL;
}

/*
 * The hash of the pin's wheel in uv.lock, without "sha256:"; NULL: none. Of an
 * index, uv locks all files of the version.
 */
static const char *locked_hash(const struct af_toml_item *package, const struct af_pin *pin)
{
    const struct af_toml_item *wheels = af_toml_get(package, "wheels");
    const struct af_toml_item *wheel = wheels == NULL ? NULL : wheels->first;
    for (; pin->index != NULL && wheel != NULL; wheel = wheel->next) {
        const struct af_toml_item *url = af_toml_get(wheel, "url");
        if (url != NULL && url->text != NULL && af_url_names_file(url->text, pin->file))
            break;
    }
    const struct af_toml_item *hash = af_toml_get(wheel, "hash");
    return hash != NULL && hash->text != NULL && af_starts_with(hash->text, "sha256:")
               ? hash->text + strlen("sha256:")
               : NULL;
}

static void check_hash(struct checker *checker, const struct af_pin *pin,
                       const struct af_toml_item *package)
{
    struct af_arena *arena = checker->lock->arena;
    const char *hash = locked_hash(package, pin);
    const char *shown = hash == NULL ? "none" : af_text_scrub(arena, hash, 80);
    if (pin->facts.sha256 == NULL)
        add(checker, AF_UNKNOWN, "hash",
            af_arena_format(arena,
                            "uv.lock has %s, but the right hash is unknown: name the folder of "
                            "the file with --from",
                            shown));
    else if (hash != NULL && af_sha256_equal(hash, pin->facts.sha256))
        add(checker, AF_YES, "hash", af_arena_format(arena, "sha256 %s", shown));
    else
        add(checker, AF_NO, "hash",
            af_arena_format(arena, "uv.lock has sha256 %s, but the file has %s", shown,
                            pin->facts.sha256));
}

/* The version that uv must have recorded: for a URL, the one in the file name. */
static const char *expected_version(struct af_config_lock *lock, const struct af_pin *pin)
{
    char normal[AF_VERSION_LOCAL_BYTES + 64];
    struct af_version version;
    bool is_plain = pin->path != NULL && af_ends_with(pin->path, pin->plain);
    const char *local = pin->wheel->local;
    const char *text = is_plain || local == NULL
                           ? pin->version
                           : af_arena_format(lock->arena, "%s+%s", pin->version, local);
    if (text == NULL || !af_version_parse(text, strlen(text), &version))
        return text;
    return af_arena_text(lock->arena, af_version_format(&version, true, normal, sizeof normal));
}

static void check_version(struct checker *checker, const struct af_pin *pin,
                          const struct af_toml_item *package)
{
    struct af_config_lock *lock = checker->lock;
    const char *found = text_of(checker, package, "version");
    const char *wanted = expected_version(lock, pin);
    bool good = wanted != NULL && af_equal_fold(found, wanted);
    add(checker, good ? AF_YES : AF_NO, "version",
        good ? found
             : af_arena_format(lock->arena,
                               "uv.lock has %s, not %s: its dependency-metadata was ignored",
                               found, wanted == NULL ? "" : wanted));
}

static void check_pin(struct checker *checker, const struct af_pin *pin)
{
    struct af_arena *arena = checker->lock->arena;
    const struct af_toml_item *package = find_pin(checker, pin);
    const char *place = place_of(pin);
    if (package == NULL) {
        add(checker, AF_NO, "locked",
            af_arena_format(arena,
                            "%s is not in uv.lock: was it made before the project was changed, "
                            "or is its Python outside requires-python?",
                            place));
        return;
    }
    add(checker, AF_YES, "locked", place);
    check_version(checker, pin, package);
    check_hash(checker, pin, package);
}

/* Every flash-attn in the file must be one of the pins. */
static void check_others(struct checker *checker)
{
    struct af_config_lock *lock = checker->lock;
    const struct af_toml_item *package = checker->packages;
    for (; package != NULL; package = package->next) {
        bool ours = !is_named(package, lock->package);
        for (size_t i = 0; !ours && i < lock->pin_count; i++)
            ours = !lock->is_build && find_pin(checker, &lock->pins[i]) == package;
        const char *version = ours ? NULL : text_of(checker, package, "version");
        if (lock->is_build && version != NULL) {
            bool good = af_equal(version, lock->pins[0].version);
            add(checker, good ? AF_YES : AF_NO, "locked",
                af_arena_format(lock->arena, "%s %s from the index, to be built", lock->package,
                                version));
        } else if (version != NULL) {
            add(checker, AF_NO, "only ours",
                af_arena_format(
                    lock->arena,
                    "uv.lock also has %s %s from elsewhere: the dependency's marker "
                    "allows more machines than its sources do",
                    lock->package, version));
        }
    }
}

/* torch's locked versions: at least one must be the one that the pin needs. */
static void check_torch(struct checker *checker, const struct af_pin *pin)
{
    struct af_config_lock *lock = checker->lock;
    const char *found = "no torch";
    bool good = false;
    if (pin->torch == NULL)
        return;
    const char *specifier = af_arena_format(lock->arena, "==%s.*", pin->torch);
    const struct af_toml_item *package = checker->packages;
    for (; specifier != NULL && package != NULL && !good; package = package->next) {
        struct af_version version;
        if (!is_named(package, "torch"))
            continue;
        found = text_of(checker, package, "version");
        good = af_version_parse(found, strlen(found), &version) &&
               af_specifier_contains(specifier, &version) == AF_YES;
    }
    add(checker, good ? AF_YES : AF_NO, "torch",
        af_arena_format(lock->arena, good ? "%s, as the wheel needs %s" : "%s, and not %s",
                        found, pin->torch));
}

enum anyflash_status af_config_check_uv(struct af_config_lock *lock, struct af_span text,
                                        const char *name,
                                        const struct af_config_lock_check **checks_out,
                                        size_t *count_out, struct anyflash_error *err)
{
    struct af_toml toml;
    enum anyflash_status status = af_toml_parse(&toml, lock->arena, text, name, err);
    if (status != ANYFLASH_OK)
        return status;
    struct checker checker = {.lock = lock};
    const struct af_toml_item *list = af_toml_get(toml.root, "package");
    checker.packages = list == NULL ? NULL : list->first;
    checker.checks = af_arena_array(lock->arena, CHECKS_MAX, sizeof *checker.checks);
    if (checker.checks == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; !lock->is_build && i < lock->pin_count; i++)
        check_pin(&checker, &lock->pins[i]);
    check_others(&checker);
    if (lock->is_build && checker.count == 0)
        add(&checker, AF_NO, "locked", "flash-attn is not in uv.lock");
    for (size_t i = 0; i < lock->pin_count; i++)
        check_torch(&checker, &lock->pins[i]);
    *checks_out = checker.checks;
    *count_out = checker.count;
    return lock->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
