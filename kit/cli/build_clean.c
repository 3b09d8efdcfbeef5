/*
 * build_clean.c: shows and removes what builds keep in the cache.
 */
#include "kit/cli/build_clean.h"

#include "kit/base/text.h"
#include "kit/cli/screen.h"
#include "kit/compile/build.h"

/* A folder of the cache, and what was done with it. */
struct kept {
    const struct af_build_kept *kept;
    const char *done; /* "kept", "removed", "stays" */
    const char *why;  /* why it could not be removed; NULL if it was removed */
};

static void view_kept(struct af_cli *cli, const struct kept *rows, size_t count, bool dry)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct af_build_kept *kept = rows[i].kept;
        bytes += rows[i].why == NULL ? kept->bytes : 0;
        af_screen_format(&screen, 2, "", AF_TONE_PLAIN, "%s %s: %s", rows[i].done,
                         af_text_bytes(&cli->arena, (int64_t)kept->bytes), kept->title);
        af_screen_add(&screen, 4, "    ", AF_TONE_DIM,
                      rows[i].why != NULL ? rows[i].why : kept->path);
    }
    if (count == 0)
        af_screen_add(&screen, 0, "", AF_TONE_PLAIN, "the cache has no builds");
    else
        af_screen_format(&screen, 0, "", AF_TONE_STRONG, "%s %s",
                         dry ? "`anyflash build --clean` would free" : "freed",
                         af_text_bytes(&cli->arena, (int64_t)bytes));
}

static enum anyflash_status kept_json(struct af_cli *cli, const struct kept *rows, size_t count,
                                      struct anyflash_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct af_build_kept *kept = rows[i].kept;
        list = af_json_append(list, json_pack("{s:o, s:s, s:I, s:s, s:o}", "path",
                                              af_json_text(kept->path), "title", kept->title,
                                              "bytes", (json_int_t)kept->bytes, "done",
                                              rows[i].done, "why", af_json_text(rows[i].why)));
    }
    return af_cli_json_take(
        cli, json_pack("{s:s, s:o}", "schema", "anyflash-build-clean/1", "builds", list), err);
}

static void remove_one(struct af_cli *cli, struct kept *row)
{
    struct anyflash_error err = {0};
    if (af_build_remove(row->kept, &err) == ANYFLASH_OK) {
        row->done = "removed";
        return;
    }
    row->done = "stays";
    row->why = af_arena_text(&cli->arena, err.message);
}

enum anyflash_status af_cli_build_clean(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err)
{
    struct af_build_kept *kept;
    size_t count;
    bool dry = af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    enum anyflash_status status = af_build_list(&cli->arena, &kept, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    struct kept *rows = af_arena_array(&cli->arena, count + 1, sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct kept){&kept[i], "kept", NULL};
        if (!dry)
            remove_one(cli, &rows[i]);
        if (rows[i].why != NULL)
            *exit_out = AF_EXIT_NO;
    }
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return kept_json(cli, rows, count, err);
    view_kept(cli, rows, count, dry);
    return ANYFLASH_OK;
}
