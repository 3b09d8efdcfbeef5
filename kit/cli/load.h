/*
 * load.h: what the deciding commands work on: machines, catalog, decision.
 */
#ifndef AF_KIT_CLI_LOAD_H
#define AF_KIT_CLI_LOAD_H

#include "kit/build/offer/slim.h"
#include "kit/cli/commands.h"
#include "kit/fit/fit.h"
#include "kit/machine/machine.h"

/*
 * The machines that the options name: this one, records, or one by hand.
 * `items` belong to the cli's arena, their content to themselves: release.
 */
struct af_machines {
    struct af_machine *items;
    const struct af_machine **pointers; /* to the items, for af_plan_decide() */
    size_t count;
};

/* Probes, reads or makes them; remarks on values go to stderr. */
enum anyflash_status af_machines_load(struct af_cli *cli, struct af_machines *machines_out,
                                      struct anyflash_error *err);
void af_machines_release(struct af_machines *machines);

/* Whether a machine was named: --machine, --given or --here. */
bool af_machines_named(const struct af_options *options);

/*
 * The file of --catalog or $ANYFLASH_CATALOG; else the one that `anyflash update`
 * left, where it is of this program and whole; else the embedded one.
 */
enum anyflash_status af_cli_catalog_load(struct af_cli *cli, struct af_catalog *catalog_out,
                                         struct anyflash_error *err);

/* --prefer, --package, --version, --arch, --official as fit wants them. */
enum anyflash_status af_cli_fit_options(struct af_cli *cli, struct af_fit_options *options_out,
                                        struct anyflash_error *err);

/* --limit, or `fallback` where it was not given. */
enum anyflash_status af_cli_limit(const struct af_cli *cli, size_t fallback, size_t *limit_out,
                                  struct anyflash_error *err);

/* All that a decision rests on. Zero-initialised it is empty. */
struct af_question {
    struct af_machines machines;
    struct af_catalog catalog;
    struct af_fit_options options;
    struct af_slim slim; /* of `plan`: what a build would hold, without targets */
    struct af_decision decision;
    bool has_catalog;
    bool has_decision;
};

/* Loads machines and catalog and decides. On failure nothing is held. */
enum anyflash_status af_question_answer(struct af_cli *cli, struct af_question *question_out,
                                        struct anyflash_error *err);
void af_question_release(struct af_question *question);

#endif
