/*
 * pasted_parts.h: what the readers of pasted lines share. Private to kit/machine.
 * Each reader looks at one cleaned line (no colours, quoting, backticks; blanks
 * trimmed; NUL-terminated) and returns the kind, or NONE if it does not recognise
 * the line.
 */
#ifndef AF_KIT_MACHINE_PASTED_PARTS_H
#define AF_KIT_MACHINE_PASTED_PARTS_H

#include "kit/machine/pasted.h"

#define AF_PASTED_LINE_BYTES 4096

/*
 * Records the first `len` bytes of `text` as the value of `fact`, read from the
 * current line. A value that an earlier line gave stays, unless this one is the same
 * version in more detail (2.4.0+cu121 after 2.4.0); if they differ, a note says so.
 */
void af_pasted_take(struct af_pasted_reader *reader, enum af_pasted_fact fact, const char *text,
                    size_t len);

/* The same for any value; `what` names it in the note, NULL for no note. */
void af_pasted_keep(struct af_pasted_reader *reader, struct af_pasted_value *value,
                    const char *what, const char *text, size_t len);

/* Appends a formatted sentence to the notes, up to a limit. */
void af_pasted_note(struct af_pasted_reader *reader, const char *format, ...) AF_PRINTF(2, 3);

/* Keeps a name, or NULL, and a compute capability, or NULL, of GPU `index`. */
void af_pasted_take_gpu(struct af_pasted_reader *reader, size_t index, const char *name,
                        const char *sm);
void af_pasted_take_gpu_memory(struct af_pasted_reader *reader, size_t index, const char *mib);

/* Keeps a package and its version, also torch's; false if the words are not a name and a
   version. */
bool af_pasted_take_package(struct af_pasted_reader *reader, struct af_span name,
                            struct af_span version);

/* What platform.platform() gives: "Linux-5.15.0-97-generic-x86_64-with-glibc2.35". */
bool af_pasted_take_platform(struct af_pasted_reader *reader, const char *text);

/* A processor, if `text` begins with the name of one. */
bool af_pasted_take_arch(struct af_pasted_reader *reader, const char *text);

/* Keeps a glibc version, unless it is one of the old ones that Python invents for old
   executables. */
void af_pasted_take_glibc(struct af_pasted_reader *reader, const char *version);

/* "GPU 0: NVIDIA A100 (UUID: ...)" */
enum af_pasted_kind af_pasted_gpu_line(struct af_pasted_reader *reader, const char *line);
enum af_pasted_kind af_pasted_package_line(struct af_pasted_reader *reader, const char *line);
enum af_pasted_kind af_pasted_tool_line(struct af_pasted_reader *reader, const char *line);
enum af_pasted_kind af_pasted_report_line(struct af_pasted_reader *reader, const char *line);

/* Facts that stand anywhere in a line; in a row of packages only traces of the system. */
enum af_pasted_kind af_pasted_prose_line(struct af_pasted_reader *reader, const char *line,
                                         bool is_package);

/* Fills in what only prose states. */
void af_pasted_prose_merge(struct af_pasted_reader *reader);

/* Looks for packages in a line of JSON, which may be long and is not cleaned. */
enum af_pasted_kind af_pasted_json_line(struct af_pasted_reader *reader, struct af_span line);

/* Notices the end of the last list. */
void af_pasted_packages_end(struct af_pasted_reader *reader);

/* Writes everything that was kept into reader->machine. */
void af_pasted_apply(struct af_pasted_reader *reader);

/* The name of known package `index`, or NULL after the last. */
const char *af_pasted_package_name(size_t index);

/* Whether it is torch or one of the known packages. */
bool af_pasted_package_is_known(struct af_span name);

/* Bytes of the version at the start of `text`: "2.4.0+cu121" of "2.4.0+cu121 (True)". */
size_t af_pasted_version_len(const char *text);

#endif
