/*
 * log_owner.h: which package or tool the lines of a log are about: whose build folder, whose
 * extension, whose failure.
 *
 * The row AF_SIGNATURE_OWNER of the signatures captures the package of a line: {package} prints
 * the line or imports something there, {frame} has a function in the call stack (only packages
 * that are known count), {source} is the module that a name was imported from, {failed} failed,
 * and {fault} both prints the line and failed. Names are shortened to what people call the
 * package, and classed by the rows OWNER of data/log_parts.tsv.
 */
#ifndef AF_KIT_DOCTOR_LOG_LOG_OWNER_H
#define AF_KIT_DOCTOR_LOG_LOG_OWNER_H

#include "engine/base/base.h"
#include "kit/doctor/log/pattern.h"

#define AF_LOG_OWNERS_MAX 256u
#define AF_LOG_OWNER_NAMES_MAX 64u
#define AF_LOG_OWNER_NAME_BYTES 48u

/* Lines one after the other that state the same package. */
struct af_log_owner {
    uint64_t first, last;
    unsigned char name; /* index of names */
    bool has_failed;
};

/* The result of one lookup, kept because a log repeats the same few texts. */
#define AF_LOG_OWNER_LOOKUPS 16u
#define AF_LOG_OWNER_TEXT_BYTES 112u
struct af_log_owner_lookup {
    const char *kind; /* name of the capture; NULL: unused */
    char text[AF_LOG_OWNER_TEXT_BYTES];
    size_t len;
    size_t name; /* index of names; AF_LOG_OWNER_NAMES_MAX: no statement */
};

/* Zero it to start. The first and the last statements of a long log are kept. */
struct af_log_owners {
    struct af_log_owner_lookup lookups[AF_LOG_OWNER_LOOKUPS];
    size_t next_lookup;
    char names[AF_LOG_OWNER_NAMES_MAX][AF_LOG_OWNER_NAME_BYTES];
    bool is_ours[AF_LOG_OWNER_NAMES_MAX];
    size_t name_count;
    struct af_log_owner rows[AF_LOG_OWNERS_MAX];
    size_t count;
};

/* What a line may be about. */
enum af_log_subject { AF_LOG_SUBJECT_UNKNOWN, AF_LOG_SUBJECT_OURS, AF_LOG_SUBJECT_OTHER };

/*
 * Notes what a line states: a name, a requirement, a path of an extension or a folder. Texts
 * that name no package, and what others stand on, such as torch and pip, are no statement;
 * programs that only load others, such as transformers, are one if they are a {source} or
 * {fault}.
 */
void af_log_owners_note(struct af_log_owners *owners, const struct af_capture *stated,
                        uint64_t line);

/*
 * Whom the message on the line is about: who is stated on it, else flash-attn if the message
 * names it, else whose build or import it stands below, else who is said to have failed after
 * it. *name_out is the name of an OTHER.
 */
enum af_log_subject af_log_owners_subject(const struct af_log_owners *owners, uint64_t line,
                                          bool names_flash_attn, const char **name_out);

/* The last package that is said to have failed and is not ours, if none of ours is; or NULL. */
const char *af_log_owners_failed(const struct af_log_owners *owners, uint64_t *line_out);

#endif
