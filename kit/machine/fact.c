/*
 * fact.c: setting and reading facts. Used by the probes, the record reader and
 * whoever decides.
 */
#include "kit/machine/fact.h"

#include "kit/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 4096u

/* Writes the fact only when everything it points to could be allocated. */
static void publish(struct af_arena *arena, struct af_fact *fact, struct af_fact made,
                    const char *source)
{
    made.source = af_text_scrub(arena, source, SHOWN_BYTES);
    if (!arena->failed)
        *fact = made;
}

void af_fact_text(struct af_arena *arena, struct af_fact *fact, const char *text,
                  const char *source)
{
    if (text == NULL)
        return;
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.text = af_text_scrub(arena, text, SHOWN_BYTES);
    publish(arena, fact, made, source);
}

void af_fact_int(struct af_arena *arena, struct af_fact *fact, int64_t number,
                 const char *source)
{
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.number = number;
    publish(arena, fact, made, source);
}

void af_fact_bool(struct af_arena *arena, struct af_fact *fact, bool truth, const char *source)
{
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.truth = truth;
    publish(arena, fact, made, source);
}

void af_fact_list(struct af_arena *arena, struct af_fact *fact, const char *const *items,
                  size_t count, const char *source)
{
    if (items == NULL)
        return;
    const char **copies = af_arena_array(arena, count + 1, sizeof *copies);
    for (size_t i = 0; copies != NULL && i < count; i++)
        copies[i] = af_text_scrub(arena, items[i], SHOWN_BYTES);
    struct af_fact made = {.state = AF_FACT_KNOWN};
    made.value.list.items = copies;
    made.value.list.count = count;
    publish(arena, fact, made, source);
}

void af_fact_absent(struct af_arena *arena, struct af_fact *fact, const char *source)
{
    publish(arena, fact, (struct af_fact){.state = AF_FACT_ABSENT}, source);
}

void af_fact_unknown(struct af_arena *arena, struct af_fact *fact, const char *format, ...)
{
    char reason[600];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    publish(arena, fact, (struct af_fact){.state = AF_FACT_UNKNOWN}, reason);
}

const char *af_fact_text_or(const struct af_fact *fact, const char *fallback)
{
    return fact->state == AF_FACT_KNOWN ? fact->value.text : fallback;
}

int64_t af_fact_int_or(const struct af_fact *fact, int64_t fallback)
{
    return fact->state == AF_FACT_KNOWN ? fact->value.number : fallback;
}

enum af_answer af_fact_truth(const struct af_fact *fact)
{
    if (fact->state == AF_FACT_UNKNOWN)
        return AF_UNKNOWN;
    return fact->state == AF_FACT_KNOWN && fact->value.truth ? AF_YES : AF_NO;
}

bool af_fact_is(const struct af_fact *fact, const char *text)
{
    return fact->state == AF_FACT_KNOWN && strcmp(fact->value.text, text) == 0;
}
