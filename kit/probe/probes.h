/*
 * probes.h: the probes of probe.c, and what they share. Private to this room, except for
 * control groups.
 *
 * A probe fills its groups of the machine and never fails: a fact that it cannot read is
 * unknown, with the reason. Order matters only where a probe says so: python before torch and
 * packages, torch before toolkits (which records which toolkit torch would use).
 */
#ifndef AF_KIT_PROBE_PROBES_H
#define AF_KIT_PROBE_PROBES_H

#include "kit/formats/elf.h"
#include "kit/probe/probe.h"
#include "kit/system/file.h"
#include "kit/system/process.h"

/* Inputs of every probe. */
struct af_probe {
    struct af_machine *machine;
    struct af_arena *arena;                 /* the machine's */
    const struct af_probe_options *options; /* folder and environment are always set */
};

/* The variable's value, or NULL when it is unset or empty. */
const char *af_probe_variable(const struct af_probe *probe, const char *name);

/*
 * Puts `path` under options->root if that is set and `path` is absolute and not already below
 * it. The result is in the arena. Use it for paths of the system and from variables.
 */
const char *af_probe_path(const struct af_probe *probe, const char *path);

/*
 * The next folder of a list such as PATH, under the root; NULL at the end. `if_empty` stands
 * for an empty entry; NULL: these are skipped.
 */
const char *af_probe_next_folder(const struct af_probe *probe, const char **rest,
                                 const char *if_empty);

/*
 * The first executable `name` on PATH, or NULL. Links are not resolved; folders are under the
 * root.
 */
const char *af_probe_on_path(const struct af_probe *probe, const char *name);

/* As af_probe_on_path(), but skips the folder `skipped` (NULL: none). */
const char *af_probe_on_path_except(const struct af_probe *probe, const char *name,
                                    const char *skipped);

/* The folder that `variable` names, else `below` in the user's home; NULL without either. */
const char *af_probe_home(const struct af_probe *probe, const char *variable,
                          const char *below);

/* The folder above, for walks from the project's folder upward; NULL after "/" or ".". */
const char *af_probe_parent(const struct af_probe *probe, const char *folder);

/* The trimmed text of a file of at most 64 KiB, or NULL. */
const char *af_probe_small_text(const struct af_probe *probe, const char *path);

/*
 * Names in a folder, sorted by bytes, at most 20,000; returns their number, 0 if `folder` is
 * NULL or cannot be read.
 */
size_t af_probe_list(const struct af_probe *probe, const char *folder,
                     const char *const **names_out);

/* Whether the TOML file has a table whose name starts with `table`, such as "[tool.uv". */
bool af_probe_toml_has_table(const char *path, const char *table);

/* Probes the environment and its interpreter. Fails only when options->python is not usable. */
enum anyflash_status af_probe_python(struct af_probe *probe, struct anyflash_error *err);
void af_probe_torch(struct af_probe *probe);
void af_probe_packages(struct af_probe *probe);
void af_probe_shadow(struct af_probe *probe);

void af_probe_platform(struct af_probe *probe);
void af_probe_resources(struct af_probe *probe);
void af_probe_disks(struct af_probe *probe);
void af_probe_toolkits(struct af_probe *probe);
void af_probe_compilers(struct af_probe *probe);
void af_probe_tools(struct af_probe *probe);
void af_probe_project_files(struct af_probe *probe);
void af_probe_variables(struct af_probe *probe);
void af_probe_cached_wheels(struct af_probe *probe);

/*
 * Probes driver and GPUs. start() begins querying libcuda in a child, so that the other probes
 * run at the same time; finish() collects the result and fills driver and gpus.
 */
void af_probe_gpu_start(struct af_probe *probe, struct af_child *child);
void af_probe_gpu_finish(struct af_probe *probe, struct af_child *child);

/* Parts of af_probe_gpu_finish() that read files; in gpu_files.c. */

/* Fills driver.kernel_version. */
void af_probe_gpu_kernel_driver(struct af_probe *probe);

/*
 * Adds the NVIDIA devices of the PCI bus as GPUs; `why` is the reason why more of their facts
 * are not known. Returns their number.
 */
size_t af_probe_gpu_nvidia_files(struct af_probe *probe, const char *why);

/* Fills driver.rocm and adds AMD's GPUs. */
void af_probe_gpu_amd_files(struct af_probe *probe);

/* ---- An ELF file of this machine, and the libraries that it needs; in elf_file.c ---- */

struct af_probe_elf {
    struct af_mapping mapping;
    struct af_dynamic dynamic; /* only `elf` is filled if the file has no dynamic section */
};

/*
 * Maps and reads `path`. Fails as af_file_map() does, and with DATA when it is not an ELF file
 * (the message names the path). Texts are borrowed from the file until af_probe_elf_close().
 */
enum anyflash_status af_probe_elf_open(const struct af_probe *probe, const char *path,
                                       struct af_probe_elf *file_out,
                                       struct anyflash_error *err);

void af_probe_elf_close(struct af_probe_elf *file);

/* Texts are in the probe's arena. */
struct af_libc {
    const char *kind;    /* "glibc" or "musl", or NULL */
    const char *version; /* "2.36", "1.2.4", or NULL */
    const char *source;  /* the file it was read from; never NULL */
    const char *problem; /* why kind or version is NULL; NULL if both are known */
};

/* Follows PT_INTERP of `program` to its C library and reads its version. */
void af_libc_of_program(const struct af_probe *probe, const char *program,
                        struct af_libc *libc_out);

/*
 * The path of torch's library `name`: in torch/lib, else where conda and distributions install
 * it (possibly as NAME.2.6). If it is nowhere, the result is a path that does not exist.
 */
const char *af_probe_torch_library(const struct af_probe *probe, const char *torch_folder,
                                   const char *name);

#define AF_PROBE_MISSING_MAX 8u

/* Names of libraries that were not found, in the probe's arena. */
struct af_probe_missing {
    const char *names[AF_PROBE_MISSING_MAX];
    size_t count;
};

/*
 * The path of the library `name` that the file `elf` in folder `origin` needs, or NULL: as
 * ld.so searches, then in nvidia/.../lib of the package folders, as torch does.
 */
const char *af_probe_library_find(const struct af_probe *probe, const struct af_dynamic *elf,
                                  const char *origin, const char *name);

/*
 * Adds the libraries of torch and CUDA that the ELF file `path` needs and that are nowhere.
 * torch's facts must be known before. False if the file cannot be read as an ELF file.
 */
bool af_probe_library_check(const struct af_probe *probe, const char *path,
                            struct af_probe_missing *missing);

/* ---- The control groups of this process, from its own up to the mount's root ---- */

/* A control group of a controller. af_cgroup_up() moves `folder` to the parent. */
struct af_cgroup {
    bool v2;
    const char *mount;  /* "/sys/fs/cgroup" or "/sys/fs/cgroup/memory" */
    const char *folder; /* the current group */
};

/*
 * Finds the group of `controller` ("memory", "cpu"). A v1 hierarchy is tried first, because
 * hosts with both versions also have an empty v2 line. False when there is no group.
 */
bool af_cgroup_find(const struct af_probe *probe, const char *controller,
                    struct af_cgroup *cgroup_out);

/* Goes to the parent; false at the mount's root. */
bool af_cgroup_up(const struct af_probe *probe, struct af_cgroup *cgroup);

/* The text of a file of the group, trimmed, or NULL. */
const char *af_cgroup_text(const struct af_probe *probe, const struct af_cgroup *cgroup,
                           const char *file);

/* A number of the group; false for a missing file, "max", or v1's value for no limit. */
bool af_cgroup_number(const struct af_probe *probe, const struct af_cgroup *cgroup,
                      const char *file, int64_t *number_out);

/* Parts of the probe of packages, for one package. */

/* Whether this is flash-attn, whose files are examined in detail. */
bool af_probe_package_is_flash_attn(const char *name);

/*
 * Fills installer, origin, purelib and built_for_torch of `package` from the files
 * beside its METADATA in `info` (a .dist-info folder). For flash-attn it also fills extensions,
 * the files that differ from RECORD, and missing_libraries; for packages
 * with attention kernels of their own, xformers and vllm, only extensions.
 */
void af_probe_package_read_info(const struct af_probe *probe, struct af_package *package,
                                const char *name, const char *site, const char *info);

/*
 * Fills flash_attn_min and flash_attn_max of a package that uses flash-attn, from its source
 * code under `site`; absent for packages that check no version.
 */
void af_probe_package_read_window(const struct af_probe *probe, struct af_package *package,
                                  const char *name, const char *site);

/*
 * Compares the main files of torch with RECORD in `info`, if `site` has the torch that is
 * imported; fills missing_files, changed_files and broken_files of machine->torch.
 */
void af_probe_package_read_torch(const struct af_probe *probe, const char *site,
                                 const char *info);

/*
 * Whether a package has lost its module, although its .dist-info folder `info` is there: RECORD
 * lists NAME/__init__.py, and `site` does not have it. False if RECORD cannot be read.
 */
bool af_probe_package_is_gone(const char *site, const char *info);

/*
 * Parts of af_probe_package_read_info(). The first reads RECORD in `info`: the compiled
 * modules; and if it `is_ours`, a package of flash-attn, also which files and libraries are
 * missing. The other sets these facts to unknown, because of `why`.
 */
void af_probe_package_read_record(const struct af_probe *probe, struct af_package *package,
                                  const char *site, const char *info, bool is_ours);
void af_probe_package_record_unknown(const struct af_probe *probe, struct af_package *package,
                                     const char *why);

#define AF_PYVENV_CFG_BYTES_MAX (64u * 1024u)
#define AF_ABI_FLAGS_BYTES 4
#define AF_PROBE_VERSION_BYTES 32

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
 * when the value of --python is not found.
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

/*
 * Part of af_probe_interpreter_probe(): writes the interpreter's version, such as "3.12.1", to
 * `version`. `elf` is the open files->base_executable; prefix, minor version and flags in
 * `files` must be known. Returns the path of the file it was found in, or NULL.
 */
const char *af_probe_interpreter_version(const struct af_probe *probe,
                                         const struct af_dynamic *elf,
                                         const struct af_probe_interpreter_files *files,
                                         char version[AF_PROBE_VERSION_BYTES]);

#endif
