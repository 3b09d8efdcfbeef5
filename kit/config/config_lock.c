/*
 * config_lock.c: turns decisions into pins: which wheel for which marker, and
 * the source and version that make the tools accept it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/config/config.h"
#include "kit/formats/wheel_name.h"

#define NOTE_BYTES 1024

void af_config_lock_note(struct af_config_lock *lock, const char *format, ...)
{
    char text[NOTE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < lock->note_count; i++)
        if (af_equal(lock->notes[i], text))
            return;
    if (lock->note_count < AF_CONFIG_NOTES_MAX)
        lock->notes[lock->note_count++] = af_arena_text(lock->arena, text);
}

/* The marker for the wheel's Python tags; "" for any; NULL if they are not recognised. */
static const char *python_marker(struct af_arena *arena, const struct af_catalog_wheel *wheel)
{
    int64_t minor = 0;
    if (wheel->python == NULL || strstr(wheel->python, "py3") != NULL)
        return "";
    if (!af_starts_with(wheel->python, "cp3") ||
        !af_parse_i64(wheel->python + 3, 0, 99, &minor))
        return NULL;
    const char *operator= af_equal(wheel->abi, "abi3") ? ">=" : "==";
    return af_arena_format(arena, "python_version %s '3.%d'", operator,(int) minor);
}

/* The machine's name in a platform tag: "x86_64" of "manylinux_2_28_x86_64". */
static const char *tag_machine(const char *platform)
{
    static const char *const names[] = {"x86_64",     "aarch64", "ppc64le", "riscv64",
                                        "universal2", "arm64",   "amd64"};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (af_ends_with(platform, names[i]))
            return names[i];
    return NULL;
}

/* The marker for a platform tag or "linux_ARCH"; "" for any; NULL: not recognised. */
static const char *platform_marker(struct af_arena *arena, const char *platform)
{
    const char *machine = platform == NULL ? NULL : tag_machine(platform);
    if (platform == NULL || strcmp(platform, "any") == 0)
        return "";
    bool windows = af_starts_with(platform, "win");
    bool mac = af_starts_with(platform, "macos");
    if (machine == NULL || (!windows && !mac && strstr(platform, "linux") == NULL))
        return NULL;
    if (mac && strcmp(machine, "universal2") == 0)
        return "sys_platform == 'darwin'";
    if (windows && strcmp(machine, "arm64") != 0)
        machine = "AMD64"; /* as platform.machine() returns it there */
    return af_arena_format(arena, "sys_platform == '%s' and platform_machine == '%s'",
                           windows ? "win32"
                           : mac   ? "darwin"
                                   : "linux",
                           windows && strcmp(machine, "arm64") == 0 ? "ARM64" : machine);
}

/* "A and B"; either may be empty. */
static const char *join_markers(struct af_arena *arena, const char *a, const char *b)
{
    return a[0] == '\0' ? b : b[0] == '\0' ? a : af_arena_format(arena, "%s and %s", a, b);
}

/* "cu128" or "rocm7.2" of the torch that the pin is for. */
static const char *torch_build(struct af_arena *arena, const struct af_pin *pin)
{
    const char *version = af_fact_text_or(&pin->machine->torch.version, "");
    const char *plus = strchr(version, '+');
    if (pin->rung->torch_cuda != NULL)
        return pin->rung->torch_cuda;
    if (plus != NULL)
        return plus + 1;
    return pin->wheel->rocm ? "its ROCm"
                            : af_arena_format(arena, "cu%d*", pin->wheel->cuda_major);
}

/* Whether a plain install brings a torch for another CUDA than the wheel's, or without ROCm. */
static bool needs_index(struct af_arena *arena, const struct af_pin *pin)
{
    const struct af_catalog_wheel *wheel = pin->wheel;
    if (wheel->rocm)
        return true;
    if (wheel->torch_major < 0 || wheel->cuda_major < 0)
        return false;
    const struct af_catalog_torch_release *release =
        af_tables_torch(wheel->torch_major, wheel->torch_minor);
    const char *platform =
        af_arena_format(arena, "%s_%s", af_fact_text_or(&pin->machine->platform.os, "linux"),
                        af_fact_text_or(&pin->machine->platform.arch, "x86_64"));
    const struct af_catalog_torch_variant *usual =
        release == NULL ? NULL : af_tables_default(release, platform);
    return usual != NULL && usual->cuda_major != wheel->cuda_major;
}

static void fill_wheel(struct af_config_lock *lock, struct af_pin *pin)
{
    const struct af_catalog_wheel *wheel = pin->wheel;
    pin->version = wheel->version;
    pin->url = af_url_encode_plus(lock->arena, wheel->url);
    pin->facts.sha256 = af_catalog_sha256(lock->arena, wheel);
    pin->file = wheel->filename;
    pin->plain = af_wheel_plain_name(lock->arena, wheel->filename);
    pin->python_marker = python_marker(lock->arena, wheel);
    pin->platform_marker = platform_marker(lock->arena, wheel->platform);
    pin->python_minor = af_equal(wheel->abi, "abi3") ? -1 : wheel->python_minor;
    if (wheel->torch_major >= 0 && wheel->torch_minor >= 0)
        pin->torch =
            af_arena_format(lock->arena, "%d.%d", wheel->torch_major, wheel->torch_minor);
    if (needs_index(lock->arena, pin))
        pin->torch_build = torch_build(lock->arena, pin);
    lock->package = af_wheel_listed_name(lock->arena, wheel->package);
}

void af_config_lock_note_torch(struct af_config_lock *lock, const char *where)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_pin *pin = &lock->pins[i];
        if (pin->torch_build != NULL)
            af_config_lock_note(lock,
                                "a plain install gets torch %s %s: name PyTorch's wheel index "
                                "for %s %s",
                                pin->torch,
                                pin->wheel->rocm ? "without ROCm"
                                                 : "for a different CUDA from the wheel's",
                                pin->torch_build, where);
    }
}

/* Whether some machine would satisfy both markers. */
static bool overlap(const struct af_pin *a, const struct af_pin *b)
{
    bool python =
        a->python_minor < 0 || b->python_minor < 0 || a->python_minor == b->python_minor;
    return python && (a->platform_marker[0] == '\0' || b->platform_marker[0] == '\0' ||
                      strcmp(a->platform_marker, b->platform_marker) == 0);
}

static enum anyflash_status check_pin(struct af_config_lock *lock, const struct af_pin *pin,
                                      bool *is_known_out, struct anyflash_error *err)
{
    *is_known_out = false;
    if (pin->python_marker == NULL || pin->platform_marker == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "no marker can say for which machines '%s' is", pin->file);
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_pin *other = &lock->pins[i];
        if (other->wheel == pin->wheel &&
            strcmp(other->platform_marker, pin->platform_marker) == 0)
            *is_known_out = true;
        else if (overlap(pin, other))
            return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                           "'%s' and '%s' need different wheels (%s, %s) and no marker tells "
                           "them apart",
                           other->machine->name, pin->machine->name, other->file, pin->file);
    }
    return ANYFLASH_OK;
}

/* Adds the pin of a decision for the group of `machine`. Equal pins become one. */
static enum anyflash_status add_pin(struct af_config_lock *lock,
                                    const struct af_decision *decision,
                                    const struct af_machine *machine,
                                    struct anyflash_error *err)
{
    bool is_known = false;
    struct af_pin pin = {.machine = machine, .rung = &decision->rungs[decision->recommended]};
    const struct af_reason *problem = decision->environment_problem;
    if (problem != NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "nothing can be locked for '%s': %s: %s",
                       machine->name, af_reasons[problem->id].message, problem->detail);
    if (!decision->possible)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "nothing is possible for '%s'%s%s",
                       machine->name, decision->missing_fact != NULL ? ": state the " : "",
                       decision->missing_fact != NULL ? decision->missing_fact : "");
    pin.wheel = pin.rung->wheel;
    if (pin.wheel == NULL || pin.wheel->url == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "the decision for '%s' is %s: there is no flash-attn to lock%s",
                       machine->name, af_rung_name(pin.rung->kind),
                       pin.rung->kind == AF_RUNG_BUILD
                           ? "; `anyflash build` makes a wheel, and `uv add FILE` locks that"
                           : "");
    fill_wheel(lock, &pin);
    if (lock->pin_count == AF_PINS_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "more than %d machines", AF_PINS_MAX);
    enum anyflash_status status = check_pin(lock, &pin, &is_known, err);
    if (status != ANYFLASH_OK || is_known)
        return status;
    lock->pins[lock->pin_count++] = pin;
    return ANYFLASH_OK;
}

/* Whether no marker can distinguish the machines. */
static bool same_group(const struct af_machine *a, const struct af_machine *b)
{
    const char *version_a = af_fact_text_or(&a->python.version, "");
    const char *version_b = af_fact_text_or(&b->python.version, "");
    size_t len_a = strcspn(version_a, ".");
    size_t len_b = strcspn(version_b, ".");
    len_a += version_a[len_a] == '.' ? 1 + strcspn(version_a + len_a + 1, ".") : 0;
    len_b += version_b[len_b] == '.' ? 1 + strcspn(version_b + len_b + 1, ".") : 0;
    return len_a == len_b && strncmp(version_a, version_b, len_a) == 0 &&
           strcmp(af_fact_text_or(&a->platform.os, ""), af_fact_text_or(&b->platform.os, "")) ==
               0 &&
           strcmp(af_fact_text_or(&a->platform.arch, ""),
                  af_fact_text_or(&b->platform.arch, "")) == 0;
}

/* Makes one decision for the group of machine `first`, which is in no earlier group. */
static enum anyflash_status decide_group(struct af_config_lock *lock,
                                         const struct af_catalog *catalog,
                                         const struct af_machine *const *machines,
                                         size_t machine_count, size_t first,
                                         const struct af_fit_options *options,
                                         struct anyflash_error *err)
{
    const struct af_machine **group = af_arena_array(lock->arena, machine_count, sizeof *group);
    size_t count = 0;
    for (size_t i = 0; i < first; i++)
        if (same_group(machines[i], machines[first]))
            return ANYFLASH_OK;
    for (size_t i = first; i < machine_count; i++)
        if (same_group(machines[i], machines[first]))
            group[count++] = machines[i];
    struct af_decision *decision = &lock->decisions[lock->decision_count];
    enum anyflash_status status = af_fit_decide(catalog, group, count, options, decision, err);
    if (status != ANYFLASH_OK)
        return status;
    lock->decision_count++;
    return add_pin(lock, decision, machines[first], err);
}

enum anyflash_status af_config_lock_decide(struct af_config_lock *lock, struct af_arena *arena,
                                           const struct af_catalog *catalog,
                                           const struct af_machine *const *machines,
                                           size_t machine_count,
                                           const struct af_fit_options *options,
                                           struct anyflash_error *err)
{
    *lock = (struct af_config_lock){
        .arena = arena,
        .package = "flash-attn",
        .decisions = af_arena_array(arena, machine_count + 1, sizeof *lock->decisions)};
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < machine_count; i++)
        status = decide_group(lock, catalog, machines, machine_count, i, options, err);
    return status;
}

void af_config_lock_release(struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->decision_count; i++)
        af_decision_release(&lock->decisions[i]);
    lock->decision_count = 0;
}

/* Whether the version that uv would record as installed has the local part of the name. */
static enum af_answer is_honest(const struct af_pin *pin)
{
    if (strcmp(pin->plain, pin->file) == 0)
        return AF_YES;
    if (pin->facts.metadata_version != NULL)
        return strchr(pin->facts.metadata_version, '+') != NULL ? AF_YES : AF_NO;
    return pin->wheel->metadata_has_local;
}

static void name_pin(struct af_config_lock *lock, struct af_pin *pin, enum af_pin_source source)
{
    pin->metadata_has_local = is_honest(pin);
    pin->path = NULL;
    if (source == AF_PIN_PATH || (source == AF_PIN_AUTO && pin->metadata_has_local == AF_NO))
        pin->path = af_arena_format(lock->arena, "wheels/%s",
                                    pin->metadata_has_local == AF_NO ? pin->plain : pin->file);
}

/* "(A or B) and P" if all share P; else "(A and P) or (B and Q)". */
static const char *union_marker(struct af_config_lock *lock)
{
    const char *platform = lock->pins[0].platform_marker;
    const char *text = "";
    bool shared = true;
    for (size_t i = 0; i < lock->pin_count; i++)
        shared = shared && strcmp(lock->pins[i].platform_marker, platform) == 0;
    if (lock->pin_count == 1)
        return lock->pins[0].marker;
    for (size_t i = 0; i < lock->pin_count; i++)
        text = af_arena_format(lock->arena, shared ? "%s%s%s" : "%s%s(%s)", text,
                               i > 0 ? " or " : "",
                               shared ? lock->pins[i].python_marker : lock->pins[i].marker);
    if (!shared || platform[0] == '\0')
        return text;
    return af_arena_format(lock->arena, "(%s) and %s", text, platform);
}

void af_config_lock_finish(struct af_config_lock *lock, enum af_pin_source source)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        struct af_pin *pin = &lock->pins[i];
        pin->marker = join_markers(lock->arena, pin->python_marker, pin->platform_marker);
        if (pin->marker[0] == '\0')
            pin->marker = "python_version >= '3'";
        name_pin(lock, pin, source);
    }
    if (lock->pin_count > 0)
        lock->marker = union_marker(lock);
}
