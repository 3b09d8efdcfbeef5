/*
 * metadata.h: the small text files beside an installed distribution, and other
 * files of "key = value" lines.
 *
 * Spans borrow from the text passed in. Nothing here reads files, and malformed
 * text is not a failure: lines that cannot be parsed are skipped.
 *
 * Sources: core metadata 2.4 (METADATA), PEP 427 (WHEEL), PEP 376 and the
 * "Recording installed projects" specification (RECORD, INSTALLER), PEP 508
 * (Requires-Dist and its environment markers), PEP 610 (direct_url.json), uv (uv_build.json).
 */
#ifndef AF_KIT_FORMATS_METADATA_H
#define AF_KIT_FORMATS_METADATA_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

#define AF_METADATA_JSON_BYTES_MAX (1u * 1024u * 1024u)

/* The name of a folder of metadata: "flash_attn-2.8.3.dist-info", or that of an egg. */
struct af_info_folder {
    struct af_span name;    /* as written, not normalised */
    struct af_span version; /* empty: not stated */
    bool egg;               /* .egg-info or .egg: it has no RECORD */
};

/* False for other names. */
bool af_info_folder_parse(struct af_span folder, struct af_info_folder *parts_out);

/* One "Name: value" line of METADATA, PKG-INFO or WHEEL. */
struct af_header {
    struct af_span name;
    struct af_span value;
};

/*
 * Reads the next header of *rest; continuation lines are skipped. False at the
 * empty line that ends the headers and at the end of the text.
 */
bool af_header_next(struct af_span *rest, struct af_header *header_out);

/* Compares header names without case. */
bool af_header_is(const struct af_header *header, const char *name);

/*
 * The value of the first header with that name. False if there is none; *value_out is unchanged
 * then.
 */
bool af_header_find(struct af_span text, const char *name, struct af_span *value_out);

/* A Requires-Dist value: torch[opt]>=2.4,<3 ; extra == "cuda". */
struct af_requirement {
    struct af_span text; /* all of it */
    struct af_span name;
    struct af_span extras;    /* between the brackets; may be empty */
    struct af_span specifier; /* without parentheses and outer blanks; may be empty */
    struct af_span url;       /* of "name @ url", else empty */
    struct af_span marker;    /* behind ';' (af_marker_holds()); may be empty */
    bool has_marker;
    bool only_for_extra; /* its marker names an extra */
};

/*
 * False when `text` is not a distribution name, then a specifier or "@ url": an installer could
 * read something else, such as "file:///x", "x/" or "x.whl", as an address or a file.
 */
bool af_requirement_parse(struct af_span text, struct af_requirement *requirement_out);

/*
 * Reads the next Requires-Dist header of *rest; those that cannot be parsed are skipped. False
 * at the end of the headers.
 */
bool af_requirement_next(struct af_span *rest, struct af_requirement *requirement_out);

#define AF_FORMATS_RECORD_PATH_BYTES 4096
#define AF_FORMATS_SHA256_BYTES 65

/* A line of RECORD: path,sha256=...,size. */
struct af_formats_record_line {
    char path[AF_FORMATS_RECORD_PATH_BYTES];
    char sha256[AF_FORMATS_SHA256_BYTES]; /* hexadecimal; "" when not given */
    int64_t size_bytes;                   /* -1 when not given */
};

/* Reads the next line of *rest that names a path; false at the end. */
bool af_formats_record_next(struct af_span *rest, struct af_formats_record_line *line_out);

/*
 * The value of the first "key = value" line with that key, ignoring case; for
 * pyvenv.cfg.
 */
bool af_formats_key_value(struct af_span text, const char *key, struct af_span *value_out);

/*
 * The url of a direct_url.json; for repositories with "git+" and the commit.
 * User, password and query are removed. *url_out is NULL when there is none.
 * Fails with DATA; `name` is for errors.
 */
enum anyflash_status af_direct_url_parse(struct af_arena *arena, struct af_span bytes,
                                         const char *name, const char **url_out,
                                         struct anyflash_error *err);

/*
 * The torch version specifier that uv built this distribution with, from its
 * uv_build.json: "" for any; NULL in *specifier_out when torch is not named.
 * Fails as af_direct_url_parse().
 */
enum anyflash_status af_uv_build_torch(struct af_arena *arena, struct af_span bytes,
                                       const char *name, const char **specifier_out,
                                       struct anyflash_error *err);

/* Values of the variables of environment markers; NULL: unknown. */
struct af_marker_environment {
    const char *python_full_version; /* "3.12.4"; python_version is derived from it */
    const char *os_name;             /* "posix" */
    const char *sys_platform;        /* "linux" */
    const char *platform_system;     /* "Linux" */
    const char *platform_machine;    /* "x86_64" */
    const char *implementation_name; /* "cpython" */
    const char *platform_python_implementation; /* "CPython" */
    const char *extra;                          /* "" outside of extras */
};

/*
 * Whether a requirement with this marker applies; an empty marker always does.
 * UNKNOWN if it depends on an unknown value or cannot be parsed. Depth and
 * length are bounded; nothing is allocated.
 */
enum af_answer af_marker_holds(struct af_span marker,
                               const struct af_marker_environment *environment);

#endif
