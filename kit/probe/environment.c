/*
 * environment.c: which Python environment uv or pip would install into. Only names and links
 * are examined here; interpreter.c reads the interpreter.
 */
#include "kit/probe/probes.h"

#include "kit/base/text.h"
#include "kit/system/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define PYENV_FILE_BYTES_MAX 4096u

static const char *const interpreter_names[] = {"python", "python3"};

/* prefix/bin/python, or python3 if there is no python. */
static const char *interpreter_in(const struct af_probe *probe, const char *prefix)
{
    const char *bin = af_path_join(probe->arena, prefix, "bin");
    const char *first = af_path_join(probe->arena, bin, interpreter_names[0]);
    const char *second = af_path_join(probe->arena, bin, interpreter_names[1]);
    bool first_there = af_file_exists(first) || af_file_is_link(first);
    bool second_there = af_file_exists(second) || af_file_is_link(second);
    return !first_there && second_there ? second : first;
}

/* Looks for prefix/pyvenv.cfg and reads it. */
static void read_cfg(const struct af_probe *probe, struct af_environment *environment)
{
    struct anyflash_error err = {0};
    const char *path = af_path_join(probe->arena, environment->prefix, "pyvenv.cfg");
    if (!af_file_exists(path) && !af_file_is_link(path))
        return;
    environment->is_venv = true;
    if (af_file_read(probe->arena, path, AF_PYVENV_CFG_BYTES_MAX, &environment->cfg, &err) !=
        ANYFLASH_OK)
        environment->problem = af_arena_text(probe->arena, err.message);
}

static void take_prefix(const struct af_probe *probe, const char *prefix, const char *chosen_by,
                        struct af_environment *environment)
{
    environment->prefix = prefix;
    environment->executable = interpreter_in(probe, prefix);
    environment->chosen_by = chosen_by;
    read_cfg(probe, environment);
}

/*
 * Sets the environment of the interpreter `program`: the folder above it if that has a
 * pyvenv.cfg (links are not followed, as in Python itself), else the installation at the end of
 * the chain of links.
 */
static void take_program(const struct af_probe *probe, const char *program,
                         const char *chosen_by, struct af_environment *environment)
{
    const char *folder = af_path_folder(probe->arena, program);
    environment->prefix = af_path_folder(probe->arena, folder);
    environment->executable = program;
    environment->chosen_by = chosen_by;
    read_cfg(probe, environment);
    const char *real = af_file_real_path(probe->arena, program);
    if (!environment->is_venv && real != NULL)
        environment->prefix = af_path_folder(probe->arena, af_path_folder(probe->arena, real));
}

static const char *pyenv_root(const struct af_probe *probe)
{
    return af_probe_home(probe, "PYENV_ROOT", ".pyenv");
}

/* For wanted "3.12": x if `name` is "3.12.x", INT64_MAX if it is "3.12", else -1. */
static int64_t version_patch(const char *name, const char *wanted)
{
    int64_t patch;
    size_t len = strlen(wanted);
    if (strcmp(name, wanted) == 0)
        return INT64_MAX;
    if (strncmp(name, wanted, len) != 0 || name[len] != '.')
        return -1;
    return af_parse_i64(name + len + 1, 0, 100000, &patch) ? patch : -1;
}

/*
 * The interpreter of `folder`/`start`WANTED, or of the newest `start`WANTED.x; what follows a
 * '-' after the version does not count.
 */
static const char *newest_version(const struct af_probe *probe, const char *folder,
                                  const char *start, const char *wanted)
{
    const char *const *names;
    const char *best = NULL;
    int64_t best_patch = -1;
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        const char *version = names[i] + strlen(start);
        bool right = af_starts_with(names[i], start) &&
                     (start[0] == '\0' || strchr(version, '-') != NULL);
        const char *text = !right ? NULL
                           : start[0] == '\0'
                               ? version
                               : af_arena_text_n(probe->arena, version, strcspn(version, "-"));
        int64_t patch = text == NULL ? -1 : version_patch(text, wanted);
        if (patch > best_patch) {
            best = names[i];
            best_patch = patch;
        }
    }
    const char *prefix = af_path_join(probe->arena, folder, best);
    const char *program = prefix == NULL ? NULL : interpreter_in(probe, prefix);
    return program != NULL && af_file_is_executable(program) ? program : NULL;
}

static const char *pyenv_version(const struct af_probe *probe, const char *wanted)
{
    const char *folder = af_path_join(probe->arena, pyenv_root(probe), "versions");
    return strchr(wanted, '/') != NULL ? NULL : newest_version(probe, folder, "", wanted);
}

/* The first version in `words` (separated by blanks or colons) that exists. */
static const char *pyenv_first(const struct af_probe *probe, struct af_span words,
                               const char *shims)
{
    char word[64];
    size_t at = 0;
    while (at < words.len) {
        size_t len = 0;
        while (at < words.len && strchr(" \t\r\n:", words.data[at]) != NULL)
            at++;
        for (; at < words.len && strchr(" \t\r\n:", words.data[at]) == NULL; at++) {
            if (len + 1 < sizeof word)
                word[len++] = words.data[at];
        }
        word[len] = '\0';
        if (len == 0)
            continue;
        const char *program = strcmp(word, "system") == 0
                                  ? af_probe_on_path_except(probe, "python3", shims)
                                  : pyenv_version(probe, word);
        if (program != NULL)
            return program;
    }
    return NULL;
}

/* Finds the file `name` in this folder or a parent; its content is in *content_out. */
static bool find_upward(const struct af_probe *probe, const char *name,
                        struct af_span *content_out)
{
    const char *folder = probe->options->folder;
    for (; folder != NULL; folder = af_probe_parent(probe, folder)) {
        const char *path = af_path_join(probe->arena, folder, name);
        if (af_file_read(probe->arena, path, PYENV_FILE_BYTES_MAX, content_out, NULL) ==
            ANYFLASH_OK)
            return true;
    }
    return false;
}

/*
 * The interpreter that a shim of pyenv would start; source: pyenv's README,
 * "Understanding Python version".
 */
static const char *resolve_shim(const struct af_probe *probe, const char *shims)
{
    struct af_span words;
    const char *variable = af_probe_variable(probe, "PYENV_VERSION");
    if (variable != NULL) {
        words = (struct af_span){variable, strlen(variable)};
        return pyenv_first(probe, words, shims);
    }
    const char *global = af_path_join(probe->arena, pyenv_root(probe), "version");
    if (find_upward(probe, ".python-version", &words) ||
        (global != NULL &&
         af_file_read(probe->arena, global, PYENV_FILE_BYTES_MAX, &words, NULL) == ANYFLASH_OK))
        return pyenv_first(probe, words, shims);
    return af_probe_on_path_except(probe, "python3", shims);
}

static bool is_shim_folder(const char *folder)
{
    return folder != NULL && strcmp(af_path_name(folder), "shims") == 0;
}

static void take_path(const struct af_probe *probe, struct af_environment *environment)
{
    const char *program = af_probe_on_path(probe, "python3");
    const char *chosen_by = "PATH";
    if (program == NULL)
        program = af_probe_on_path(probe, "python");
    if (program == NULL)
        return;
    const char *folder = af_path_folder(probe->arena, program);
    if (is_shim_folder(folder)) {
        program = resolve_shim(probe, folder);
        chosen_by = "pyenv";
    }
    if (program != NULL)
        take_program(probe, program, chosen_by, environment);
}

/* Uses .venv in this folder or a parent, as uv does. */
static bool take_dot_venv(const struct af_probe *probe, struct af_environment *environment)
{
    const char *folder = probe->options->folder;
    for (; folder != NULL; folder = af_probe_parent(probe, folder)) {
        const char *path = af_path_join(probe->arena, folder, ".venv");
        if (af_file_is_folder(path)) {
            take_prefix(probe, path, ".venv", environment);
            if (!environment->is_venv)
                environment->problem =
                    af_arena_format(probe->arena, "'%s/pyvenv.cfg' is missing", path);
            return true;
        }
    }
    return false;
}

/* A Python that uv downloaded: cpython-WANTED-linux-..., or the newest cpython-WANTED.x-... */
static const char *uv_version(const struct af_probe *probe, const char *wanted)
{
    const char *folder =
        af_probe_path(probe, af_probe_variable(probe, "UV_PYTHON_INSTALL_DIR"));
    if (folder == NULL)
        folder = af_path_join(
            probe->arena, af_probe_home(probe, "XDG_DATA_HOME", ".local/share"), "uv/python");
    return newest_version(probe, folder, "cpython-", wanted);
}

/* The program that --python names: a path, a command, or a version from uv or pyenv. */
static const char *named_program(const struct af_probe *probe, const char *wanted)
{
    const char *path = wanted[0] == '/'
                           ? af_probe_path(probe, wanted)
                           : af_path_join(probe->arena, probe->options->folder, wanted);
    if (strchr(wanted, '/') != NULL || af_file_exists(path))
        return path;
    const char *command = af_arena_format(
        probe->arena, "%s%s", wanted[0] >= '0' && wanted[0] <= '9' ? "python" : "", wanted);
    const char *program = af_probe_on_path(probe, command);
    if (program != NULL && !is_shim_folder(af_path_folder(probe->arena, program)))
        return program;
    const char *version = af_starts_with(wanted, "python") ? wanted + strlen("python") : wanted;
    const char *managed = uv_version(probe, version);
    if (managed == NULL)
        managed = pyenv_version(probe, version);
    return managed;
}

/* Whether the folder may contain a Python that this user has no permission to see. */
static bool is_hidden(const struct af_probe *probe, const char *folder)
{
    struct stat facts;
    const char *program = af_path_join(probe->arena, folder, "bin/python");
    return stat(program, &facts) != 0 && errno == EACCES;
}

static enum anyflash_status take_named(const struct af_probe *probe, const char *wanted,
                                       struct af_environment *environment,
                                       struct anyflash_error *err)
{
    char shown[200];
    af_text_quote(shown, sizeof shown, wanted, strlen(wanted));
    const char *program = named_program(probe, wanted);
    if (program == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "Python interpreter '%s' does not exist",
                       shown);
    if (af_file_is_folder(program))
        take_prefix(probe, program, "--python", environment);
    else
        take_program(probe, program, "--python", environment);
    /* An environment without a Python that runs is reported as such; it has been found. */
    if (wanted[0] != '\0' && (af_file_is_folder(program) || af_file_is_link(program)) &&
        !is_hidden(probe, program))
        return ANYFLASH_OK;
    if (environment->executable == NULL || !af_file_is_executable(environment->executable)) {
        const char *tried = environment->executable == NULL ? wanted : environment->executable;
        af_text_quote(shown, sizeof shown, tried, strlen(tried));
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' is not a runnable Python interpreter",
                       shown);
    }
    return ANYFLASH_OK;
}

/* Uses the folder that a variable names, if it has pyvenv.cfg or conda-meta. */
static bool take_variable(const struct af_probe *probe, const char *name, const char *mark,
                          struct af_environment *environment)
{
    const char *prefix = af_probe_path(probe, af_probe_variable(probe, name));
    const char *marked = af_path_join(probe->arena, prefix, mark);
    if (marked == NULL || !(af_file_exists(marked) || af_file_is_link(marked)))
        return false;
    take_prefix(probe, prefix, name, environment);
    return true;
}

enum anyflash_status af_environment_choose(const struct af_probe *probe,
                                           struct af_environment *environment_out,
                                           struct anyflash_error *err)
{
    struct af_environment environment = {0};
    const char *wanted = probe->options->python;
    if (wanted != NULL) {
        enum anyflash_status status = take_named(probe, wanted, &environment, err);
        if (status != ANYFLASH_OK)
            return status;
    } else if (!take_variable(probe, "VIRTUAL_ENV", "pyvenv.cfg", &environment) &&
               !take_variable(probe, "CONDA_PREFIX", "conda-meta", &environment) &&
               !take_dot_venv(probe, &environment)) {
        take_path(probe, &environment);
    }
    *environment_out = environment;
    return ANYFLASH_OK;
}
