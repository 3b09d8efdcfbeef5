/*
 * given.c: applies the "key=value" words of --given to a machine: the table of
 * keys and shared helpers. given_*.c parse the values. A key with a dot names a
 * fact of fields.inc directly: platform.kernel=6.1.
 */
#include "kit/machine/given.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define VALUE_BYTES 400u

struct key {
    const char *name;
    void (*apply)(struct af_given *given);
    const char *doc;
};

static const struct key keys[] = {
    {"os", af_given_os, "linux, windows, macos, or a description: Ubuntu 22.04, WSL2, Colab"},
    {"arch", af_given_arch, "x86_64, aarch64 and their other names"},
    {"platform", af_given_platform,
     "a platform tag of wheels: manylinux_2_28_x86_64, win_amd64"},
    {"distribution", af_given_distribution,
     "ubuntu 22.04; gives the C library and libstdc++ of that release"},
    {"glibc", af_given_libc, "2.35"},
    {"musl", af_given_libc, "1.2"},
    {"libc", af_given_libc, "glibc 2.35 or musl 1.2"},
    {"glibcxx", af_given_glibcxx, "3.4.30"},
    {"wsl", af_given_named_fact, "true or false"},
    {"container", af_given_named_fact, "docker, apptainer, ...; none"},
    {"python", af_given_python, "3.12, 3.12.4, 3.13t, cp312, pypy3.10"},
    {"torch", af_given_torch,
     "2.9.1+cu128, 2.10.0.dev20250901+cu130, none; its local version gives CUDA or ROCm"},
    {"torch_cuda", af_given_torch_cuda, "12.8, cu128, cpu"},
    {"cxx11abi", af_given_named_fact, "true or false: the C++ ABI of torch"},
    {"flash_attn", af_given_flash_attn, "the installed version, or flash-attn-4 4.0.0b4; none"},
    {"xformers", af_given_package, "the installed version; none"},
    {"vllm", af_given_package, "the installed version; none"},
    {"transformers", af_given_package, "the installed version; none"},
    {"transformer_engine", af_given_package, "the installed version; none"},
    {"installer", af_given_installer,
     "uv, pip, conda, mamba, pixi, poetry, pdm; with a version: uv 0.13.8"},
    {"uv", af_given_tool, "its version; none"},
    {"pip", af_given_tool, "its version; none"},
    {"ninja", af_given_tool, "its version; none"},
    {"gpu", af_given_gpu, "RTX 4090; 8x A100; A100, T4; none or cpu"},
    {"sm", af_given_sm, "8.9, sm_90a, gfx942; one for all GPUs or one each: 9.0,8.0"},
    {"vram_gb", af_given_vram, "memory of each GPU in GiB"},
    {"driver", af_given_driver, "580.95.05 or 580; none"},
    {"cuda_api", af_given_cuda_api, "highest CUDA the driver supports: 13.0"},
    {"rocm", af_given_named_fact, "6.3; none"},
    {"visible_devices", af_given_visible_devices, "the value of CUDA_VISIBLE_DEVICES; unset"},
    {"cuda_toolkit", af_given_toolkit, "12.8.1; none"},
    {"nvcc", af_given_toolkit, "the same as cuda_toolkit"},
    {"gcc", af_given_compiler, "12.2; none"},
    {"clang", af_given_compiler, "17; none"},
    {"ram_gb", af_given_ram, "memory in GiB"},
    {"cores", af_given_cores, "usable cores"},
    {"disk_gb", af_given_disk, "free space in GiB where an install or a build writes"},
    {"env", af_given_variable, "an environment variable that is set: env=MAX_JOBS=2"},
};

const char *af_machine_given_key(size_t index, const char **doc_out)
{
    if (index >= AF_COUNT(keys))
        return NULL;
    *doc_out = keys[index].doc;
    return keys[index].name;
}

bool af_given_is_word(const char *text, size_t len, const char *words)
{
    for (const char *word = words; *word != '\0';) {
        size_t word_len = strcspn(word, "|");
        if (word_len == len && memcmp(text, word, len) == 0)
            return true;
        word += word_len + (word[word_len] == '|');
    }
    return false;
}

void af_given_begin(struct af_given *given, const char *key, const char *value,
                    const char *source, struct af_origin origin)
{
    char *lower = af_arena_text(given->arena, value);
    for (char *at = lower; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    given->key = key;
    given->value = value;
    given->lower = lower;
    given->source = source;
    given->origin = origin;
    given->remark = NULL;
}

static const char *source_of(const struct af_given *given, const char *why)
{
    return why == NULL ? given->source
                       : af_arena_format(given->arena, "%s: %s", given->source, why);
}

void af_given_text(struct af_given *given, struct af_fact *fact, const char *text,
                   const char *why)
{
    if (text == NULL)
        return;
    af_fact_text(given->arena, fact, text, source_of(given, why));
    fact->origin = given->origin;
}

void af_given_absent(struct af_given *given, struct af_fact *fact, const char *why)
{
    af_fact_absent(given->arena, fact, source_of(given, why));
    fact->origin = given->origin;
}

void af_given_int(struct af_given *given, struct af_fact *fact, int64_t number)
{
    af_fact_int(given->arena, fact, number, given->source);
    fact->origin = given->origin;
}

void af_given_bool(struct af_given *given, struct af_fact *fact, bool truth, const char *why)
{
    af_fact_bool(given->arena, fact, truth, source_of(given, why));
    fact->origin = given->origin;
}

void af_given_remark(struct af_given *given, const char *format, ...)
{
    char sentence[VALUE_BYTES + 200];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    given->remark =
        af_arena_format(given->arena, "%s=%s: %s", given->key, given->value, sentence);
}

void af_given_unreadable(struct af_given *given, const char *what)
{
    af_given_remark(given, "%s", what);
    given->problem = what;
}

void af_given_unclear(struct af_given *given, struct af_fact *fact, const char *what)
{
    af_given_remark(given, "%s, so this stays unknown", what);
    given->problem = what;
    af_fact_unknown(given->arena, fact, "%s: %s", given->source, what);
    fact->origin = given->origin;
}

bool af_given_is_none(const struct af_given *given)
{
    static const char words[] = "none|no|null|absent|false|not installed";
    return given->lower[0] == '\0' ||
           af_given_is_word(given->lower, strlen(given->lower), words);
}

bool af_given_by(const struct af_fact *fact, const char *key)
{
    const char *word = fact->origin.kind == AF_ORIGIN_GIVEN ? fact->origin.word : NULL;
    return word != NULL &&
           (key == NULL || (af_starts_with(word, key) && word[strlen(key)] == '='));
}

const char *af_given_version(const struct af_given *given)
{
    const char *at = given->value;
    if (*at == 'v' || *at == 'V')
        at++;
    size_t len = strcspn(at, " (,;");
    char last = len == 0 ? 0 : (char)tolower((unsigned char)at[len - 1]);
    if (!isdigit((unsigned char)*at) || last == 'x' || last == '*')
        return NULL;
    return af_arena_text_n(given->arena, at, len);
}

static void give_truth(struct af_given *given, struct af_fact *fact)
{
    bool yes = af_given_is_word(given->lower, strlen(given->lower), "true|yes|on|1");
    if (yes || af_given_is_word(given->lower, strlen(given->lower), "false|no|off|0"))
        af_given_bool(given, fact, yes, NULL);
    else
        af_given_unclear(given, fact, "not true or false");
}

/* The fact "group.field" of a record, or NULL. */
static struct af_fact *find_fact(struct af_machine *machine, const char *name,
                                 enum af_fact_type *type_out)
{
    size_t group_count;
    const struct af_group *groups = af_machine_groups(&group_count);
    for (size_t g = 0; g < group_count; g++) {
        size_t len = strlen(groups[g].name);
        if (groups[g].is_list || strncmp(name, groups[g].name, len) != 0 || name[len] != '.')
            continue;
        for (size_t f = 0; f < groups[g].field_count; f++) {
            if (strcmp(name + len + 1, groups[g].fields[f].name) == 0) {
                *type_out = groups[g].fields[f].type;
                return &af_machine_facts(machine, &groups[g], 0)[f];
            }
        }
    }
    return NULL;
}

/* Stores the items of a comma-separated value, without blanks around them. */
static void give_list(struct af_given *given, struct af_fact *fact)
{
    const char *items[64];
    size_t count = 0;
    const char *at = given->value;
    while (*at != '\0' && count < AF_COUNT(items)) {
        size_t len = strcspn(at, ",");
        struct af_span item = af_text_trim((struct af_span){at, len});
        if (item.len > 0)
            items[count++] = af_arena_text_n(given->arena, item.data, item.len);
        at += at[len] == ',' ? len + 1 : len;
    }
    af_fact_list(given->arena, fact, items, count, given->source);
    fact->origin = given->origin;
}

static void give_fact(struct af_given *given, struct af_fact *fact, enum af_fact_type type)
{
    int64_t number;
    if (type != AF_FACT_BOOL && af_given_is_none(given))
        af_given_absent(given, fact, NULL);
    else if (type == AF_FACT_TEXT)
        af_given_text(given, fact, given->value, NULL);
    else if (type == AF_FACT_BOOL)
        give_truth(given, fact);
    else if (type == AF_FACT_LIST)
        give_list(given, fact);
    else if (af_parse_i64(given->value, 0, INT64_MAX, &number))
        af_given_int(given, fact, number);
    else
        af_given_unclear(given, fact, "not a whole number");
}

void af_given_named_fact(struct af_given *given)
{
    static const char *const names[] = {"platform.wsl", "platform.container", "torch.cxx11abi",
                                        "driver.rocm"};
    enum af_fact_type type;
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        struct af_fact *fact = find_fact(given->machine, names[i], &type);
        if (af_equal(strchr(names[i], '.') + 1, given->key))
            give_fact(given, fact, type);
    }
}

/* Copies the row arrays, so that a failure leaves the machine's own unchanged. */
static void copy_rows(struct af_machine *machine)
{
    size_t group_count;
    const struct af_group *groups = af_machine_groups(&group_count);
    for (size_t g = 0; g < group_count; g++) {
        struct af_rows *list = af_machine_rows(machine, &groups[g]);
        if (!groups[g].is_list || list->count == 0)
            continue;
        /* twice as many: row_add expects room up to the next power of two */
        void *rows = af_arena_array(&machine->arena, 2 * list->count, groups[g].row_bytes);
        memcpy(rows, list->rows, list->count * groups[g].row_bytes);
        list->rows = rows;
    }
}

static enum anyflash_status refuse_key(const char *word, size_t len, struct anyflash_error *err)
{
    char known[320] = "";
    char shown[60];
    for (size_t i = 0, used = 0; i < AF_COUNT(keys) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : " ",
                                 keys[i].name);
    af_text_quote(shown, sizeof shown, word, len);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "--given: no key '%s'; there are: %s", shown,
                   known);
}

static bool apply(struct af_given *given)
{
    enum af_fact_type type;
    struct af_fact *fact = find_fact(given->machine, given->key, &type);
    if (fact != NULL) {
        give_fact(given, fact, type);
        return true;
    }
    for (size_t i = 0; i < AF_COUNT(keys); i++) {
        if (strcmp(given->key, keys[i].name) == 0) {
            keys[i].apply(given);
            return true;
        }
    }
    return false;
}

/* `source` and `line` are those of a text that says the word; NULL and 0: --given does. */
static enum anyflash_status apply_word(struct af_machine *machine, const char *word,
                                       const char *source, size_t line, bool strict,
                                       const char **remark_out, struct anyflash_error *err)
{
    const char *equals = strchr(word, '=');
    if (equals == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--given: expected key=value, for example torch=2.9.1");
    struct af_machine made = *machine;
    struct af_given given = {.machine = &made, .arena = &made.arena};
    struct af_span value = af_text_trim((struct af_span){equals + 1, strlen(equals + 1)});
    struct af_span key = af_text_trim((struct af_span){word, (size_t)(equals - word)});
    char shown[VALUE_BYTES];
    af_text_quote(shown, sizeof shown, value.data, value.len);
    copy_rows(&made);
    char *key_text = af_arena_text_n(given.arena, key.data, key.len);
    for (char *at = key_text; *at != '\0'; at++) /* "Torch-CUDA" is torch_cuda */
        *at = *at == '-' ? '_' : (char)tolower((unsigned char)*at);
    struct af_origin origin = {.kind = source == NULL ? AF_ORIGIN_GIVEN : AF_ORIGIN_LINE,
                               .line = line,
                               .word = af_arena_format(given.arena, "%s=%s", key_text, shown)};
    if (source == NULL)
        source = af_arena_format(given.arena, "--given %s", origin.word);
    af_given_begin(&given, key_text, af_arena_text(given.arena, shown), source, origin);
    bool known = apply(&given);
    if (known)
        af_given_derive(&given);
    machine->arena.newest = made.arena.newest;
    if (!known)
        return refuse_key(key.data, key.len, err);
    if (strict && given.problem != NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: %s", given.source, given.problem);
    *machine = made;
    *remark_out = given.remark;
    return ANYFLASH_OK;
}

enum anyflash_status af_machine_given(struct af_machine *machine, const char *word,
                                      const char **remark_out, struct anyflash_error *err)
{
    return apply_word(machine, word, NULL, 0, false, remark_out, err);
}

enum anyflash_status af_machine_given_on_line(struct af_machine *machine, const char *word,
                                              const char *source, size_t line,
                                              struct anyflash_error *err)
{
    const char *remark;
    return apply_word(machine, word, source, line, false, &remark, err);
}

enum anyflash_status af_machine_given_strictly(struct af_machine *machine, const char *word,
                                               const char **remark_out,
                                               struct anyflash_error *err)
{
    return apply_word(machine, word, NULL, 0, true, remark_out, err);
}
