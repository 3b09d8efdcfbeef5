/*
 * pasted_parts.h: what the readers of pasted lines share. Private to kit/machine.
 * Each reader looks at one cleaned line (no colours, quoting, backticks; blanks
 * trimmed; NUL-terminated) and returns whether the line states a fact.
 */
#ifndef AF_KIT_MACHINE_PASTED_PARTS_H
#define AF_KIT_MACHINE_PASTED_PARTS_H

#include "kit/machine/given.h"
#include "kit/machine/pasted.h"

#define AF_PASTED_LINE_BYTES 4096

/*
 * Records the first `len` bytes of `text` as the value of `fact`, read from the
 * current line. A value that an earlier line gave stays, unless this one is the same
 * version in more detail (2.4.0+cu121 after 2.4.0), or that one was from prose and this one is
 * not; if they differ, a note says so.
 */
void af_pasted_take(struct af_pasted_reader *reader, enum af_pasted_fact fact, const char *text,
                    size_t len);

/* The same for any value; `what` names it in the note, NULL for no note. */
void af_pasted_keep(struct af_pasted_reader *reader, struct af_pasted_value *value,
                    const char *what, const char *text, size_t len);

/* Reads the value of `fact` at the start of `at`, as such values are written, and records it;
   false if there is none. */
bool af_pasted_read_fact(struct af_pasted_reader *reader, enum af_pasted_fact fact,
                         const char *at);

/* Records the last processor that is a word of `text`; *at_out is its place. */
bool af_pasted_read_arch(struct af_pasted_reader *reader, const char *text,
                         const char **at_out);

/* The Python of a tag: "312" of cp312; false if it is none. */
bool af_pasted_take_tag(struct af_pasted_reader *reader, const char *digits);

/* System and processor of a tag: "linux_x86_64", "x86_64-linux-gnu", "win_amd64". */
void af_pasted_take_platform(struct af_pasted_reader *reader, const char *at);

/*
 * Python's "Linux-5.15.0-97-generic-x86_64-with-glibc2.35" or what uname prints; false if the
 * text is neither.
 */
bool af_pasted_take_system(struct af_pasted_reader *reader, const char *text);

/* Appends a formatted sentence to the notes, up to a limit. */
void af_pasted_note(struct af_pasted_reader *reader, const char *format, ...) AF_PRINTF(2, 3);

/* Keeps a name, or an empty one, and a compute capability, or NULL, of GPU `index`. */
void af_pasted_take_gpu(struct af_pasted_reader *reader, size_t index, struct af_span name,
                        const char *sm);
void af_pasted_take_gpu_memory(struct af_pasted_reader *reader, size_t index, const char *mib);

/* Keeps a package and its version, also torch's; false if the words are not a name and a
   version. */
bool af_pasted_take_package(struct af_pasted_reader *reader, struct af_span name,
                            struct af_span version);

/* The same, but only torch or a package that is kept. */
bool af_pasted_take_known(struct af_pasted_reader *reader, struct af_span name,
                          struct af_span version);

/* "GPU 0: NVIDIA A100 (UUID: ...)" */
bool af_pasted_gpu_line(struct af_pasted_reader *reader, const char *line);
bool af_pasted_package_line(struct af_pasted_reader *reader, const char *line);
bool af_pasted_tool_line(struct af_pasted_reader *reader, const char *line);
bool af_pasted_report_line(struct af_pasted_reader *reader, const char *line);

/* "PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.1.0+cu121)": only the latter is here. */
bool af_pasted_you_have(struct af_pasted_reader *reader, const char *line);

/* What installers and build programs print about the environment in which they run. */
bool af_pasted_installer_line(struct af_pasted_reader *reader, const char *line);

/* Whether only a log has this line. */
bool af_pasted_begins_log(const char *line);

/* Facts in paths and names of files. */
bool af_pasted_path_line(struct af_pasted_reader *reader, const char *line);

/* Facts that stand anywhere in a line; in a row of packages only traces of the system. */
bool af_pasted_prose_line(struct af_pasted_reader *reader, const char *line, bool is_package);

/* Looks for packages in a line of JSON, which may be long and is not cleaned. */
bool af_pasted_json_line(struct af_pasted_reader *reader, struct af_span line);

/* Notices the end of the last list. */
void af_pasted_packages_end(struct af_pasted_reader *reader);

/* Writes everything that was kept into reader->machine. */
void af_pasted_apply(struct af_pasted_reader *reader);

/* The name of known package `index`, or NULL after the last. */
const char *af_pasted_package_name(size_t index);

/* Bytes of the version at the start of `text`: "2.4.0+cu121" of "2.4.0+cu121 (True)". */
size_t af_pasted_version_len(const char *text);

/* Below: shared by pasted_prose.c and pasted_system.c. `lower` is a line in lower case. */

/*
 * The first of the words, separated by '|', that begins in `text`, not in the middle of a word;
 * or NULL.
 */
const char *af_pasted_find_word(const char *text, const char *words, size_t *len_out);
bool af_pasted_has_word(const char *text, const char *words);

/* Skips what may stand between a product and its version, also in other scripts. */
const char *af_pasted_skip_between(const char *at);

/* Records the systems of which the line has traces. */
void af_pasted_take_traces(struct af_pasted_reader *reader, const char *line,
                           const char *lower);

/* "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel": records what its tag states. */
bool af_pasted_take_image(struct af_pasted_reader *reader, const char *lower);

#endif
