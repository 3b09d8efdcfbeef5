/*
 * elf_dynamic.c: reads the tables that PT_DYNAMIC points to, and implements the
 * dynamic loader's lookups: a symbol by index, a definition by name and version,
 * and which symbols relocations name.
 */
#include "kit/formats/elf.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"

#define DYNAMIC_MAX 65536u
#define SEGMENT_HEADERS_MAX 4096u
#define VERSION_RECORDS_MAX 0x8000u

/* Entries of the dynamic section. Source: gABI chapter 5; LSB 5 chapter 10.7. */
enum tag {
    TAG_NULL = 0,
    TAG_NEEDED = 1,
    TAG_PLTRELSZ = 2,
    TAG_HASH = 4,
    TAG_STRTAB = 5,
    TAG_SYMTAB = 6,
    TAG_RELA = 7,
    TAG_RELASZ = 8,
    TAG_STRSZ = 10,
    TAG_SONAME = 14,
    TAG_RPATH = 15,
    TAG_REL = 17,
    TAG_RELSZ = 18,
    TAG_PLTREL = 20,
    TAG_JMPREL = 23,
    TAG_RUNPATH = 29,
    TAG_GNU_HASH = 0x6ffffef5,
    TAG_DEPAUDIT = 0x6ffffefb,
    TAG_AUDIT = 0x6ffffefc,
    TAG_VERSYM = 0x6ffffff0,
    TAG_VERDEF = 0x6ffffffc,
    TAG_VERNEED = 0x6ffffffe,
    TAG_AUXILIARY = 0x7ffffffd,
    TAG_FILTER = 0x7fffffff
};

#define VERSION_FLAG_BASE 1u /* VER_FLG_BASE */
#define VERNEED_BYTES 16u
#define VERNAUX_BYTES 16u
#define VERDEF_BYTES 20u
#define VERDAUX_BYTES 8u

/* Of symbols. Source: gABI chapter 4, "Symbol Table"; the GNU ones: glibc's elf.h. */
enum { SECTION_UNDEF = 0, SECTION_ABS = 0xfff1 };
enum { BIND_GLOBAL = 1, BIND_WEAK = 2, BIND_GNU_UNIQUE = 10 };
enum { TYPE_FUNC = 2, TYPE_COMMON = 5, TYPE_TLS = 6, TYPE_GNU_IFUNC = 10 };
enum { VISIBILITY_INTERNAL = 1, VISIBILITY_HIDDEN = 2 };

/* The bytes from `address` to the end of its segment in the file. */
static struct af_span span_at(const struct af_dynamic *dynamic, uint64_t address)
{
    for (size_t i = 0; i < dynamic->segment_count; i++) {
        const struct af_segment *segment = &dynamic->segments[i];
        if (address < segment->address || address - segment->address >= segment->bytes)
            continue;
        uint64_t into = address - segment->address;
        return (struct af_span){dynamic->elf.bytes.data + segment->offset + into,
                                (size_t)(segment->bytes - into)};
    }
    return (struct af_span){NULL, 0};
}

static struct af_span cut(struct af_span span, uint64_t bytes)
{
    if (bytes < span.len)
        span.len = (size_t)bytes;
    return span;
}

static void add_segment(struct af_dynamic *dynamic, const struct af_elf_part *part)
{
    uint64_t bytes = part->len;
    if (dynamic->segment_count == AF_DYNAMIC_SEGMENTS_MAX ||
        part->offset >= dynamic->elf.bytes.len)
        return;
    if (bytes > dynamic->elf.bytes.len - part->offset)
        bytes = dynamic->elf.bytes.len - part->offset;
    dynamic->segments[dynamic->segment_count++] =
        (struct af_segment){part->address, part->offset, bytes};
}

/* Stores the loaded segments. Returns the bytes of PT_DYNAMIC. */
static struct af_span read_segments(struct af_dynamic *dynamic)
{
    struct af_span file = dynamic->elf.bytes;
    struct af_span found = {NULL, 0};
    for (uint32_t i = 0; i < dynamic->elf.segment_count && i < SEGMENT_HEADERS_MAX; i++) {
        struct af_elf_part part = af_elf_segment(&dynamic->elf, i);
        if (part.type == AF_ELF_SEGMENT_LOAD)
            add_segment(dynamic, &part);
        else if (part.type == AF_ELF_SEGMENT_DYNAMIC && part.offset < file.len)
            found =
                cut((struct af_span){file.data + part.offset, file.len - (size_t)part.offset},
                    part.len);
    }
    return found;
}

/* Entry `index` of the dynamic section; false at its end. */
static bool entry_at(const struct af_dynamic *dynamic, struct af_span section, size_t index,
                     uint64_t *tag_out, uint64_t *value_out)
{
    size_t word = dynamic->elf.is_64 ? 8 : 4;
    uint64_t at = (uint64_t)index * 2 * word;
    if (index >= DYNAMIC_MAX || !af_elf_contains(section, at, 2 * word))
        return false;
    *tag_out = af_elf_word_at(dynamic, section, at);
    *value_out = af_elf_word_at(dynamic, section, at + word);
    return *tag_out != TAG_NULL;
}

/* The value of the last entry with this tag; 0: none. */
static uint64_t value_of(const struct af_dynamic *dynamic, struct af_span section,
                         uint64_t wanted)
{
    uint64_t found = 0;
    uint64_t tag;
    uint64_t value;
    for (size_t i = 0; entry_at(dynamic, section, i, &tag, &value); i++)
        found = tag == wanted ? value : found;
    return found;
}

/* The bytes from the address that an entry has; its size is in another entry. */
static struct af_span table_of(const struct af_dynamic *dynamic, struct af_span section,
                               uint64_t address_tag, uint64_t bytes_tag)
{
    return cut(span_at(dynamic, value_of(dynamic, section, address_tag)),
               value_of(dynamic, section, bytes_tag));
}

static void read_tables(struct af_dynamic *dynamic, struct af_span section)
{
    const struct {
        uint64_t tag;
        struct af_span *span;
    } tables[] = {
        {TAG_SYMTAB, &dynamic->symbols},
        {TAG_GNU_HASH, &dynamic->gnu_hash},
        {TAG_HASH, &dynamic->hash},
        {TAG_VERSYM, &dynamic->version_indices},
        {TAG_VERNEED, &dynamic->version_needs},
        {TAG_VERDEF, &dynamic->version_defs},
    };
    for (size_t i = 0; i < AF_COUNT(tables); i++)
        *tables[i].span = span_at(dynamic, value_of(dynamic, section, tables[i].tag));
    dynamic->strings = table_of(dynamic, section, TAG_STRTAB, TAG_STRSZ);
    while (dynamic->strings.len > 0 && dynamic->strings.data[dynamic->strings.len - 1] != '\0')
        dynamic->strings.len--;
    bool plt_has_addends = value_of(dynamic, section, TAG_PLTREL) == TAG_RELA;
    dynamic->relocations[0] = table_of(dynamic, section, TAG_RELA, TAG_RELASZ);
    dynamic->relocations[1] = table_of(dynamic, section, TAG_REL, TAG_RELSZ);
    dynamic->relocations[plt_has_addends ? 2 : 3] =
        table_of(dynamic, section, TAG_JMPREL, TAG_PLTRELSZ);
}

/* An address of 0 means "none" in a file whose first segment is its header. */
static void drop_header_spans(struct af_dynamic *dynamic)
{
    struct af_span *const spans[] = {&dynamic->strings,         &dynamic->symbols,
                                     &dynamic->gnu_hash,        &dynamic->hash,
                                     &dynamic->version_needs,   &dynamic->version_defs,
                                     &dynamic->version_indices, &dynamic->relocations[0],
                                     &dynamic->relocations[1],  &dynamic->relocations[2],
                                     &dynamic->relocations[3]};
    for (size_t i = 0; i < AF_COUNT(spans); i++) {
        if (spans[i]->data == dynamic->elf.bytes.data)
            *spans[i] = (struct af_span){NULL, 0};
    }
}

/*
 * Whether the loader opens the library: it is needed, or a path of a filter or audit library.
 * Filters without a path are optional or found like needed libraries, and rare.
 */
static bool is_opened(uint64_t tag, const char *text)
{
    bool may_be_path =
        tag == TAG_AUXILIARY || tag == TAG_FILTER || tag == TAG_AUDIT || tag == TAG_DEPAUDIT;
    return tag == TAG_NEEDED || (may_be_path && strchr(text, '/') != NULL);
}

/* Adds a library; if there are too many, a path replaces the last one. */
static void add_needed(struct af_dynamic *dynamic, const char *text)
{
    if (dynamic->needed_count < AF_DYNAMIC_NEEDED_MAX)
        dynamic->needed[dynamic->needed_count++] = text;
    else if (strchr(text, '/') != NULL)
        dynamic->needed[AF_DYNAMIC_NEEDED_MAX - 1] = text;
}

static void read_names(struct af_dynamic *dynamic, struct af_span section)
{
    uint64_t tag;
    uint64_t value;
    for (size_t i = 0; entry_at(dynamic, section, i, &tag, &value); i++) {
        const char *text = af_elf_text_at(dynamic, value);
        if (text == NULL)
            continue;
        if (tag == TAG_SONAME)
            dynamic->soname = text;
        else if (tag == TAG_RPATH)
            dynamic->rpath = text;
        else if (tag == TAG_RUNPATH)
            dynamic->runpath = text;
        else if (is_opened(tag, text))
            add_needed(dynamic, text);
    }
}

/*
 * One more than the index of the last symbol in the GNU hash table, where its
 * last chain ends.
 */
static size_t count_gnu_symbols(const struct af_dynamic *dynamic)
{
    struct af_elf_gnu_table table;
    uint64_t last = 0;
    if (!af_elf_read_gnu_table(dynamic, &table))
        return 0;
    for (uint32_t i = 0; i < table.bucket_count; i++) {
        uint32_t first =
            af_elf_u32_at(dynamic, dynamic->gnu_hash, table.buckets + 4 * (uint64_t)i);
        last = first > last ? first : last;
    }
    if (last < table.first_symbol)
        return table.first_symbol;
    uint64_t at = table.chains + 4 * (last - table.first_symbol);
    while (af_elf_contains(dynamic->gnu_hash, at, 4) &&
           (af_elf_u32_at(dynamic, dynamic->gnu_hash, at) & 1) == 0) {
        at += 4;
        last++;
    }
    return (size_t)last + 1;
}

/*
 * No field states the number of symbols. The hash tables count the defined ones;
 * without them, the string table usually follows the symbols.
 * af_dynamic_relocated() finds symbols that only relocations name.
 */
static size_t count_symbols(const struct af_dynamic *dynamic)
{
    size_t capacity = dynamic->symbols.len / af_elf_symbol_bytes(dynamic);
    size_t count = af_elf_u32_at(dynamic, dynamic->hash, 4);
    size_t hashed = count_gnu_symbols(dynamic);
    count = hashed > count ? hashed : count;
    if (count == 0 && dynamic->strings.data > dynamic->symbols.data)
        count = (size_t)(dynamic->strings.data - dynamic->symbols.data) /
                af_elf_symbol_bytes(dynamic);
    count = count < capacity ? count : capacity;
    return count < AF_ELF_SYMBOLS_MAX ? count : AF_ELF_SYMBOLS_MAX;
}

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

static void read_versions(struct af_arena *arena, struct af_dynamic *dynamic)
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

enum anyflash_status af_dynamic_read(struct af_arena *arena, struct af_span bytes,
                                     const char *name, struct af_dynamic *out,
                                     struct anyflash_error *err)
{
    char shown[200];
    struct af_dynamic dynamic = {0};
    enum anyflash_status status = af_elf_open(bytes, name, &dynamic.elf, err);
    if (status != ANYFLASH_OK)
        return status;
    bool is_truncated = af_elf_is_truncated(&dynamic.elf);
    struct af_span section = read_segments(&dynamic);
    if (is_truncated || section.len == 0) {
        af_text_quote(shown, sizeof shown, name, strlen(name));
        return af_fail(err, ANYFLASH_E_DATA,
                       is_truncated ? "'%s' is truncated" : "'%s' has no dynamic section",
                       shown);
    }
    read_tables(&dynamic, section);
    drop_header_spans(&dynamic);
    read_names(&dynamic, section);
    dynamic.symbol_count = count_symbols(&dynamic);
    read_versions(arena, &dynamic);
    *out = dynamic;
    return ANYFLASH_OK;
}

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

bool af_dynamic_data(const struct af_dynamic *dynamic, const char *name, size_t len_min,
                     struct af_span *bytes_out)
{
    struct af_symbol symbol;
    if (!af_dynamic_find(dynamic, name, NULL, &symbol))
        return false;
    struct af_span bytes = span_at(dynamic, symbol.address);
    if (bytes.data == NULL || bytes.len < len_min)
        return false;
    *bytes_out = bytes;
    return true;
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

/* The symbol that relocation `index` of `kind` names; 0: none. */
static size_t relocation_symbol(const struct af_dynamic *dynamic, size_t kind, size_t index)
{
    uint64_t at = (uint64_t)index * af_elf_relocation_bytes(dynamic, kind);
    uint64_t info =
        af_elf_word_at(dynamic, dynamic->relocations[kind], at + (dynamic->elf.is_64 ? 8 : 4));
    return dynamic->elf.is_64 ? (size_t)(info >> 32) : (size_t)(info >> 8);
}

static size_t relocation_count(const struct af_dynamic *dynamic, size_t kind)
{
    return dynamic->relocations[kind].len / af_elf_relocation_bytes(dynamic, kind);
}

/* Symbols that only relocations name come after those that hash tables count. */
static void count_wanted(struct af_dynamic *dynamic)
{
    size_t capacity = dynamic->symbols.len / af_elf_symbol_bytes(dynamic);
    capacity = capacity < AF_ELF_SYMBOLS_MAX ? capacity : AF_ELF_SYMBOLS_MAX;
    for (size_t kind = 0; kind < AF_COUNT(dynamic->relocations); kind++) {
        for (size_t i = 0; i < relocation_count(dynamic, kind); i++) {
            size_t symbol = relocation_symbol(dynamic, kind, i);
            if (symbol >= dynamic->symbol_count && symbol < capacity)
                dynamic->symbol_count = symbol + 1;
        }
    }
}

const unsigned char *af_dynamic_relocated(struct af_dynamic *dynamic, struct af_arena *arena)
{
    count_wanted(dynamic);
    unsigned char *marks = af_arena_alloc(arena, dynamic->symbol_count + 1);
    for (size_t kind = 0; kind < AF_COUNT(dynamic->relocations); kind++) {
        for (size_t i = 0; i < relocation_count(dynamic, kind); i++) {
            size_t symbol = relocation_symbol(dynamic, kind, i);
            if (symbol != 0 && symbol < dynamic->symbol_count)
                marks[symbol] = 1;
        }
    }
    return marks;
}
