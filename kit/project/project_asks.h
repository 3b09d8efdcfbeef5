/*
 * project_asks.h: where a project asks for torch and flash-attn, in any of its files.
 */
#ifndef AF_KIT_PROJECT_PROJECT_ASKS_H
#define AF_KIT_PROJECT_PROJECT_ASKS_H

#include "kit/project/project_source.h"
#include "kit/project/python_imports.h"

/* One requirement on torch or flash-attn. Texts in the arena; "" if absent. */
struct af_project_ask {
    bool is_torch; /* else flash-attn */
    bool is_optional;
    const struct af_project_source *root; /* the file that was read first */
    const struct af_project_source *source;
    size_t line;
    size_t start;     /* bytes of the requirement in the source: a line, or an element of an */
    size_t end;       /* array with its comma; equal: they are unknown */
    const char *name; /* as written: "flash_attn" */
    const char *specifier;
    const char *marker;
    const char *url;
    const char *pinned; /* the only version that it allows; NULL: not one */
    bool is_decided;    /* torch: a pinned package of the same file needs one version of it */
    struct af_project_ask *next;
};

struct af_project_asks {
    struct af_project_ask *first;
    const char *python_range; /* requires-python; "" if it is not stated */
    /* facts of sources[i], if that is Python; zero for others */
    struct af_import_facts *python;
};

/* Reads all sources. Fails with NO_MEMORY; what cannot be parsed is left out. */
enum anyflash_status af_project_asks_read(struct af_arena *arena,
                                          const struct af_project_source *sources, size_t count,
                                          struct af_project_asks *asks_out,
                                          struct anyflash_error *err);

/*
 * What the project says of torch where `ask` is stated: in the same file or one that was read
 * with it, else the first exact version in another file of the same folder. NULL: nothing.
 */
const struct af_project_ask *af_project_torch_for(const struct af_project_asks *asks,
                                                  const struct af_project_ask *ask);

/* Whether the requirements file `path`, with those that it includes, asks for torch. */
bool af_project_brings_torch(const struct af_project_asks *asks, const char *path);

#endif
