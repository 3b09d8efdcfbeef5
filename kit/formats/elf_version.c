/*
 * elf_version.c: the versions of symbols that a file needs and defines ("GLIBC_2.34"): reads
 * their records, and answers which version a file has and which is the highest.
 */
#include "kit/formats/elf.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"

#define VERSION_RECORDS_MAX 0x8000u
#define VERSION_FLAG_BASE 1u /* VER_FLG_BASE */
#define VERNEED_BYTES 16u
#define VERNAUX_BYTES 16u
#define VERDEF_BYTES 20u
#define VERDAUX_BYTES 8u

/* Destination of versions: first they are counted, then stored. */
struct version_table {
    struct af_symbol_version *items; /* NULL: only count */
    size_t count;
};

static void set_version(struct version_table *table, unsigned index, const char *name,
                        const char *library)
{
    index &= AF_ELF_VERSION_MASK;
    if (index < 2 || name == NULL)
        return;
    if (index >= table->count)
        table->count = index + 1;
    if (table->items != NULL)
        table->items[index] = (struct af_symbol_version){name, library};
}

/* Reads the versions that verneed records need; `left` bounds chains that loop. */
static void read_needs(const struct af_dynamic *dynamic, struct version_table *table)
{
    size_t left = 2 * VERSION_RECORDS_MAX;
    struct af_span span = dynamic->version_needs;
    uint64_t at = 0;
    uint32_t next = 1;
    while (next != 0 && af_elf_contains(span, at, VERNEED_BYTES)) {
        const char *library = af_elf_text_at(dynamic, af_elf_u32_at(dynamic, span, at + 4));
        uint64_t one = at + af_elf_u32_at(dynamic, span, at + 8);
        unsigned ones = af_elf_u16_at(dynamic, span, at + 2);
        for (; ones > 0 && left > 0 && af_elf_contains(span, one, VERNAUX_BYTES);
             ones--, left--) {
            set_version(table, af_elf_u16_at(dynamic, span, one + 6),
                        af_elf_text_at(dynamic, af_elf_u32_at(dynamic, span, one + 8)),
                        library);
            one += af_elf_u32_at(dynamic, span, one + 12);
        }
        next = left-- > 1 ? af_elf_u32_at(dynamic, span, at + 12) : 0;
        at += next;
        if (left == 0)
            return;
    }
}

/* Reads the versions that verdef records define; the base record names no version. */
static void read_defs(const struct af_dynamic *dynamic, struct version_table *table)
{
    struct af_span span = dynamic->version_defs;
    uint64_t at = 0;
    for (size_t i = 0; i < VERSION_RECORDS_MAX; i++) {
        if (!af_elf_contains(span, at, VERDEF_BYTES))
            return;
        uint64_t name_at = at + af_elf_u32_at(dynamic, span, at + 12);
        if ((af_elf_u16_at(dynamic, span, at + 2) & VERSION_FLAG_BASE) == 0 &&
            af_elf_contains(span, name_at, VERDAUX_BYTES))
            set_version(table, af_elf_u16_at(dynamic, span, at + 4),
                        af_elf_text_at(dynamic, af_elf_u32_at(dynamic, span, name_at)), NULL);
        uint32_t next = af_elf_u32_at(dynamic, span, at + 16);
        if (next == 0)
            return;
        at += next;
    }
}

void af_elf_read_versions(struct af_arena *arena, struct af_dynamic *dynamic)
{
    struct version_table table = {NULL, 0};
    read_needs(dynamic, &table);
    read_defs(dynamic, &table);
    if (table.count == 0)
        return;
    table.items = af_arena_array(arena, table.count, sizeof *table.items);
    read_needs(dynamic, &table);
    read_defs(dynamic, &table);
    dynamic->versions = table.items;
    dynamic->version_count = table.count;
}

bool af_dynamic_has_version(const struct af_dynamic *dynamic, const char *version)
{
    if (dynamic->version_defs.len == 0)
        return true;
    for (size_t i = 0; i < dynamic->version_count; i++) {
        const struct af_symbol_version *own = &dynamic->versions[i];
        if (own->name != NULL && own->library == NULL && strcmp(own->name, version) == 0)
            return true;
    }
    return false;
}

const char *af_dynamic_version_max(const struct af_dynamic *dynamic, const char *prefix,
                                   bool is_defined)
{
    const char *highest = NULL;
    struct af_version highest_number = {.epoch = 0};
    for (size_t i = 0; i < dynamic->version_count; i++) {
        const struct af_symbol_version *version = &dynamic->versions[i];
        struct af_version number;
        if (version->name == NULL || (version->library == NULL) != is_defined ||
            !af_starts_with(version->name, prefix))
            continue;
        const char *text = version->name + strlen(prefix);
        size_t len = strspn(text, "0123456789.");
        if (text[len] == '\0' && af_version_parse(text, len, &number) &&
            (highest == NULL || af_version_compare(&number, &highest_number) > 0)) {
            highest = text;
            highest_number = number;
        }
    }
    return highest;
}
