/*
 * given_gpu.c: GPUs and their driver given by the user. `gpu` and `sm` describe
 * the same rows, in either order: "8x A100", "T4 x2", "RTX 4090, T4", "sm120 card".
 */
#include "kit/machine/given.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 64
#define UNSAID "not given"

static const char product[] = "that product";

/*
 * That a machine without such a GPU has no driver says nothing about the machine that is meant.
 */
static void forget_absent_driver(struct af_given *given)
{
    struct af_driver *driver = &given->machine->driver;
    struct af_fact *const facts[] = {&driver->kernel_version, &driver->user_version,
                                     &driver->cuda_api};
    for (size_t i = 0; i < AF_COUNT(facts); i++)
        if (facts[i]->state == AF_FACT_ABSENT && !af_given_by(facts[i], NULL))
            af_fact_unknown(given->arena, facts[i], "%s, without its driver", given->source);
}

/* Removes rows from a probe or a record; rows given by the user stay. */
static void begin_rows(struct af_given *given)
{
    struct af_gpu_rows *gpus = &given->machine->gpus;
    bool ours = gpus->count > 0 && (af_given_by(&gpus->rows[0].name, NULL) ||
                                    af_given_by(&gpus->rows[0].sm, NULL));
    if (ours)
        return;
    *gpus = (struct af_gpu_rows){.state = AF_FACT_KNOWN, .source = given->source};
    forget_absent_driver(given);
}

/* Row `index`, made if missing. */
static struct af_gpu *row(struct af_given *given, size_t index)
{
    struct af_machine *machine = given->machine;
    while (machine->gpus.count <= index) {
        struct af_gpu *gpu =
            af_machine_row_add(machine, offsetof(struct af_machine, gpus), UNSAID);
        af_given_bool(given, &gpu->visible, true, NULL);
    }
    return &machine->gpus.rows[index];
}

/* GPUs that share a product with a processor: NVIDIA's Grace, Spark and Jetson. */
static bool is_with_arm(const char *lower)
{
    static const char *const words[] = {"gh200", "gb200",  "gb300",  "gb10", "dgx spark",
                                        "thor",  "jetson", "xavier", "orin"};
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (strstr(lower, words[i]) != NULL)
            return true;
    return false;
}

/* A product that has its GPU also has its processor; another system that was stated stays. */
static void imply_platform(struct af_given *given, const char *os)
{
    struct af_platform *platform = &given->machine->platform;
    if (platform->os.state != AF_FACT_KNOWN)
        af_given_text(given, &platform->os, os, product);
    if (platform->arch.state != AF_FACT_KNOWN)
        af_given_text(given, &platform->arch, "aarch64", product);
}

/* Finds "sm120" or "gfx1100" as a word in the text; writes it to `sm`. */
static bool find_target_word(const char *lower, char *sm, size_t size_bytes)
{
    for (const char *at = lower; *at != '\0';) {
        char word[24];
        size_t len = strcspn(at, " ,()/");
        snprintf(word, sizeof word, "%.*s", (int)(len < 23 ? len : 23), at);
        bool target = af_starts_with(word, "sm") || af_starts_with(word, "gfx");
        if (target && af_machine_gpu_sm_parse(word, sm, size_bytes))
            return true;
        at += len + (at[len] != '\0');
    }
    return false;
}

static const char *vendor_word(const char *lower)
{
    static const char *const words[][2] = {
        {"amd", "amd"},        {"radeon", "amd"},    {"instinct", "amd"}, {"navi", "amd"},
        {"gfx", "amd"},        {"intel", "intel"},   {"apple", "apple"},  {"nvidia", "nvidia"},
        {"rtx", "nvidia"},     {"gtx", "nvidia"},    {"tesla", "nvidia"}, {"quadro", "nvidia"},
        {"geforce", "nvidia"}, {"jetson", "nvidia"}, {"sm_", "nvidia"},   {"cuda", "nvidia"}};
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        if (strstr(lower, words[i][0]) != NULL)
            return words[i][1];
    }
    return NULL;
}

/* "4090" and "rtx 4090": users often omit the product line. False: no known product. */
static bool find_product(struct af_given *given, const char *lower, const char **vendor_out,
                         const char **sm_out)
{
    if (af_machine_gpu_name_find(lower, vendor_out, sm_out))
        return true;
    const char *whole = isdigit((unsigned char)lower[0])
                            ? af_arena_format(given->arena, "rtx %s", lower)
                            : NULL;
    return whole != NULL && af_machine_gpu_name_find(whole, vendor_out, sm_out);
}

/* There are GPUs that the table does not have, so this is not an error. */
static void unknown_product(struct af_given *given, struct af_gpu *gpu, const char *example)
{
    af_given_remark(given,
                    "not a known product, so its compute capability stays unknown; "
                    "give sm=%s, for example",
                    example);
    af_fact_unknown(given->arena, &gpu->sm, "%s: not a known product", given->source);
}

void af_given_gpu_describe(struct af_given *given, size_t index, const char *name,
                           const char *lower)
{
    struct af_gpu *gpu = row(given, index);
    const char *vendor = vendor_word(lower);
    const char *sm = NULL;
    bool known = true;
    char target[16];
    af_given_text(given, &gpu->name, name, NULL);
    if (find_target_word(lower, target, sizeof target)) {
        sm = target;
        vendor = target[0] == 'g' ? "amd" : "nvidia";
    } else {
        known = find_product(given, lower, &vendor, &sm);
    }
    af_given_text(given, &gpu->vendor, vendor, NULL);
    if (af_equal(vendor, "apple"))
        imply_platform(given, "macos");
    else if (is_with_arm(lower))
        imply_platform(given, "linux");
    if (af_given_by(&gpu->sm, "sm"))
        return; /* stated explicitly: takes precedence over a name */
    if (sm != NULL)
        af_given_text(given, &gpu->sm, sm, product);
    else if (known || af_equal(vendor, "intel") || af_equal(vendor, "apple"))
        af_given_absent(given, &gpu->sm, product);
    else
        unknown_product(given, gpu, af_equal(vendor, "amd") ? "gfx942" : "8.9");
}

static bool is_joint(char c)
{
    return c == 'x' || c == '*';
}

/* A count and an "x" before the name, which starts at *start_out; "40xx" has no count. */
static size_t count_before(struct af_given *given, const char *lower, size_t *start_out)
{
    const char *unused;
    size_t digits = strspn(lower, "0123456789");
    size_t at = digits + strspn(lower + digits, " ");
    if (digits == 0 || !is_joint(lower[at]))
        return 0;
    size_t start = at + 1 + strspn(lower + at + 1, " ");
    bool joined = start == at + 1 && isalnum((unsigned char)lower[start]);
    if (joined && !find_product(given, lower + start, &unused, &unused))
        return 0;
    *start_out = start;
    return strtoul(lower, NULL, 10);
}

/* " x2", " x 2" or " *2" after the name, which ends at *end_out; 0: no count. */
static size_t count_after(const char *lower, size_t *end_out)
{
    size_t digits = strlen(lower);
    while (digits > 0 && isdigit((unsigned char)lower[digits - 1]))
        digits--;
    size_t end = digits;
    while (end > 0 && lower[end - 1] == ' ')
        end--;
    if (lower[digits] == '\0' || end < 2 || !is_joint(lower[end - 1]) || lower[end - 2] != ' ')
        return 0;
    for (end--; end > 0 && lower[end - 1] == ' ';)
        end--;
    *end_out = end;
    return strtoul(lower + digits, NULL, 10);
}

/* "8x A100", "2xT4" and "T4 x2" are so many of one product; leaves only its name in both. */
static size_t take_count(struct af_given *given, struct af_span *name, struct af_span *lower)
{
    const char *text = af_arena_text_n(given->arena, lower->data, lower->len);
    size_t start = 0, end = lower->len;
    size_t count = count_before(given, text, &start);
    if (count == 0 || count > GPUS_MAX) { /* "4090 x 2" */
        start = 0;
        count = count_after(text, &end);
    }
    if (end <= start || count == 0 || count > GPUS_MAX)
        return 1;
    *name = (struct af_span){name->data + start, end - start};
    *lower = (struct af_span){lower->data + start, end - start};
    return count;
}

/* After the rows of another `gpu`, to which it adds; the same word again changes nothing. */
static size_t first_row(const struct af_given *given)
{
    const struct af_gpu_rows *gpus = &given->machine->gpus;
    size_t index = 0;
    while (index < gpus->count && af_given_by(&gpus->rows[index].name, "gpu") &&
           !af_equal(gpus->rows[index].name.origin.word, given->origin.word))
        index++;
    return index;
}

/* Two of them are two GPUs: gpu=h100 and gpu=a100. */
void af_given_gpu(struct af_given *given)
{
    struct af_gpu_rows *gpus = &given->machine->gpus;
    bool cpu = af_given_is_word(given->lower, strlen(given->lower), "cpu|cpu only|cpu-only");
    if (cpu || af_given_is_none(given)) {
        *gpus = (struct af_gpu_rows){.state = AF_FACT_KNOWN, .source = given->source};
        return;
    }
    begin_rows(given);
    size_t index = first_row(given);
    for (const char *at = given->value; *at != '\0';) {
        size_t len = strcspn(at, ",+");
        struct af_span part = af_text_trim((struct af_span){at, len});
        struct af_span lower = {given->lower + (part.data - given->value), part.len};
        size_t count = part.len == 0 ? 0 : take_count(given, &part, &lower);
        const char *name = af_arena_text_n(given->arena, part.data, part.len);
        const char *folded = af_arena_text_n(given->arena, lower.data, lower.len);
        for (size_t i = 0; i < count && index < GPUS_MAX; i++)
            af_given_gpu_describe(given, index++, name, folded);
        at += len + (at[len] != '\0');
    }
}

/* "8.9", or one per GPU: "9.0,8.0" */
void af_given_sm(struct af_given *given)
{
    size_t index = 0;
    begin_rows(given);
    for (const char *at = given->lower; *at != '\0' && index < GPUS_MAX;) {
        size_t len = strcspn(at, ",; ");
        char word[24];
        char sm[24];
        snprintf(word, sizeof word, "%.*s", (int)(len < 23 ? len : 23), at);
        at += len + strspn(at + len, ",; ");
        struct af_gpu *gpu = row(given, index);
        if (!af_machine_gpu_sm_parse(word, sm, sizeof sm)) {
            af_given_unclear(given, &gpu->sm, "not a compute capability such as 8.9 or gfx942");
            return;
        }
        af_given_text(given, &gpu->sm, sm, NULL);
        af_given_text(given, &gpu->vendor, sm[0] == 'g' ? "amd" : "nvidia", NULL);
        index++;
    }
    for (size_t i = 1; index == 1 && i < given->machine->gpus.count; i++) {
        struct af_gpu *gpus = given->machine->gpus.rows;
        af_given_text(given, &gpus[i].sm, af_fact_text_or(&gpus[0].sm, NULL), NULL);
    }
}

void af_given_vram(struct af_given *given)
{
    char *end;
    double gib = strtod(given->value, &end);
    begin_rows(given);
    row(given, 0);
    for (size_t i = 0; i < given->machine->gpus.count; i++) {
        struct af_fact *memory = &given->machine->gpus.rows[i].memory_bytes;
        if (end == given->value || !(gib >= 0 && gib < 1e6))
            af_given_unclear(given, memory, "not a number of GiB");
        else
            af_given_int(given, memory, (int64_t)(gib * 1073741824.0));
    }
}

void af_given_driver(struct af_given *given)
{
    struct af_driver *driver = &given->machine->driver;
    if (af_given_is_none(given)) {
        af_given_absent(given, &driver->kernel_version, NULL);
        af_given_absent(given, &driver->user_version, NULL);
        af_given_absent(given, &driver->cuda_api, NULL);
        return;
    }
    const char *version = af_given_version(given);
    if (version == NULL) {
        af_given_unclear(given, &driver->kernel_version,
                         "not a driver version such as 580.95.05");
        return;
    }
    const char *cuda = af_machine_gpu_driver_cuda(version);
    static const char table[] = "NVIDIA's table of drivers";
    af_given_text(given, &driver->kernel_version, version, NULL);
    af_given_text(given, &driver->user_version, version, NULL);
    if (!af_given_by(&driver->cuda_api, "cuda_api")) {
        if (cuda != NULL)
            af_given_text(given, &driver->cuda_api, cuda, table);
        else
            af_fact_unknown(given->arena, &driver->cuda_api, "not in %s: %s", given->source,
                            table);
    }
}

void af_given_cuda_api(struct af_given *given)
{
    const char *version = af_given_version(given);
    if (version != NULL)
        af_given_text(given, &given->machine->driver.cuda_api, version, NULL);
    else
        af_given_unclear(given, &given->machine->driver.cuda_api, "not a version such as 13.0");
}

/* The value as the variable has it; "unset" if it is not set. */
void af_given_visible_devices(struct af_given *given)
{
    struct af_fact *fact = &given->machine->driver.visible_devices;
    bool unset = strcmp(given->lower, "unset") == 0;
    if (unset)
        af_given_absent(given, fact, NULL);
    else
        af_given_text(given, fact, given->value, NULL);
    af_machine_gpu_visibility(given->machine, unset ? NULL : given->value, given->source);
}
