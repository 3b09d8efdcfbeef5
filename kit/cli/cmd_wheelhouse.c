/*
 * cmd_wheelhouse.c: `anyflash wheelhouse DIR`: a package index of the wheels in a
 * folder, and the command that installs from it.
 */
#include "kit/base/json.h"
#include "kit/base/url.h"
#include "kit/cli/commands.h"
#include "kit/cli/page.h"
#include "kit/install/wheelhouse.h"
#include "kit/system/file.h"

static json_t *wheel_json(const struct af_wheelhouse_wheel *wheel)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s?}", "filename", wheel->filename, "project",
                     wheel->project, "version", wheel->version, "sha256", wheel->sha256,
                     "size_bytes", (json_int_t)wheel->size_bytes, "requires_python",
                     wheel->requires_python);
}

static enum anyflash_status write_json(struct af_cli *cli, const struct af_wheelhouse *house,
                                       struct anyflash_error *err)
{
    json_t *wheels = json_array();
    json_t *left_out = json_array();
    for (size_t i = 0; i < house->wheel_count; i++)
        wheels = af_json_append(wheels, wheel_json(&house->wheels[i]));
    for (size_t i = 0; i < house->left_out_count; i++)
        left_out =
            af_json_append(left_out, json_pack("{s:s, s:s}", "file", house->left_out[i].file,
                                               "reason", house->left_out[i].reason));
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s?, s:o, s:o}", "schema", "anyflash-wheelhouse/1", "index",
                  house->wheel_count > 0 ? af_text_scrub(&cli->arena, house->index, 4096)
                                         : NULL,
                  "wheels", wheels, "left_out", left_out),
        err);
}

/* Shows how to install from the index, if its path can be read. */
static void view_command(struct af_cli *cli, struct af_page *page,
                         const struct af_wheelhouse *house)
{
    const char *folder = af_file_real_path(&cli->arena, house->index);
    const char *path = folder == NULL ? NULL : af_url_encode_path(&cli->arena, folder);
    const char *command =
        path == NULL ? NULL
                     : af_arena_format(&cli->arena,
                                       "uv pip install --default-index file://%s/ --no-deps %s",
                                       path, house->wheels[0].project);
    if (command != NULL)
        af_page_command(page, 0, command);
}

/* A folder without wheels, or with none that an index may name. */
static void view_nothing(struct af_cli *cli, struct af_page *page,
                         const struct af_wheelhouse *house)
{
    const char *index = house->is_written ? "the index is now empty" : "no index was written";
    if (house->left_out_count > 0) {
        af_page_format(page, 0, "", AF_TONE_BAD, "no wheel can be listed; %s", index);
        return;
    }
    af_page_format(page, 0, "", AF_TONE_BAD, "the folder '%s' has no wheels; %s",
                   af_text_scrub(&cli->arena, cli->options.words.items[0], 4096), index);
    af_page_add(page, 6, "Next: ", AF_TONE_PLAIN,
                "put .whl files into the folder itself, not into folders in it, and run the "
                "command again; `anyflash install --download-only FOLDER` downloads those that "
                "`anyflash plan` names");
}

static void view(struct af_cli *cli, const struct af_wheelhouse *house)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    for (size_t i = 0; i < house->wheel_count; i++)
        af_page_format(&page, 2, "", AF_TONE_PLAIN, "%s", house->wheels[i].filename);
    for (size_t i = 0; i < house->left_out_count; i++)
        af_page_format(&page, 2, "", AF_TONE_BAD, "left out: %s: %s", house->left_out[i].file,
                       house->left_out[i].reason);
    if (house->wheel_count == 0) {
        view_nothing(cli, &page, house);
        return;
    }
    af_page_format(&page, 0, "", AF_TONE_GOOD, "index of %zu %s of %zu %s: %s",
                   house->wheel_count, house->wheel_count == 1 ? "wheel" : "wheels",
                   house->project_count, house->project_count == 1 ? "package" : "packages",
                   af_text_scrub(&cli->arena, house->index, 4096));
    view_command(cli, &page, house);
}

enum anyflash_status af_cmd_wheelhouse(struct af_cli *cli, enum af_exit *exit_out,
                                       struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    struct af_wheelhouse house;
    if (words->count != 1 || words->items[0][0] == '\0')
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'wheelhouse' takes one folder of wheels");
    const struct af_wheelhouse_question question = {
        .folder = words->items[0],
        .index = cli->options.values[AF_OPTION_OUTPUT],
        .inconsistent = af_option_given(&cli->options, AF_OPTION_INCONSISTENT),
        .allow_content = {cli->options.allowed.items, cli->options.allowed.count}};
    enum anyflash_status status = af_wheelhouse_make(&question, &cli->arena, &house, err);
    if (status != ANYFLASH_OK)
        return status;
    if (house.wheel_count == 0 || house.left_out_count > 0)
        *exit_out = AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(cli, &house, err);
    view(cli, &house);
    return af_cli_finish(cli, err);
}
