/*
 * guards.c: counts the guards of a library that is built with AF_COUNT_GUARDS. Guards with the
 * same file and condition, which are in templates, are one.
 */
#include "guards.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attn/guard.h"

struct guard_site guard_sites[GUARDS_MAX];
int guard_count = 1;
uint8_t guard_met[GUARDS_MAX];
int guard_forced;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. */
static int number_of(const struct af_guard *guard)
{
    const char *slash = strrchr(guard->file, '/');
    const char *file = slash != NULL ? slash + 1 : guard->file;
    for (int n = 1; n < guard_count; n++) {
        if (strcmp(guard_sites[n].file, file) == 0 &&
            strcmp(guard_sites[n].condition, guard->condition) == 0)
            return n;
    }
    if (guard_count == GUARDS_MAX)
        abort();
    guard_sites[guard_count] = (struct guard_site){file, guard->condition, guard->is_choice};
    return guard_count++;
}

bool af_guard_holds(struct af_guard *guard, bool condition)
{
    int number = __atomic_load_n(&guard->number, __ATOMIC_RELAXED);
    if (number == 0) {
        pthread_mutex_lock(&lock);
        number = number_of(guard);
        pthread_mutex_unlock(&lock);
        __atomic_store_n(&guard->number, number, __ATOMIC_RELAXED);
    }
    __atomic_fetch_or(&guard_met[number], (uint8_t)(condition ? 2 : 1), __ATOMIC_RELAXED);
    return condition || number == guard_forced;
}
