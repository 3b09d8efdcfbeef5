/*
 * elf.c: facts from ELF files through libelf. libelf checks that sections and
 * string offsets lie inside the file; chains, counts and everything else are
 * checked here. Used by the probes of interpreter, C library and torch.
 */
#include "kit/formats/elf.h"

#include "kit/base/text.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#define SECTIONS_MAX 65536u
#define HEADERS_MAX 65536u
#define DYNAMIC_MAX 65536u
#define VERSIONS_MAX 65536u
#define SYMBOLS_MAX 16000000u

/* A section with its header and the bytes it has in the file. */
struct section {
    Elf_Scn *scn;
    GElf_Shdr header;
    Elf_Data *data;
    size_t count; /* entries, at most the cap asked for */
};

static Elf *handle_of(const struct af_elf *elf)
{
    return elf->handle;
}

/* The first section of `type` with its data; false when there is none. */
static bool find_section(const struct af_elf *elf, Elf64_Word type, size_t count_max,
                         struct section *found)
{
    Elf_Scn *scn = NULL;
    for (size_t i = 0; i < SECTIONS_MAX; i++) {
        scn = elf_nextscn(handle_of(elf), scn);
        if (scn == NULL)
            return false;
        if (gelf_getshdr(scn, &found->header) == NULL || found->header.sh_type != type)
            continue;
        found->scn = scn;
        found->data = elf_getdata(scn, NULL);
        if (found->data == NULL || found->data->d_buf == NULL)
            return false;
        size_t entry_bytes = found->header.sh_entsize;
        found->count = entry_bytes == 0 ? 0 : found->data->d_size / entry_bytes;
        if (found->count > count_max)
            found->count = count_max;
        return true;
    }
    return false;
}

/* A string of the table that `table` is linked to, or NULL. */
static const char *string_at(const struct af_elf *elf, const struct section *table,
                             size_t offset)
{
    return elf_strptr(handle_of(elf), table->header.sh_link, offset);
}

static void read_dynamic(struct af_elf *elf)
{
    struct section dynamic;
    if (!find_section(elf, SHT_DYNAMIC, DYNAMIC_MAX, &dynamic))
        return;
    for (size_t i = 0; i < dynamic.count; i++) {
        GElf_Dyn entry;
        if (gelf_getdyn(dynamic.data, (int)i, &entry) == NULL || entry.d_tag == DT_NULL)
            return;
        const char **place = NULL;
        if (entry.d_tag == DT_SONAME)
            place = &elf->soname;
        else if (entry.d_tag == DT_RPATH)
            place = &elf->rpath;
        else if (entry.d_tag == DT_RUNPATH)
            place = &elf->runpath;
        else if (entry.d_tag == DT_NEEDED && elf->needed_count < AF_ELF_NEEDED_MAX)
            place = &elf->needed[elf->needed_count];
        const char *text = place == NULL ? NULL : string_at(elf, &dynamic, entry.d_un.d_val);
        if (text == NULL)
            continue;
        *place = text;
        if (entry.d_tag == DT_NEEDED)
            elf->needed_count++;
    }
}

/* PT_INTERP, when it lies in the file and ends in a NUL. */
static const char *read_interpreter(const struct af_elf *elf, struct af_span bytes)
{
    size_t count = 0;
    if (elf_getphdrnum(handle_of(elf), &count) != 0)
        return NULL;
    for (size_t i = 0; i < count && i < HEADERS_MAX; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(handle_of(elf), (int)i, &header) == NULL)
            return NULL;
        if (header.p_type != PT_INTERP)
            continue;
        if (header.p_offset >= bytes.len || header.p_filesz > bytes.len - header.p_offset)
            return NULL;
        const char *text = bytes.data + header.p_offset;
        return memchr(text, '\0', header.p_filesz) == NULL ? NULL : text;
    }
    return NULL;
}

enum anyflash_status af_elf_open_bytes(struct af_span bytes, const char *name,
                                       struct af_elf *elf_out, struct anyflash_error *err)
{
    struct af_elf elf = {0};
    GElf_Ehdr header;
    char shown[200];
    elf_version(EV_CURRENT);
    if (bytes.len >= EI_NIDENT)
        elf.handle = elf_memory((char *)(uintptr_t)bytes.data, bytes.len);
    if (elf.handle == NULL || elf_kind(elf.handle) != ELF_K_ELF ||
        gelf_getehdr(elf.handle, &header) == NULL) {
        elf_end(elf.handle);
        af_text_quote(shown, sizeof shown, name, strlen(name));
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not an ELF file", shown);
    }
    elf.is_64 = header.e_ident[EI_CLASS] == ELFCLASS64;
    elf.is_little_endian = header.e_ident[EI_DATA] == ELFDATA2LSB;
    elf.machine = header.e_machine;
    elf.interpreter = read_interpreter(&elf, bytes);
    read_dynamic(&elf);
    *elf_out = elf;
    return ANYFLASH_OK;
}

enum anyflash_status af_elf_open(const char *path, struct af_elf *elf_out,
                                 struct anyflash_error *err)
{
    struct af_mapping mapping;
    enum anyflash_status status = af_file_map(path, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span bytes = {(const char *)mapping.data, mapping.len};
    status = af_elf_open_bytes(bytes, path, elf_out, err);
    if (status == ANYFLASH_OK)
        elf_out->mapping = mapping;
    else
        af_file_unmap(&mapping);
    return status;
}

void af_elf_close(struct af_elf *elf)
{
    elf_end(elf->handle);
    af_file_unmap(&elf->mapping);
    *elf = (struct af_elf){0};
}

const char *af_elf_machine_name(const struct af_elf *elf)
{
    static const struct {
        unsigned machine;
        bool is_64;
        bool is_little_endian;
        const char *name;
    } names[] = {
        {EM_X86_64, true, true, "x86_64"}, {EM_AARCH64, true, true, "aarch64"},
        {EM_386, false, true, "i686"},     {EM_ARM, false, true, "armv7l"},
        {EM_PPC64, true, true, "ppc64le"}, {EM_PPC64, true, false, "ppc64"},
        {EM_S390, true, false, "s390x"},   {EM_RISCV, true, true, "riscv64"},
    };
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (names[i].machine == elf->machine && names[i].is_64 == elf->is_64 &&
            names[i].is_little_endian == elf->is_little_endian)
            return names[i].name;
    }
    return NULL;
}

bool af_elf_section(const struct af_elf *elf, const char *name, struct af_span *bytes_out)
{
    size_t names_index;
    Elf_Scn *scn = NULL;
    if (elf_getshdrstrndx(handle_of(elf), &names_index) != 0)
        return false;
    for (size_t i = 0; i < SECTIONS_MAX; i++) {
        GElf_Shdr header;
        scn = elf_nextscn(handle_of(elf), scn);
        if (scn == NULL)
            return false;
        if (gelf_getshdr(scn, &header) == NULL || header.sh_type == SHT_NOBITS)
            continue;
        const char *found = elf_strptr(handle_of(elf), names_index, header.sh_name);
        if (found == NULL || strcmp(found, name) != 0)
            continue;
        const Elf_Data *data = elf_rawdata(scn, NULL);
        if (data == NULL || data->d_buf == NULL)
            return false;
        *bytes_out = (struct af_span){data->d_buf, data->d_size};
        return true;
    }
    return false;
}

static bool is_defined(const GElf_Sym *symbol)
{
    unsigned char binding = GELF_ST_BIND(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF &&
           (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE);
}

bool af_elf_defines(const struct af_elf *elf, const char *const *names, size_t count,
                    bool *found_out)
{
    struct section symbols;
    memset(found_out, 0, count * sizeof *found_out);
    if (!find_section(elf, SHT_DYNSYM, SYMBOLS_MAX, &symbols))
        return false;
    size_t left = count;
    for (size_t i = 0; i < symbols.count && left > 0; i++) {
        GElf_Sym symbol;
        if (gelf_getsym(symbols.data, (int)i, &symbol) == NULL)
            break;
        const char *name =
            is_defined(&symbol) ? string_at(elf, &symbols, symbol.st_name) : NULL;
        for (size_t n = 0; name != NULL && n < count; n++) {
            if (!found_out[n] && strcmp(name, names[n]) == 0) {
                found_out[n] = true;
                left--;
            }
        }
    }
    return true;
}

bool af_elf_symbol_data(const struct af_elf *elf, const char *name, size_t len_min,
                        struct af_span *bytes_out)
{
    struct section symbols;
    if (!find_section(elf, SHT_DYNSYM, SYMBOLS_MAX, &symbols))
        return false;
    for (size_t i = 0; i < symbols.count; i++) {
        GElf_Sym symbol;
        GElf_Shdr header;
        if (gelf_getsym(symbols.data, (int)i, &symbol) == NULL)
            return false;
        const char *found =
            is_defined(&symbol) ? string_at(elf, &symbols, symbol.st_name) : NULL;
        if (found == NULL || strcmp(found, name) != 0)
            continue;
        Elf_Scn *scn = elf_getscn(handle_of(elf), symbol.st_shndx);
        const Elf_Data *data = scn == NULL ? NULL : elf_rawdata(scn, NULL);
        if (data == NULL || data->d_buf == NULL || gelf_getshdr(scn, &header) == NULL ||
            symbol.st_value < header.sh_addr)
            return false;
        size_t offset = symbol.st_value - header.sh_addr;
        if (offset > data->d_size || data->d_size - offset < len_min)
            return false;
        *bytes_out =
            (struct af_span){(const char *)data->d_buf + offset, data->d_size - offset};
        return true;
    }
    return false;
}

/* The next record of a chain: true when `next` leads forward inside the data. */
static bool chain_step(const Elf_Data *data, size_t *offset, size_t next)
{
    if (next == 0 || next > data->d_size || *offset > data->d_size - next)
        return false;
    *offset += next;
    return true;
}

/* The versions one verneed record asks for; false when the visitor stops. */
static bool visit_need(const struct af_elf *elf, const struct section *needs, size_t offset,
                       const GElf_Verneed *need, size_t *budget, af_elf_version_visit *visit,
                       void *context)
{
    const char *library = string_at(elf, needs, need->vn_file);
    if (!chain_step(needs->data, &offset, need->vn_aux))
        return true;
    for (unsigned i = 0; i<need->vn_cnt && * budget> 0; i++) {
        GElf_Vernaux one;
        --*budget;
        if (gelf_getvernaux(needs->data, (int)offset, &one) == NULL)
            return true;
        const char *version = string_at(elf, needs, one.vna_name);
        if (library != NULL && version != NULL && !visit(context, library, version))
            return false;
        if (!chain_step(needs->data, &offset, one.vna_next))
            return true;
    }
    return true;
}

void af_elf_version_needs(const struct af_elf *elf, af_elf_version_visit *visit, void *context)
{
    struct section needs;
    size_t offset = 0;
    size_t budget = VERSIONS_MAX;
    GElf_Verneed need;
    if (!find_section(elf, SHT_GNU_verneed, 0, &needs))
        return;
    do {
        if (budget-- <= 1 || gelf_getverneed(needs.data, (int)offset, &need) == NULL)
            return;
        if (!visit_need(elf, &needs, offset, &need, &budget, visit, context))
            return;
    } while (chain_step(needs.data, &offset, need.vn_next));
}

void af_elf_version_defs(const struct af_elf *elf, af_elf_version_visit *visit, void *context)
{
    struct section defs;
    size_t offset = 0;
    GElf_Verdef def;
    if (!find_section(elf, SHT_GNU_verdef, 0, &defs))
        return;
    for (size_t i = 0; i < VERSIONS_MAX; i++) {
        GElf_Verdaux name;
        if (gelf_getverdef(defs.data, (int)offset, &def) == NULL)
            return;
        size_t at = offset;
        const char *version = NULL;
        if (chain_step(defs.data, &at, def.vd_aux) &&
            gelf_getverdaux(defs.data, (int)at, &name) != NULL)
            version = string_at(elf, &defs, name.vda_name);
        if (version != NULL && !visit(context, NULL, version))
            return;
        if (!chain_step(defs.data, &offset, def.vd_next))
            return;
    }
}

#define NUMBERS 4

/* "2.36" as numbers; false for anything that is not dotted digits. */
static bool parse_dotted(const char *text, unsigned long numbers[NUMBERS])
{
    memset(numbers, 0, NUMBERS * sizeof *numbers);
    for (int i = 0; i < NUMBERS; i++) {
        if (*text < '0' || *text > '9')
            return false;
        for (int digits = 0; *text >= '0' && *text <= '9'; text++) {
            if (++digits > 6)
                return false;
            numbers[i] = numbers[i] * 10 + (unsigned long)(*text - '0');
        }
        if (*text == '\0')
            return true;
        if (*text++ != '.')
            return false;
    }
    return false;
}

struct highest {
    const char *prefix;
    const char *text;
    unsigned long numbers[NUMBERS];
};

static bool keep_highest(void *context, const char *library, const char *version)
{
    struct highest *highest = context;
    unsigned long numbers[NUMBERS];
    (void)library;
    if (!af_starts_with(version, highest->prefix))
        return true;
    const char *text = version + strlen(highest->prefix);
    if (!parse_dotted(text, numbers))
        return true;
    int order = highest->text == NULL ? 1 : 0;
    for (int i = 0; i < NUMBERS && order == 0; i++)
        order = (numbers[i] > highest->numbers[i]) - (numbers[i] < highest->numbers[i]);
    if (order > 0) {
        highest->text = text;
        memcpy(highest->numbers, numbers, sizeof numbers);
    }
    return true;
}

bool af_elf_version_max(const struct af_elf *elf, const char *prefix, bool defined,
                        const char **text_out)
{
    struct highest highest = {.prefix = prefix};
    if (defined)
        af_elf_version_defs(elf, keep_highest, &highest);
    else
        af_elf_version_needs(elf, keep_highest, &highest);
    if (highest.text == NULL)
        return false;
    *text_out = highest.text;
    return true;
}
