/*
 * wheel_facts.c: stores facts of libraries as JSON in the state, and computes the identities by
 * which bytes are recognised. Called by inspect_target.c, which reads what is not known.
 */
#include "kit/proof/wheel_facts.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/http_answer.h"
#include "kit/system/state_facts.h"

/* longer than the timestamp resolution of most file systems */
#define SETTLED_NS INT64_C(100000000)
/* for file systems with timestamps in steps of one or two seconds */
#define COARSE_NS INT64_C(2000000000)
#define SECOND_NS INT64_C(1000000000)

static int64_t nanoseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * SECOND_NS + time->tv_nsec;
}

/* Whether the last change is old enough that another one gets a different timestamp. */
static bool is_settled(const struct stat *status)
{
    struct timespec now;
    bool is_coarse = status->st_ctim.tv_nsec == 0 && status->st_mtim.tv_nsec == 0;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return false;
    return nanoseconds(&now) - nanoseconds(&status->st_ctim) >
           (is_coarse ? COARSE_NS : SETTLED_NS);
}

struct af_place af_place_of_file(struct af_arena *arena, const char *path)
{
    struct stat status;
    struct af_place place = {0};
    if (path == NULL || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return place;
    const char *real = af_file_real_path(arena, path);
    const char *identity = af_arena_format(
        arena, "%" PRIuMAX ":%" PRIuMAX ":%" PRIdMAX ":%" PRId64 ":%" PRId64,
        (uintmax_t)status.st_dev, (uintmax_t)status.st_ino, (intmax_t)status.st_size,
        nanoseconds(&status.st_mtim), nanoseconds(&status.st_ctim));
    if (real != NULL && identity != NULL)
        place = (struct af_place){real, identity, real, (uint64_t)status.st_size,
                                  is_settled(&status)};
    return place;
}

/* The address without credentials and query, and with '+' always encoded the same way. */
static const char *plain_address(struct af_arena *arena, const char *url)
{
    char shown[AF_URL_BYTES_MAX];
    return af_url_encode_plus(arena, af_url_show(shown, sizeof shown, url));
}

struct af_place af_place_of_address(struct af_arena *arena, const char *url, const char *etag,
                                    const char *last_modified, uint64_t size_bytes)
{
    struct af_place place = {0};
    char hex[AF_SHA256_HEX_BYTES];
    if (!af_http_etag_is_strong(etag))
        etag = "";
    if (etag[0] == '\0' && last_modified[0] == '\0')
        return place;
    size_t len = strcspn(url, "#");
    const char *text = af_arena_format(arena, "%" PRIu64 "\n%s\n%s\n%.*s", size_bytes, etag,
                                       last_modified, (int)len, url);
    if (text == NULL)
        return place;
    af_sha256_bytes((struct af_span){text, strlen(text)}, hex);
    const char *name = plain_address(arena, url);
    const char *identity = af_arena_text(arena, hex);
    if (name != NULL && identity != NULL)
        place = (struct af_place){name, identity, NULL, size_bytes, true};
    return place;
}

bool af_place_holds(struct af_arena *arena, const struct af_place *place)
{
    if (place->identity == NULL || !place->is_settled)
        return false;
    if (place->path == NULL)
        return true;
    struct af_place now = af_place_of_file(arena, place->path);
    return af_equal(now.identity, place->identity);
}

const char *af_place_hash(struct af_arena *arena, const struct af_place *place,
                          const char *member)
{
    char hex[AF_SHA256_HEX_BYTES];
    const char *text =
        af_arena_format(arena, "%s\n%s\n%s", place->identity, place->name, member);
    if (text == NULL)
        return NULL;
    af_sha256_bytes((struct af_span){text, strlen(text)}, hex);
    return af_arena_text(arena, hex);
}

json_t *af_facts_to_json(const struct af_facts *facts)
{
    return json_pack(
        "{s:o, s:o, s:o}", "binary", af_binary_to_json(&facts->binary), "gpu_code",
        facts->gpu_code == NULL ? json_null() : af_gpu_code_to_json(facts->gpu_code), "kernels",
        facts->kernels == NULL ? json_null() : af_flash_kernels_to_json(facts->kernels));
}

enum anyflash_status af_facts_from_json(struct af_arena *arena, const json_t *json,
                                        struct af_facts *out)
{
    const json_t *gpu_code = json_object_get(json, "gpu_code");
    const json_t *kernels = json_object_get(json, "kernels");
    struct af_gpu_code *code = af_arena_alloc(arena, sizeof *code);
    struct af_flash_kernels *names = af_arena_alloc(arena, sizeof *names);
    if (arena->failed)
        return ANYFLASH_E_NO_MEMORY;
    struct af_facts facts = {.gpu_code = json_is_null(gpu_code) ? NULL : code,
                             .kernels = json_is_null(kernels) ? NULL : names};
    enum anyflash_status status =
        af_binary_from_json(arena, json_object_get(json, "binary"), &facts.binary, NULL);
    if (status == ANYFLASH_OK && facts.gpu_code != NULL)
        status = af_gpu_code_from_json(arena, gpu_code, code, NULL);
    if (status == ANYFLASH_OK && facts.kernels != NULL && facts.gpu_code == NULL)
        status = ANYFLASH_E_DATA;
    if (status == ANYFLASH_OK && facts.kernels != NULL)
        status = af_flash_kernels_from_json(arena, kernels, code, names, NULL);
    if (status == ANYFLASH_OK)
        *out = facts;
    return status;
}

bool af_facts_get(struct af_state *state, const char *sha256, const char *name,
                  struct af_arena *arena, struct af_facts *out)
{
    struct af_span text;
    json_t *json;
    struct af_facts facts;
    if (sha256 == NULL || name == NULL ||
        !af_state_facts_get(state, sha256, name, AF_FACTS_SCHEMA, arena, &text) ||
        af_json_parse(text, AF_STATE_JSON_BYTES_MAX, "kept facts", &json, NULL) != ANYFLASH_OK)
        return false;
    bool is_good = af_facts_from_json(arena, json, &facts) == ANYFLASH_OK &&
                   af_equal(facts.binary.name, name);
    json_decref(json);
    if (is_good)
        *out = facts;
    return is_good;
}

void af_facts_put(struct af_state *state, const char *sha256, const struct af_facts *facts)
{
    json_t *json = af_facts_to_json(facts);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    if (text != NULL)
        af_state_facts_put(state, sha256, facts->binary.name, AF_FACTS_SCHEMA,
                           (struct af_span){text, strlen(text)});
    af_mem_free(text);
    json_decref(json);
}

bool af_facts_find(struct af_state *state, const char *where, struct af_arena *arena,
                   struct af_proof_known *out)
{
    struct af_place place = {0};
    struct af_state_seen *rows;
    size_t count;
    size_t whole = 0;
    if (af_url_is_http(where))
        place.name = plain_address(arena, where);
    else
        place = af_place_of_file(arena, where);
    if (place.name == NULL ||
        !af_state_place_get(state, place.name, place.identity, arena, &rows, &count, &whole))
        return false;
    struct af_proof_known_library *libraries = af_arena_array(arena, count, sizeof *libraries);
    size_t known = 0;
    for (size_t i = 0; libraries != NULL && i < count; i++) {
        struct af_proof_known_library *library = &libraries[known];
        const char *path = rows[i].member;
        const char *name = af_path_name(path[0] == '\0' ? place.name : path);
        library->path = path;
        known += af_facts_get(state, rows[i].sha256, name, arena, &library->facts);
    }
    *out = (struct af_proof_known){libraries, known, known == whole};
    return known > 0;
}

void af_facts_addresses(struct af_state *state, struct af_arena *arena,
                        const char ***addresses_out, size_t *count_out)
{
    af_state_addresses(state, arena, addresses_out, count_out);
}
