/*
 * guard.h: marks the conditions under which a kernel takes a shortcut, such as reading rows in
 * place or leaving out the test of what a row sees.
 *
 * AF_GUARD(condition) is the condition; without it, the shortcut would give wrong results.
 * AF_CHOICE(condition), too, but both ways are right. In one build of test_pairs.c each of
 * them counts which problems meet it, and a guard can be made to hold always: some problem must
 * then be wrong (tests/kernels/guards.h).
 */
#ifndef AF_ENGINE_ATTN_GUARD_H
#define AF_ENGINE_ATTN_GUARD_H

#ifdef AF_COUNT_GUARDS

#include <stdbool.h>

struct af_guard {
    const char *file;
    const char *condition; /* as it is written */
    bool is_choice;
    int number; /* of those with this file and condition; 0 before it is met */
};

/* The condition's value, or true if this guard is made to hold. */
bool af_guard_holds(struct af_guard *guard, bool condition);

#define AF_GUARD_OF(condition, text, is_choice)                                                \
    __extension__({                                                                            \
        static struct af_guard guard = {__FILE__, text, is_choice, 0};                         \
        af_guard_holds(&guard, condition);                                                     \
    })
#define AF_GUARD(condition) AF_GUARD_OF(condition, #condition, false)
#define AF_CHOICE(condition) AF_GUARD_OF(condition, #condition, true)

#else

#define AF_GUARD(condition) (condition)
#define AF_CHOICE(condition) (condition)

#endif

#endif
