/*
 * config_fragment.c: text that the user pastes: a conda environment file, lines
 * of a Dockerfile. Existing files of these kinds are not edited.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/plan/config_parts.h"

static enum anyflash_status finish(struct af_config_lock *lock, struct af_text *out,
                                   struct af_span *new_out, struct anyflash_error *err)
{
    new_out->len = out->len;
    new_out->data =
        out->failed ? NULL : af_arena_text_n(lock->arena, af_text_get(out), out->len);
    af_text_release(out);
    return new_out->data == NULL || lock->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

static enum anyflash_status want_one(const struct af_config_lock *lock, const char *tool,
                                     struct anyflash_error *err)
{
    enum anyflash_status status = af_config_lock_wants_wheels(lock, tool, err);
    if (status == ANYFLASH_OK && lock->pin_count > 1)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED,
                         "%s has one platform and one Python: ask for one machine", tool);
    return status;
}

enum anyflash_status af_config_conda(struct af_config_lock *lock,
                                     const struct af_config_options *options,
                                     struct af_span old, const char *name,
                                     struct af_span *new_out, struct anyflash_error *err)
{
    struct af_text out = {0};
    const struct af_pin *pin = &lock->pins[0];
    (void)options;
    (void)old;
    (void)name;
    bool is_conda = af_config_lock_is_conda(lock);
    enum anyflash_status status =
        is_conda ? ANYFLASH_OK : want_one(lock, "an environment file of conda", err);
    if (status != ANYFLASH_OK)
        return status;
    const char *equals = pin->torch == NULL ? "" : "=";
    const char *torch =
        pin->torch == NULL ? "" : af_arena_format(lock->arena, "%s.*", pin->torch);
    const char *url = af_url_with_sha256(lock->arena, pin->url, pin->facts.sha256);
    if (lock->arena->failed)
        return af_fail_memory(err);
    af_text_add(&out, "channels:\n  - conda-forge\ndependencies:\n");
    if (pin->python_minor >= 0)
        af_text_format(&out, "  - python=3.%d\n", pin->python_minor);
    if (is_conda) {
        af_text_format(&out, "  - pytorch-gpu%s%s\n  - %s\n", equals, torch, lock->package);
        return finish(lock, &out, new_out, err);
    }
    af_text_format(&out, "  - pip\n  - pip:\n      - torch%s%s%s\n", equals, equals, torch);
    af_text_format(&out, "      - \"%s @ %s\"\n", lock->package, url);
    af_config_lock_note_hashes(lock);
    return finish(lock, &out, new_out, err);
}

enum anyflash_status af_config_dockerfile(struct af_config_lock *lock,
                                          const struct af_config_options *options,
                                          struct af_span old, const char *name,
                                          struct af_span *new_out, struct anyflash_error *err)
{
    struct af_text out = {0};
    const struct af_pin *pin = &lock->pins[0];
    (void)options;
    (void)old;
    (void)name;
    enum anyflash_status status = want_one(lock, "a Dockerfile", err);
    if (status != ANYFLASH_OK)
        return status;
    af_text_format(&out, "# %s %s", lock->package, pin->version);
    if (pin->torch != NULL)
        af_text_format(&out, " for torch %s", pin->torch);
    if (pin->python_minor >= 0)
        af_text_format(&out, ", Python 3.%d", pin->python_minor);
    af_text_add(&out, "\n");
    if (pin->facts.sha256 != NULL)
        af_text_format(&out, "ADD --checksum=sha256:%s \\\n    %s \\\n    /tmp/wheels/%s\n",
                       pin->facts.sha256, pin->url, pin->file);
    else
        af_text_format(&out, "ADD %s \\\n    /tmp/wheels/%s\n", pin->url, pin->file);
    if (pin->torch != NULL)
        af_text_format(&out,
                       "RUN python -c \"import importlib.metadata as m; v = "
                       "m.version('torch'); assert v.startswith('%s.'), v\"\n",
                       pin->torch);
    af_text_format(
        &out, "RUN python -m pip install --no-cache-dir --no-deps \\\n    '/tmp/wheels/%s'\n",
        pin->file);
    af_text_add(&out, "RUN python -m pip install --no-cache-dir einops\n");
    af_config_lock_note_hashes(lock);
    return finish(lock, &out, new_out, err);
}
