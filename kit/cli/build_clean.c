/*
 * build_clean.c: what builds keep, as lines or JSON, and its removal.
 */
#include "kit/cli/build_clean.h"

#include "kit/build/build.h"
#include "kit/cli/facts_view.h"
#include "kit/cli/json_parts.h"
#include "kit/cli/page.h"

/* One kept folder and what became of it. */
struct row {
    const struct af_build_kept *kept;
    const char *done; /* "kept", "removed", "in use" */
    const char *why;  /* of what stays against the wish; else NULL */
};

static void remove_one(struct af_cli *cli, struct row *row)
{
    struct anyflash_error err = {0};
    if (af_build_remove(row->kept, &err) == ANYFLASH_OK) {
        row->done = "removed";
        return;
    }
    row->done = "stays";
    row->why = af_arena_text(&cli->arena, err.message);
}

static void view(struct af_cli *cli, const struct row *rows, size_t count, bool dry)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct af_build_kept *kept = rows[i].kept;
        bytes += rows[i].why == NULL ? kept->bytes : 0;
        af_page_format(&page, 2, "", AF_TONE_PLAIN, "%s %s: %s", rows[i].done,
                       af_bytes_text(&cli->arena, (int64_t)kept->bytes), kept->title);
        af_page_add(&page, 4, "    ", AF_TONE_DIM,
                    rows[i].why != NULL ? rows[i].why : kept->path);
    }
    if (count == 0)
        af_page_add(&page, 0, "", AF_TONE_PLAIN, "nothing of builds is kept");
    else
        af_page_format(&page, 0, "", AF_TONE_STRONG, "%s %s",
                       dry ? "`anyflash build --clean` would free" : "freed",
                       af_bytes_text(&cli->arena, (int64_t)bytes));
}

static enum anyflash_status write_json(struct af_cli *cli, const struct row *rows, size_t count,
                                       struct anyflash_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct af_build_kept *kept = rows[i].kept;
        list = af_cli_json_append(
            list, json_pack("{s:o, s:s, s:I, s:s, s:o}", "path", af_cli_json_text(kept->path),
                            "title", kept->title, "bytes", (json_int_t)kept->bytes, "done",
                            rows[i].done, "why", af_cli_json_text(rows[i].why)));
    }
    return af_cli_json_take(
        cli, json_pack("{s:s, s:o}", "schema", "anyflash-build-clean/1", "builds", list), err);
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
    struct row *rows = af_arena_array(&cli->arena, count + 1, sizeof *rows);
    if (rows == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct row){&kept[i], "kept", NULL};
        if (!dry)
            remove_one(cli, &rows[i]);
        if (rows[i].why != NULL)
            *exit_out = AF_EXIT_NO;
    }
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(cli, rows, count, err);
    view(cli, rows, count, dry);
    return af_cli_finish(cli, err);
}
