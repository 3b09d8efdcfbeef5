/*
 * config_poetry.c: pyproject.toml for Poetry, and the manifest of pixi. Both
 * accept a wheel only by its URL.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/plan/config_parts.h"

/* { url = "...", markers = "..." }, or a list of them. */
static const char *poetry_value(struct af_config_lock *lock)
{
    const char *text = lock->pin_count > 1 ? "[\n" : "";
    for (size_t i = 0; text != NULL && i < lock->pin_count; i++) {
        const char *url = af_toml_quote(lock->arena, lock->pins[i].url);
        const char *marker = af_toml_quote(lock->arena, lock->pins[i].marker);
        text = af_arena_format(lock->arena,
                               lock->pin_count > 1 ? "%s    { url = %s, markers = %s },\n"
                                                   : "%s{ url = %s, markers = %s }",
                               text, url == NULL ? "" : url, marker == NULL ? "" : marker);
    }
    return lock->pin_count > 1 && text != NULL ? af_arena_format(lock->arena, "%s]", text)
                                               : text;
}

/* The torch that all pins share, such as "2.8.*", or NULL. */
static const char *one_torch(struct af_config_lock *lock)
{
    for (size_t i = 1; i < lock->pin_count; i++)
        if (!af_equal(lock->pins[0].torch, lock->pins[i].torch))
            return NULL;
    return lock->pins[0].torch == NULL
               ? NULL
               : af_arena_format(lock->arena, "%s.*", lock->pins[0].torch);
}

/* Pins torch at `path` if the file does not mention it; else adds a note. */
static enum anyflash_status pin_torch(struct af_config_lock *lock, struct af_toml *toml,
                                      struct af_toml_path path, struct anyflash_error *err)
{
    const char *torch = one_torch(lock);
    const char *quoted = torch == NULL ? NULL : af_toml_quote(lock->arena, torch);
    if (lock->arena->failed)
        return af_fail_memory(err);
    if (quoted != NULL && af_toml_find(toml, path) == NULL)
        return af_toml_set(toml, path, quoted, err);
    for (size_t i = 0; i < lock->pin_count; i++)
        if (lock->pins[i].torch != NULL && !af_equal(af_toml_text(toml, path), torch))
            af_config_lock_note(
                lock, "the torch line of %s is unchanged; '%s' was built for torch %s",
                toml->name, lock->pins[i].file, lock->pins[i].torch);
    return ANYFLASH_OK;
}

enum anyflash_status af_config_poetry(struct af_config_lock *lock,
                                      const struct af_config_options *options,
                                      struct af_span old, const char *name,
                                      struct af_span *new_out, struct anyflash_error *err)
{
    struct af_toml toml;
    (void)options;
    enum anyflash_status status = af_config_lock_wants_wheels(lock, "Poetry", err);
    if (status == ANYFLASH_OK)
        status = af_toml_parse(&toml, lock->arena, old, name, err);
    const char *value = poetry_value(lock);
    if (value == NULL || lock->arena->failed)
        return af_fail_memory(err);
    if (status == ANYFLASH_OK)
        status = pin_torch(lock, &toml, AF_TOML_PATH("tool", "poetry", "dependencies", "torch"),
                           err);
    if (status == ANYFLASH_OK)
        status = af_toml_set(
            &toml, AF_TOML_PATH("tool", "poetry", "dependencies", lock->package), value, err);
    if (status == ANYFLASH_OK)
        *new_out = toml.text;
    return status;
}

/* "linux-64" for the platform part of a pin's marker; NULL: pixi has no name for it. */
static const char *pixi_platform(const struct af_pin *pin)
{
    static const struct {
        const char *marker;
        const char *platform;
    } words[] = {
        {"'linux' and platform_machine == 'x86_64'", "linux-64"},
        {"'linux' and platform_machine == 'aarch64'", "linux-aarch64"},
        {"'win32' and platform_machine == 'AMD64'", "win-64"},
        {"'darwin' and platform_machine == 'arm64'", "osx-arm64"},
    };
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (strstr(pin->platform_marker, words[i].marker) != NULL)
            return words[i].platform;
    return NULL;
}

/* KEYS + rest; in a pyproject.toml below tool.pixi. */
static struct af_toml_path pixi_path(struct af_config_lock *lock, bool in_pyproject,
                                     const char *const *rest, size_t count)
{
    const char **keys = af_arena_array(lock->arena, count + 2, sizeof *keys);
    size_t at = 0;
    if (keys == NULL)
        return (struct af_toml_path){NULL, 0};
    if (in_pyproject) {
        keys[at++] = "tool";
        keys[at++] = "pixi";
    }
    for (size_t i = 0; i < count; i++)
        keys[at++] = rest[i];
    return (struct af_toml_path){keys, at};
}

/* The package from conda-forge, which is built there for conda-forge's torch. */
static enum anyflash_status set_conda(struct af_config_lock *lock, struct af_toml *toml,
                                      bool in_pyproject, struct anyflash_error *err)
{
    const char *torch[] = {"dependencies", "pytorch-gpu"};
    const char *flash[] = {"dependencies", lock->package};
    struct af_toml_path torch_path = pixi_path(lock, in_pyproject, torch, 2);
    struct af_toml_path flash_path = pixi_path(lock, in_pyproject, flash, 2);
    if (lock->arena->failed)
        return af_fail_memory(err);
    enum anyflash_status status = pin_torch(lock, toml, torch_path, err);
    if (status == ANYFLASH_OK && af_toml_find(toml, flash_path) == NULL)
        status = af_toml_set(toml, flash_path, "\"*\"", err);
    af_config_lock_note(lock, "torch comes from conda-forge, so flash-attn does too: "
                              "conda-forge's builds state which torch they are for");
    return status;
}

static enum anyflash_status set_pypi(struct af_config_lock *lock, struct af_toml *toml,
                                     bool in_pyproject, struct anyflash_error *err)
{
    const char *seen[AF_PINS_MAX];
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < lock->pin_count; i++) {
        const struct af_pin *pin = &lock->pins[i];
        seen[i] = pixi_platform(pin);
        if (seen[i] == NULL)
            return af_fail(err, ANYFLASH_E_UNSUPPORTED, "pixi has no platform for '%s'",
                           pin->file);
        for (size_t j = 0; j < i; j++)
            if (seen[j] == seen[i])
                return af_fail(
                    err, ANYFLASH_E_UNSUPPORTED,
                    "pixi distinguishes platforms, not Python versions, and '%s' and "
                    "'%s' have the same platform",
                    lock->pins[j].file, pin->file);
        const char *keys[] = {"target", seen[i], "pypi-dependencies", lock->package};
        const char *torch[] = {"target", seen[i], "pypi-dependencies", "torch"};
        struct af_toml_path path = pixi_path(lock, in_pyproject, keys, AF_COUNT(keys));
        struct af_toml_path torch_path = pixi_path(lock, in_pyproject, torch, AF_COUNT(torch));
        const char *url = af_toml_quote(lock->arena, pin->url);
        const char *value =
            af_arena_format(lock->arena, "{ url = %s }", url == NULL ? "" : url);
        const char *version =
            pin->torch == NULL ? NULL : af_arena_format(lock->arena, "\"==%s.*\"", pin->torch);
        if (lock->arena->failed)
            return af_fail_memory(err);
        status = version == NULL || af_toml_find(toml, torch_path) != NULL
                     ? ANYFLASH_OK
                     : af_toml_set(toml, torch_path, version, err);
        if (status == ANYFLASH_OK)
            status = af_toml_set(toml, path, value, err);
    }
    return status;
}

bool af_config_lock_is_conda(const struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_package *torch = af_machine_package(lock->pins[i].machine, "torch");
        const char *kind = af_fact_text_or(&lock->pins[i].machine->python.kind, "");
        bool in_conda = strcmp(kind, "conda") == 0 || strcmp(kind, "pixi") == 0;
        if (!in_conda || (torch != NULL && torch->installer.state == AF_FACT_KNOWN &&
                          !af_fact_is(&torch->installer, "conda")))
            return false;
    }
    return true;
}

enum anyflash_status af_config_pixi(struct af_config_lock *lock,
                                    const struct af_config_options *options, struct af_span old,
                                    const char *name, struct af_span *new_out,
                                    struct anyflash_error *err)
{
    struct af_toml toml;
    (void)options;
    bool in_pyproject = strcmp(name, "pyproject.toml") == 0;
    enum anyflash_status status = af_toml_parse(&toml, lock->arena, old, name, err);
    bool is_conda = af_config_lock_is_conda(lock);
    if (status == ANYFLASH_OK && !is_conda)
        status = af_config_lock_wants_wheels(lock, "pixi", err);
    if (status == ANYFLASH_OK)
        status = is_conda ? set_conda(lock, &toml, in_pyproject, err)
                          : set_pypi(lock, &toml, in_pyproject, err);
    if (status == ANYFLASH_OK)
        *new_out = toml.text;
    return status;
}
