/*
 * python.c: the probe of the Python environment. Chooses it (environment.c), reads its
 * interpreter (interpreter.c), decides which kind of environment it is, and finds the folders
 * that the interpreter searches for installed packages, in the order of sys.path, without
 * running it; and what hides these packages where Python is started.
 *
 * Source: Lib/site.py of CPython 3.12 (venv(), getsitepackages(), .pth files) and Debian's
 * changes to it (dist-packages). Lines of .pth files that run code ("import ...") are not
 * executed.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define FOLDERS_MAX 256u
#define NAMES_MAX 20000u
#define PTH_MAX 256u
#define PTH_BYTES_MAX (64u * 1024u)

struct folders {
    const struct af_probe *probe;
    const char *items[FOLDERS_MAX];
    size_t count;
    const char *own; /* the first folder of the environment itself */
};

/* Adds a folder if it exists and is not in the list yet. */
static bool add_folder(struct folders *folders, const char *path)
{
    if (path == NULL || folders->count == FOLDERS_MAX || !af_file_is_folder(path))
        return false;
    for (size_t i = 0; i < folders->count; i++) {
        if (strcmp(folders->items[i], path) == 0)
            return false;
    }
    folders->items[folders->count++] = path;
    return true;
}

/* Adds the plain paths of one .pth file. */
static void add_pth(struct folders *folders, const char *folder, const char *name)
{
    struct af_arena *arena = folders->probe->arena;
    struct af_span rest;
    struct af_span line;
    const char *path = af_path_join(arena, folder, name);
    if (af_file_read(arena, path, PTH_BYTES_MAX, &rest, NULL) != ANYFLASH_OK)
        return;
    while (af_text_line(&rest, &line)) {
        line = af_text_trim(line);
        const char *text = af_arena_text_n(arena, line.data, line.len);
        if (text[0] == '\0' || text[0] == '#' || af_starts_with(text, "import ") ||
            af_starts_with(text, "import\t"))
            continue;
        add_folder(folders, text[0] == '/' ? text : af_path_join(arena, folder, text));
    }
}

/* Adds a site folder and the folders from its .pth files after it. */
static void add_site(struct folders *folders, const char *folder)
{
    const char **names;
    size_t count;
    size_t pth_count = 0;
    if (!add_folder(folders, folder))
        return;
    if (folders->own == NULL)
        folders->own = folder;
    if (af_folder_list(folders->probe->arena, folder, NAMES_MAX, &names, &count, NULL, NULL) !=
        ANYFLASH_OK)
        return;
    for (size_t i = 0; i < count && pth_count < PTH_MAX; i++) {
        if (!af_ends_with(names[i], ".pth") || names[i][0] == '.')
            continue;
        add_pth(folders, folder, names[i]);
        pth_count++;
    }
}

/* Adds prefix/lib/python3.12/site-packages and, if the platform has it, that of lib64. */
static void add_prefix(struct folders *folders, const char *prefix,
                       const struct af_probe_interpreter_files *files)
{
    struct af_arena *arena = folders->probe->arena;
    const char *library = files->library_name;
    if (prefix == NULL)
        return;
    if (!af_equal(files->platform_folder, "lib"))
        add_site(folders, af_arena_format(arena, "%s/%s/%s/site-packages", prefix,
                                          files->platform_folder, library));
    add_site(folders, af_arena_format(arena, "%s/lib/%s/site-packages", prefix, library));
}

/* Adds the installation's own folders; Debian calls them dist-packages. */
static void add_system(struct folders *folders, const struct af_probe_interpreter_files *files)
{
    struct af_arena *arena = folders->probe->arena;
    const char *prefix = files->base_prefix;
    const char *library = files->library_name;
    const char *debian = af_arena_format(arena, "%s/lib/python3/dist-packages", prefix);
    if (!af_file_is_folder(debian)) {
        add_prefix(folders, prefix, files);
        return;
    }
    add_site(folders, af_arena_format(arena, "%s/local/lib/%s/dist-packages", prefix, library));
    add_site(folders, debian);
    add_site(folders, af_arena_format(arena, "%s/lib/%s/dist-packages", prefix, library));
}

static void add_user(struct folders *folders, const char *library)
{
    const struct af_probe *probe = folders->probe;
    const char *base = af_probe_path(probe, af_probe_variable(probe, "PYTHONUSERBASE"));
    const char *home = af_probe_path(probe, af_probe_variable(probe, "HOME"));
    const char *own = folders->own;
    if (af_probe_variable(probe, "PYTHONNOUSERSITE") != NULL)
        return;
    if (base == NULL && home != NULL)
        base = af_path_join(probe->arena, home, ".local");
    if (base != NULL)
        add_site(folders,
                 af_arena_format(probe->arena, "%s/lib/%s/site-packages", base, library));
    folders->own = own; /* packages are not installed to the user's folder */
}

static void add_pythonpath(struct folders *folders)
{
    const struct af_probe *probe = folders->probe;
    const char *rest = af_probe_variable(probe, "PYTHONPATH");
    const char *folder;
    while ((folder = af_probe_next_folder(probe, &rest, NULL)) != NULL)
        add_folder(folders, folder);
}

static bool sees_system(const struct af_environment *environment)
{
    struct af_span value;
    if (!environment->is_venv)
        return true;
    return af_formats_key_value(environment->cfg, "include-system-site-packages", &value) &&
           value.len == 4 && strncasecmp(value.data, "true", 4) == 0;
}

static void set_externally_managed(const struct af_probe *probe,
                                   const struct af_environment *environment,
                                   const struct af_probe_interpreter_files *files)
{
    struct af_fact *fact = &probe->machine->python.externally_managed;
    const char *path = af_path_join(probe->arena, files->stdlib, "EXTERNALLY-MANAGED");
    if (environment->is_venv)
        af_fact_bool(probe->arena, fact, false,
                     "pyvenv.cfg: a virtual environment is never externally managed");
    else if (path != NULL)
        af_fact_bool(probe->arena, fact, af_file_exists(path), path);
}

/* Fills the facts. A folder that we may not read is unknown, not empty. */
static void set_folders(const struct folders *folders, const struct af_environment *environment)
{
    const struct af_probe *probe = folders->probe;
    struct af_python *python = &probe->machine->python;
    const char *own = folders->own;
    af_fact_list(probe->arena, &python->site_packages, folders->items, folders->count,
                 environment->is_venv ? "pyvenv.cfg, .pth files"
                                      : "folders of the installation");
    if (own != NULL && access(own, R_OK | X_OK) != 0)
        af_fact_unknown(probe->arena, &python->site_packages, "cannot read '%s': %s", own,
                        strerror(errno));
    else if (own == NULL && environment->is_venv)
        af_fact_unknown(probe->arena, &python->site_packages,
                        "'%s' has no package folder that this user may read",
                        environment->prefix);
    if (own == NULL)
        af_fact_unknown(probe->arena, &python->writable, "'%s' has no package folder",
                        environment->prefix);
    else
        af_fact_bool(probe->arena, &python->writable, access(own, W_OK) == 0, own);
}

static void probe_site(const struct af_probe *probe, const struct af_environment *environment,
                       const struct af_probe_interpreter_files *files)
{
    struct af_python *python = &probe->machine->python;
    struct folders folders = {.probe = probe};
    const char *problem = environment->problem;
    if (problem == NULL && files->library_name == NULL)
        problem = files->problem;
    if (problem != NULL) {
        af_fact_unknown(probe->arena, &python->site_packages, "%s", problem);
        af_fact_unknown(probe->arena, &python->writable, "%s", problem);
        af_fact_unknown(probe->arena, &python->externally_managed, "%s", problem);
        return;
    }
    add_pythonpath(&folders);
    if (environment->is_venv)
        add_prefix(&folders, environment->prefix, files);
    if (sees_system(environment)) {
        add_user(&folders, files->library_name);
        add_system(&folders, files);
    }
    set_folders(&folders, environment);
    set_externally_managed(probe, environment, files);
}

static const char *kind_of(const struct af_probe *probe,
                           const struct af_environment *environment)
{
    const char *conda = af_path_join(probe->arena, environment->prefix, "conda-meta");
    if (environment->is_venv)
        return "venv";
    if (af_file_is_folder(conda))
        return strstr(environment->prefix, "/.pixi/envs/") != NULL ? "pixi" : "conda";
    return strstr(environment->prefix, "/.pyenv/versions/") != NULL ||
                   strcmp(environment->chosen_by, "pyenv") == 0
               ? "pyenv"
               : "system";
}

/*
 * If --python is another file than an interpreter, that is an error of the caller, so the call
 * fails. An environment that has lost its interpreter is a fact: python.problem.
 */
static enum anyflash_status check_named(const struct af_probe *probe,
                                        const struct af_environment *environment,
                                        const struct af_probe_interpreter_files *files,
                                        struct anyflash_error *err)
{
    const struct af_python *python = &probe->machine->python;
    char shown[200];
    if (probe->options->python == NULL || files->stdlib != NULL ||
        environment->executable == NULL || !af_file_exists(environment->executable) ||
        (python->implementation.state == AF_FACT_KNOWN &&
         !af_fact_is(&python->implementation, "cpython")))
        return ANYFLASH_OK;
    af_text_quote(shown, sizeof shown, environment->executable,
                  strlen(environment->executable));
    return af_fail(err, ANYFLASH_E_NOT_FOUND, "--python: '%s' is not a Python interpreter: %s",
                   shown, python->version.source);
}

/* The environment's own defect comes before its interpreter's. */
static void set_problem(const struct af_probe *probe, const struct af_environment *environment,
                        const struct af_probe_interpreter_files *files)
{
    struct af_python *python = &probe->machine->python;
    const char *problem = environment->problem != NULL ? environment->problem : files->problem;
    bool is_other = python->implementation.state == AF_FACT_KNOWN &&
                    !af_fact_is(&python->implementation, "cpython"); /* works, as PyPy does */
    if (problem != NULL && !is_other)
        af_fact_text(probe->arena, &python->problem, problem, environment->prefix);
    else
        af_fact_absent(probe->arena, &python->problem, environment->prefix);
}

enum anyflash_status af_probe_python(struct af_probe *probe, struct anyflash_error *err)
{
    struct af_python *python = &probe->machine->python;
    struct af_environment environment;
    struct af_probe_interpreter_files files;
    enum anyflash_status status = af_environment_choose(probe, &environment, err);
    if (status != ANYFLASH_OK)
        return status;
    if (environment.prefix == NULL) {
        af_machine_set_all(probe->arena, (struct af_fact *)python, sizeof *python,
                           AF_FACT_ABSENT,
                           "no VIRTUAL_ENV, CONDA_PREFIX or .venv, no python3 on PATH");
        return ANYFLASH_OK;
    }
    af_fact_text(probe->arena, &python->prefix, environment.prefix, environment.chosen_by);
    af_fact_text(probe->arena, &python->kind, kind_of(probe, &environment), environment.prefix);
    af_fact_text(probe->arena, &python->chosen_by, environment.chosen_by,
                 "the search order of uv and pip");
    af_fact_text(probe->arena, &python->executable, environment.executable, environment.prefix);
    af_probe_interpreter_probe(probe, &environment, &files);
    probe_site(probe, &environment, &files);
    set_problem(probe, &environment, &files);
    return check_named(probe, &environment, &files, err);
}

static bool has_file(const struct af_probe *probe, const char *folder, const char *start)
{
    const char *const *names;
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++)
        if (af_starts_with(names[i], start))
            return true;
    return false;
}

/* What `import NAME` takes in `folder`, if it lacks its compiled module; else NULL. */
static const char *shadow_of(const struct af_probe *probe, const char *folder, const char *name,
                             const char *extension, bool is_inside)
{
    const char *package = af_path_join(probe->arena, folder, name);
    const char *module = af_path_join(probe->arena, package, "__init__.py");
    const char *file = af_arena_format(probe->arena, "%s.py", package);
    if (af_file_exists(module)) /* a folder comes before a file of the same name */
        return has_file(probe, is_inside ? package : folder, extension) ? NULL : package;
    return af_file_exists(file) ? file : NULL;
}

/*
 * Finds a folder or file called flash_attn or torch where Python is started, for example in a
 * clone of flash-attn. Python imports it instead of the installed package, and without the
 * compiled module that import fails.
 */
void af_probe_shadow(struct af_probe *probe)
{
    struct af_fact *fact = &probe->machine->python.shadowed_by;
    const char *folder = probe->options->folder;
    const char *found = shadow_of(probe, folder, "flash_attn", "flash_attn_2_cuda.", false);
    if (found == NULL)
        found = shadow_of(probe, folder, "torch", "_C.", true);
    if (af_probe_variable(probe, "PYTHONSAFEPATH") != NULL)
        af_fact_absent(probe->arena, fact, "PYTHONSAFEPATH is set");
    else if (found != NULL)
        af_fact_text(probe->arena, fact, found, folder);
    else
        af_fact_absent(probe->arena, fact, folder);
}
