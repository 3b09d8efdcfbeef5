/*
 * command_inputs.c: reads options and the catalog, and looks up stored proofs. Called by the
 * deciding commands.
 */
#include "kit/cli/command_inputs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/url.h"
#include "kit/fit/fit.h"
#include "kit/install/own_package.h"
#include "kit/probe/probe.h"
#include "kit/system/file.h"
#include "kit/system/state.h"

#define MODEL_BYTES_MAX (4u * 1024u * 1024u)
#define TOML_BYTES_MAX (4u << 20)
#define PUBLISHER_LISTS_MAX 3u
#define FOLDER_FILES_MAX 4096u
#define TORCH_FREE_MARK "+any." /* in the names of wheels that were built without torch */

/*
 * The catalog that `anyflash update` left, if it exists and is intact; else the
 * embedded one.
 */
static enum anyflash_status load_newest(struct af_cli *cli, struct af_catalog *catalog_out,
                                        struct anyflash_error *err)
{
    struct anyflash_error problem = {0};
    const char *path = af_state_catalog_path(&cli->arena, af_state_folder(&cli->arena));
    if (path == NULL || af_file_is_absent(path))
        return af_catalog_load_embedded(catalog_out, err);
    enum anyflash_status status = af_probe_catalog_stored(catalog_out, path, &problem);
    if (status == ANYFLASH_OK)
        return status;
    af_cli_remark(cli, "%s; using the embedded catalog (`anyflash update` downloads a new one)",
                  problem.message);
    return af_catalog_load_embedded(catalog_out, err);
}

enum anyflash_status af_cli_catalog_load(struct af_cli *cli, struct af_catalog *catalog_out,
                                         struct anyflash_error *err)
{
    const char *path = cli->options.values[AF_OPTION_CATALOG];
    if (path == NULL)
        path = getenv("ANYFLASH_CATALOG");
    if (path == NULL || path[0] == '\0')
        return load_newest(cli, catalog_out, err);
    enum anyflash_status status = af_probe_catalog(catalog_out, path, err);
    if (status != ANYFLASH_OK || catalog_out->count > 0)
        return status;
    af_catalog_release(catalog_out);
    return af_fail(err, ANYFLASH_E_DATA, "catalog '%s' has no wheels",
                   af_text_scrub(&cli->arena, path, 200));
}

enum anyflash_status af_cli_check_from(struct af_cli *cli, struct anyflash_error *err)
{
    const char *from = cli->options.values[AF_OPTION_FROM];
    if (from == NULL || af_file_is_folder(from))
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_NOT_FOUND, "--from: folder '%s' does not exist",
                   af_text_scrub(&cli->arena, from, 200));
}

enum anyflash_status af_cli_limit(const struct af_cli *cli, size_t *limit_out,
                                  struct anyflash_error *err)
{
    const char *text = cli->options.values[AF_OPTION_LIMIT];
    int64_t number = 0;
    if (text != NULL && !af_parse_i64(text, 1, INT32_MAX, &number))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--limit takes a number of at least 1");
    *limit_out = (size_t)number;
    return ANYFLASH_OK;
}

/* The options of a build as texts, with the bytes of the --for file. */
static enum anyflash_status read_build_words(struct af_cli *cli,
                                             struct af_plan_selection_texts *words_out,
                                             struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    const char *path = options->values[AF_OPTION_FOR];
    struct af_plan_selection_texts words = {
        .model_path = path,
        .head_dims = options->values[AF_OPTION_HEAD_DIM],
        .dtypes = options->values[AF_OPTION_DTYPE],
        .features = options->values[AF_OPTION_FEATURES],
        .inference = af_option_given(options, AF_OPTION_INFERENCE),
        .full = af_option_given(options, AF_OPTION_FULL),
    };
    enum anyflash_status status = ANYFLASH_OK;
    *words_out = words;
    if (path == NULL || words.full) /* giving both is an error */
        return ANYFLASH_OK;
    if (af_file_is_folder(path)) /* a model's folder contains the file */
        path = af_path_join(&cli->arena, path, "config.json");
    status = af_file_read_input(&cli->arena, path, MODEL_BYTES_MAX, &words.model, err);
    if (status != ANYFLASH_OK)
        cli->hint = "without the file: --head-dim 128 --dtype bf16 --features none";
    *words_out = words;
    return status;
}

static void tell(struct af_cli *cli, const struct af_plan_read_notes *notes)
{
    if (notes->remark != NULL)
        af_cli_remark(cli, "%s", notes->remark);
    if (notes->hint != NULL)
        cli->hint = notes->hint;
}

enum anyflash_status af_cli_read_selection(struct af_cli *cli, bool must,
                                           struct af_selection *selection,
                                           struct anyflash_error *err)
{
    struct af_plan_read_notes notes = {NULL, NULL};
    struct af_plan_selection_texts words;
    enum anyflash_status status = read_build_words(cli, &words, err);
    if (status == ANYFLASH_OK)
        status = af_plan_read_selection(&words, must, selection, &notes, err);
    tell(cli, &notes);
    return status;
}

const char *af_cli_arch(struct af_arena *arena, const char *typed)
{
    char sm[24];
    const char *vendor = NULL;
    const char *found = NULL;
    if (typed == NULL || strcmp(typed, "9") == 0)
        return typed == NULL ? NULL : "9.0";
    if (af_machine_gpu_sm_parse(typed, sm, sizeof sm))
        return af_arena_text(arena, sm);
    char *lower = af_arena_text(arena, typed);
    for (char *at = lower; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    return af_machine_gpu_name_find(lower, &vendor, &found) && found != NULL ? found : typed;
}

/* Reads the list of publishers in the file `path`; NULL: no file. */
static enum anyflash_status read_publishers(struct af_cli *cli,
                                            const struct af_catalog *catalog, const char *path,
                                            bool is_project, struct af_publishers *list_out,
                                            struct anyflash_error *err)
{
    struct af_span text;
    if (path == NULL || af_file_is_absent(path))
        return ANYFLASH_OK;
    const char *from = af_text_scrub(&cli->arena, path, 300);
    enum anyflash_status status = af_file_read(&cli->arena, path, TOML_BYTES_MAX, &text, err);
    if (status != ANYFLASH_OK)
        return status;
    return af_publishers_read_toml(catalog, text, is_project, from, &cli->arena, list_out,
                                   &cli->hint, err);
}

/* Says which list limits the choice. */
static void tell_publishers(struct af_cli *cli, const struct af_publishers *list)
{
    const char *names = list->names[0];
    for (size_t n = 1; n < list->count; n++)
        names = af_arena_format(&cli->arena, "%s, %s", names, list->names[n]);
    af_cli_remark(cli, "only wheels of %s are considered (%s)", names, list->from);
}

/*
 * Loads the lists of publishers. Each that exists must allow a wheel, so that a project cannot
 * widen what its user trusts:
 *
 *     --publishers NAME,...                     the command line
 *     [tool.anyflash] publishers = [...]        pyproject.toml, in --project or the nearest one
 *     publishers = [...]                        $XDG_CONFIG_HOME/anyflash/config.toml
 */
static enum anyflash_status load_publishers(struct af_cli *cli,
                                            const struct af_catalog *catalog,
                                            struct af_plan_request_texts *words,
                                            struct anyflash_error *err)
{
    const char *option = cli->options.values[AF_OPTION_PUBLISHERS];
    const char *stated = cli->options.values[AF_OPTION_PROJECT];
    const char *project = af_file_find(&cli->arena, stated != NULL ? stated : ".",
                                       "pyproject.toml", stated == NULL);
    const char *folder = af_settings_folder(&cli->arena);
    const char *user = folder == NULL ? NULL : af_path_join(&cli->arena, folder, "config.toml");
    struct af_publishers *lists =
        af_arena_array(&cli->arena, PUBLISHER_LISTS_MAX, sizeof *lists);
    enum anyflash_status status = ANYFLASH_OK;
    if (option != NULL)
        status = af_publishers_read(catalog, option, "--publishers", &cli->arena, &lists[0],
                                    &cli->hint, err);
    if (status == ANYFLASH_OK)
        status = read_publishers(cli, catalog, project, true, &lists[1], err);
    if (status == ANYFLASH_OK)
        status = read_publishers(cli, catalog, user, false, &lists[2], err);
    for (size_t i = 0; status == ANYFLASH_OK && i < PUBLISHER_LISTS_MAX; i++) {
        if (lists[i].count == 0)
            continue;
        lists[words->publisher_list_count++] = lists[i];
        tell_publishers(cli, &lists[i]);
    }
    words->publishers = lists;
    return status;
}

static enum anyflash_status read_request(struct af_cli *cli, const struct af_catalog *catalog,
                                         struct af_plan_request *request,
                                         struct anyflash_error *err)
{
    const char *const *values = cli->options.values;
    struct af_plan_read_notes notes = {NULL, NULL};
    struct af_plan_request_texts words = {
        .package = values[AF_OPTION_PACKAGE],
        .version = values[AF_OPTION_RELEASE],
        .arch = af_cli_arch(&cli->arena, values[AF_OPTION_ARCH]),
        .prefer = values[AF_OPTION_PREFER],
        .official_only = values[AF_OPTION_OFFICIAL] != NULL,
    };
    enum anyflash_status status = load_publishers(cli, catalog, &words, err);
    if (status == ANYFLASH_OK)
        status = read_build_words(cli, &words.build, err);
    if (status == ANYFLASH_OK)
        status = af_plan_request_read(&words, &cli->arena, request, &notes, err);
    if (status == ANYFLASH_OK)
        status = af_fit_check_asked(catalog, &request->fit, &cli->arena, &notes.hint, err);
    request->fit.lacks_package = !af_own_package_is_here(&cli->arena);
    request->elsewhere =
        af_machines_named(&cli->options) && !af_option_given(&cli->options, AF_OPTION_HERE);
    request->install_options = af_cli_repeated_options(cli, AF_COMMAND_INSTALL);
    request->undo_options = af_cli_repeated_options(cli, AF_COMMAND_UNDO);
    tell(cli, &notes);
    return status;
}

/*
 * Whether the facts that proofs depend on are those of this environment. A
 * record, or a torch, Python or system that the user states, is not this
 * environment.
 */
static bool is_here(const struct af_options *options)
{
    static const char *const harmless[] = {"sm=", "gpu=", "driver=", "ram_gb=", "disk_gb="};
    bool all = options->machines.count == 0;
    for (size_t i = 0; i < options->givens.count; i++) {
        bool known = false;
        for (size_t j = 0; j < AF_COUNT(harmless); j++)
            known = known || af_starts_with(options->givens.items[i], harmless[j]);
        all = all && known;
    }
    return all && (options->givens.count == 0 || af_option_given(options, AF_OPTION_HERE));
}

/* A state that cannot be opened counts as empty, with a remark if -v is given. */
static struct af_state *open_state(struct af_cli *cli)
{
    const char *remark = NULL;
    struct anyflash_error why;
    struct af_state *state = NULL;
    if (af_state_open(AF_STATE_READ, &cli->arena, &state, &remark, &why) != ANYFLASH_OK &&
        af_option_given(&cli->options, AF_OPTION_VERBOSE))
        af_cli_remark(cli, "%s", why.message);
    return state;
}

static const struct af_state_proof *proof_of(const struct af_catalog_wheel *wheel,
                                             const struct af_state_proof *proofs, size_t count)
{
    for (size_t i = 0; wheel->url != NULL && i < count; i++)
        if (af_url_equal(proofs[i].address, wheel->url))
            return &proofs[i];
    return NULL;
}

/* Takes over the proofs that can change the verdict on a wheel of the catalog. */
static enum anyflash_status take_proofs(struct af_cli *cli, struct af_cli_inputs *inputs,
                                        const struct af_state_proof *proofs, size_t count,
                                        struct anyflash_error *err)
{
    const struct af_catalog *catalog = &inputs->catalog;
    struct af_fit_options *fit = &inputs->request.fit;
    enum anyflash_status status = ANYFLASH_OK;
    size_t wheel_count = 0;
    const struct af_catalog_wheel **wheels =
        af_arena_array(&cli->arena, catalog->count + 1, sizeof *wheels);
    for (size_t i = 0; i < catalog->count; i++)
        if (proof_of(&catalog->wheels[i], proofs, count) != NULL)
            wheels[wheel_count++] = &catalog->wheels[i];
    if (wheel_count > 0)
        status = af_fit_provable_wheels(catalog, inputs->machines.pointers[0], fit, wheels,
                                        &wheel_count, &cli->arena, err);
    struct af_proved_wheel *known = af_arena_array(&cli->arena, wheel_count + 1, sizeof *known);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < wheel_count; i++) {
        const struct af_state_proof *proof = proof_of(wheels[i], proofs, count);
        known[i] =
            (struct af_proved_wheel){wheels[i], proof->answer, proof->reason, proof->built_for};
    }
    fit->known = known;
    fit->known_count = wheel_count;
    return ANYFLASH_OK;
}

/* Looks up what inspections concluded about wheels in this environment. */
static enum anyflash_status find_proofs(struct af_cli *cli, struct af_cli_inputs *inputs,
                                        struct anyflash_error *err)
{
    struct af_environment_hash hash;
    const struct af_state_proof *proofs;
    size_t count;
    struct af_state *state = inputs->is_here ? open_state(cli) : NULL;
    if (state == NULL)
        return ANYFLASH_OK;
    af_probe_environment_hash(inputs->machines.pointers[0], &hash);
    af_state_proofs_find(state, hash.loading, hash.surroundings, &cli->arena, &proofs, &count);
    af_state_close(state);
    return count == 0 ? ANYFLASH_OK : take_proofs(cli, inputs, proofs, count, err);
}

/* The wheels of --from, and those that `anyflash build` made here earlier. */
static const char **list_files(struct af_cli *cli, const struct af_machine *machine,
                               size_t *count_out)
{
    const char *from = cli->options.values[AF_OPTION_FROM];
    const struct af_cached_wheel_rows *built = &machine->cached_wheels;
    const char **names = NULL;
    size_t name_count = 0;
    if (from != NULL)
        from = af_file_real_path(&cli->arena, from);
    if (from != NULL)
        af_folder_list(&cli->arena, from, FOLDER_FILES_MAX, &names, &name_count, NULL, NULL);
    const char **paths =
        af_arena_array(&cli->arena, name_count + built->count + 1, sizeof *paths);
    size_t count = 0;
    for (size_t i = 0; i < name_count; i++)
        if (strstr(names[i], TORCH_FREE_MARK) != NULL && af_ends_with(names[i], ".whl"))
            paths[count++] = af_path_join(&cli->arena, from, names[i]);
    for (size_t i = 0; i < built->count; i++)
        if (af_fact_is(&built->rows[i].tool, "anyflash"))
            paths[count++] = af_fact_text_or(&built->rows[i].path, "");
    *count_out = count;
    return paths;
}

/* Wheels on this machine that were built without torch are candidates like published ones. */
static enum anyflash_status add_files(struct af_cli *cli, struct af_cli_inputs *inputs,
                                      struct anyflash_error *err)
{
    size_t count;
    if (!inputs->is_here)
        return ANYFLASH_OK;
    const char **paths = list_files(cli, inputs->machines.pointers[0], &count);
    return count == 0 ? ANYFLASH_OK : af_catalog_add_files(&inputs->catalog, paths, count, err);
}

/* Only `plan` and `doctor` show the machine's name, which says what was assumed. */
static enum anyflash_status assume(struct af_cli *cli, struct af_machine *machine,
                                   struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    const char *name = machine->name;
    bool given = options->machines.count == 0 && options->givens.count > 0 &&
                 !af_option_given(options, AF_OPTION_HERE);
    if (!given && !machine->pasted)
        return ANYFLASH_OK;
    enum anyflash_status status = af_fit_assume(machine, err);
    if (machine->name != name &&
        (options->command == AF_COMMAND_CONFIG || options->command == AF_COMMAND_FIND))
        af_cli_remark(cli, "%s", af_text_scrub(&cli->arena, machine->name, 300));
    return status;
}

enum anyflash_status af_cli_inputs_load(struct af_cli *cli, unsigned parts,
                                        struct af_cli_inputs *inputs_out,
                                        struct anyflash_error *err)
{
    struct af_cli_inputs inputs = {0};
    enum anyflash_status status = af_cli_catalog_load(cli, &inputs.catalog, err);
    inputs.has_catalog = status == ANYFLASH_OK;
    if (status == ANYFLASH_OK && (parts & AF_CLI_INPUT_MACHINES) != 0)
        status = af_machines_load(cli, &inputs.machines, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < inputs.machines.count; i++)
        status = assume(cli, &inputs.machines.items[i], err);
    inputs.is_here = inputs.machines.count == 1 && is_here(&cli->options);
    if (status == ANYFLASH_OK && (parts & AF_CLI_INPUT_FILES) != 0)
        status = add_files(cli, &inputs, err);
    if (status == ANYFLASH_OK)
        status = read_request(cli, &inputs.catalog, &inputs.request, err);
    if (status == ANYFLASH_OK && (parts & AF_CLI_INPUT_PROOFS) != 0)
        status = find_proofs(cli, &inputs, err);
    if (status != ANYFLASH_OK) {
        af_cli_inputs_release(&inputs);
        return status;
    }
    *inputs_out = inputs;
    inputs_out->request.catalog = &inputs_out->catalog;
    inputs_out->request.machines = inputs_out->machines.pointers;
    inputs_out->request.machine_count = inputs_out->machines.count;
    return ANYFLASH_OK;
}

void af_cli_inputs_release(struct af_cli_inputs *inputs)
{
    if (inputs->has_catalog)
        af_catalog_release(&inputs->catalog);
    af_machines_release(&inputs->machines);
    *inputs = (struct af_cli_inputs){0};
}
