/*
 * dynamic_lookup.c: the lookups of the dynamic loader: a symbol by its index,
 * a definition by name and version, and which symbols are wanted at all.
 */
#include <string.h>

#include "kit/formats/dynamic_tables.h"

static unsigned version_index(const struct af_dynamic *dynamic, size_t symbol)
{
    return af_dyn_u16_at(dynamic, dynamic->version_indices, 2 * (uint64_t)symbol);
}

/* Whether others may take it: what elf/dl-lookup.c demands of a definition. */
static bool is_definition(unsigned char info, unsigned char other, unsigned section,
                          uint64_t address)
{
    unsigned binding = ELF64_ST_BIND(info);
    unsigned type = ELF64_ST_TYPE(info);
    unsigned visibility = ELF64_ST_VISIBILITY(other);
    return section != SHN_UNDEF && (address != 0 || section == SHN_ABS || type == STT_TLS) &&
           (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE) &&
           (type <= STT_FUNC || type == STT_COMMON || type == STT_TLS ||
            type == STT_GNU_IFUNC) &&
           visibility != STV_HIDDEN && visibility != STV_INTERNAL;
}

bool af_dynamic_symbol(const struct af_dynamic *dynamic, size_t index, struct af_symbol *out)
{
    struct af_span span = dynamic->symbols;
    uint64_t at = (uint64_t)index * af_dyn_symbol_bytes(dynamic);
    if (index >= dynamic->symbol_count)
        return false;
    bool wide = dynamic->is_64;
    const char *name = af_dyn_text_at(dynamic, af_dyn_u32_at(dynamic, span, at));
    if (name == NULL)
        return false;
    unsigned char info =
        (unsigned char)af_dyn_number_at(dynamic, span, at + (wide ? 4 : 12), 1);
    unsigned char other =
        (unsigned char)af_dyn_number_at(dynamic, span, at + (wide ? 5 : 13), 1);
    unsigned section = af_dyn_u16_at(dynamic, span, at + (wide ? 6 : 14));
    unsigned version = version_index(dynamic, index) & AF_VERSION_INDEX_MASK;
    *out = (struct af_symbol){
        .name = name,
        .address = af_dyn_word_at(dynamic, span, at + (wide ? 8 : 4)),
        .size_bytes = af_dyn_word_at(dynamic, span, at + (wide ? 16 : 8)),
        .is_weak = ELF64_ST_BIND(info) == STB_WEAK,
        .is_undefined = section == SHN_UNDEF,
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

/* Whether symbol `index` is what is searched. As check_match() of elf/dl-lookup.c. */
static bool matches(struct search *search, size_t index)
{
    const struct af_dynamic *dynamic = search->dynamic;
    struct af_symbol symbol;
    if (!af_dynamic_symbol(dynamic, index, &symbol) || !symbol.is_defined ||
        strcmp(symbol.name, search->name) != 0)
        return false;
    unsigned version = version_index(dynamic, index);
    bool hidden = (version & AF_VERSION_HIDDEN) != 0;
    bool found = dynamic->version_indices.len == 0;
    if (!found && search->version != NULL)
        found = symbol.version.name == NULL ? !hidden
                                            : strcmp(symbol.version.name, search->version) == 0;
    else if (!found)
        found = (version & AF_VERSION_INDEX_MASK) < 3;
    if (found)
        *search->out = symbol;
    else if (search->version == NULL && !hidden && !search->has_default) {
        search->has_default = true;
        *search->out = symbol;
    }
    return found;
}

uint32_t af_dyn_gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++)
        hash = hash * 33 + *at;
    return hash;
}

/* Whether the table's filter lets the hash pass; one that is not there does. */
static bool passes_filter(const struct af_dynamic *dynamic, const struct af_gnu_table *table,
                          uint32_t hash)
{
    unsigned bits = dynamic->is_64 ? 64 : 32;
    if (table->bloom_count == 0 || table->bloom_shift > 31)
        return true;
    uint64_t word =
        af_dyn_word_at(dynamic, dynamic->gnu_hash,
                       16 + (uint64_t)(hash / bits % table->bloom_count) * (bits / 8));
    return (word >> hash % bits & word >> (hash >> table->bloom_shift) % bits & 1) != 0;
}

static bool find_by_gnu_hash(struct search *search, const struct af_gnu_table *table)
{
    const struct af_dynamic *dynamic = search->dynamic;
    struct af_span span = dynamic->gnu_hash;
    uint32_t hash = af_dyn_gnu_hash_of(search->name);
    if (!passes_filter(dynamic, table, hash))
        return false;
    uint64_t bucket = table->buckets + 4 * (uint64_t)(hash % table->bucket_count);
    uint64_t symbol = af_dyn_u32_at(dynamic, span, bucket);
    if (symbol < table->first_symbol)
        return false;
    uint64_t at = table->chains + 4 * (symbol - table->first_symbol);
    for (; symbol < dynamic->symbol_count && af_dyn_lies_in(span, at, 4); at += 4, symbol++) {
        uint32_t chain = af_dyn_u32_at(dynamic, span, at);
        if ((chain | 1) == (hash | 1) && matches(search, (size_t)symbol))
            return true;
        if ((chain & 1) != 0)
            return false;
    }
    return false;
}

uint32_t af_dyn_sysv_hash_of(const char *name)
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
    uint32_t bucket_count = af_dyn_u32_at(dynamic, span, 0);
    uint64_t chains = 8 + 4 * (uint64_t)bucket_count;
    if (bucket_count == 0)
        return false;
    uint32_t hash = af_dyn_sysv_hash_of(search->name) % bucket_count;
    size_t symbol = af_dyn_u32_at(dynamic, span, 8 + 4 * (uint64_t)hash);
    for (size_t i = 0; symbol != 0 && i < dynamic->symbol_count; i++) {
        if (matches(search, symbol))
            return true;
        symbol = af_dyn_u32_at(dynamic, span, chains + 4 * (uint64_t)symbol);
    }
    return false;
}

bool af_dynamic_find(const struct af_dynamic *dynamic, const char *name, const char *version,
                     struct af_symbol *out)
{
    struct search search = {dynamic, name, version, out, false};
    struct af_gnu_table table;
    bool found = false;
    if (af_dyn_read_gnu_table(dynamic, &table))
        found = find_by_gnu_hash(&search, &table);
    else if (dynamic->hash.len >= 8)
        found = find_by_hash(&search);
    else
        for (size_t i = 1; i < dynamic->symbol_count && !found; i++)
            found = matches(&search, i);
    return found || search.has_default;
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

/* Symbols that only relocations name stand behind those that hash tables count. */
static void count_wanted(struct af_dynamic *dynamic)
{
    size_t capacity = dynamic->symbols.len / af_dyn_symbol_bytes(dynamic);
    capacity = capacity < AF_DYN_SYMBOLS_MAX ? capacity : AF_DYN_SYMBOLS_MAX;
    for (size_t kind = 0; kind < AF_COUNT(dynamic->relocations); kind++) {
        for (size_t i = 0; i < af_dyn_relocation_count(dynamic, kind); i++) {
            size_t symbol = af_dyn_relocation_symbol(dynamic, kind, i);
            if (symbol >= dynamic->symbol_count && symbol < capacity)
                dynamic->symbol_count = symbol + 1;
        }
    }
}

const unsigned char *af_dynamic_relocated(struct af_dynamic *dynamic, struct af_arena *arena)
{
    count_wanted(dynamic);
    unsigned char *marks = af_arena_alloc(arena, dynamic->symbol_count + 1);
    if (marks == NULL)
        return NULL;
    for (size_t kind = 0; kind < AF_COUNT(dynamic->relocations); kind++) {
        for (size_t i = 0; i < af_dyn_relocation_count(dynamic, kind); i++) {
            size_t symbol = af_dyn_relocation_symbol(dynamic, kind, i);
            if (symbol != 0 && symbol < dynamic->symbol_count)
                marks[symbol] = 1;
        }
    }
    return marks;
}
