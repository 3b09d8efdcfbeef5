/*
 * gpu_facts.c: what is known about GPUs without having one: names, compute capabilities, the
 * CUDA of a driver, and which GPUs CUDA_VISIBLE_DEVICES hides.
 */
#include "kit/formats/embedded.h"
#include "kit/machine/machine.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *af_machine_gpu_driver_cuda(const char *driver_version)
{
    long branch = strtol(driver_version, NULL, 10);
    for (size_t i = 0; af_embedded_driver_cuda[i][0] != NULL; i++) {
        if (branch >= strtol(af_embedded_driver_cuda[i][0], NULL, 10))
            return af_embedded_driver_cuda[i][1];
    }
    return NULL;
}

bool af_machine_gpu_sm_parse(const char *text, char *sm, size_t size_bytes)
{
    static const char *const starts[] = {"sm_", "sm", "compute_", "compute"};
    size_t len;
    if (af_starts_with(text, "gfx")) {
        len = strspn(text, "gfx0123456789abcdef");
        snprintf(sm, size_bytes, "%.*s", (int)len, text);
        return len >= 6 && len <= 8 && text[len] == '\0';
    }
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (af_starts_with(text, starts[i])) {
            text += strlen(starts[i]);
            break;
        }
    }
    len = strspn(text, "0123456789");
    size_t minor_len = text[len] == '.' ? strspn(text + len + 1, "0123456789") : 0;
    const char *end = text + len + (text[len] == '.' ? 1 + minor_len : 0);
    if (*end == 'a' || *end == 'f')
        end++;
    if (*end != '\0' || len == 0 || len > 3 || minor_len > 1)
        return false;
    if (text[len] == '.' && minor_len == 1 && len <= 2)
        snprintf(sm, size_bytes, "%.*s", (int)len + 2, text);
    else if (text[len] != '.' && len >= 2)
        snprintf(sm, size_bytes, "%.*s.%c", (int)len - 1, text, text[len - 1]);
    else
        return false;
    return true;
}

/* Length of `name` in `text`, ignoring blanks and dashes; 0: not there. */
static size_t match_here(const char *text, const char *name)
{
    const char *at = text;
    for (; *name != '\0'; name++) {
        if (*name == ' ')
            continue;
        while (at != text && (*at == ' ' || *at == '-' || *at == '_'))
            at++;
        if (*at++ != *name)
            return 0;
    }
    return isdigit((unsigned char)*at) ? 0 : (size_t)(at - text);
}

size_t af_machine_gpu_name_at(const char *text, const char *const **row_out)
{
    size_t best = 0;
    size_t best_len = 0;
    for (size_t i = 0; af_embedded_gpu_names[i][0] != NULL; i++) {
        const char *const *row = af_embedded_gpu_names[i];
        size_t len = strlen(row[1]) > best ? match_here(text, row[1]) : 0;
        if (len == 0)
            continue;
        best = strlen(row[1]);
        best_len = len;
        *row_out = row;
    }
    return best_len;
}

bool af_machine_gpu_name_find(const char *text, const char **vendor_out, const char **sm_out)
{
    size_t best = 0;
    const char *const *row;
    for (const char *at = text; *at != '\0'; at++) {
        bool starts = at == text || !isalnum((unsigned char)at[-1]);
        if (!starts || af_machine_gpu_name_at(at, &row) == 0 || strlen(row[1]) <= best)
            continue;
        best = strlen(row[1]);
        *vendor_out = row[0];
        *sm_out = strcmp(row[2], "-") == 0 ? NULL : row[2];
    }
    return best != 0;
}

/* The one row that an entry of CUDA_VISIBLE_DEVICES names, or -1. */
static long row_of_entry(const struct af_machine *machine, const char *entry)
{
    int64_t index;
    if (af_parse_i64(entry, 0, INT32_MAX, &index))
        return (size_t)index < machine->gpus.count ? (long)index : -1;
    long found = -1;
    for (size_t i = 0; i < machine->gpus.count && entry[0] != '\0'; i++) {
        const char *uuid = af_fact_text_or(&machine->gpus.rows[i].uuid, "");
        if (af_starts_with(entry, "GPU-") && af_starts_with(uuid, entry)) {
            if (found >= 0)
                return -1; /* an ambiguous prefix names no GPU */
            found = (long)i;
        }
    }
    return found;
}

void af_machine_gpu_visibility(struct af_machine *machine, const char *value,
                               const char *source)
{
    struct af_arena *arena = &machine->arena;
    bool any_uuid_unknown = false;
    for (size_t i = 0; i < machine->gpus.count; i++) {
        af_fact_bool(arena, &machine->gpus.rows[i].visible, value == NULL, source);
        any_uuid_unknown |= machine->gpus.rows[i].uuid.state != AF_FACT_KNOWN;
    }
    if (value == NULL)
        return;
    bool names_unknown =
        strncmp(value, "MIG-", 4) == 0 || (strncmp(value, "GPU-", 4) == 0 && any_uuid_unknown);
    for (size_t i = 0; names_unknown && i < machine->gpus.count; i++)
        af_fact_unknown(arena, &machine->gpus.rows[i].visible,
                        "%s names devices in a way that cannot be resolved here", source);
    for (const char *at = value; !names_unknown;) {
        char entry[64];
        size_t len = strcspn(at, ",");
        struct af_span span = af_text_trim((struct af_span){at, len});
        snprintf(entry, sizeof entry, "%.*s", (int)(span.len < 63 ? span.len : 63), span.data);
        long row = row_of_entry(machine, entry);
        if (row < 0)
            return;
        af_fact_bool(arena, &machine->gpus.rows[row].visible, true, source);
        if (at[len] == '\0')
            return;
        at += len + 1;
    }
}
