/*
 * subject.h: what is to be inspected, opened: a file, a folder, a wheel, an
 * installed package; and the facts of every extension in it.
 */
#ifndef AF_RUN_SUBJECT_H
#define AF_RUN_SUBJECT_H

#include "formats/binary.h"
#include "machine/machine.h"

#define AF_SUBJECT_EXTENSIONS_MAX 2000u

/* One shared library of the subject. Texts in the arena of the call. */
struct af_subject_extension {
    const char *path;        /* within the subject, or the file itself */
    const char *folder;      /* where it lies or will lie, for $ORIGIN; NULL: not known */
    const char *problem;     /* why there are no facts; NULL: there are */
    struct af_binary binary; /* when `problem` is NULL */
};

struct af_subject {
    const char *name;                        /* as asked for, scrubbed */
    struct af_subject_extension *extensions; /* in the order of their paths */
    size_t count;
    bool cut; /* more than AF_SUBJECT_EXTENSIONS_MAX were there */
};

/*
 * Opens `path`: a shared library, or a folder that is searched for them. What is
 * there but cannot be read becomes an extension with a `problem`. Fails with
 * NOT_FOUND, IO or NO_MEMORY for the subject as a whole.
 */
enum anyflash_status af_subject_open(const char *path, struct af_arena *arena,
                                     struct af_subject *out, struct anyflash_error *err);

#endif
