/*
 * selection_options.c: --for, --head-dim, --dtype, --features, --inference and
 * --full as a selection.
 */
#include "kit/cli/selection_options.h"

#include "kit/base/text.h"
#include "kit/build/offer/offer.h"
#include "kit/system/file.h"

#define CONFIG_BYTES_MAX (4u * 1024u * 1024u)

static const enum af_option_id selecting[] = {AF_OPTION_FOR,       AF_OPTION_HEAD_DIM,
                                              AF_OPTION_DTYPE,     AF_OPTION_FEATURES,
                                              AF_OPTION_INFERENCE, AF_OPTION_FULL};

static enum anyflash_status read_model(struct af_cli *cli, struct af_slim *slim,
                                       struct anyflash_error *err)
{
    const char *path = cli->options.values[AF_OPTION_FOR];
    const char *remark = NULL;
    struct af_span json;
    bool training = !af_option_given(&cli->options, AF_OPTION_INFERENCE);
    if (af_file_is_folder(path)) /* a model's folder has it inside */
        path = af_path_join(&cli->arena, path, "config.json");
    if (path == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_file_read(&cli->arena, path, CONFIG_BYTES_MAX, &json, err);
    if (status == ANYFLASH_OK)
        status = af_slim_read_model(json, af_path_name(path), training, slim, &remark, err);
    if (status != ANYFLASH_OK)
        cli->hint = "by hand it is said as --head-dim 128 --dtype bf16 --features none";
    if (status == ANYFLASH_OK && remark != NULL && cli->options.values[AF_OPTION_DTYPE] == NULL)
        af_cli_remark(cli, remark);
    return status;
}

bool af_cli_selection_said(const struct af_options *options)
{
    for (size_t i = 0; i < AF_COUNT(selecting); i++) {
        if (af_option_given(options, selecting[i]))
            return true;
    }
    return false;
}

const char *const *af_cli_selection_words(struct af_cli *cli, size_t *count_out)
{
    const char **words =
        af_arena_array(&cli->arena, 2 * AF_COUNT(selecting) + 4, sizeof *words);
    bool sized = af_option_given(&cli->options, AF_OPTION_FOR) ||
                 af_option_given(&cli->options, AF_OPTION_HEAD_DIM) ||
                 af_option_given(&cli->options, AF_OPTION_FULL);
    size_t count = 0;
    if (words != NULL && !sized) { /* what af_slim_usual() took must stand there */
        words[count++] = "--head-dim";
        words[count++] = "128";
    }
    if (words != NULL && !sized && !af_option_given(&cli->options, AF_OPTION_DTYPE)) {
        words[count++] = "--dtype";
        words[count++] = "bf16";
    }
    for (size_t i = 0; words != NULL && i < AF_COUNT(selecting); i++) {
        const struct af_option_row *row = &af_option_rows[selecting[i]];
        if (!af_option_given(&cli->options, selecting[i]))
            continue;
        words[count++] = af_arena_format(&cli->arena, "--%s", row->name);
        if (row->argument != NULL)
            words[count++] = cli->options.values[selecting[i]];
    }
    *count_out = count;
    return words;
}

/* Contradictions are asked back, not settled silently. */
static enum anyflash_status check(struct af_cli *cli, bool must, struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    static const enum af_option_id parts[] = {AF_OPTION_FOR, AF_OPTION_HEAD_DIM,
                                              AF_OPTION_DTYPE, AF_OPTION_FEATURES,
                                              AF_OPTION_INFERENCE};
    for (size_t i = 0; i < AF_COUNT(parts); i++) {
        if (af_option_given(options, AF_OPTION_FULL) && af_option_given(options, parts[i]))
            return af_fail(err, ANYFLASH_E_ARGUMENT, "--full and --%s exclude each other",
                           af_option_rows[parts[i]].name);
    }
    if (!must || af_option_given(options, AF_OPTION_FULL) ||
        af_option_given(options, AF_OPTION_MATRIX) || /* its wheels hold everything */
        options->values[AF_OPTION_FOR] != NULL || options->values[AF_OPTION_HEAD_DIM] != NULL)
        return ANYFLASH_OK;
    cli->hint = "--for MODEL/config.json reads what a model needs; by hand, as --head-dim 128 "
                "--dtype bf16; --full builds everything";
    return af_fail(err, ANYFLASH_E_ARGUMENT, "nothing says what the wheel shall hold");
}

enum anyflash_status af_cli_read_selection(struct af_cli *cli, bool must, struct af_slim *slim,
                                           struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    const char *head_dims = options->values[AF_OPTION_HEAD_DIM];
    const char *dtypes = options->values[AF_OPTION_DTYPE];
    const char *features = options->values[AF_OPTION_FEATURES];
    enum anyflash_status status = check(cli, must, err);
    *slim = (struct af_slim){0};
    if (must || af_option_given(options, AF_OPTION_FULL) || head_dims != NULL)
        af_slim_full(slim);
    else
        af_slim_usual(slim);
    if (status == ANYFLASH_OK && options->values[AF_OPTION_FOR] != NULL)
        status = read_model(cli, slim, err);
    if (status == ANYFLASH_OK && head_dims != NULL)
        status = af_slim_read_head_dims(head_dims, slim, err);
    if (status == ANYFLASH_OK && dtypes != NULL)
        status = af_slim_read_dtypes(dtypes, slim, err);
    if (status == ANYFLASH_OK && features != NULL)
        status = af_slim_read_features(features, slim, err);
    if (af_option_given(options, AF_OPTION_INFERENCE))
        slim->backward = false;
    return status;
}
