/*
 * update.c: reads the listings of the sources one by one, compares them with the known wheels,
 * and makes a new catalog. catalog/catalog_update.c parses listings; update_store.c
 * writes the catalog to disk.
 */
#include "kit/install/update.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_update.h"

/* data/sources.json */
extern const char af_sources[];

#define GONE_MIN 20u  /* if there are fewer known wheels than this, all may be missing */
#define GONE_PART 10u /* else a listing that lacks more than one in so many is refused */
#define ACCEPT "application/vnd.github+json"

/* data/sources.json */
struct sources {
    json_t *json;
    const char *listing;
    const char *files;
    int64_t count;
    int64_t pages_max;
};

/* What an update does with a wheel of the embedded catalog. */
struct fate {
    bool listed;
    bool gone;
    const unsigned char *sha256; /* as listed; NULL: as it was */
};

struct updating {
    const struct af_http *http;
    struct sources sources;
    const struct af_catalog *embedded;
    const struct af_catalog *current;
    const struct af_progress *progress;
    struct af_arena *arena;
    struct fate *fates;                    /* one for each wheel of the embedded catalog */
    const struct af_catalog_wheel **fresh; /* that the embedded catalog does not have */
    size_t fresh_count;
    struct af_update *update;
    enum anyflash_status first_status; /* of the first source that failed */
    struct anyflash_error first_problem;
    bool stopped; /* the other sources would also fail: rate limit, no network */
};

/* Wheels of one listing, sorted by address. */
struct listed {
    const struct af_catalog_wheel **wheels;
    bool *known;
    size_t count;
};

static enum anyflash_status read_sources(const struct af_span *given, struct sources *sources,
                                         struct anyflash_error *err)
{
    struct af_span embedded = {af_sources, strlen(af_sources)};
    enum anyflash_status status =
        af_json_parse(given != NULL ? *given : embedded, AF_UPDATE_SOURCES_BYTES_MAX,
                      "the list of sources", &sources->json, err);
    if (status != ANYFLASH_OK)
        return status;
    sources->listing = json_string_value(json_object_get(sources->json, "listing"));
    sources->files = json_string_value(json_object_get(sources->json, "files"));
    sources->count = json_integer_value(json_object_get(sources->json, "count"));
    sources->pages_max = json_integer_value(json_object_get(sources->json, "pages_max"));
    if (sources->listing == NULL || sources->files == NULL || sources->count < 1 ||
        sources->pages_max < 1 || !json_is_array(json_object_get(sources->json, "sources")))
        return af_fail(
            err, ANYFLASH_E_DATA,
            "the list of sources needs listing, files, count, pages_max and sources");
    return ANYFLASH_OK;
}

static void message(const struct updating *updating, const char *sentence)
{
    const struct af_progress *progress = updating->progress;
    if (progress != NULL && progress->message != NULL)
        progress->message(progress->context, sentence);
}

/* `pattern` with {source}, {count} and {page} filled in. */
static const char *fill(struct updating *updating, const char *pattern, const char *source,
                        int64_t page)
{
    struct af_text text = {0};
    while (*pattern != '\0') {
        if (af_starts_with(pattern, "{source}"))
            af_text_add(&text, source);
        else if (af_starts_with(pattern, "{count}"))
            af_text_format(&text, "%lld", (long long)updating->sources.count);
        else if (af_starts_with(pattern, "{page}"))
            af_text_format(&text, "%lld", (long long)page);
        else
            af_text_add_n(&text, pattern, 1);
        const char *end = *pattern == '{' ? strchr(pattern, '}') : NULL;
        pattern = end != NULL ? end + 1 : pattern + 1;
    }
    return af_text_take(&text, updating->arena);
}

/* Reads the wheels of all pages of a source. */
static enum anyflash_status get_pages(struct updating *updating,
                                      const struct af_listing_source *source,
                                      struct af_catalog_list *list, struct anyflash_error *err)
{
    for (int64_t page = 1; page <= updating->sources.pages_max; page++) {
        struct af_arena text;
        struct af_span bytes;
        struct af_http_answer answer;
        char shown[200];
        size_t releases = 0;
        const char *url = fill(updating, updating->sources.listing, source->source, page);
        af_arena_init(&text);
        enum anyflash_status status = af_http_get_bytes(
            updating->http, url, ACCEPT, AF_LISTING_BYTES_MAX, &text, &bytes, &answer, err);
        if (status == ANYFLASH_OK)
            status = af_listing_read(bytes, af_url_show(shown, sizeof shown, url), source, list,
                                     &releases, err);
        else
            updating->stopped = answer.rate_limited || answer.status == 0;
        af_arena_release(&text);
        if (status != ANYFLASH_OK)
            return status;
        if (releases < (size_t)updating->sources.count)
            return ANYFLASH_OK;
    }
    return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has more than %lld pages of releases",
                   source->source, (long long)updating->sources.pages_max);
}

static int by_url(const void *a, const void *b)
{
    return strcmp((*(const struct af_catalog_wheel *const *)a)->url,
                  (*(const struct af_catalog_wheel *const *)b)->url);
}

static void sort_listed(const struct af_catalog_wheel *wheels, size_t count,
                        struct af_arena *arena, struct listed *listed)
{
    listed->wheels = af_arena_array(arena, count + 1, sizeof(struct af_catalog_wheel *));
    listed->known = af_arena_array(arena, count + 1, sizeof *listed->known);
    for (size_t i = 0; i < count; i++)
        listed->wheels[i] = &wheels[i];
    qsort(listed->wheels, count, sizeof(struct af_catalog_wheel *), by_url);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || by_url(&listed->wheels[i - 1], &listed->wheels[i]) != 0)
            listed->wheels[listed->count++] = listed->wheels[i];
}

/* The wheel's row in the listing, which is marked as known; NULL if it is not listed. */
static const struct af_catalog_wheel *find_listed(struct listed *listed,
                                                  const struct af_catalog_wheel *wheel)
{
    const struct af_catalog_wheel **found =
        wheel->url == NULL ? NULL
                           : bsearch(&wheel, listed->wheels, listed->count,
                                     sizeof(struct af_catalog_wheel *), by_url);
    if (found != NULL)
        listed->known[found - listed->wheels] = true;
    return found != NULL ? *found : NULL;
}

/* Whether the file is another one than it was: both hashes are known and differ. */
static bool is_replaced(const struct af_catalog_wheel *was, const struct af_catalog_wheel *is)
{
    return was->sha256 != NULL && is->sha256 != NULL &&
           memcmp(was->sha256, is->sha256, AF_SHA256_BYTES) != 0;
}

/* Whether the source's listing should contain the wheel. */
static bool is_of(const struct af_catalog_wheel *wheel, const struct af_listing_source *source)
{
    return strcmp(wheel->source, source->source) == 0 && wheel->url != NULL &&
           af_starts_with(wheel->url, source->files);
}

/* Compares before anything is written: counts the known wheels that would be removed. */
static enum anyflash_status compare(const struct updating *updating,
                                    const struct af_listing_source *source,
                                    struct listed *listed, struct af_update_source *result,
                                    struct anyflash_error *err)
{
    size_t counted = 0; /* known from a page, and no longer listed */
    for (size_t i = 0; i < updating->embedded->count; i++) {
        const struct af_catalog_wheel *wheel = &updating->embedded->wheels[i];
        if (!is_of(wheel, source))
            continue;
        const struct af_catalog_wheel *row = find_listed(listed, wheel);
        result->replaced += row != NULL && is_replaced(wheel, row);
        result->gone += row == NULL;
        counted += row == NULL && wheel->listed;
    }
    result->listed = listed->count;
    result->added = listed->count + result->gone - result->known;
    if (result->known >= GONE_MIN && counted > result->known / GONE_PART)
        return af_fail(err, ANYFLASH_E_DATA,
                       "%zu of %zu known wheels are missing from the release page: the old "
                       "entries are kept",
                       counted, result->known);
    return ANYFLASH_OK;
}

/* Decides about the source's known wheels, and collects the new ones. */
static void apply(struct updating *updating, const struct af_listing_source *source,
                  struct listed *listed)
{
    for (size_t i = 0; i < updating->embedded->count; i++) {
        const struct af_catalog_wheel *wheel = &updating->embedded->wheels[i];
        struct fate *fate = &updating->fates[i];
        if (!is_of(wheel, source))
            continue;
        const struct af_catalog_wheel *row = find_listed(listed, wheel);
        fate->listed = row != NULL;
        fate->gone = row == NULL;
        if (row != NULL && row->sha256 != NULL)
            fate->sha256 = (const unsigned char *)af_arena_text_n(
                updating->arena, (const char *)row->sha256, AF_SHA256_BYTES);
    }
    updating->fresh =
        af_memory_resize(updating->fresh, (updating->fresh_count + listed->count + 1) *
                                              sizeof(struct af_catalog_wheel *));
    for (size_t i = 0; i < listed->count; i++)
        if (!listed->known[i])
            updating->fresh[updating->fresh_count++] = listed->wheels[i];
}

static enum anyflash_status take_listing(struct updating *updating,
                                         const struct af_listing_source *source,
                                         struct af_update_source *result,
                                         struct anyflash_error *err)
{
    struct af_catalog_list list = {.arena = updating->arena};
    struct listed listed = {.count = 0};
    size_t count;
    enum anyflash_status status = get_pages(updating, source, &list, err);
    const struct af_catalog_wheel *wheels = af_catalog_list_take(&list, &count);
    if (status == ANYFLASH_OK) {
        sort_listed(wheels, count, updating->arena, &listed);
        status = compare(updating, source, &listed, result, err);
    }
    if (status == ANYFLASH_OK)
        apply(updating, source, &listed);
    return status;
}

static size_t count_of(const struct af_catalog *catalog, const struct af_listing_source *source)
{
    size_t count = 0;
    for (size_t i = 0; i < catalog->count; i++)
        count += is_of(&catalog->wheels[i], source);
    return count;
}

/* Uses the source's wheels of the current catalog as if they were its listing. */
static void keep_current(struct updating *updating, const struct af_listing_source *source)
{
    const struct af_catalog *current = updating->current;
    struct listed listed = {.count = 0};
    size_t count = 0;
    struct af_catalog_wheel *wheels =
        af_arena_array(updating->arena, current->count + 1, sizeof *wheels);
    for (size_t i = 0; i < current->count; i++)
        if (is_of(&current->wheels[i], source))
            wheels[count++] = current->wheels[i];
    sort_listed(wheels, count, updating->arena, &listed);
    apply(updating, source, &listed);
}

/* Keeps a source unchanged. */
static void leave(struct updating *updating, const struct af_listing_source *source,
                  struct af_update_source *result, enum anyflash_status status,
                  const struct anyflash_error *problem)
{
    if (updating->first_status == ANYFLASH_OK) {
        updating->first_status = status;
        updating->first_problem = *problem;
    }
    *result =
        (struct af_update_source){.source = result->source,
                                  .known = result->known,
                                  .problem = af_arena_text(updating->arena, problem->message)};
    message(updating, af_arena_format(updating->arena, "%s: not updated: %s", result->source,
                                      problem->message));
    keep_current(updating, source);
}

/* Reads one row of the list of sources. */
static enum anyflash_status read_source(struct updating *updating, const json_t *row,
                                        struct af_listing_source *source,
                                        struct anyflash_error *err)
{
    const char *name = json_string_value(json_object_get(row, "source"));
    const char *kind = json_string_value(json_object_get(row, "kind"));
    if (name == NULL || kind == NULL)
        return af_fail(err, ANYFLASH_E_DATA,
                       "an entry in the list of sources lacks source or kind");
    *source =
        (struct af_listing_source){.source = af_text_scrub(updating->arena, name, 200),
                                   .kind = kind,
                                   .files = fill(updating, updating->sources.files, name, 0)};
    return ANYFLASH_OK;
}

static void update_source(struct updating *updating, const struct af_listing_source *source,
                          struct af_update_source *result)
{
    struct anyflash_error problem = {0};
    *result = (struct af_update_source){.source = source->source,
                                        .known = count_of(updating->embedded, source)};
    enum anyflash_status status =
        updating->stopped
            ? af_fail(&problem, ANYFLASH_E_IO, "skipped, because the source before it failed")
            : take_listing(updating, source, result, &problem);
    if (status != ANYFLASH_OK) {
        leave(updating, source, result, status, &problem);
        return;
    }
    message(updating,
            af_arena_format(updating->arena, "%s: %zu wheels, %zu new, %zu gone, %zu replaced",
                            result->source, result->listed, result->added, result->gone,
                            result->replaced));
    updating->update->read_count++;
    updating->update->added += result->added;
    updating->update->replaced += result->replaced;
    updating->update->gone += result->gone;
}

/* Fails as the first source did, because none could be read. */
static enum anyflash_status fail_first(const struct updating *updating,
                                       struct anyflash_error *err)
{
    if (updating->first_status == ANYFLASH_OK)
        return af_fail(err, ANYFLASH_E_DATA, "the list of sources is empty");
    return af_fail(err, updating->first_status, "%s", updating->first_problem.message);
}

static const char *new_date(const struct updating *updating)
{
    char date[16] = "";
    time_t now = time(NULL);
    struct tm utc;
    const struct af_update *update = updating->update;
    /* nothing is known of what the other sources published since */
    if (update->read_count < update->source_count && updating->current->date != NULL)
        return updating->current->date;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d", &utc);
    return af_arena_text(&updating->update->catalog.arena, date);
}

/* Makes the new catalog: known wheels in their order with all their facts, then new ones. */
static enum anyflash_status make_catalog(const struct updating *updating,
                                         struct anyflash_error *err)
{
    struct af_catalog *made = &updating->update->catalog;
    struct af_catalog_list list = {.arena = &made->arena};
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < updating->embedded->count; i++) {
        struct af_catalog_wheel wheel = updating->embedded->wheels[i];
        const struct fate *fate = &updating->fates[i];
        wheel.listed |= fate->listed;
        wheel.sha256 = fate->sha256 != NULL ? fate->sha256 : wheel.sha256;
        if (!fate->gone)
            status = af_catalog_list_add(&list, &wheel, "the new catalog", err);
    }
    for (size_t i = 0; status == ANYFLASH_OK && i < updating->fresh_count; i++)
        status = af_catalog_list_add(&list, updating->fresh[i], "the new catalog", err);
    made->date = new_date(updating);
    made->wheels = af_catalog_list_take(&list, &made->count);
    return status;
}

static enum anyflash_status update_all(struct updating *updating, struct anyflash_error *err)
{
    struct af_update *update = updating->update;
    const json_t *list = json_object_get(updating->sources.json, "sources");
    size_t count = json_array_size(list);
    update->sources = af_arena_array(updating->arena, count + 1, sizeof *update->sources);
    updating->fates =
        af_arena_array(updating->arena, updating->embedded->count + 1, sizeof *updating->fates);
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        struct af_listing_source source;
        status = read_source(updating, json_array_get(list, i), &source, err);
        if (status == ANYFLASH_OK)
            update_source(updating, &source, &update->sources[i]);
        update->source_count++;
    }
    return status == ANYFLASH_OK && update->read_count == 0 ? fail_first(updating, err)
                                                            : status;
}

enum anyflash_status af_update_fetch(const struct af_http *http, const struct af_span *sources,
                                     const struct af_catalog *embedded,
                                     const struct af_catalog *current,
                                     const struct af_progress *progress, struct af_arena *arena,
                                     struct af_update *update_out, struct anyflash_error *err)
{
    struct af_update update = {.catalog = {.name = "updated"}};
    struct updating updating = {.http = http,
                                .embedded = embedded,
                                .current = current,
                                .progress = progress,
                                .arena = arena,
                                .update = &update};
    af_arena_init(&update.catalog.arena);
    enum anyflash_status status = read_sources(sources, &updating.sources, err);
    if (status == ANYFLASH_OK)
        status = update_all(&updating, err);
    if (status == ANYFLASH_OK)
        status = make_catalog(&updating, err);
    json_decref(updating.sources.json);
    af_memory_free(updating.fresh);
    if (status == ANYFLASH_OK)
        *update_out = update;
    else
        af_catalog_release(&update.catalog);
    return status;
}
