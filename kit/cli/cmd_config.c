/*
 * cmd_config.c: `anyflash config KIND`: prints the decision as configuration
 * for another tool. Decisions and text are made in kit/config, wheels are fetched
 * in kit/install. Prints the new file or writes it.
 */
#include <stdio.h>
#include <string.h>

#include "kit/catalog/publisher.h"
#include "kit/cli/environment_change.h"
#include "kit/cli/screen.h"
#include "kit/config/config_project.h"
#include "kit/fit/fit.h"
#include "kit/fit/rung.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/pinned_wheels.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/progress.h"

#define FILE_BYTES_MAX (4u << 20)

struct kind {
    const char *name;
    const char *file;
};

/* The file of the first kind is edited; for the others there are lines to paste. */
static const struct kind kinds[] = {
    {"uv", "pyproject.toml"},     {"pip", "requirements.txt"}, {"pylock", "pylock.toml"},
    {"poetry", "pyproject.toml"}, {"pixi", "pixi.toml"},       {"conda", "environment.yml"},
    {"dockerfile", "Dockerfile"},
};

struct config {
    const struct kind *kind;
    const char *path;  /* the file that is read and written */
    const char *shown; /* its name, scrubbed */
    struct af_span old;
    bool is_new; /* there is no such file yet */
    struct af_cli_inputs inputs;
    struct af_config_project project;
    struct af_config_lock lock;
    struct af_change change; /* shows the progress of downloads */
    struct af_run run;
    struct af_pinned_wheels wheels;
    struct af_content_refusal refusal; /* of a wheel that is here */
    struct af_span made;
    bool is_changed;
    bool is_written;
};

static bool is_edited(const struct config *config)
{
    return config->kind == &kinds[0];
}

static enum anyflash_status check_words(struct af_cli *cli, const struct config *config,
                                        struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    bool writes = af_option_given(options, AF_OPTION_WRITE);
    if (af_option_given(options, AF_OPTION_EXTRA) && !is_edited(config))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--extra works only with `config uv`");
    if (writes && !is_edited(config))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "`config %s` only prints lines to paste: --write is not supported",
                       config->kind->name);
    return af_cli_check_from(cli, err);
}

static enum anyflash_status find_kind(struct af_cli *cli, struct config *config,
                                      struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    struct af_text names = {0};
    for (size_t i = 0; i < AF_COUNT(kinds); i++) {
        af_text_format(&names, "%s%s", i > 0 ? ", " : "", kinds[i].name);
        if (words->count == 1 && strcmp(words->items[0], kinds[i].name) == 0)
            config->kind = &kinds[i];
    }
    enum anyflash_status status = ANYFLASH_OK;
    if (config->kind == NULL && words->count == 1)
        status = af_fail(err, ANYFLASH_E_ARGUMENT, "'%s' is not a kind of configuration: %s",
                         af_text_scrub(&cli->arena, words->items[0], 80), names.data);
    else if (config->kind == NULL)
        status =
            af_fail(err, ANYFLASH_E_ARGUMENT, "'config' takes one argument: %s", names.data);
    af_text_release(&names);
    if (status != ANYFLASH_OK)
        return status;
    return check_words(cli, config, err);
}

/* Finds the file (--project, or from this folder upwards, as uv does) and reads it. */
static enum anyflash_status read_file(struct af_cli *cli, struct config *config,
                                      struct anyflash_error *err)
{
    const char *stated = cli->options.values[AF_OPTION_PROJECT];
    const char *folder = stated != NULL ? stated : ".";
    if (stated != NULL && !af_file_is_folder(stated))
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "folder '%s' does not exist",
                       af_text_scrub(&cli->arena, stated, 160));
    if (is_edited(config))
        config->path = af_file_find(&cli->arena, folder, config->kind->file, stated == NULL);
    config->is_new = config->path == NULL;
    if (config->is_new)
        config->path = af_path_join(&cli->arena, folder, config->kind->file);
    config->shown = af_text_scrub(&cli->arena, af_path_name(config->path), 160);
    if (config->is_new)
        return ANYFLASH_OK;
    return af_file_read(&cli->arena, config->path, FILE_BYTES_MAX, &config->old, err);
}

/* What to do if the decision is none that can be locked; arena text. */
static const char *undecided_hint(struct af_cli *cli)
{
    return af_arena_format(&cli->arena, "`%s` shows every option; --prefer chooses one",
                           af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
}

static enum anyflash_status read_included(void *context, struct af_arena *arena,
                                          const char *path, struct af_span *text_out,
                                          struct anyflash_error *err)
{
    (void)context;
    return af_file_read(arena, path, FILE_BYTES_MAX, text_out, err);
}

/* Reads a file of the project's folder, if it exists. */
static enum anyflash_status add_stating(struct af_cli *cli, struct config *config,
                                        const char *name, struct anyflash_error *err)
{
    struct af_project_source source = {.path = name, .kind = af_project_kind_of(name)};
    const char *path =
        af_path_join(&cli->arena, af_path_folder(&cli->arena, config->path), name);
    if (!af_file_is_regular(path))
        return ANYFLASH_OK;
    if (source.kind == AF_PROJECT_REQUIREMENTS) {
        af_config_project_add_lines(&config->project, path, read_included, NULL);
        return ANYFLASH_OK;
    }
    enum anyflash_status status =
        af_file_read(&cli->arena, path, FILE_BYTES_MAX, &source.text, err);
    return status == ANYFLASH_OK ? af_config_project_add(&config->project, &source, err)
                                 : status;
}

/*
 * Reads the files that may state versions: first that of the tool, then those that every
 * project may have. The files of other tools are about other environments.
 */
static enum anyflash_status read_project(struct af_cli *cli, struct config *config,
                                         struct anyflash_error *err)
{
    static const char *const common[] = {"pyproject.toml", "requirements.txt"};
    const char *own = config->kind->file;
    enum af_project_kind kind = af_project_kind_of(own);
    enum anyflash_status status = ANYFLASH_OK;
    if (kind != AF_PROJECT_OTHER && kind != AF_PROJECT_DOCKERFILE)
        status = add_stating(cli, config, own, err);
    for (size_t i = 0; i < AF_COUNT(common) && status == ANYFLASH_OK; i++)
        if (strcmp(common[i], own) != 0)
            status = add_stating(cli, config, common[i], err);
    return status;
}

/* Decides within what the project states, and collects the pins. */
static enum anyflash_status decide(struct af_cli *cli, struct config *config,
                                   struct anyflash_error *err)
{
    struct af_cli_inputs *inputs = &config->inputs;
    enum anyflash_status status = af_cli_inputs_load(cli, AF_CLI_INPUT_MACHINES, inputs, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *package = inputs->request.fit.package;
    config->project = (struct af_config_project){
        .arena = &cli->arena,
        .locks_all = is_edited(config),
        .package = af_wheel_listed_name(&cli->arena, package == NULL ? "flash_attn" : package)};
    status = read_project(cli, config, err);
    if (status == ANYFLASH_OK)
        status = af_config_project_decide(&config->project, &config->lock, &inputs->catalog,
                                          inputs->machines.items, inputs->machines.count,
                                          &inputs->request.fit, err);
    return status;
}

/* Chooses each pin's source. */
static enum anyflash_status choose(struct af_cli *cli, struct config *config,
                                   struct anyflash_error *err)
{
    bool by_path = is_edited(config);
    const char *source = cli->options.values[AF_OPTION_SOURCE];
    enum af_pin_source how = source == NULL || strcmp(source, "auto") == 0 ? AF_PIN_AUTO
                             : strcmp(source, "path") == 0                 ? AF_PIN_PATH
                                                                           : AF_PIN_URL;
    if (how == AF_PIN_URL && strcmp(source, "url") != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--source takes auto, path or url");
    if (source != NULL && !by_path)
        return af_fail(
            err, ANYFLASH_E_ARGUMENT,
            "--source works only with `config uv`: the other kinds always use the URL");
    af_config_lock_finish(&config->lock, by_path ? how : AF_PIN_URL);
    return ANYFLASH_OK;
}

/* Reads the wheels that are here. */
static enum anyflash_status find_wheels(struct af_cli *cli, struct config *config,
                                        struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    config->change.cli = cli;
    config->run =
        (struct af_run){.arena = &cli->arena,
                        .progress = af_cli_progress(&config->change),
                        .offline = af_option_given(options, AF_OPTION_OFFLINE),
                        .allow_http = af_option_given(options, AF_OPTION_ALLOW_HTTP),
                        .allow_content = {options->allowed.items, options->allowed.count}};
    config->wheels = (struct af_pinned_wheels){
        .lock = &config->lock,
        .run = &config->run,
        .project = af_path_folder(&cli->arena, config->path),
        .from = options->values[AF_OPTION_FROM],
        .is_here = options->machines.count == 0 && options->givens.count == 0 &&
                   !config->project.replaces_torch};
    return af_pinned_wheels_find(&config->wheels, err);
}

/* uv ignores [tool.uv] of a project that also has a uv.toml. */
static void note_uv_toml(struct af_cli *cli, struct config *config)
{
    const char *path = af_path_join(&cli->arena, config->wheels.project, "uv.toml");
    if (is_edited(config) && af_file_is_regular(path))
        af_config_lock_note(&config->lock,
                            "there is a uv.toml next to pyproject.toml: uv reads its settings "
                            "from that file and ignores no-build-package and "
                            "dependency-metadata in pyproject.toml");
}

/* Follows a link to the real file and keeps its permissions. */
static enum anyflash_status write_file(struct af_cli *cli, const struct config *config,
                                       struct anyflash_error *err)
{
    const char *real = config->is_new ? NULL : af_file_real_path(&cli->arena, config->path);
    return af_file_rewrite(&cli->arena, real != NULL ? real : config->path, &config->made, err);
}

/* Makes the new text of the file, or the lines to paste. */
static enum anyflash_status make_text(struct af_cli *cli, struct config *config,
                                      struct af_config_lock *lock, struct anyflash_error *err)
{
    const struct af_config_options options = {
        .extra = cli->options.values[AF_OPTION_EXTRA],
        .is_written = af_option_given(&cli->options, AF_OPTION_WRITE)};
    return is_edited(config)
               ? af_config_uv(lock, &options, config->old, config->shown, &config->made, err)
               : af_config_fragment(lock, config->kind->name, &config->made, err);
}

/*
 * Gets the wheels that uv needs beside the project. The text is made once before,
 * so that nothing is downloaded for a project that cannot be written.
 */
static enum anyflash_status fetch_wheels(struct af_cli *cli, struct config *config,
                                         struct anyflash_error *err)
{
    struct af_config_lock before = config->lock;
    enum anyflash_status status = make_text(cli, config, &before, err);
    af_interrupt_catch();
    if (status == ANYFLASH_OK)
        status = af_pinned_wheels_fetch(&config->wheels, err);
    af_change_end(&config->change);
    return status == ANYFLASH_OK ? choose(cli, config, err) : status;
}

/*
 * Makes the new text and does what --write asks for: wheels first, then the
 * file that names them.
 */
static enum anyflash_status make(struct af_cli *cli, struct config *config,
                                 struct anyflash_error *err)
{
    bool writes = af_option_given(&cli->options, AF_OPTION_WRITE);
    enum anyflash_status status = ANYFLASH_OK;
    if (writes)
        status = fetch_wheels(cli, config, err);
    if (status == ANYFLASH_OK)
        status = make_text(cli, config, &config->lock, err);
    if (status == ANYFLASH_OK && writes)
        status = af_pinned_wheels_refuse(&config->wheels, &config->refusal, err);
    if (status == ANYFLASH_OK)
        status = af_pinned_wheels_place(&config->wheels, writes, err);
    if (status != ANYFLASH_OK)
        return status;
    note_uv_toml(cli, config);
    config->is_changed = config->made.len != config->old.len ||
                         (config->old.len > 0 &&
                          memcmp(config->made.data, config->old.data, config->old.len) != 0);
    if (!writes || !config->is_changed)
        return ANYFLASH_OK;
    status = write_file(cli, config, err);
    config->is_written = status == ANYFLASH_OK;
    return status;
}

/* A file that others will install without asking: says which are not the authors'. */
static void tell_publishers(struct af_cli *cli, const struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_catalog_wheel *wheel = lock->pins[i].wheel;
        if (!wheel->official)
            af_cli_remark(cli, "'%s' is a community build by %s", lock->pins[i].file,
                          af_fit_publisher(&cli->arena, wheel));
    }
}

static json_t *pins_json(const struct af_config_lock *lock)
{
    json_t *list = json_array();
    for (size_t i = 0; i < lock->pin_count; i++) {
        const struct af_pin *pin = &lock->pins[i];
        const char *source = pin->wheel->source;
        list = af_json_append(
            list, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:o}", "version",
                            pin->version, "filename", pin->file, "url", pin->url, "publisher",
                            json_stringn(source, af_publisher_len(source)), "path",
                            af_json_text(pin->path), "sha256", af_json_text(pin->facts.sha256),
                            "marker", pin->marker, "torch", af_json_text(pin->torch), "machine",
                            af_fit_json_machine(pin->machine)));
    }
    return list;
}

static enum anyflash_status write_json(struct af_cli *cli, const struct config *config,
                                       struct anyflash_error *err)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:b, s:o}", "schema",
                  "anyflash-config/1", "kind", config->kind->name, "file", config->shown,
                  "pins", pins_json(&config->lock), "marker", af_json_text(config->lock.marker),
                  "text", json_stringn(config->made.data, config->made.len), "changed",
                  config->is_changed, "written", config->is_written, "notes",
                  af_json_texts(config->lock.notes, config->lock.note_count));
    return af_cli_json_take(cli, json, err);
}

/* What --write did, and the command that uses it. */
static void view_written(struct af_cli *cli, const struct config *config)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_format(&screen, 0, "", AF_TONE_GOOD,
                     config->is_written ? "wrote %s" : "nothing had to change in %s",
                     config->shown);
    af_screen_format(&screen, 6, "File: ", AF_TONE_PLAIN, "%s",
                     af_text_scrub(&cli->arena, config->path, 4096));
    if (config->is_written)
        af_screen_add(&screen, 6, "Next: ", AF_TONE_PLAIN, "`uv lock`");
}

static void view(struct af_cli *cli, const struct config *config)
{
    const struct af_config_lock *lock = &config->lock;
    if (af_option_given(&cli->options, AF_OPTION_WRITE))
        view_written(cli, config);
    else
        af_text_add_n(&cli->out, config->made.data, config->made.len);
    for (size_t i = 0; i < lock->note_count; i++)
        if (lock->notes[i] != NULL)
            af_cli_remark(cli, "%s", lock->notes[i]);
    tell_publishers(cli, lock);
}

/* The decision cannot be locked: the answer is no, with the reason. */
static enum anyflash_status refuse(struct af_cli *cli, const struct config *config,
                                   const char *reason, struct anyflash_error *err)
{
    bool undecided = config->lock.pin_count == 0;
    const char *hint = config->project.hint != NULL     ? config->project.hint
                       : undecided                      ? undecided_hint(cli)
                       : config->refusal.reason != NULL ? config->refusal.hint
                                                        : cli->hint;
    reason = config->refusal.reason != NULL ? config->refusal.reason : reason;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(cli,
                                json_pack("{s:s, s:s, s:n, s:s, s:o}", "schema",
                                          "anyflash-config/1", "kind", config->kind->name,
                                          "text", "reason", reason, "hint", af_json_text(hint)),
                                err);
    fprintf(stderr, "no: %s\n", reason);
    if (hint != NULL)
        fprintf(stderr, "hint: %s\n", hint);
    return ANYFLASH_OK;
}

enum anyflash_status af_cmd_config(struct af_cli *cli, enum af_exit *exit_out,
                                   struct anyflash_error *err)
{
    struct config config = {0};
    struct anyflash_error problem = {0};
    enum anyflash_status status = find_kind(cli, &config, &problem);
    if (status == ANYFLASH_OK)
        status = read_file(cli, &config, &problem);
    if (status == ANYFLASH_OK)
        status = decide(cli, &config, &problem);
    if (status == ANYFLASH_OK)
        status = find_wheels(cli, &config, &problem);
    if (status == ANYFLASH_OK)
        status = choose(cli, &config, &problem);
    if (status == ANYFLASH_OK)
        status = make(cli, &config, &problem);
    if (config.wheels.hint != NULL)
        cli->hint = config.wheels.hint;
    if (status == ANYFLASH_E_UNSUPPORTED) {
        *exit_out = AF_EXIT_NO;
        status = refuse(cli, &config, problem.message, err);
    } else if (status != ANYFLASH_OK) {
        status = af_fail(err, status, "%s", problem.message);
    } else if (af_option_given(&cli->options, AF_OPTION_JSON)) {
        status = write_json(cli, &config, err);
    } else {
        view(cli, &config);
    }
    af_pinned_wheels_discard(&config.wheels);
    af_config_lock_release(&config.lock);
    af_cli_inputs_release(&config.inputs);
    return status;
}
