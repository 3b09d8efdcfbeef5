/*
 * machine_inputs.c: probes this machine or reads records, applies --given, and says what the
 * user may have meant by a word that is refused.
 */
#include "kit/cli/machine_inputs.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"
#include "kit/probe/probe.h"

#define KEYS_MAX 64u
#define PART_BYTES_MIN 3u

/* Whether the key may be given several times, each one adding to the earlier ones. */
static bool adds(const char *key)
{
    return strcasecmp(key, "gpu") == 0 || strcasecmp(key, "env") == 0;
}

static size_t list_keys(const char *names[KEYS_MAX])
{
    const char *doc;
    size_t count = 0;
    while (count < KEYS_MAX && (names[count] = af_machine_given_key(count, &doc)) != NULL)
        count++;
    return count;
}

/* "did you mean torch_cuda, cuda_api or cuda_toolkit?" for "cuda": the keys that contain it. */
static const char *containing(struct af_arena *arena, const char *typed,
                              const char *const *names, size_t count)
{
    const char *found[KEYS_MAX];
    size_t found_count = 0;
    const char *text = "did you mean ";
    for (size_t i = 0; i < count && strlen(typed) >= PART_BYTES_MIN; i++)
        if (strcasestr(names[i], typed) != NULL)
            found[found_count++] = names[i];
    for (size_t i = 0; i < found_count; i++)
        text = af_arena_format(arena, "%s%s%s", text,
                               i == 0                 ? ""
                               : i + 1 == found_count ? " or "
                                                      : ", ",
                               found[i]);
    return found_count == 0 ? NULL : af_arena_format(arena, "%s?", text);
}

/* What the user may have meant by a key that does not exist, or what its values look like. */
static const char *hint_for(struct af_arena *arena, const char *word)
{
    const char *names[KEYS_MAX + 1];
    size_t count = list_keys(names);
    const char *key = af_arena_text_n(arena, word, strcspn(word, "="));
    const char *doc;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(names[i], key) == 0) {
            af_machine_given_key(i, &doc);
            return af_arena_format(arena, "values of %s: %s", names[i], doc);
        }
    const char *hint = containing(arena, key, names, count);
    const char *near = af_nearest(key, names, count);
    return hint != NULL || near == NULL ? hint
                                        : af_arena_format(arena, "did you mean %s?", near);
}

static bool same_key(const char *a, const char *b)
{
    return strncasecmp(a, b, strcspn(a, "=") + 1) == 0;
}

/* Says once that a later --given replaces the value of this one. */
static void remark_replaced(struct af_cli *cli, size_t index)
{
    const char *const *words = cli->options.givens.items;
    const char *word = words[index];
    size_t count = 0;
    for (size_t i = 0; i < cli->options.givens.count; i++) {
        if (i < index && same_key(word, words[i]))
            return;
        count += same_key(word, words[i]);
    }
    const char *key = af_arena_text_n(&cli->arena, word, strcspn(word, "="));
    if (count < 2 || adds(key))
        return;
    af_cli_remark(cli, "%s is given %s; the last value counts",
                  af_text_scrub(&cli->arena, key, 60),
                  count == 2 ? "twice" : "more than twice");
}

/*
 * Applies every --given, in order. A key that does not exist or a value that cannot be read
 * sets cli->hint. With `with_remarks` notes on values are printed.
 */
static enum anyflash_status apply_given(struct af_cli *cli, struct af_machine *machine,
                                        bool with_remarks, struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.givens;
    for (size_t i = 0; i < words->count; i++) {
        const char *remark = NULL;
        enum anyflash_status status =
            af_machine_given_strictly(machine, words->items[i], &remark, err);
        if (status == ANYFLASH_E_ARGUMENT)
            cli->hint = hint_for(&cli->arena, words->items[i]);
        if (status != ANYFLASH_OK)
            return status;
        if (remark != NULL && with_remarks)
            af_cli_remark(cli, "%s", remark);
        if (with_remarks)
            remark_replaced(cli, i);
    }
    return ANYFLASH_OK;
}

bool af_machines_named(const struct af_options *options)
{
    return options->machines.count > 0 || options->givens.count > 0 ||
           af_option_given(options, AF_OPTION_HERE);
}

static enum anyflash_status probe(struct af_cli *cli, struct af_machine *machine,
                                  struct anyflash_error *err)
{
    struct af_probe_options options = {
        .python = cli->options.values[AF_OPTION_PYTHON],
    };
    af_machine_init(machine, "this machine", "not looked at");
    return af_probe_machine(machine, &options, err);
}

enum anyflash_status af_cli_python_prefix(struct af_cli *cli, const char **prefix_out,
                                          struct anyflash_error *err)
{
    struct af_machine machine;
    const struct af_probe_options options = {.python = cli->options.values[AF_OPTION_PYTHON],
                                             .only_python = true};
    af_machine_init(&machine, "this machine", "not looked at");
    enum anyflash_status status = af_probe_machine(&machine, &options, err);
    const char *prefix = af_fact_text_or(&machine.python.prefix, NULL);
    *prefix_out = prefix == NULL ? NULL : af_arena_text(&cli->arena, prefix);
    af_machine_release(&machine);
    return status;
}

/* Prints contradictions and unclear lines of pasted text. */
static void print_notes(struct af_cli *cli, const char *notes)
{
    struct af_span rest = {notes, notes == NULL ? 0 : strlen(notes)};
    struct af_span line;
    while (af_text_line(&rest, &line))
        af_cli_remark(cli, "%.*s", (int)line.len, line.data);
}

/* Loads machine `index` of the options, before --given is applied. Always initialises it. */
static enum anyflash_status load_one(struct af_cli *cli, size_t index,
                                     struct af_machine *machine, struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    if (index < options->machines.count) {
        const char *path = options->machines.items[index];
        const char *name = strcmp(path, "-") == 0
                               ? "standard input"
                               : af_text_scrub(&cli->arena, af_path_name(path), 200);
        af_machine_init(machine, name, "not in the record");
        enum anyflash_status status = af_probe_record(machine, path, err);
        if (status == ANYFLASH_OK)
            print_notes(cli, machine->notes);
        return status;
    }
    if (options->givens.count > 0 && !af_option_given(options, AF_OPTION_HERE)) {
        af_machine_init(machine, "the machine described with --given", "not given");
        return ANYFLASH_OK;
    }
    return probe(cli, machine, err);
}

/* --python names an environment of this machine, so it excludes other machines. */
static enum anyflash_status check_words(struct af_cli *cli, struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    bool here = options->machines.count == 0 &&
                (options->givens.count == 0 || af_option_given(options, AF_OPTION_HERE));
    if (af_option_given(options, AF_OPTION_HERE) && options->machines.count > 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--here cannot be used with --machine");
    if (!here && af_option_given(options, AF_OPTION_PYTHON)) {
        cli->hint = "`--given python=3.12` states a version; --here starts from this machine";
        return af_fail(
            err, ANYFLASH_E_ARGUMENT,
            "--python applies to this machine only, but you asked about another one");
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_machines_load(struct af_cli *cli, struct af_machines *machines_out,
                                      struct anyflash_error *err)
{
    size_t wanted = cli->options.machines.count > 0 ? cli->options.machines.count : 1;
    struct af_machines machines = {
        .items = af_arena_array(&cli->arena, wanted, sizeof(struct af_machine)),
        .pointers = af_arena_array(&cli->arena, wanted, sizeof(struct af_machine *)),
    };
    enum anyflash_status status = check_words(cli, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < wanted; i++) {
        struct af_machine *machine = &machines.items[i];
        status = load_one(cli, i, machine, err);
        machines.pointers[machines.count++] = machine;
        if (status == ANYFLASH_OK)
            status = apply_given(cli, machine, i == 0, err);
    }
    if (status != ANYFLASH_OK) {
        af_machines_release(&machines);
        return status;
    }
    *machines_out = machines;
    return ANYFLASH_OK;
}

void af_machines_release(struct af_machines *machines)
{
    for (size_t i = 0; i < machines->count; i++)
        af_machine_release(&machines->items[i]);
    *machines = (struct af_machines){0};
}
