/*
 * run_choice.h: what `anyflash run` decides before it runs anything: what the command asks for,
 * which torch there will be, and the wheel of flash-attn that fits it, or a stand-in.
 */
#ifndef AF_KIT_CLI_RUN_CHOICE_H
#define AF_KIT_CLI_RUN_CHOICE_H

#include "kit/answer/plan_answer.h"
#include "kit/cli/environment_change.h"
#include "kit/install/checked_wheel.h"
#include "kit/project/requirements.h"

#define AF_CLI_RUN_PACKAGE "flash-attn"

/* One run, while it is prepared. The caller sets cli and change.cli. Texts: in its arena. */
struct af_cli_wanted {
    struct af_cli *cli;
    struct af_change change;
    struct af_cli_inputs inputs;
    struct af_plan_answer answer;
    struct af_project project;
    struct af_project_command command;
    struct af_marker_environment here;
    const struct af_project_requirement *flash; /* the first that asks for it; NULL: none */
    const char *torch;                          /* to be there afterwards; NULL: unknown */
    bool torch_stays;                           /* it is the installed one */
    const char *torch_why;              /* who decides it; NULL: the project or nobody */
    const struct af_step_wheel *chosen; /* NULL: none is needed */
    struct af_step_wheel named;         /* chosen, if the project names its file */
    bool placed;                        /* the project names its file */
    const char *stand_in; /* the version of anyflash's own flash_attn; NULL: it is not needed */
    struct af_checked_wheel wheel; /* of run_offer.c, as the next two */
    const char *folder;            /* private, for the wheel; NULL: none */
    const char *constraints;       /* a file in it; NULL: there is nothing to say */
    const char *refusal;
    const char *hint;
};

/* Sets the reason why nothing is run; `hint` may be NULL. */
void af_cli_wanted_refuse(struct af_cli_wanted *wanted, const char *reason, const char *hint);

/*
 * Reads the command and its files: wanted->command and wanted->project. This and the next one
 * fail with ARGUMENT if flash-attn is to be compiled (--no-binary).
 */
enum anyflash_status af_cli_wanted_read(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err);

/* Reads the command's environment, and finds its requirement on flash-attn. */
enum anyflash_status af_cli_wanted_look(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err);

/*
 * Chooses torch and the wheel or the stand-in, or refuses. Fails with ARGUMENT for a --prefer
 * that is neither.
 */
enum anyflash_status af_cli_wanted_decide(struct af_cli_wanted *wanted,
                                          struct anyflash_error *err);

/*
 * For a requirement that names a file or an address, which cannot be replaced: the wheel is
 * that file. Refuses sources.
 */
enum anyflash_status af_cli_wanted_take_place(struct af_cli_wanted *wanted,
                                              struct anyflash_error *err);

/* Whether the project states hashes of flash-attn. */
bool af_cli_wanted_has_hashes(const struct af_cli_wanted *wanted);

/* Refuses a wheel that cannot have one of the hashes that the project states. */
void af_cli_wanted_check_hashes(struct af_cli_wanted *wanted, const char *sha256);

/* Refuses the chosen wheel; of one that the project names, says where. */
void af_cli_wanted_refuse_wheel(struct af_cli_wanted *wanted, const char *reason,
                                const char *hint);

#endif
