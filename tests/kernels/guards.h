/*
 * guards.h: what the guards of engine/attn/guard.h tell a program that is built with
 * AF_COUNT_GUARDS: which of them a problem met, and on which side. One can be made to hold. And
 * rows of a table of what no problem can meet.
 */
#ifndef AF_TEST_GUARDS_H
#define AF_TEST_GUARDS_H

#include <stdbool.h>
#include <stdint.h>

#define GUARDS_MAX 120

struct guard_site {
    const char *file; /* behind the last slash */
    const char *condition;
    bool is_choice;
};

extern struct guard_site guard_sites[GUARDS_MAX]; /* of guard 1 on */
extern int guard_count;                           /* 1 and those that were met so far */

/* What guard n was since it was last cleared: bit 0 false, bit 1 true. */
extern uint8_t guard_met[GUARDS_MAX];

extern int guard_forced; /* the guard that always holds, or 0 */

enum side { GUARD_FALSE, GUARD_TRUE, SIDES };

/*
 * A side of a guard that no problem with one of these features can meet, or none with ALL_OF
 * them. `kernel`: the row is for machines where no kernel has this in its name; NULL: for all.
 */
struct never_met {
    const char *file;
    const char *condition; /* or its first words */
    enum side side;
    unsigned features;
    const char *kernel;
};

#define ALL_OF (1u << 31)
#define EVERY_FEATURE (ALL_OF - 1)

#define BOTH(file, condition, features)                                                        \
    {file, condition, GUARD_FALSE, features, NULL},                                            \
    {                                                                                          \
        file, condition, GUARD_TRUE, features, NULL                                            \
    }

#endif
