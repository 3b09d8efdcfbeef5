/*
 * requirements.h: what a project asks an installer for: the lines of requirements files, words
 * of a command, and the dependencies of a pyproject.toml.
 *
 * The one reader of requirement lines. It follows nested files and local projects, and keeps
 * what was written with file and line; it does not decide which markers hold or what fits.
 * Sources: pip's "Requirements File Format", PEP 508, PEP 621 and PEP 735.
 */
#ifndef AF_KIT_PROJECT_REQUIREMENTS_H
#define AF_KIT_PROJECT_REQUIREMENTS_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/formats/metadata.h"
#include "kit/project/project_source.h"

#define AF_PROJECT_FILE_BYTES_MAX (10u << 20)
#define AF_PROJECT_DEPTH_MAX 16u
#define AF_PROJECT_FILES_MAX 256u
#define AF_PROJECT_ITEMS_MAX 100000u /* requirements and options together */

/* Where something is written. */
struct af_project_place {
    const char *file; /* NULL: in the command itself */
    int64_t line; /* of its first line, from 1; 0: the file has no lines or they are unknown */
    size_t start; /* the first byte of that line */
};

/* A requirement or constraint. Absent texts are "", absent pointers NULL. */
struct af_project_requirement {
    struct af_project_place place;
    const char *text;      /* as written, without comment and options */
    const char *name;      /* normalised; NULL: a path, or the line cannot be read */
    const char *extras;    /* "flash,dev" */
    const char *specifier; /* "==2.8.3"; "" */
    const char *marker;    /* "" */
    const char *url;       /* of "name @ url", or of a line that is only a URL */
    const char *path;      /* local folder or archive; relative to the current folder */
    const char *hashes;    /* "sha256:... sha256:...", blank between; "" */
    bool constraint;       /* limits a version and asks for nothing */
    bool editable;
    bool is_read; /* a local project, and all that it needs was added */
    struct af_project_requirement *next;
};

/*
 * An option that is kept: the address of an index, or the packages of --no-binary. With the
 * meanings FILE and CONSTRAINT it is the address of a remote file, which is not read.
 */
struct af_project_option {
    enum af_project_meaning meaning;
    const char *value;
    struct af_project_option *next;
};

/*
 * Reads the whole file `path` into `arena`. Fails as af_file_read() does: NOT_FOUND if there is
 * none, LIMIT if it has more than AF_PROJECT_FILE_BYTES_MAX bytes.
 */
typedef enum anyflash_status af_project_read_file_fn(void *context, struct af_arena *arena,
                                                     const char *path, struct af_span *text_out,
                                                     struct anyflash_error *err);

/* What was read, in the order in which it was read. Set arena, read and context first. */
struct af_project {
    struct af_arena *arena;
    af_project_read_file_fn *read;
    void *context;
    struct af_project_requirement *requirements;
    struct af_project_requirement *last_requirement;
    struct af_project_option *options;
    struct af_project_option *last_option;
    const char *unread; /* the first thing that may ask for more than was read; NULL: none */
    struct af_project_file *files; /* those that were read, or are being read */
    size_t file_count;
    size_t item_count;
};

/*
 * Each adds what it reads to `project`, following -r, -c and local projects. A file that was
 * read before is not read again. Fail with LIMIT, DATA (a file that includes itself, UTF-16,
 * or TOML that cannot be parsed), or as `read` fails. Lines that are not requirements
 * are kept, with neither name nor path: the installer will refuse them. Remote files (-r
 * https://...) become options and are not read.
 */

/* A requirements or constraints file. */
enum anyflash_status af_project_add_file(struct af_project *project, const char *path,
                                         bool constraint, struct anyflash_error *err);

/* A requirement of a command line: "flash-attn==2.8.3", ".[flash]", a wheel, a URL. */
enum anyflash_status af_project_add_word(struct af_project *project, const char *word,
                                         bool editable, struct anyflash_error *err);

/* An option of a command line, as in a requirements file. Texts are borrowed. */
enum anyflash_status af_project_add_option(struct af_project *project,
                                           const struct af_project_option_word *option,
                                           struct anyflash_error *err);

/*
 * The dependencies of folder/pyproject.toml, with those of its extras `extras` ("flash,dev"; ""
 * for none), also those that setuptools reads from files. If only a program of the project can
 * tell them, as setup.py does, project->unread says so.
 */
enum anyflash_status af_project_add_folder(struct af_project *project, const char *folder,
                                           const char *extras, struct anyflash_error *err);

/* The dependency group `group` of the file `path`, with the groups that it includes. */
enum anyflash_status af_project_add_group(struct af_project *project, const char *path,
                                          const char *group, struct anyflash_error *err);

/*
 * The next requirement or constraint on `name` (normalised) after `after` (NULL: from the
 * start) whose marker does not exclude `environment`; NULL: no more.
 */
const struct af_project_requirement *af_project_next(
    const struct af_project *project, const struct af_project_requirement *after,
    const char *name, const struct af_marker_environment *environment);

/* The next option that means this, after `after` (NULL: from the start), or NULL. */
const struct af_project_option *af_project_next_option(const struct af_project *project,
                                                       const struct af_project_option *after,
                                                       enum af_project_meaning meaning);

/*
 * The one version that the specifier pins ("==2.8.3" or "===2.8.3", without wildcard), in the
 * arena; NULL if it pins none.
 */
const char *af_project_pinned_version(struct af_arena *arena, const char *specifier);

/* Whether the specifier allows the version; UNKNOWN if either cannot be parsed. */
enum af_answer af_project_allows(const char *specifier, const char *version);

/*
 * install_command.c: what an installer's command would install, and where: pip and uv pip, also
 * as `python -m pip` and behind `conda run`, `poetry run` and the like.
 *
 * Sources: the command lines of pip 26 and uv 0.13. Options that are not known here take no
 * value; requirements that follow one are then read one word too early or too late.
 */
struct af_project_command {
    const char *const *words; /* borrowed */
    size_t word_count;
    size_t prefix_count; /* words before the installer that choose its environment */
    size_t option_place; /* where options of its subcommand begin */
    bool uv;             /* `uv pip`; else pip */
    bool installs;       /* false: `pip list` and the like */
    const char *python;  /* the interpreter or environment that is named; or NULL */
    const char *pip;     /* the word that starts pip, if no interpreter is named; or NULL */
    const char *refusal; /* why no wheel can be given to this command, in the arena; or NULL */
    const char *hint;    /* what to do instead; or NULL */
};

/*
 * Reads the words (at least one), and adds requirements, constraints and index options to
 * `project`, which is initialised as above. Fails as reading its files does;
 * a refusal is not a failure.
 */
enum anyflash_status af_project_command_read(struct af_project *project,
                                             const char *const *words, size_t word_count,
                                             struct af_project_command *command_out,
                                             struct anyflash_error *err);

#endif
