/*
 * config_job.h: the data that `config` works on, loaded step by step.
 */
#ifndef AF_KIT_CLI_CONFIG_JOB_H
#define AF_KIT_CLI_CONFIG_JOB_H

#include "kit/cli/load.h"
#include "kit/config/config.h"

/* Zero-initialised, with `file` and `upwards` set. Texts are in the cli's arena. */
struct af_cli_config_job {
    const char *file;  /* the tool's file, such as "pyproject.toml" */
    bool upwards;      /* also search the folders above, as the tool does */
    const char *path;  /* the file that is read and written */
    const char *shown; /* its name, scrubbed */
    struct af_span old;
    bool is_new; /* there is no such file yet */
    struct af_cli_inputs inputs;
    struct af_decision *decisions; /* one per group of machines */
    size_t decision_count;
    struct af_config_lock *lock; /* NULL before af_cli_config_decide() */
    const char
        *fetched[AF_PINS_MAX]; /* config_fetch.h: the pins' files in the cache, or NULL */
};

/* Finds the file (--project, or from this folder upwards) and reads it. */
enum anyflash_status af_cli_config_load(struct af_cli *cli, struct af_cli_config_job *job,
                                        struct anyflash_error *err);

/*
 * Decides and collects the pins. Fails with UNSUPPORTED, with the reason, if
 * the decision cannot be locked.
 */
enum anyflash_status af_cli_config_decide(struct af_cli *cli, struct af_cli_config_job *job,
                                          struct anyflash_error *err);

/* What to do if the decision is none that can be locked; arena text. */
const char *af_cli_config_undecided_hint(struct af_cli *cli);

/* Reads the wheels that are here and chooses each pin's source. */
enum anyflash_status af_cli_config_settle(struct af_cli *cli, struct af_cli_config_job *job,
                                          bool by_path, struct anyflash_error *err);

/* Chooses each pin's source again, after its facts changed. */
enum anyflash_status af_cli_config_choose(struct af_cli *cli, struct af_cli_config_job *job,
                                          bool by_path, struct anyflash_error *err);

/*
 * The path of the pin's file: below --from, in the project's folder of wheels, or fetched; else
 * NULL.
 */
const char *af_cli_config_wheel(struct af_cli *cli, const struct af_cli_config_job *job,
                                const struct af_pin *pin);

/*
 * Reads hash and metadata of the pin's file. Fails with DATA if they are not those
 * of the pin, or as reading the file does.
 */
enum anyflash_status af_cli_config_wheel_facts(struct af_cli *cli,
                                               const struct af_cli_config_job *job,
                                               const struct af_pin *pin, const char *path,
                                               struct af_config_wheel_facts *facts_out,
                                               struct anyflash_error *err);

void af_cli_config_release(struct af_cli_config_job *job);

#endif
