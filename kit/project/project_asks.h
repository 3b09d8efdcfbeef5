/*
 * project_asks.h: where a project asks for torch and flash-attn, in any of its files.
 */
#ifndef AF_KIT_PROJECT_PROJECT_ASKS_H
#define AF_KIT_PROJECT_PROJECT_ASKS_H

#include "kit/project/project_source.h"
#include "kit/project/project_wheels.h"
#include "kit/project/requirements.h"

/*
 * python_imports.c: what a Python source says about flash-attn: what it imports, whether the
 * module can be imported where that is missing, and what a setup program requires. The source
 * is split into tokens and lines; nothing is executed.
 *
 * Source: "Lexical analysis" and "Compound statements" of the Python language reference.
 */

/* What happens where the import fails. */
enum af_import_guard {
    AF_IMPORT_FATAL,   /* the import of the module fails, too */
    AF_IMPORT_LAZY,    /* it is in a function: only a call fails */
    AF_IMPORT_GUARDED, /* there is a handler or a condition for it */
};

/* One statement "import ..." or "from ... import ...". */
struct af_import_statement {
    bool is_flash_attn; /* it imports flash_attn, or a module of it */
    bool is_handled;    /* GUARDED by a handler, not by a condition */
    bool is_narrow;     /* by one of ModuleNotFoundError alone */
    size_t start;       /* in bytes, of the statement */
    size_t end;
    size_t line; /* from 1 */
    size_t indent;
    bool is_alone;         /* nothing else is in its logical line */
    struct af_span module; /* of "from": "flash_attn.bert_padding", ".rotary"; else empty */
    struct af_span names;  /* "flash_attn_func as f, x", without brackets */
    enum af_import_guard guard;
    struct af_import_statement *next;
};

/* A string of install_requires = [...] or of a list with such a name, without its quotes. */
struct af_import_string {
    struct af_span text;
    struct af_import_string *next;
};

/* Spans point into the source; the lists are in the arena and in the order of the source. */
struct af_import_facts {
    struct af_import_statement *imports;
    struct af_import_string *install_requires;
    struct af_span python_requires; /* the string behind that name; else empty */
    bool mentions; /* a name or a string contains flash_attn or flash_attention */
};

/*
 * Reads any bytes; what is no Python gives fewer facts. Blocks nested deeper than 64 count as
 * guarded.
 */
void af_imports_of_python(struct af_arena *arena, struct af_span text,
                          struct af_import_facts *facts_out);

/* ---- requirements ---- */

/* One requirement on torch or flash-attn. Texts in the arena; "" if absent. */
struct af_project_ask {
    bool is_torch; /* else flash-attn */
    bool is_optional;
    const struct af_project_source *root; /* the file that was read first */
    bool is_included;                     /* another file includes this one */
    const struct af_project_source *source;
    size_t at;        /* a byte of the line where it begins */
    size_t start;     /* bytes of the requirement in the source: a line, or an element of an */
    size_t end;       /* array with its comma; equal: they are unknown */
    const char *name; /* as written: "flash_attn" */
    const char *specifier;
    const char *marker;
    const char *url;
    const char *pinned;  /* the only version that it allows; NULL: not one */
    bool is_decided;     /* torch: a pinned package of the same file needs one version of it */
    bool is_constrained; /* a constraints file, or options of the line, limit it elsewhere */
    bool is_arranged;    /* the file says which index has it, or that it is built with torch */
    const char *text;    /* of TOML: as written, where it is a string; else NULL */
    const char *table;   /* of TOML: "project.dependencies"; else NULL */
    const char *group;   /* the extra or group of that table; "" for none */
    struct af_project_ask *next;
};

/* What a file states about where the project runs. */
struct af_project_stated {
    const char *python_range;      /* as requires-python writes it; NULL if it is not stated */
    unsigned platforms;            /* bits 1 << enum af_project_platform; 0: not stated */
    bool brings_torch;             /* of requirements: it asks for torch, or for a project */
    struct af_import_facts python; /* of Python sources but setup.py; zero for others */
};

#define AF_PROJECT_ASKS_MAX 4000u             /* requirements on torch and flash-attn */
#define AF_PROJECT_READ_MAX (64u << 20)       /* bytes that requirements files include */
#define AF_PROJECT_EXPRESSION_BYTES_MAX 1024u /* of a specifier or a marker that is evaluated */

/* Why the rest of a project was not checked. */
enum af_project_limit {
    AF_PROJECT_LIMIT_NONE,
    AF_PROJECT_LIMIT_READ,    /* AF_PROJECT_READ_MAX */
    AF_PROJECT_LIMIT_ASKS,    /* AF_PROJECT_ASKS_MAX */
    AF_PROJECT_LIMIT_LOOKUPS, /* AF_PROJECT_LOOKUPS_MAX of project_wheels.h */
    AF_PROJECT_LIMIT_FINDINGS /* AF_PROJECT_FINDINGS_MAX of findings.h */
};

struct af_project_asks {
    struct af_arena *arena;
    const char *const *wanted; /* names, then NULL; NULL: torch and flash-attn, on Linux x86 */
    const struct af_project_source *sources;
    size_t count;
    const struct af_project_source **by_path; /* the sources, sorted by their paths */
    const struct af_project_source **by_name; /* those that bring torch, by their file names */
    size_t by_name_count;
    struct af_project_stated *stated;  /* stated[i] is of sources[i] */
    struct af_project_stated manifest; /* what the first manifests of a package state */
    struct af_project_ask *first;
    struct af_project_ask **end;
    size_t tried_count; /* asks that were found, whether or not they were added */
    size_t read_bytes;
    enum af_project_limit limit;
};

/* The reader for single requirements, which include nothing: it finds no file. */
af_project_read_file_fn af_project_read_nothing;

/* Packages of which many releases need one version of torch, which they bring; then NULL. */
extern const char *const af_project_torch_neighbours[];

/* Whether the package is one of them. */
bool af_project_needs_torch(struct af_span name);

/* Whether the name is one of torch or flash-attn. */
bool af_project_asks_want(const char *name);

/*
 * For the readers of files. af_project_asks_add() adds a copy of a requirement
 * that is wanted and can apply, until the list is full. _parse() reads name, specifier, marker
 * and URL of a PEP 508 requirement into `ask`, with texts in `arena`; it returns false if the
 * text is no such requirement, or has no name. _state_python()
 * keeps a copy of what a file states, if it was not stated before and is short enough to be
 * evaluated.
 */
bool af_project_asks_wanted(const struct af_project_asks *asks, const char *name);
void af_project_asks_add(struct af_project_asks *asks, struct af_project_ask made);
bool af_project_asks_are_full(const struct af_project_asks *asks);
bool af_project_asks_parse(struct af_arena *arena, struct af_span text,
                           struct af_project_ask *ask);
void af_project_asks_state_python(struct af_project_asks *asks, size_t source,
                                  const char *range);

/* Adds the requirement `text` of a file, with what is set of `ask`. */
void af_project_asks_add_text(struct af_project_asks *asks, struct af_span text,
                              struct af_project_ask ask);

/* Adds the requirements of asks->sources[source], an environment.yml or a setup.cfg. */
void af_project_asks_read_lines(struct af_project_asks *asks, size_t source);

/* Adds the requirements of asks->sources[source], a pyproject.toml or a pixi.toml. */
void af_project_asks_read_toml(struct af_project_asks *asks, size_t source);

/* The same from `text`, which is that source's with blanks in place of what is not TOML. */
void af_project_asks_read_tables(struct af_project_asks *asks, size_t source,
                                 struct af_span text);

/* Those that a Python script states in its block "# /// script" (PEP 723), if it has one. */
void af_project_asks_read_script(struct af_project_asks *asks, size_t source);

/*
 * What Poetry, pixi or conda writes, "^2.5" or "2.1.*", as a specifier of PEP 440, in the
 * arena; "" for what PEP 440 lacks.
 */
const char *af_project_asks_specifier(struct af_arena *arena, const char *text, bool is_conda);

/* "torch" for conda's packages of it, else "": conda's flash-attn is compiled already. */
const char *af_project_asks_conda_name(const char *name);

/* Reads all sources; what cannot be parsed is left out. */
void af_project_asks_read(struct af_arena *arena, const struct af_project_source *sources,
                          size_t count, struct af_project_asks *asks_out);

/*
 * All that one file says of the packages with the names `wanted` (then NULL), on any system,
 * also in uv's constraints and overrides. The lists are borrowed.
 */
void af_project_asks_read_all(struct af_arena *arena, const struct af_project_source *source,
                              const char *const *wanted, struct af_project_asks *asks_out);

/*
 * What the project says of torch where `ask` is stated: in the same file or one that was read
 * with it, else the first exact version in another file of the same folder. NULL: nothing.
 */
const struct af_project_ask *af_project_torch_for(const struct af_project_asks *asks,
                                                  const struct af_project_ask *ask);

/*
 * The Pythons and platforms that hold for `ask`: what its own file states, else the first
 * manifest of a package that does. The range is "" if none is stated.
 */
struct af_project_stated af_project_stated_for(const struct af_project_asks *asks,
                                               const struct af_project_ask *ask);

/*
 * Whether a requirements file with the name of `path`, with those that it includes, asks for
 * torch.
 */
bool af_project_brings_torch(const struct af_project_asks *asks, const char *path);

#endif
