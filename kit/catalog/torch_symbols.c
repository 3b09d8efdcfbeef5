/*
 * torch_symbols.c: loads the table of symbols that torch builds export, and looks up
 * names in it. torch_choice.c finds the build for a torch version.
 *
 * A hash has 48 bits: the upper 16 choose a run of names (`starts`, computed
 * from their counts when the table is loaded), in which the other 32 are sorted;
 * a run has five names on average. Each name has a pattern, each pattern one
 * mask of libraries per build. The short table ("AFS2", tools/pack_data.c) keeps
 * only the upper 16 of these 32 bits.
 */
#include "kit/catalog/torch_symbols.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"

#define MAGIC "AFS1"
#define MAGIC_SHORT "AFS2"
#define HEAD_BYTES 16u
#define RUNS 65536u

static uint64_t number_at(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

/* FNV-1a with the final mixing of MurmurHash3; the tool's hash_of() is the same. */
static uint64_t hash_of(const char *name)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        value = (value ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    value ^= value >> 33;
    value *= UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 33;
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    value ^= value >> 33;
    return value >> 16;
}

/* Positions of the parts of the table: see the head of the tool. */
static const unsigned char *rests(const struct af_catalog_torch_symbols *symbols)
{
    return symbols->bytes + HEAD_BYTES + RUNS;
}

static const unsigned char *patterns(const struct af_catalog_torch_symbols *symbols)
{
    return rests(symbols) + symbols->rest_bytes * symbols->name_count;
}

static const unsigned char *masks(const struct af_catalog_torch_symbols *symbols)
{
    return patterns(symbols) + 2 * symbols->name_count;
}

static enum anyflash_status bad_table(struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_INTERNAL, "the embedded table of torch symbols is corrupt");
}

static bool make_starts(struct af_catalog_torch_symbols *symbols)
{
    uint32_t *starts = af_arena_array(&symbols->arena, RUNS + 1, sizeof *starts);
    uint32_t next = 0;
    for (size_t i = 0; i < RUNS; i++) {
        starts[i] = next;
        next += symbols->bytes[HEAD_BYTES + i];
    }
    starts[RUNS] = next;
    symbols->starts = starts;
    return next == symbols->name_count;
}

static bool patterns_are_there(const struct af_catalog_torch_symbols *symbols)
{
    for (size_t i = 0; i < symbols->name_count; i++) {
        if (number_at(patterns(symbols) + 2 * i, 2) >= symbols->pattern_count)
            return false;
    }
    return true;
}

static enum anyflash_status open_names(struct af_catalog_torch_symbols *symbols,
                                       struct anyflash_error *err)
{
    struct af_span bytes;
    enum anyflash_status status =
        af_embedded_open(&af_embedded_torch_symbols, &symbols->arena, &bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    symbols->bytes = (const unsigned char *)bytes.data;
    if (bytes.len < HEAD_BYTES + RUNS)
        return bad_table(err);
    if (memcmp(bytes.data, MAGIC, strlen(MAGIC)) == 0)
        symbols->rest_bytes = 4;
    else if (memcmp(bytes.data, MAGIC_SHORT, strlen(MAGIC_SHORT)) == 0)
        symbols->rest_bytes = 2;
    else
        return bad_table(err);
    symbols->name_count = number_at(symbols->bytes + 4, 4);
    symbols->pattern_count = number_at(symbols->bytes + 8, 4);
    if (number_at(symbols->bytes + 12, 4) != symbols->build_count ||
        bytes.len != HEAD_BYTES + RUNS + (symbols->rest_bytes + 2) * symbols->name_count +
                         8 * symbols->pattern_count * symbols->build_count ||
        !make_starts(symbols) || !patterns_are_there(symbols))
        return bad_table(err);
    return ANYFLASH_OK;
}

bool af_catalog_torch_library_is_own(const struct af_catalog_torch_library *library)
{
    return af_equal(library->origin, "torch");
}

bool af_catalog_torch_library_is_cuda(const struct af_catalog_torch_library *library)
{
    static const char *const names[] = {"libtorch_cuda", "libc10_cuda", "libtorch_nvshmem",
                                        "libcaffe2_nvrtc"};
    bool is_cuda = !af_catalog_torch_library_is_own(library);
    for (size_t i = 0; i < AF_COUNT(names); i++)
        is_cuda = is_cuda || af_starts_with(library->name, names[i]);
    return is_cuda;
}

enum anyflash_status af_catalog_torch_symbols_load(struct af_catalog_torch_symbols *symbols,
                                                   struct anyflash_error *err)
{
    struct af_catalog_torch_symbols loaded = {.builds = af_catalog_torch_builds.builds,
                                              .build_count =
                                                  af_catalog_torch_builds.builds_count};
    af_arena_init(&loaded.arena);
    enum anyflash_status status = open_names(&loaded, err);
    if (status == ANYFLASH_OK)
        *symbols = loaded;
    else
        af_arena_release(&loaded.arena);
    return status;
}

void af_catalog_torch_symbols_release(struct af_catalog_torch_symbols *symbols)
{
    af_arena_release(&symbols->arena);
    *symbols = (struct af_catalog_torch_symbols){0};
}

uint64_t af_catalog_torch_symbols_in(const struct af_catalog_torch_symbols *symbols,
                                     const struct af_catalog_symbol_build *build,
                                     const char *name)
{
    uint64_t hash = hash_of(name);
    size_t width = symbols->rest_bytes;
    uint32_t wanted = (uint32_t)hash >> (32 - 8 * width);
    size_t run = (size_t)(hash >> 32);
    for (size_t i = symbols->starts[run]; i < symbols->starts[run + 1]; i++) {
        if (number_at(rests(symbols) + width * i, width) != wanted)
            continue;
        size_t pattern = (size_t)number_at(patterns(symbols) + 2 * i, 2);
        size_t column = (size_t)(build - symbols->builds);
        return number_at(masks(symbols) + 8 * (pattern * symbols->build_count + column), 8);
    }
    return 0;
}

bool af_catalog_torch_symbols_cover(const struct af_catalog_torch_symbols *symbols,
                                    const char *platform)
{
    for (size_t i = 0; i < symbols->build_count; i++) {
        if (af_equal(symbols->builds[i].platform, platform))
            return true;
    }
    return false;
}

bool af_catalog_torch_symbols_span(const struct af_catalog_torch_symbols *symbols,
                                   const char *platform, const char *name,
                                   const char **oldest_out, const char **newest_out)
{
    const char *oldest = NULL;
    bool is_covered = af_catalog_torch_symbols_cover(symbols, platform);
    for (size_t i = 0; i < symbols->build_count; i++) {
        const struct af_catalog_symbol_build *build = &symbols->builds[i];
        if ((is_covered && !af_equal(build->platform, platform)) ||
            af_catalog_torch_symbols_in(symbols, build, name) == 0)
            continue;
        oldest = oldest == NULL ? build->version : oldest;
        *newest_out = build->version;
    }
    if (oldest != NULL)
        *oldest_out = oldest;
    return oldest != NULL;
}
