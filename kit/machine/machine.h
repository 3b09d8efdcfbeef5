/*
 * machine.h: all known facts about one machine, as data.
 *
 * The facts come from probing this machine, from a JSON record (possibly
 * partial), from `key=value` words, or from several of these, where later ones
 * override. Code that uses a machine does not depend on its origin. The facts
 * are listed in fields.inc; a record consists only of facts, so fact i of a
 * record is described by entry i of its field table.
 *
 * Everything a machine points to is in its arena. Fields missing from a partial
 * record are unknown. A list of rows has its own state: KNOWN (the list is
 * complete), or UNKNOWN with the reason.
 */
#ifndef AF_KIT_MACHINE_MACHINE_H
#define AF_KIT_MACHINE_MACHINE_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"
#include "kit/formats/metadata.h"

#define AF_MACHINE_SCHEMA "anyflash-machine/1"
#define AF_MACHINE_BYTES_MAX (4u * 1024u * 1024u)
#define AF_MACHINE_ROWS_MAX 4096u

enum af_fact_state { AF_FACT_UNKNOWN = 0, AF_FACT_ABSENT, AF_FACT_KNOWN };
enum af_fact_type { AF_FACT_TEXT, AF_FACT_INT, AF_FACT_BOOL, AF_FACT_LIST };

/* How a value became known; the stronger ones come later. */
enum af_origin_kind {
    AF_ORIGIN_NONE = 0, /* it is unknown */
    AF_ORIGIN_ASSUMED,
    AF_ORIGIN_PROSE, /* a sentence */
    AF_ORIGIN_LINE,  /* a line of a known form, such as a program's output */
    AF_ORIGIN_READ,  /* a probe or a record */
    AF_ORIGIN_GIVEN  /* a word of --given */
};

struct af_origin {
    enum af_origin_kind kind;
    size_t line;      /* of PROSE and LINE */
    const char *word; /* as --given takes it, of GIVEN: "torch=2.9.1" */
};

/*
 * One fact: a value with its source, or unknown with the reason.
 *
 * Invariants. UNKNOWN: no value; `source` says why and is never NULL after
 * af_fact_*(). ABSENT: known not to exist (no torch installed, no memory limit);
 * `source` says where that was found. KNOWN: the value of `type`, and `source`
 * names the file or the call it was read from. Texts belong to the arena that
 * was passed, and are UTF-8 or scrubbed. `source` is for people; code asks `origin`.
 */
struct af_fact {
    enum af_fact_state state;
    union {
        const char *text;
        int64_t number;
        bool truth;
        struct {
            const char *const *items;
            size_t count;
        } list;
    } value;
    const char *source;
    struct af_origin origin;
};

/*
 * Setters. Texts are copied into the arena and scrubbed for printing; a NULL
 * text or list sets nothing. `source` is a path or a call and is copied.
 */
void af_fact_text(struct af_arena *arena, struct af_fact *fact, const char *text,
                  const char *source);
void af_fact_int(struct af_arena *arena, struct af_fact *fact, int64_t number,
                 const char *source);
void af_fact_bool(struct af_arena *arena, struct af_fact *fact, bool truth, const char *source);
void af_fact_list(struct af_arena *arena, struct af_fact *fact, const char *const *items,
                  size_t count, const char *source);
void af_fact_absent(struct af_arena *arena, struct af_fact *fact, const char *source);
void af_fact_unknown(struct af_arena *arena, struct af_fact *fact, const char *format, ...)
    AF_PRINTF(3, 4);

/* Makes all facts of a record or row of `bytes` absent, or unknown, for the reason `why`. */
void af_machine_set_all(struct af_arena *arena, struct af_fact *facts, size_t bytes,
                        enum af_fact_state state, const char *why);

/* Getters for code that only needs known values. */
const char *af_fact_text_or(const struct af_fact *fact, const char *fallback);
int64_t af_fact_int_or(const struct af_fact *fact, int64_t fallback);

/* YES or NO for a known boolean, NO when absent, else UNKNOWN. */
enum af_answer af_fact_truth(const struct af_fact *fact);

bool af_fact_is(const struct af_fact *fact, const char *text);

/* Whether its value is what is usual, and was not stated. */
bool af_fact_is_assumed(const struct af_fact *fact);

/* struct af_platform { struct af_fact os; ... }; and so on */
#define AF_MACHINE_RECORD(name, doc) struct af_##name {
#define AF_MACHINE_ROW(list, row, doc) struct af_##row {
#define AF_FACT(member, type, doc) struct af_fact member;
/* clang-format off */
#define AF_MACHINE_END(name) };
/* clang-format on */
#include "kit/machine/fields.inc"

/* Rows of one kind; machine->gpus.rows is a struct af_gpu *. */
#define AF_MACHINE_RECORD(name, doc)
#define AF_MACHINE_ROW(list, row, doc)                                                         \
    struct af_##row##_rows {                                                                   \
        struct af_##row *rows;                                                                 \
        size_t count;                                                                          \
        enum af_fact_state state;                                                              \
        const char *source; /* the reason if the list is unknown */                            \
    };
#define AF_MACHINE_END(name)
#define AF_FACT(member, type, doc)
#include "kit/machine/fields.inc"

struct af_machine {
    struct af_arena arena;
    const char *name;       /* "this machine", or the record's file name */
    const char *remark;     /* note by the author of a record, or NULL */
    const char *notes;      /* contradictions and unclear lines of pasted text; or NULL */
    bool pasted;            /* read from pasted text, which leaves out what people find usual */
    const char *cuda_named; /* by pasted text, perhaps torch's: "12.4"; or NULL */
#define AF_MACHINE_RECORD(name, doc) struct af_##name name;
#define AF_MACHINE_ROW(list, row, doc) struct af_##row##_rows list;
#define AF_MACHINE_END(name)
#define AF_FACT(member, type, doc)
#include "kit/machine/fields.inc"
};

/* One field of a record. */
struct af_field {
    const char *name;
    enum af_fact_type type;
    const char *doc;
};

/* One record or list of fields.inc, for code that iterates over all of them. */
struct af_group {
    const char *name;
    const char *doc;
    const struct af_field *fields;
    size_t field_count;
    size_t offset; /* of the record, or of its af_*_rows, in struct af_machine */
    bool is_list;
    size_t row_bytes; /* bytes of one row of a list */
};

/* All groups in the order of fields.inc; static storage. */
const struct af_group *af_machine_groups(size_t *count_out);

/* Makes every fact unknown with the reason `why`. Cannot fail. */
void af_machine_init(struct af_machine *machine, const char *name, const char *why);
void af_machine_release(struct af_machine *machine);

/* The facts of a record group, or of row `index` of a list group. */
struct af_fact *af_machine_facts(struct af_machine *machine, const struct af_group *group,
                                 size_t index);

/* The layout that all af_*_rows share, for code that iterates over all of them. */
struct af_rows {
    void *rows;
    size_t count;
    enum af_fact_state state;
    const char *source;
};
struct af_rows *af_machine_rows(struct af_machine *machine, const struct af_group *group);

/*
 * Adds a row at the end of the list at `list_offset` (offsetof(struct
 * af_machine, gpus)), with all facts unknown for the reason `why` (borrowed);
 * the list becomes KNOWN. Earlier row pointers become invalid. NULL when the
 * list has AF_MACHINE_ROWS_MAX rows.
 */
void *af_machine_row_add(struct af_machine *machine, size_t list_offset, const char *why);

/*
 * The row whose first fact, its name, is the text `name`, in a list as above; NULL: there is
 * none.
 */
void *af_machine_row(const struct af_machine *machine, size_t list_offset, const char *name);

/*
 * Reads the record in `bytes` into `machine`; `name` is its name for errors.
 * Groups that the record does not contain are unchanged; in a group that it
 * contains, missing facts become unknown. A fact is {"value": V, "source": S},
 * {"unknown": WHY}, a bare value, or null for absent (with a source: {"value":
 * null, "source": S}). A list is an array of rows, {"value": ROWS, "source": S},
 * {"unknown": WHY}, or null for none; a whole record may also be null or
 * {"unknown": WHY}. Unknown keys, wrong types and negative numbers are refused
 * with name and path ("gpus[2].sm"). On failure `machine` is unchanged.
 */
enum anyflash_status af_machine_parse(struct af_machine *machine, struct af_span bytes,
                                      const char *name, struct anyflash_error *err);

/* Appends the record as JSON text, one fact per line, keys in table order. */
void af_machine_write(struct af_machine *machine, struct af_text *out);

/*
 * Applies one "key=value" word. Fails with ARGUMENT for an unknown key; the
 * error lists the known keys. A value that cannot be parsed makes the fact
 * unknown, and *remark_out (text in the arena) says so; otherwise *remark_out is
 * NULL.
 */
enum anyflash_status af_machine_given(struct af_machine *machine, const char *word,
                                      const char **remark_out, struct anyflash_error *err);

/* As af_machine_given(), for what line `line` of a text says; `source` names that line. */
enum anyflash_status af_machine_given_on_line(struct af_machine *machine, const char *word,
                                              const char *source, size_t line,
                                              struct anyflash_error *err);

/* As af_machine_given(), but a value that cannot be parsed fails with ARGUMENT. */
enum anyflash_status af_machine_given_strictly(struct af_machine *machine, const char *word,
                                               const char **remark_out,
                                               struct anyflash_error *err);

/*
 * Key `index` of af_machine_given() and the form of its values, in the order of
 * the help text; NULL after the last. Static storage. In addition, "record.fact"
 * names any fact of a record: platform.kernel=6.1.
 */
const char *af_machine_given_key(size_t index, const char **doc_out);

/* The values that environment markers have on `machine`; texts are borrowed from it. */
struct af_marker_environment af_machine_markers(const struct af_machine *machine);

/* The package `name` (normalised), or NULL. */
const struct af_package *af_machine_package(const struct af_machine *machine, const char *name);

/* The package flash-attn, or NULL; also NULL if anyflash made it. */
const struct af_package *af_machine_flash_attn(const struct af_machine *machine);

/* The package flash-attn that `anyflash shim` or `anyflash run` made, or NULL. */
const struct af_package *af_machine_shim(const struct af_machine *machine);

/* Whether that package contains anyflash's own, as `anyflash run` makes it. */
bool af_machine_shim_is_complete(const struct af_machine *machine);

/* The value of the environment variable `name`, or NULL. */
const char *af_machine_variable(const struct af_machine *machine, const char *name);

/* Whether the tool `name` ("uv") was found. */
bool af_machine_has_tool(const struct af_machine *machine, const char *name);

/*
 * Whether uv installs packages here, which goes before pip; also if the tools are not known.
 * Without uv and pip, pip must be made first.
 */
bool af_machine_uses_uv(const struct af_machine *machine);
bool af_machine_lacks_installer(const struct af_machine *machine);

/* The CUDA toolkit that torch's extension builder uses, or NULL if none is known to be. */
const struct af_toolkit *af_machine_toolkit(const struct af_machine *machine);

/* ---- What is known about GPUs without having one; in gpu_facts.c ---- */

/*
 * Sets `visible` of every GPU row from CUDA_VISIBLE_DEVICES `value` (NULL: not
 * set, all are visible), as the CUDA programming guide says: indices or UUID
 * prefixes, up to the first entry that names no device. An entry MIG-... does
 * not identify the row of its device, so the rows become unknown.
 */
void af_machine_gpu_visibility(struct af_machine *machine, const char *value,
                               const char *source);

/* The CUDA version that a driver supports ("13.0" for "580.95.05"), a constant; or NULL. */
const char *af_machine_gpu_driver_cuda(const char *driver_version);

/*
 * Parses "sm_90a", "90", "9.0" or "compute_120" to "9.0" and so on; copies
 * "gfx942" unchanged. False for anything else.
 */
bool af_machine_gpu_sm_parse(const char *text, char *sm, size_t size_bytes);

/*
 * Bytes of the longest product name at the start of lower-case `text`, ignoring blanks and
 * dashes; 0: none. *row_out is its row of af_embedded_gpu_names: vendor, name, compute
 * capability.
 */
size_t af_machine_gpu_name_at(const char *text, const char *const **row_out);

/*
 * Finds the longest product name in lower-case `text` and returns its vendor and
 * compute capability (NULL: GPUs of this vendor have none), constants; false
 * when there is none.
 */
bool af_machine_gpu_name_find(const char *text, const char **vendor_out, const char **sm_out);

/* ---- The facts that a person names when describing a machine; in key_facts.c ---- */

#define AF_MACHINE_KEY_FACT_COUNT 8

struct af_machine_key_fact {
    const char *key;    /* of --given: "gpu" */
    const char *label;  /* "GPU" */
    const char *value;  /* as --given reads it: "8x A100", "none"; NULL: unknown */
    const char *source; /* where it was read, or why it is unknown */
};

/* Fills `facts`, the most important first. Texts are in `arena`, the machine's, or static. */
void af_machine_key_facts(const struct af_machine *machine, struct af_arena *arena,
                          struct af_machine_key_fact facts[AF_MACHINE_KEY_FACT_COUNT]);

#endif
