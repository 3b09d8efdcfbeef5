/*
 * cmd_update.c: `anyflash update`: updates the catalog of wheels from the release listings, and
 * says what is new. --check only reports that, --undo returns to the embedded catalog.
 */
#include <string.h>

#include "kit/base/sha256.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/screen.h"
#include "kit/fit/fit.h"
#include "kit/install/update.h"
#include "kit/system/file.h"
#include "kit/system/state.h"

static void message(void *context, const char *sentence)
{
    af_cli_remark(context, "%s", sentence);
}

static json_t *source_json(const struct af_update_source *source)
{
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "source", source->source, "known",
        af_json_count((int64_t)source->known), "listed",
        source->problem != NULL ? json_null() : af_json_count((int64_t)source->listed), "added",
        af_json_count((int64_t)source->added), "gone", af_json_count((int64_t)source->gone),
        "replaced", af_json_count((int64_t)source->replaced), "problem",
        af_json_text(source->problem));
}

static enum anyflash_status update_json(struct af_cli *cli, const struct af_update *update,
                                        const struct af_catalog *current, bool saved,
                                        struct anyflash_error *err)
{
    json_t *sources = json_array();
    for (size_t i = 0; i < update->source_count; i++)
        sources = af_json_append(sources, source_json(&update->sources[i]));
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "anyflash-update/1",
                  "saved", saved, "before", af_fit_json_catalog(current), "after",
                  af_fit_json_catalog(&update->catalog), "added",
                  af_json_count((int64_t)update->added), "gone",
                  af_json_count((int64_t)update->gone), "replaced",
                  af_json_count((int64_t)update->replaced), "sources", sources),
        err);
}

static void write_text(struct af_cli *cli, const struct af_update *update, bool saved)
{
    struct af_screen screen = {.out = &cli->out, .columns = af_screen_columns()};
    if (update->replaced > 0)
        af_screen_format(&screen, 0, "", AF_TONE_BAD,
                         "%zu file%s replaced by %s publisher under the same address: the new "
                         "hashes are used (-v names the sources)",
                         update->replaced, update->replaced == 1 ? " was" : "s were",
                         update->replaced == 1 ? "its" : "their");
    if (update->added + update->gone == 0)
        af_screen_format(&screen, 0, "", AF_TONE_PLAIN, "nothing new: %zu wheels, as of %s%s",
                         update->catalog.count, update->catalog.date,
                         saved ? "" : " (not saved)");
    else
        af_screen_format(&screen, 0, "", AF_TONE_PLAIN,
                         "catalog of %s: %zu wheels; compared with the embedded one, %zu "
                         "are new and %zu are no longer published%s",
                         update->catalog.date, update->catalog.count, update->added,
                         update->gone, saved ? "" : " (not saved: --check)");
    if (update->read_count < update->source_count)
        af_screen_format(&screen, 0, "", AF_TONE_BAD,
                         "%zu of %zu sources could not be read: their old entries are kept",
                         update->source_count - update->read_count, update->source_count);
}

static bool same_hash(const unsigned char *a, const unsigned char *b)
{
    return a == NULL || b == NULL ? a == b : memcmp(a, b, AF_SHA256_BYTES) == 0;
}

/* Whether the new catalog adds, removes or replaces wheels, or knows more hashes. */
static bool differs(const struct af_catalog *a, const struct af_catalog *b)
{
    if (a->count != b->count)
        return true;
    for (size_t i = 0; i < a->count; i++)
        if (!af_equal(a->wheels[i].filename, b->wheels[i].filename) ||
            !same_hash(a->wheels[i].sha256, b->wheels[i].sha256))
            return true;
    return false;
}

static enum anyflash_status finish(struct af_cli *cli, struct af_update *update,
                                   const struct af_catalog *current, enum af_exit *exit_out,
                                   struct anyflash_error *err)
{
    bool check = af_option_given(&cli->options, AF_OPTION_CHECK);
    const char *target = cli->options.values[AF_OPTION_EXPORT];
    enum anyflash_status status =
        check ? ANYFLASH_OK : af_update_save(update, af_state_folder(&cli->arena), err);
    if (status == ANYFLASH_OK && target != NULL)
        status = af_update_export(update, target, err);
    if (status != ANYFLASH_OK)
        return status;
    if (check && !differs(&update->catalog, current))
        *exit_out = AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return update_json(cli, update, current, !check, err);
    write_text(cli, update, !check);
    return ANYFLASH_OK;
}

/* --sources, or NULL for the embedded list. */
static enum anyflash_status read_sources(struct af_cli *cli, struct af_span *bytes,
                                         const struct af_span **sources_out,
                                         struct anyflash_error *err)
{
    const char *path = cli->options.values[AF_OPTION_SOURCES];
    *sources_out = NULL;
    if (path == NULL)
        return ANYFLASH_OK;
    *sources_out = bytes;
    return af_file_read(&cli->arena, path, AF_UPDATE_SOURCES_BYTES_MAX, bytes, err);
}

static enum anyflash_status ask(struct af_cli *cli, const struct af_catalog *embedded,
                                const struct af_catalog *current, enum af_exit *exit_out,
                                struct anyflash_error *err)
{
    const struct af_http http = {.allow_http =
                                     af_option_given(&cli->options, AF_OPTION_ALLOW_HTTP),
                                 .offline = af_option_given(&cli->options, AF_OPTION_OFFLINE)};
    bool quiet = !af_option_given(&cli->options, AF_OPTION_VERBOSE);
    struct af_progress progress = {.context = cli, .message = quiet ? NULL : message};
    struct af_update update;
    struct af_span bytes;
    const struct af_span *sources = NULL;
    enum anyflash_status status = read_sources(cli, &bytes, &sources, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_update_fetch(&http, sources, embedded, current, &progress, &cli->arena, &update,
                             err);
    if (status != ANYFLASH_OK)
        return status;
    status = finish(cli, &update, current, exit_out, err);
    af_catalog_release(&update.catalog);
    return status;
}

static enum anyflash_status undo(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    bool there = false;
    enum anyflash_status status = af_update_undo(af_state_folder(&cli->arena), &there, err);
    if (status != ANYFLASH_OK)
        return status;
    *exit_out = there ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(
            cli, json_pack("{s:s, s:b}", "schema", "anyflash-update-undo/1", "removed", there),
            err);
    af_text_add(&cli->out, there ? "the embedded catalog is in use again\n"
                                 : "there is no updated catalog; the embedded one is in use\n");
    return ANYFLASH_OK;
}

enum anyflash_status af_cmd_update(struct af_cli *cli, enum af_exit *exit_out,
                                   struct anyflash_error *err)
{
    struct af_catalog embedded = {0};
    struct af_catalog current = {0};
    if (af_option_given(&cli->options, AF_OPTION_UNDO)) {
        if (!af_option_given(&cli->options, AF_OPTION_CHECK))
            return undo(cli, exit_out, err);
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--check cannot be used with --undo");
    }
    enum anyflash_status status = af_catalog_load_embedded(&embedded, err);
    if (status == ANYFLASH_OK)
        status = af_cli_catalog_load(cli, &current, err);
    if (status == ANYFLASH_OK)
        status = ask(cli, &embedded, &current, exit_out, err);
    af_catalog_release(&current);
    af_catalog_release(&embedded);
    return status;
}
