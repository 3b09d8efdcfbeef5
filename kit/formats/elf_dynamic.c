/*
 * elf_dynamic.c: finds the tables that PT_DYNAMIC points to and counts the symbols; which of
 * them relocations name, and the bytes of a definition. The records of versions are read in
 * elf_version.c; symbols and lookups are in elf_lookup.c.
 */
#include "kit/formats/elf.h"

#include <string.h>

#include "kit/base/text.h"

#define DYNAMIC_MAX 65536u
#define SEGMENT_HEADERS_MAX 4096u

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
    af_elf_read_versions(arena, &dynamic);
    *out = dynamic;
    return ANYFLASH_OK;
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
