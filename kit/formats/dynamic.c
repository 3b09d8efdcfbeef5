/*
 * dynamic.c: from program headers to PT_DYNAMIC to the tables it names.
 * Lookups in them are in dynamic_lookup.c. Used by binary.c for what an
 * extension wants and by fit/scope for what libraries offer.
 */
#include "kit/formats/dynamic.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/dynamic_tables.h"

#define HEADERS_MAX 4096u
#define DYNAMIC_MAX 65536u
#define VERSION_RECORDS_MAX 0x8000u

/* The bytes from `address` to the end of its segment in the file. */
static struct af_span span_at(const struct af_dynamic *dynamic, uint64_t address)
{
    for (size_t i = 0; i < dynamic->segment_count; i++) {
        const struct af_segment *segment = &dynamic->segments[i];
        if (address < segment->address || address - segment->address >= segment->bytes)
            continue;
        uint64_t into = address - segment->address;
        return (struct af_span){dynamic->bytes.data + segment->offset + into,
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

bool af_dyn_read_header(struct af_dynamic *dynamic)
{
    struct af_span bytes = dynamic->bytes;
    if (bytes.len < sizeof(Elf32_Ehdr) || memcmp(bytes.data, ELFMAG, SELFMAG) != 0)
        return false;
    unsigned char class = (unsigned char)bytes.data[EI_CLASS];
    unsigned char data = (unsigned char)bytes.data[EI_DATA];
    if ((class != ELFCLASS32 && class != ELFCLASS64) ||
        (data != ELFDATA2LSB && data != ELFDATA2MSB))
        return false;
    dynamic->is_64 = class == ELFCLASS64;
    dynamic->is_little_endian = data == ELFDATA2LSB;
    dynamic->is_shared = af_dyn_u16_at(dynamic, bytes, offsetof(Elf64_Ehdr, e_type)) == ET_DYN;
    dynamic->machine = af_dyn_u16_at(dynamic, bytes, offsetof(Elf64_Ehdr, e_machine));
    return true;
}

static void add_segment(struct af_dynamic *dynamic, uint64_t address, uint64_t offset,
                        uint64_t bytes)
{
    if (dynamic->segment_count == AF_DYNAMIC_SEGMENTS_MAX || offset >= dynamic->bytes.len)
        return;
    if (bytes > dynamic->bytes.len - offset)
        bytes = dynamic->bytes.len - offset;
    dynamic->segments[dynamic->segment_count++] = (struct af_segment){address, offset, bytes};
}

/* The loaded segments, and where PT_DYNAMIC lies in the file. */
static struct af_span read_segments(struct af_dynamic *dynamic)
{
    struct af_span file = dynamic->bytes;
    bool wide = dynamic->is_64;
    struct af_span found = {NULL, 0};
    uint64_t at = af_dyn_word_at(
        dynamic, file, wide ? offsetof(Elf64_Ehdr, e_phoff) : offsetof(Elf32_Ehdr, e_phoff));
    size_t step = wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    size_t count = af_dyn_u16_at(
        dynamic, file, wide ? offsetof(Elf64_Ehdr, e_phnum) : offsetof(Elf32_Ehdr, e_phnum));
    for (size_t i = 0; i < count && i < HEADERS_MAX && af_dyn_lies_in(file, at, step);
         i++, at += step) {
        uint32_t type = af_dyn_u32_at(dynamic, file, at);
        uint64_t offset = af_dyn_word_at(
            dynamic, file,
            at + (wide ? offsetof(Elf64_Phdr, p_offset) : offsetof(Elf32_Phdr, p_offset)));
        uint64_t address = af_dyn_word_at(
            dynamic, file,
            at + (wide ? offsetof(Elf64_Phdr, p_vaddr) : offsetof(Elf32_Phdr, p_vaddr)));
        uint64_t bytes = af_dyn_word_at(
            dynamic, file,
            at + (wide ? offsetof(Elf64_Phdr, p_filesz) : offsetof(Elf32_Phdr, p_filesz)));
        if (type == PT_LOAD)
            add_segment(dynamic, address, offset, bytes);
        else if (type == PT_DYNAMIC && offset < file.len)
            found = cut((struct af_span){file.data + offset, file.len - (size_t)offset}, bytes);
    }
    return found;
}

const struct af_segment *af_dyn_first_segment(struct af_dynamic *dynamic)
{
    struct af_span file = dynamic->bytes;
    uint64_t at = af_dyn_word_at(dynamic, file, offsetof(Elf64_Ehdr, e_phoff));
    size_t count = af_dyn_u16_at(dynamic, file, offsetof(Elf64_Ehdr, e_phnum));
    for (size_t i = 0; i < count && af_dyn_lies_in(file, at, sizeof(Elf64_Phdr));
         i++, at += sizeof(Elf64_Phdr)) {
        if (af_dyn_u32_at(dynamic, file, at) != PT_LOAD)
            continue;
        dynamic->segments[0] = (struct af_segment){
            .address = af_dyn_word_at(dynamic, file, at + offsetof(Elf64_Phdr, p_vaddr)),
            .offset = af_dyn_word_at(dynamic, file, at + offsetof(Elf64_Phdr, p_offset)),
            .bytes = af_dyn_word_at(dynamic, file, at + offsetof(Elf64_Phdr, p_filesz)),
        };
        return &dynamic->segments[0];
    }
    return NULL;
}

/* Values of the dynamic section that are needed together. */
struct tags {
    uint64_t strings, strings_bytes, symbols, gnu_hash, hash;
    uint64_t indices, needs, defs;
    uint64_t rela, rela_bytes, rel, rel_bytes, plt, plt_bytes, plt_kind;
};

static uint64_t *tag_place(struct tags *tags, uint64_t tag)
{
    switch (tag) {
    case DT_STRTAB:
        return &tags->strings;
    case DT_STRSZ:
        return &tags->strings_bytes;
    case DT_SYMTAB:
        return &tags->symbols;
    case DT_GNU_HASH:
        return &tags->gnu_hash;
    case DT_HASH:
        return &tags->hash;
    case DT_VERSYM:
        return &tags->indices;
    case DT_VERNEED:
        return &tags->needs;
    case DT_VERDEF:
        return &tags->defs;
    case DT_RELA:
        return &tags->rela;
    case DT_RELASZ:
        return &tags->rela_bytes;
    case DT_REL:
        return &tags->rel;
    case DT_RELSZ:
        return &tags->rel_bytes;
    case DT_JMPREL:
        return &tags->plt;
    case DT_PLTRELSZ:
        return &tags->plt_bytes;
    case DT_PLTREL:
        return &tags->plt_kind;
    default:
        return NULL;
    }
}

/* Entry `index` of the dynamic section; false at its end. */
static bool entry_at(const struct af_dynamic *dynamic, struct af_span section, size_t index,
                     uint64_t *tag_out, uint64_t *value_out)
{
    size_t word = dynamic->is_64 ? 8 : 4;
    uint64_t at = (uint64_t)index * 2 * word;
    if (index >= DYNAMIC_MAX || !af_dyn_lies_in(section, at, 2 * word))
        return false;
    *tag_out = af_dyn_word_at(dynamic, section, at);
    *value_out = af_dyn_word_at(dynamic, section, at + word);
    return *tag_out != DT_NULL;
}

static void read_tables(struct af_dynamic *dynamic, struct af_span section)
{
    struct tags tags = {0};
    uint64_t tag;
    uint64_t value;
    for (size_t i = 0; entry_at(dynamic, section, i, &tag, &value); i++) {
        uint64_t *place = tag_place(&tags, tag);
        if (place != NULL)
            *place = value;
    }
    dynamic->strings = cut(span_at(dynamic, tags.strings), tags.strings_bytes);
    while (dynamic->strings.len > 0 && dynamic->strings.data[dynamic->strings.len - 1] != '\0')
        dynamic->strings.len--;
    dynamic->symbols = span_at(dynamic, tags.symbols);
    dynamic->gnu_hash = span_at(dynamic, tags.gnu_hash);
    dynamic->hash = span_at(dynamic, tags.hash);
    dynamic->version_indices = span_at(dynamic, tags.indices);
    dynamic->version_needs = span_at(dynamic, tags.needs);
    dynamic->version_defs = span_at(dynamic, tags.defs);
    bool plt_has_addends = tags.plt_kind == DT_RELA;
    struct af_span plt = cut(span_at(dynamic, tags.plt), tags.plt_bytes);
    dynamic->relocations[0] = cut(span_at(dynamic, tags.rela), tags.rela_bytes);
    dynamic->relocations[1] = cut(span_at(dynamic, tags.rel), tags.rel_bytes);
    dynamic->relocations[plt_has_addends ? 2 : 3] = plt;
}

/* An address of 0 is "none" in a file whose first segment is its header. */
static void drop_header_spans(struct af_dynamic *dynamic)
{
    struct af_span *const spans[] = {&dynamic->strings,         &dynamic->symbols,
                                     &dynamic->gnu_hash,        &dynamic->hash,
                                     &dynamic->version_needs,   &dynamic->version_defs,
                                     &dynamic->version_indices, &dynamic->relocations[0],
                                     &dynamic->relocations[1],  &dynamic->relocations[2],
                                     &dynamic->relocations[3]};
    for (size_t i = 0; i < AF_COUNT(spans); i++) {
        if (spans[i]->data == dynamic->bytes.data)
            *spans[i] = (struct af_span){NULL, 0};
    }
}

static void read_names(struct af_dynamic *dynamic, struct af_span section)
{
    uint64_t tag;
    uint64_t value;
    for (size_t i = 0; entry_at(dynamic, section, i, &tag, &value); i++) {
        const char *text = af_dyn_text_at(dynamic, value);
        if (text == NULL)
            continue;
        if (tag == DT_SONAME)
            dynamic->soname = text;
        else if (tag == DT_RPATH)
            dynamic->rpath = text;
        else if (tag == DT_RUNPATH)
            dynamic->runpath = text;
        else if (tag == DT_NEEDED && dynamic->needed_count < AF_DYNAMIC_NEEDED_MAX)
            dynamic->needed[dynamic->needed_count++] = text;
    }
}

/* One more than the last symbol of the GNU hash table: its last chain's end. */
size_t af_dyn_count_gnu_symbols(const struct af_dynamic *dynamic)
{
    struct af_gnu_table table;
    uint64_t last = 0;
    if (!af_dyn_read_gnu_table(dynamic, &table))
        return 0;
    for (uint32_t i = 0; i < table.bucket_count; i++) {
        uint32_t first =
            af_dyn_u32_at(dynamic, dynamic->gnu_hash, table.buckets + 4 * (uint64_t)i);
        last = first > last ? first : last;
    }
    if (last < table.first_symbol)
        return table.first_symbol;
    uint64_t at = table.chains + 4 * (last - table.first_symbol);
    while (af_dyn_lies_in(dynamic->gnu_hash, at, 4) &&
           (af_dyn_u32_at(dynamic, dynamic->gnu_hash, at) & 1) == 0) {
        at += 4;
        last++;
    }
    return (size_t)last + 1;
}

/*
 * Nothing says how many symbols there are. The hash tables count those that
 * are defined; without them the string table usually follows the symbols. What
 * only relocations name is found by af_dynamic_relocated().
 */
static size_t count_symbols(const struct af_dynamic *dynamic)
{
    size_t capacity = dynamic->symbols.len / af_dyn_symbol_bytes(dynamic);
    size_t count = af_dyn_u32_at(dynamic, dynamic->hash, 4);
    size_t hashed = af_dyn_count_gnu_symbols(dynamic);
    count = hashed > count ? hashed : count;
    if (count == 0 && dynamic->strings.data > dynamic->symbols.data)
        count = (size_t)(dynamic->strings.data - dynamic->symbols.data) /
                af_dyn_symbol_bytes(dynamic);
    count = count < capacity ? count : capacity;
    return count < AF_DYN_SYMBOLS_MAX ? count : AF_DYN_SYMBOLS_MAX;
}

/* Where versions go: counted first, then kept. */
struct version_table {
    struct af_symbol_version *items; /* NULL: only count */
    size_t count;
};

static void set_version(struct version_table *table, unsigned index, const char *name,
                        const char *library)
{
    index &= AF_VERSION_INDEX_MASK;
    if (index < 2 || name == NULL)
        return;
    if (index >= table->count)
        table->count = index + 1;
    if (table->items != NULL)
        table->items[index] = (struct af_symbol_version){name, library};
}

/* The versions that verneed records ask for; `left` bounds chains that loop. */
static void read_needs(const struct af_dynamic *dynamic, struct version_table *table)
{
    size_t left = 2 * VERSION_RECORDS_MAX;
    struct af_span span = dynamic->version_needs;
    uint64_t at = 0;
    uint32_t next = 1;
    while (next != 0 && af_dyn_lies_in(span, at, sizeof(Elf64_Verneed))) {
        const char *library = af_dyn_text_at(dynamic, af_dyn_u32_at(dynamic, span, at + 4));
        uint64_t one = at + af_dyn_u32_at(dynamic, span, at + 8);
        unsigned ones = af_dyn_u16_at(dynamic, span, at + 2);
        for (; ones > 0 && left > 0 && af_dyn_lies_in(span, one, sizeof(Elf64_Vernaux));
             ones--, left--) {
            set_version(table, af_dyn_u16_at(dynamic, span, one + 6),
                        af_dyn_text_at(dynamic, af_dyn_u32_at(dynamic, span, one + 8)),
                        library);
            one += af_dyn_u32_at(dynamic, span, one + 12);
        }
        next = left-- > 1 ? af_dyn_u32_at(dynamic, span, at + 12) : 0;
        at += next;
        if (left == 0)
            return;
    }
}

/* The versions that verdef records define; the base record names no version. */
static void read_defs(const struct af_dynamic *dynamic, struct version_table *table)
{
    struct af_span span = dynamic->version_defs;
    uint64_t at = 0;
    for (size_t i = 0; i < VERSION_RECORDS_MAX; i++) {
        if (!af_dyn_lies_in(span, at, sizeof(Elf64_Verdef)))
            return;
        uint64_t name_at = at + af_dyn_u32_at(dynamic, span, at + 12);
        if ((af_dyn_u16_at(dynamic, span, at + 2) & VER_FLG_BASE) == 0 &&
            af_dyn_lies_in(span, name_at, 8))
            set_version(table, af_dyn_u16_at(dynamic, span, at + 4),
                        af_dyn_text_at(dynamic, af_dyn_u32_at(dynamic, span, name_at)), NULL);
        uint32_t next = af_dyn_u32_at(dynamic, span, at + 16);
        if (next == 0)
            return;
        at += next;
    }
}

enum anyflash_status af_dyn_read_versions(struct af_arena *arena, struct af_dynamic *dynamic,
                                          struct anyflash_error *err)
{
    struct version_table table = {NULL, 0};
    read_needs(dynamic, &table);
    read_defs(dynamic, &table);
    if (table.count == 0)
        return ANYFLASH_OK;
    table.items = af_arena_array(arena, table.count, sizeof *table.items);
    if (table.items == NULL)
        return af_fail_memory(err);
    read_needs(dynamic, &table);
    read_defs(dynamic, &table);
    dynamic->versions = table.items;
    dynamic->version_count = table.count;
    return ANYFLASH_OK;
}

enum anyflash_status af_dynamic_read(struct af_arena *arena, struct af_span bytes,
                                     const char *name, struct af_dynamic *out,
                                     struct anyflash_error *err)
{
    char shown[200];
    struct af_dynamic dynamic = {.bytes = bytes};
    af_text_quote(shown, sizeof shown, name, strlen(name));
    if (!af_dyn_read_header(&dynamic))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not an ELF file", shown);
    struct af_span section = read_segments(&dynamic);
    if (section.len == 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has no dynamic section", shown);
    read_tables(&dynamic, section);
    drop_header_spans(&dynamic);
    read_names(&dynamic, section);
    dynamic.symbol_count = count_symbols(&dynamic);
    enum anyflash_status status = af_dyn_read_versions(arena, &dynamic, err);
    if (status == ANYFLASH_OK)
        *out = dynamic;
    return status;
}
