/*
 * subject_wheel.h: the parts of subject.h that concern wheels. Private to it.
 */
#ifndef AF_RUN_SUBJECT_WHEEL_H
#define AF_RUN_SUBJECT_WHEEL_H

#include "run/subject.h"

/* "x.so" and "libx.so.1.2", with or without folders. */
bool af_subject_is_library(const char *path);

/* A new extension; NULL when there are too many or `path` is NULL. */
struct af_subject_extension *af_subject_add(struct af_subject *subject, const char *path);

/* What stands in place of a wheel: "a web page", "a Git LFS pointer"; NULL: neither. */
const char *af_subject_other_text(struct af_span start);

/* From the open archive: the extensions, and what the wheel says about itself. */
enum anyflash_status af_subject_read_wheel(struct af_subject *subject, struct af_arena *arena,
                                           struct anyflash_error *err);

/* Unpacks every library of the wheel to a temporary folder. */
enum anyflash_status af_subject_unpack(struct af_subject *subject, struct af_arena *arena,
                                       struct anyflash_error *err);

#endif
