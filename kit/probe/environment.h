/*
 * environment.h: the Python environment that is probed, and its interpreter's files.
 * Private to kit/probe: python.c chooses one, interpreter.c and site.c read it.
 */
#ifndef AF_KIT_PROBE_ENVIRONMENT_H
#define AF_KIT_PROBE_ENVIRONMENT_H

#include "kit/probe/probes.h"

#define AF_PYVENV_CFG_BYTES_MAX (64u * 1024u)
#define AF_ABI_FLAGS_BYTES 4

/* Texts are in the probe's arena. */
struct af_environment {
    const char *prefix;     /* root folder; NULL when no Python was found */
    const char *executable; /* its interpreter; may be missing or a dangling link */
    const char *chosen_by;  /* value of python.chosen_by */
    const char *problem;    /* why the environment itself is broken, or NULL */
    bool is_venv;           /* has a pyvenv.cfg */
    /* content of pyvenv.cfg; empty, with `problem` set, when unreadable */
    struct af_span cfg;
};

/* Filled by interpreter.c; NULL and -1 mean unknown, and `problem` says why. */
struct af_probe_interpreter_files {
    const char *base_executable; /* the real binary after following links */
    const char *base_prefix;
    const char *library_name;       /* "python3.13t": the folder under lib */
    const char *platform_folder;    /* "lib" or "lib64" */
    const char *stdlib;             /* the folder that has os.py */
    const char *sysconfig;          /* its _sysconfigdata file, or NULL */
    int minor;                      /* x of version 3.x */
    char flags[AF_ABI_FLAGS_BYTES]; /* "t", "d", "td" or "" */
    const char *problem;
};

/*
 * Chooses the environment as uv and pip do: --python, VIRTUAL_ENV, CONDA_PREFIX, .venv in this
 * folder or a parent, python3 or python on PATH (through pyenv's shims). Fails with NOT_FOUND
 * when the value of --python is not found, or NO_MEMORY.
 */
enum anyflash_status af_environment_choose(const struct af_probe *probe,
                                           struct af_environment *environment_out,
                                           struct anyflash_error *err);

/*
 * Follows the environment's interpreter to its binary and standard library, and fills the facts
 * about the interpreter in machine->python.
 */
void af_probe_interpreter_probe(const struct af_probe *probe,
                                const struct af_environment *environment,
                                struct af_probe_interpreter_files *files_out);

/* Fills python.platform_tags for the real binary `program`. */
void af_probe_platform_tags_probe(const struct af_probe *probe, const char *program);

/* Fills python.site_packages, externally_managed and writable. */
void af_site_probe(const struct af_probe *probe, const struct af_environment *environment,
                   const struct af_probe_interpreter_files *files);

#endif
