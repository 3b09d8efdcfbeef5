/*
 * run_offer.c: the folder, the wheel in it, and the constraints, which pin flash-attn to that
 * file (PEP 508: name @ address): pip and uv then look nowhere else.
 */
#include "kit/cli/run_offer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/url.h"
#include "kit/install/direct_url.h"
#include "kit/install/expected_files.h"
#include "kit/install/own_package.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define PACKAGE AF_CLI_RUN_PACKAGE
#define FOLDER_NAME "anyflash-run-"
#define OLD_FOLDERS_MAX 1000
#define OLD_SECONDS (24 * 60 * 60)
#define UV_CONSTRAINTS_MAX 16
/* No release has this version, which is in the installer's message. */
#define NEEDED PACKAGE "==0+add.flash.attn.to.the.command\n"

/* Whether a path can be one of several in a variable, between blanks. */
static bool is_plain(const char *path)
{
    return path != NULL && path[strcspn(path, " \t\r\n")] == '\0';
}

/*
 * Removes the folder of a killed run: of this user, a day old, and locked by nobody. Where
 * folders cannot be locked (NFS) it stays.
 */
static void remove_old(const char *path)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &facts) == 0 && facts.st_uid == geteuid() &&
        facts.st_mtime < time(NULL) - OLD_SECONDS && flock(fd, LOCK_EX | LOCK_NB) == 0)
        af_folder_remove(path, NULL);
    close(fd);
}

static void remove_all_old(struct af_arena *arena, const char *base)
{
    const char **names;
    size_t count;
    if (af_folder_list(arena, base, OLD_FOLDERS_MAX, &names, &count, NULL, NULL) != ANYFLASH_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (af_starts_with(names[i], FOLDER_NAME))
            remove_old(af_path_join(arena, base, names[i]));
    }
}

enum anyflash_status af_cli_offer_begin(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    if (wanted->folder != NULL)
        return ANYFLASH_OK;
    const char *base = af_cache_folder(arena);
    if (!is_plain(base) || af_folder_make(base, 0755, NULL) != ANYFLASH_OK)
        base = "/tmp";
    remove_all_old(arena, base);
    char *folder = af_arena_format(arena, "%s/" FOLDER_NAME "XXXXXX", base);
    if (mkdtemp(folder) == NULL)
        return af_fail(err, ANYFLASH_E_IO, "cannot create a folder in '%s': %s", base,
                       strerror(errno));
    wanted->folder = folder;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        flock(fd, LOCK_EX | LOCK_NB); /* until this process ends */
    return ANYFLASH_OK;
}

void af_cli_offer_end(struct af_cli_wanted *wanted)
{
    if (wanted->folder != NULL)
        af_folder_remove(wanted->folder, NULL);
}

static enum anyflash_status make_stand_in(struct af_cli_wanted *wanted,
                                          struct anyflash_error *err)
{
    struct af_checked_wheel *wheel = &wanted->wheel;
    enum anyflash_status status = af_own_package_stand_in(&wanted->change.run, wanted->stand_in,
                                                          wanted->folder, &wheel->path, err);
    return status == ANYFLASH_OK ? af_file_sha256(wheel->path, wheel->sha256, NULL, err)
                                 : status;
}

static enum anyflash_status make_chosen(struct af_cli_wanted *wanted,
                                        struct anyflash_error *err)
{
    struct af_checked_wheel *wheel = &wanted->wheel;
    bool keeps_file = wanted->placed || af_cli_wanted_has_hashes(wanted);
    enum anyflash_status status =
        af_checked_wheel_make(&wanted->change.run, wanted->chosen, wanted->folder, keeps_file,
                              !wanted->placed, wheel, err);
    if (wheel->fetched.ours)
        unlink(wheel->fetched.path);
    if (status != ANYFLASH_OK) {
        wanted->cli->hint = "nothing was run; with the wheel in a folder, add --from FOLDER "
                            "before --; --prefer torch-kernels needs no wheel";
        return status;
    }
    if (wheel->refusal == NULL)
        status = af_checked_wheel_prove(&wanted->change.run, wheel->path,
                                        wanted->torch_stays ? NULL : wanted->torch,
                                        &wheel->refusal, err);
    if (wheel->refusal != NULL)
        af_cli_wanted_refuse_wheel(wanted, wheel->refusal, wheel->hint);
    else
        af_cli_wanted_check_hashes(wanted, wheel->fetched.sha256);
    return status;
}

/*
 * torch as it was decided, and flash-attn from the file. An installed one that fits stays:
 * unlike ==, === excludes other local parts of its version.
 */
static enum anyflash_status write_constraints(struct af_cli_wanted *wanted,
                                              struct anyflash_error *err)
{
    struct af_arena *arena = &wanted->cli->arena;
    const struct af_package *installed = af_machine_flash_attn(&wanted->change.machine);
    struct af_text text = {0};
    if (wanted->torch != NULL)
        af_text_format(&text, "torch==%.*s\n", (int)strcspn(wanted->torch, "+"), wanted->torch);
    if (wanted->wheel.path != NULL && !wanted->placed)
        af_text_format(&text, PACKAGE " @ file://%s#sha256=%s\n",
                       af_url_encode_path(arena, wanted->wheel.path), wanted->wheel.sha256);
    else if (wanted->wheel.path == NULL && installed != NULL)
        af_text_format(&text, PACKAGE "===%s\n", af_fact_text_or(&installed->version, "0"));
    else if (wanted->flash == NULL) /* if another package needs it, this says what to do */
        af_text_add(&text, NEEDED);
    const char *path = af_path_join(arena, wanted->folder, "constraints.txt");
    enum anyflash_status status = af_file_write_text(arena, path, af_text_get(&text), err);
    wanted->constraints = text.len > 0 ? path : NULL;
    af_text_release(&text);
    return status;
}

enum anyflash_status af_cli_offer_make(struct af_cli_wanted *wanted, struct anyflash_error *err)
{
    enum anyflash_status status = af_cli_offer_begin(wanted, err);
    if (status == ANYFLASH_OK && wanted->chosen != NULL)
        status = make_chosen(wanted, err);
    if (status == ANYFLASH_OK && wanted->stand_in != NULL)
        status = make_stand_in(wanted, err);
    return status == ANYFLASH_OK ? write_constraints(wanted, err) : status;
}

/* Whether the command has constraints itself: uv then ignores those of the variable. */
static bool has_constraint(const struct af_project_command *command)
{
    for (size_t i = command->option_place; i < command->word_count; i++)
        if (af_starts_with(command->words[i], "--constraint") ||
            af_starts_with(command->words[i], "-c"))
            return true;
    return false;
}

/* Adds an option for each of the files in UV_CONSTRAINT, which uv separates at blanks. */
static size_t add_variable(struct af_arena *arena, const char **argv)
{
    const char *rest = getenv("UV_CONSTRAINT");
    size_t count = 0;
    while (rest != NULL && *rest != '\0' && count < 2 * UV_CONSTRAINTS_MAX) {
        size_t len = strcspn(rest, " ");
        if (len > 0) {
            argv[count++] = "--constraint";
            argv[count++] = af_arena_text_n(arena, rest, len);
        }
        rest += len + (rest[len] == ' ');
    }
    return count;
}

const char **af_cli_offer_words(struct af_cli_wanted *wanted)
{
    struct af_arena *arena = &wanted->cli->arena;
    const struct af_project_command *command = &wanted->command;
    size_t start = wanted->constraints == NULL ? command->word_count : command->option_place;
    size_t count = start;
    const char **argv = af_arena_array(
        arena, command->word_count + 2 * (UV_CONSTRAINTS_MAX + 1) + 1, sizeof *argv);
    memcpy(argv, command->words, start * sizeof *argv);
    if (wanted->constraints != NULL) {
        argv[count++] = "--constraint";
        argv[count++] = wanted->constraints;
    }
    if (wanted->constraints != NULL && command->uv && !has_constraint(command))
        count += add_variable(arena, argv + count);
    memcpy(argv + count, command->words + start, (command->word_count - start) * sizeof *argv);
    return argv;
}

enum anyflash_status af_cli_offer_compare(struct af_cli_wanted *wanted,
                                          const struct af_observed *observed,
                                          const char **difference_out,
                                          struct anyflash_error *err)
{
    struct af_run *run = &wanted->change.run;
    const struct af_checked_wheel *wheel = &wanted->wheel;
    struct af_expected_files files = {.items = NULL};
    enum anyflash_status status = af_expected_files_add(&files, wheel->path, run->arena, err);
    if (status == ANYFLASH_OK)
        status = af_expected_files_compare(&files, run->site, &observed->after, run->arena,
                                           difference_out, err);
    af_memory_free(files.items);
    if (status == ANYFLASH_OK && *difference_out == NULL && observed->changed &&
        !wanted->placed)
        status = af_installed_origin_write(run->arena, run->site, PACKAGE, wheel->origin,
                                           wheel->fetched.sha256, err);
    return status;
}
