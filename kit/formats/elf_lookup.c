/*
 * elf_lookup.c: the dynamic loader's lookups: a symbol by its index, a definition by name and
 * version, with the hash tables of GNU and of System V.
 */
#include "kit/formats/elf.h"

#include <string.h>

/* Of symbols. Source: gABI chapter 4, "Symbol Table"; the GNU ones: glibc's elf.h. */
enum { SECTION_UNDEF = 0, SECTION_ABS = 0xfff1 };
enum { BIND_GLOBAL = 1, BIND_WEAK = 2, BIND_GNU_UNIQUE = 10 };
enum { TYPE_FUNC = 2, TYPE_COMMON = 5, TYPE_TLS = 6, TYPE_GNU_IFUNC = 10 };
enum { VISIBILITY_INTERNAL = 1, VISIBILITY_HIDDEN = 2 };

static unsigned version_index(const struct af_dynamic *dynamic, size_t symbol)
{
    return af_elf_u16_at(dynamic, dynamic->version_indices, 2 * (uint64_t)symbol);
}

/* Whether other files may use it, by the rules of elf/dl-lookup.c for a definition. */
static bool is_definition(unsigned char info, unsigned char other, unsigned section,
                          uint64_t address)
{
    unsigned binding = info >> 4;
    unsigned type = info & 15u;
    unsigned visibility = other & 3u;
    return section != SECTION_UNDEF &&
           (address != 0 || section == SECTION_ABS || type == TYPE_TLS) &&
           (binding == BIND_GLOBAL || binding == BIND_WEAK || binding == BIND_GNU_UNIQUE) &&
           (type <= TYPE_FUNC || type == TYPE_COMMON || type == TYPE_TLS ||
            type == TYPE_GNU_IFUNC) &&
           visibility != VISIBILITY_HIDDEN && visibility != VISIBILITY_INTERNAL;
}

bool af_dynamic_symbol(const struct af_dynamic *dynamic, size_t index, struct af_symbol *out)
{
    struct af_span span = dynamic->symbols;
    uint64_t at = (uint64_t)index * af_elf_symbol_bytes(dynamic);
    if (index >= dynamic->symbol_count)
        return false;
    bool wide = dynamic->elf.is_64;
    const char *name = af_elf_text_at(dynamic, af_elf_u32_at(dynamic, span, at));
    if (name == NULL)
        return false;
    unsigned char info =
        (unsigned char)af_elf_number_at(&dynamic->elf, span, at + (wide ? 4 : 12), 1);
    unsigned char other =
        (unsigned char)af_elf_number_at(&dynamic->elf, span, at + (wide ? 5 : 13), 1);
    unsigned section = af_elf_u16_at(dynamic, span, at + (wide ? 6 : 14));
    unsigned version = version_index(dynamic, index) & AF_ELF_VERSION_MASK;
    *out = (struct af_symbol){
        .name = name,
        .address = af_elf_word_at(dynamic, span, at + (wide ? 8 : 4)),
        .size_bytes = af_elf_word_at(dynamic, span, at + (wide ? 16 : 8)),
        .is_weak = info >> 4 == BIND_WEAK,
        .is_undefined = section == SECTION_UNDEF,
    };
    out->is_defined = is_definition(info, other, section, out->address);
    if (version < dynamic->version_count)
        out->version = dynamic->versions[version];
    return true;
}

/* A search for one definition; `taken` is the first default of several versions. */
struct search {
    const struct af_dynamic *dynamic;
    const char *name;
    const char *version;
    struct af_symbol *out;
    bool has_default;
};

/* Whether symbol `index` is the one searched for, as check_match() of elf/dl-lookup.c. */
static bool matches(struct search *search, size_t index)
{
    const struct af_dynamic *dynamic = search->dynamic;
    struct af_symbol symbol;
    if (!af_dynamic_symbol(dynamic, index, &symbol) || !symbol.is_defined ||
        strcmp(symbol.name, search->name) != 0)
        return false;
    unsigned version = version_index(dynamic, index);
    bool hidden = (version & AF_ELF_VERSION_HIDDEN) != 0;
    bool found = dynamic->version_indices.len == 0;
    if (!found && search->version != NULL)
        found = symbol.version.name == NULL ? !hidden
                                            : strcmp(symbol.version.name, search->version) == 0;
    else if (!found)
        found = (version & AF_ELF_VERSION_MASK) < 3;
    if (found)
        *search->out = symbol;
    else if (search->version == NULL && !hidden && !search->has_default) {
        search->has_default = true;
        *search->out = symbol;
    }
    return found;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++)
        hash = hash * 33 + *at;
    return hash;
}

/* Whether the table's Bloom filter accepts the hash; true without a filter. */
static bool passes_filter(const struct af_dynamic *dynamic,
                          const struct af_elf_gnu_table *table, uint32_t hash)
{
    unsigned bits = dynamic->elf.is_64 ? 64 : 32;
    if (table->bloom_count == 0 || table->bloom_shift > 31)
        return true;
    uint64_t word =
        af_elf_word_at(dynamic, dynamic->gnu_hash,
                       16 + (uint64_t)(hash / bits % table->bloom_count) * (bits / 8));
    return (word >> hash % bits & word >> (hash >> table->bloom_shift) % bits & 1) != 0;
}

static bool find_by_gnu_hash(struct search *search, const struct af_elf_gnu_table *table)
{
    const struct af_dynamic *dynamic = search->dynamic;
    struct af_span span = dynamic->gnu_hash;
    uint32_t hash = gnu_hash_of(search->name);
    if (!passes_filter(dynamic, table, hash))
        return false;
    uint64_t bucket = table->buckets + 4 * (uint64_t)(hash % table->bucket_count);
    uint64_t symbol = af_elf_u32_at(dynamic, span, bucket);
    if (symbol < table->first_symbol)
        return false;
    uint64_t at = table->chains + 4 * (symbol - table->first_symbol);
    for (; symbol < dynamic->symbol_count && af_elf_contains(span, at, 4); at += 4, symbol++) {
        uint32_t chain = af_elf_u32_at(dynamic, span, at);
        if ((chain | 1) == (hash | 1) && matches(search, (size_t)symbol))
            return true;
        if ((chain & 1) != 0)
            return false;
    }
    return false;
}

static uint32_t sysv_hash_of(const char *name)
{
    uint32_t hash = 0;
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++) {
        hash = (hash << 4) + *at;
        uint32_t top = hash & 0xf0000000u;
        hash = (hash ^ top >> 24) & ~top;
    }
    return hash;
}

static bool find_by_hash(struct search *search)
{
    const struct af_dynamic *dynamic = search->dynamic;
    struct af_span span = dynamic->hash;
    uint32_t bucket_count = af_elf_u32_at(dynamic, span, 0);
    uint64_t chains = 8 + 4 * (uint64_t)bucket_count;
    if (bucket_count == 0)
        return false;
    uint32_t hash = sysv_hash_of(search->name) % bucket_count;
    size_t symbol = af_elf_u32_at(dynamic, span, 8 + 4 * (uint64_t)hash);
    for (size_t i = 0; symbol != 0 && i < dynamic->symbol_count; i++) {
        if (matches(search, symbol))
            return true;
        symbol = af_elf_u32_at(dynamic, span, chains + 4 * (uint64_t)symbol);
    }
    return false;
}

bool af_dynamic_find(const struct af_dynamic *dynamic, const char *name, const char *version,
                     struct af_symbol *out)
{
    struct search search = {dynamic, name, version, out, false};
    struct af_elf_gnu_table table;
    bool found = false;
    if (af_elf_read_gnu_table(dynamic, &table))
        found = find_by_gnu_hash(&search, &table);
    else if (dynamic->hash.len >= 8)
        found = find_by_hash(&search);
    else
        for (size_t i = 1; i < dynamic->symbol_count && !found; i++)
            found = matches(&search, i);
    return found || search.has_default;
}
