/*
 * scrub.h: removes private things from a text before it goes into a bug report.
 *
 * Removed: credentials and queries in addresses, values of tokens, passwords and keys
 * (by how their name ends, and by the form of well-known tokens), private keys, home
 * folders, the user's and the host's names, user@host of prompts, e-mail addresses, IP
 * and MAC addresses, host names of private networks, and UUIDs. The rest stays readable:
 * each removal leaves a word such as [token], [user] or [host].
 */
#ifndef AF_KIT_DOCTOR_SCRUB_H
#define AF_KIT_DOCTOR_SCRUB_H

#include "kit/base/text.h"

/* Names of this machine, whole words of which are replaced; NULL or "": none. */
struct af_scrub_names {
    const char *user;
    const char *host;
    const char *home; /* "/data/people/ana"; not needed for /home and the like */
};

/* The scrubbed text in `arena`, NUL-terminated; NULL if memory runs out. */
const char *af_scrub_text(struct af_arena *arena, struct af_span text,
                          const struct af_scrub_names *names);

#endif
