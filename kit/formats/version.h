/*
 * version.h: versions and specifiers of PEP 440, with local segments.
 *
 * Source: PEP 440 and the packaging library's behaviour (packaging.version,
 * packaging.specifiers): normalisation, ordering of pre, post, dev and local.
 */
#ifndef AF_KIT_FORMATS_VERSION_H
#define AF_KIT_FORMATS_VERSION_H

#include "engine/base/base.h"

#define AF_VERSION_RELEASE_MAX 8
#define AF_VERSION_LOCAL_BYTES 96

/*
 * A parsed version. Absent parts are -1; release has `release_count` numbers.
 * local is normalised: lower case, segments joined by '.'; "" when absent.
 */
struct af_version {
    int64_t epoch;
    int64_t release[AF_VERSION_RELEASE_MAX];
    int release_count;
    char pre_kind; /* 'a', 'b', 'r' (rc), or 0 */
    int64_t pre;
    int64_t post;
    int64_t dev;
    char local[AF_VERSION_LOCAL_BYTES];
};

/* Returns false when `text` (len bytes) is not a PEP 440 version. */
bool af_version_parse(const char *text, size_t len, struct af_version *version_out);

/* Negative, 0 or positive in PEP 440 order, including local segments. */
int af_version_compare(const struct af_version *a, const struct af_version *b);

/* As af_version_compare() without the local parts. */
int af_version_compare_public(const struct af_version *a, const struct af_version *b);

/* Whether it has a pre or dev part. */
bool af_version_is_prerelease(const struct af_version *version);

/* Writes the normalised text into buffer; returns buffer. */
char *af_version_format(const struct af_version *version, bool with_local, char *buffer,
                        size_t size_bytes);

/*
 * Whether the text is a comma-separated set of operators with one version each; empty clauses
 * are ignored. Versions need not be valid, but have only letters that versions have: no '/' and
 * no ':', which would make an installer read a path or an address.
 */
bool af_specifier_is_set(struct af_span text);

/*
 * Whether `version` satisfies a comma-separated specifier set ("" accepts any).
 * Pre-releases are allowed. UNKNOWN when the set cannot be parsed.
 */
enum af_answer af_specifier_contains(const char *specifiers, const struct af_version *version);

#endif
