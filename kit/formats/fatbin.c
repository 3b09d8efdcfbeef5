/*
 * fatbin.c: reads the GPU code of a file: the positions of containers, their
 * images header by header, small cubins that may be empty, and a summary by
 * target. An image is decompressed (an LZ4 block, CUDA 12's default for PTX; an LZ4 frame; a
 * zstd frame, CUDA 13's default) to read the names of its kernels.
 *
 * Container: u32 magic, u16 version, u16 header size, u64 bytes of all images.
 * Image: a header of 64 bytes or more (it contains its size), then the payload;
 * the next image follows directly, and the last one ends where the container
 * does. Layout and sources: docs/reference/fatbin.md.
 */
#include "kit/formats/fatbin.h"

#include <limits.h>
#include <lz4.h>
#include <lz4frame.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "kit/formats/elf.h"
#include "kit/formats/little.h"

#define CONTAINER_MAGIC 0xBA55ED50u
#define CONTAINER_BYTES 16u
#define IMAGE_BYTES 64u
#define HEADER_BYTES_MAX 65536u
#define WRAPPER_MAGIC 0x466243B1u
#define WRAPPER_BYTES 24u
#define SM_MAX 9999u

/* Limits the work for false containers nested in containers, which would be quadratic. */
#define DROPPED_MAX (4u * AF_GPU_IMAGES_MAX)

#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_ARCH 0x100000u
#define FLAG_FAMILY 0x200000u

#define LZ4_FRAME_MAGIC 0x184D2204u
#define LZ4_RATIO_MAX 255u

static bool unpack_lz4_frame(const unsigned char *packed, size_t packed_len, unsigned char *to,
                             size_t len)
{
    LZ4F_dctx *context = NULL;
    size_t got = len;
    size_t used = packed_len;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        af_memory_end();
    size_t left = LZ4F_decompress(context, to, &got, packed, &used, NULL);
    LZ4F_freeDecompressionContext(context);
    return left == 0 && got == len;
}

static bool unpack_lz4(const unsigned char *packed, size_t packed_len, unsigned char *to,
                       size_t len)
{
    if (packed_len > INT_MAX || len > INT_MAX)
        return false;
    if (LZ4_decompress_safe((const char *)packed, (char *)to, (int)packed_len, (int)len) ==
        (int)len)
        return true;
    return packed_len >= 4 && af_le32(packed) == LZ4_FRAME_MAGIC &&
           unpack_lz4_frame(packed, packed_len, to, len);
}

static bool unpack_zstd(const unsigned char *packed, size_t packed_len, unsigned char *to,
                        size_t len)
{
    size_t got = ZSTD_decompress(to, len, packed, packed_len);
    return !ZSTD_isError(got) && got == len;
}

/* Finds the stored bytes; the sizes in the header must be possible and within limits. */
static enum anyflash_status find_stored(struct af_span file, const char *name,
                                        const struct af_gpu_image *image, size_t max_bytes,
                                        struct af_span *stored_out, struct anyflash_error *err)
{
    if (image->raw_bytes > max_bytes || image->stored_bytes > max_bytes)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has a GPU image of more than %zu bytes",
                       name, max_bytes);
    if (image->stored_bytes == 0 || image->raw_bytes == 0 || image->offset > file.len ||
        image->stored_bytes > file.len - image->offset ||
        (image->packing == AF_GPU_LZ4 &&
         image->raw_bytes / LZ4_RATIO_MAX > image->stored_bytes))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image of impossible size", name);
    *stored_out = (struct af_span){file.data + image->offset, (size_t)image->stored_bytes};
    return ANYFLASH_OK;
}

static bool unpack(enum af_gpu_packing packing, struct af_span stored, unsigned char *to,
                   size_t len)
{
    const unsigned char *packed = (const unsigned char *)stored.data;
    if (packing == AF_GPU_LZ4)
        return unpack_lz4(packed, stored.len, to, len);
    if (packing == AF_GPU_ZSTD)
        return unpack_zstd(packed, stored.len, to, len);
    if (stored.len == len)
        memcpy(to, packed, len);
    return stored.len == len;
}

enum anyflash_status af_gpu_image_unpack(struct af_span file, const char *name,
                                         const struct af_gpu_image *image, size_t max_bytes,
                                         unsigned char **bytes_out, size_t *len_out,
                                         struct anyflash_error *err)
{
    struct af_span stored = {NULL, 0};
    enum anyflash_status status = find_stored(file, name, image, max_bytes, &stored, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t len = (size_t)image->raw_bytes;
    unsigned char *raw = af_memory_alloc(len);
    if (!unpack(image->packing, stored, raw, len)) {
        af_memory_free(raw);
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image that cannot be unpacked",
                       name);
    }
    *bytes_out = raw;
    *len_out = len;
    return ANYFLASH_OK;
}

#define SYMBOL_BYTES 24u
#define SYMBOL_FUNC 2u
#define OTHER_ENTRY 0x10u

static enum anyflash_status not_a_cubin(const char *name, struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image that is not a cubin", name);
}

/* Finds the symbol table and its names; false if the cubin has none. */
static bool find_symbols(const struct af_elf *elf, struct af_span *symbols,
                         struct af_span *names)
{
    for (uint32_t i = 0; i < elf->section_count; i++) {
        struct af_elf_part part = af_elf_section(elf, i);
        if (!part.is_inside || part.type != AF_ELF_SECTION_SYMTAB)
            continue;
        *symbols = (struct af_span){elf->bytes.data + part.offset, (size_t)part.len};
        part = af_elf_section(elf, part.link);
        if (!part.is_inside)
            return false;
        *names = (struct af_span){elf->bytes.data + part.offset, (size_t)part.len};
        return true;
    }
    return false;
}

static void visit_kernels(struct af_span symbols, struct af_span names, af_cubin_visit *visit,
                          void *context)
{
    const unsigned char *at = (const unsigned char *)symbols.data;
    while (names.len > 0 && names.data[names.len - 1] != '\0')
        names.len--; /* the NUL of the last name is missing */
    for (size_t left = symbols.len; left >= SYMBOL_BYTES;
         left -= SYMBOL_BYTES, at += SYMBOL_BYTES) {
        uint32_t name = af_le32(at);
        bool is_kernel = (at[4] & 0xf) == SYMBOL_FUNC && (at[5] & OTHER_ENTRY) != 0;
        if (is_kernel && name < names.len && !visit(context, names.data + name))
            return;
    }
}

enum anyflash_status af_cubin_kernels(struct af_span bytes, const char *name,
                                      af_cubin_visit *visit, void *context,
                                      struct anyflash_error *err)
{
    struct af_elf elf;
    struct af_span symbols;
    struct af_span names;
    enum anyflash_status status = af_elf_open(bytes, name, &elf, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!elf.is_64 || !elf.is_little_endian || elf.machine != AF_ELF_CUDA ||
        elf.section_count == 0)
        return not_a_cubin(name, err);
    if (find_symbols(&elf, &symbols, &names))
        visit_kernels(symbols, names, visit, context);
    return ANYFLASH_OK;
}

enum anyflash_status af_gpu_image_kernels(struct af_span file, const char *name,
                                          const struct af_gpu_image *image,
                                          af_cubin_visit *visit, void *context,
                                          struct anyflash_error *err)
{
    struct af_span stored = {NULL, 0};
    unsigned char *bytes;
    size_t len;
    if (image->kind != AF_GPU_SASS)
        return not_a_cubin(name, err);
    if (image->packing == AF_GPU_RAW) {
        enum anyflash_status status = find_stored(file, name, image, SIZE_MAX, &stored, err);
        return status == ANYFLASH_OK ? af_cubin_kernels(stored, name, visit, context, err)
                                     : status;
    }
    enum anyflash_status status =
        af_gpu_image_unpack(file, name, image, AF_CUBIN_BYTES_MAX, &bytes, &len, err);
    if (status != ANYFLASH_OK)
        return status;
    status =
        af_cubin_kernels((struct af_span){(const char *)bytes, len}, name, visit, context, err);
    af_memory_free(bytes);
    return status;
}

/* Zero-initialise, set bytes and name, release. Lists are on the heap. */
struct walk {
    struct af_span bytes;
    const char *name;
    struct af_gpu_container *containers;
    size_t container_count;
    size_t container_capacity;
    struct af_gpu_image *images;
    size_t image_count;
    size_t image_capacity;
    bool is_full;           /* AF_GPU_IMAGES_MAX reached, or too much work without a result */
    size_t dropped_count;   /* images of rejected containers */
    uint64_t strange_bytes; /* bytes that are neither container nor zero */
    uint64_t strange_at;    /* offset of the first of these */
};

static const unsigned char *bytes_at(const struct walk *walk, uint64_t at)
{
    return (const unsigned char *)walk->bytes.data + at;
}

/* Makes room for one more element. */
static void reserve(void **list, size_t *capacity, size_t count, size_t element_bytes)
{
    size_t bytes;
    if (count < *capacity)
        return;
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    if (!af_size_mul(*capacity, element_bytes, &bytes))
        af_memory_end();
    *list = af_memory_resize(*list, bytes);
}

static enum af_gpu_kind kind_of(unsigned number)
{
    switch (number) {
    case 1:
        return AF_GPU_PTX;
    case 2:
        return AF_GPU_SASS;
    case 8:
        return AF_GPU_LTOIR;
    default:
        return AF_GPU_OTHER;
    }
}

/* Parses the image header at `at`; false if its sizes are impossible. */
static bool parse_image(const unsigned char *header, uint64_t at, uint64_t end,
                        struct af_gpu_image *image, uint64_t *next_out)
{
    uint32_t header_bytes = af_le32(header + 4);
    uint64_t payload_bytes = af_le64(header + 8);
    uint32_t packed_bytes = af_le32(header + 16);
    uint32_t sm = af_le32(header + 28);
    uint64_t flags = af_le64(header + 40);
    if (header_bytes < IMAGE_BYTES || header_bytes > HEADER_BYTES_MAX ||
        header_bytes > end - at || payload_bytes > end - at - header_bytes || sm > SM_MAX)
        return false;
    bool is_packed = (flags & (FLAG_LZ4 | FLAG_ZSTD)) != 0;
    if (is_packed && packed_bytes > payload_bytes)
        return false;
    *image = (struct af_gpu_image){
        .offset = at + header_bytes,
        .stored_bytes = is_packed && packed_bytes > 0 ? packed_bytes : payload_bytes,
        .raw_bytes = is_packed ? af_le64(header + 56) : payload_bytes,
        .sm = (int)sm,
        .suffix = (flags & FLAG_ARCH) != 0     ? 'a'
                  : (flags & FLAG_FAMILY) != 0 ? 'f'
                                               : '\0',
        .kind_number = af_le16(header),
        .version_major = af_le16(header + 26),
        .version_minor = af_le16(header + 24),
        .kind = kind_of(af_le16(header)),
        .packing = (flags & FLAG_ZSTD) != 0  ? AF_GPU_ZSTD
                   : (flags & FLAG_LZ4) != 0 ? AF_GPU_LZ4
                                             : AF_GPU_RAW,
        .has_entry = AF_UNKNOWN,
    };
    *next_out = at + header_bytes + payload_bytes;
    return true;
}

/*
 * Adds the images between `at` and `end`; false, and nothing is added, if the last
 * one does not end exactly at `end`.
 */
static bool read_images(struct walk *walk, uint64_t at, uint64_t end)
{
    size_t before = walk->image_count;
    while (end - at >= IMAGE_BYTES && walk->image_count < AF_GPU_IMAGES_MAX) {
        reserve((void **)&walk->images, &walk->image_capacity, walk->image_count,
                sizeof *walk->images);
        struct af_gpu_image *image = &walk->images[walk->image_count];
        if (!parse_image(bytes_at(walk, at), at, end, image, &at))
            break;
        image->container = (uint32_t)walk->container_count;
        walk->image_count++;
    }
    walk->is_full = walk->image_count == AF_GPU_IMAGES_MAX;
    if (at == end)
        return true;
    walk->dropped_count += walk->image_count - before;
    walk->is_full = walk->is_full || walk->dropped_count > DROPPED_MAX;
    walk->image_count = before;
    return false;
}

/* Adds the container at `at`; returns its end, or `at` if there is none. */
static uint64_t read_container(struct walk *walk, uint64_t at, uint64_t to,
                               const unsigned char *header, bool is_relocatable)
{
    uint32_t header_bytes = af_le16(header + 6);
    uint64_t images_bytes = af_le64(header + 8);
    uint32_t first = (uint32_t)walk->image_count;
    if (af_le32(header) != CONTAINER_MAGIC || header_bytes < CONTAINER_BYTES ||
        header_bytes > to - at || images_bytes > to - at - header_bytes)
        return at;
    uint64_t end = at + header_bytes + images_bytes;
    if (!read_images(walk, at + header_bytes, end))
        return at;
    reserve((void **)&walk->containers, &walk->container_capacity, walk->container_count,
            sizeof *walk->containers);
    walk->containers[walk->container_count++] =
        (struct af_gpu_container){.offset = at,
                                  .image_first = first,
                                  .image_count = (uint32_t)walk->image_count - first,
                                  .is_relocatable = is_relocatable};
    return end;
}

static void note_strange(struct walk *walk, uint64_t at, const unsigned char *bytes)
{
    static const unsigned char zero[8] = {0};
    if (memcmp(bytes, zero, sizeof zero) == 0)
        return;
    if (walk->strange_bytes == 0)
        walk->strange_at = at;
    walk->strange_bytes += sizeof zero;
}

/* `to` must be within the bytes. */
static void walk_range(struct walk *walk, uint64_t from, uint64_t to, bool is_relocatable,
                       bool is_search)
{
    for (uint64_t at = from; !walk->is_full && at <= to && to - at >= CONTAINER_BYTES;) {
        const unsigned char *header = bytes_at(walk, at);
        uint64_t end = at;
        if (!is_search && af_le32(header) != CONTAINER_MAGIC)
            note_strange(walk, at, header);
        else if (af_le32(header) == CONTAINER_MAGIC) {
            end = read_container(walk, at, to, header, is_relocatable);
            if (!is_search && end == at) {
                walk->strange_at = walk->strange_bytes == 0 ? at : walk->strange_at;
                walk->strange_bytes += 8;
            }
        }
        at = end > at ? (end + 7) / 8 * 8 : at + 8;
    }
}

static int64_t count_wrappers(const struct walk *walk, uint64_t from, uint64_t to)
{
    int64_t count = 0;
    for (uint64_t at = from; to - at >= WRAPPER_BYTES; at += WRAPPER_BYTES)
        count += af_le32(bytes_at(walk, at)) == WRAPPER_MAGIC;
    return count;
}

static void release_walk(struct walk *walk)
{
    af_memory_free(walk->containers);
    af_memory_free(walk->images);
}

/* Larger cubins have a kernel; nvcc's empty ones have half this size. */
#define MAYBE_EMPTY_BYTES 4096u

#define SECTION_LOADED ".nv_fatbin"
#define SECTION_RELOCATABLE "__nv_relfatbin"
#define SECTION_WRAPPERS ".nvFatBinSegment"

const char *af_gpu_kind_text(enum af_gpu_kind kind)
{
    static const char *const texts[] = {"SASS", "PTX", "LTO-IR", "other"};
    return texts[kind];
}

/* Reads section `index` if it is one with GPU code. */
static void walk_section(struct walk *walk, const struct af_elf *elf, uint32_t index,
                         struct af_gpu_code *code)
{
    struct af_elf_part part = af_elf_section(elf, index);
    uint64_t end = part.offset + part.len;
    if (!part.is_inside)
        return;
    bool is_relocatable = af_elf_section_is_named(elf, &part, SECTION_RELOCATABLE);
    if (is_relocatable || af_elf_section_is_named(elf, &part, SECTION_LOADED))
        walk_range(walk, part.offset, end, is_relocatable, false);
    else if (af_elf_section_is_named(elf, &part, SECTION_WRAPPERS))
        code->wrapper_count = count_wrappers(walk, part.offset, end);
}

static void walk_segments(struct walk *walk, const struct af_elf *elf)
{
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        struct af_elf_part part = af_elf_segment(elf, i);
        if (part.is_inside && part.type == AF_ELF_SEGMENT_LOAD)
            walk_range(walk, (part.offset + 7) / 8 * 8, part.offset + part.len, false, true);
    }
}

static enum anyflash_status walk_file(struct walk *walk, struct af_gpu_code *code,
                                      struct anyflash_error *err)
{
    struct af_elf elf;
    enum anyflash_status status = af_elf_open(walk->bytes, walk->name, &elf, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!elf.is_64 || !elf.is_little_endian)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not a 64-bit little-endian ELF file",
                       walk->name);
    if (elf.section_count == 0)
        walk_segments(walk, &elf);
    for (uint32_t i = 0; i < elf.section_count; i++)
        walk_section(walk, &elf, i, code);
    return ANYFLASH_OK;
}

static bool stop_at_first(void *context, const char *name)
{
    (void)name;
    *(bool *)context = true;
    return false;
}

/* Checks cubins so small that they may be empty for kernels. */
static void look_into_small(struct walk *walk)
{
    for (size_t i = 0; i < walk->image_count; i++) {
        struct af_gpu_image *image = &walk->images[i];
        bool found = false;
        if (image->kind != AF_GPU_SASS || image->raw_bytes > MAYBE_EMPTY_BYTES ||
            walk->containers[image->container].is_relocatable)
            continue;
        if (af_gpu_image_kernels(walk->bytes, walk->name, image, stop_at_first, &found, NULL) ==
            ANYFLASH_OK)
            image->has_entry = found ? AF_YES : AF_NO;
    }
}

/* Orders images by target, in the order of output. */
static int compare_targets(const void *a, const void *b)
{
    const struct af_gpu_image *x = *(const struct af_gpu_image *const *)a;
    const struct af_gpu_image *y = *(const struct af_gpu_image *const *)b;
    long order = (long)x->kind - (long)y->kind;
    if (order == 0)
        order = (long)x->kind_number - (long)y->kind_number;
    if (order == 0)
        order = (long)x->sm - (long)y->sm;
    if (order == 0)
        order = (long)x->suffix - (long)y->suffix;
    return (order > 0) - (order < 0);
}

/* The same, then by container. */
static int compare_images(const void *a, const void *b)
{
    const struct af_gpu_image *x = *(const struct af_gpu_image *const *)a;
    const struct af_gpu_image *y = *(const struct af_gpu_image *const *)b;
    int order = compare_targets(a, b);
    return order != 0 ? order : (x->container > y->container) - (x->container < y->container);
}

static void add_to_target(struct af_gpu_target *target, const struct af_gpu_image *image,
                          bool is_new_container)
{
    bool is_newer = image->version_major > target->version_major ||
                    (image->version_major == target->version_major &&
                     image->version_minor > target->version_minor);
    if (image->kind == AF_GPU_PTX && is_newer) {
        target->version_major = image->version_major;
        target->version_minor = image->version_minor;
    }
    target->image_count++;
    target->container_count += is_new_container ? 1 : 0;
    target->lz4_count += image->packing == AF_GPU_LZ4 ? 1 : 0;
    target->zstd_count += image->packing == AF_GPU_ZSTD ? 1 : 0;
    target->stored_bytes += image->stored_bytes;
}

static size_t sum_up(const struct af_gpu_image *const *sorted, size_t count,
                     struct af_gpu_target *targets)
{
    size_t target_count = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_new = i == 0 || compare_targets(&sorted[i - 1], &sorted[i]) != 0;
        if (is_new)
            targets[target_count++] = (struct af_gpu_target){
                .kind = sorted[i]->kind,
                .kind_number = sorted[i]->kind_number,
                .sm = sorted[i]->sm,
                .suffix = sorted[i]->suffix,
            };
        add_to_target(&targets[target_count - 1], sorted[i],
                      is_new || sorted[i - 1]->container != sorted[i]->container);
    }
    return target_count;
}

/* Fills in the targets and counts of `code` from its containers and images. */
static void find_targets(struct af_arena *arena, struct af_gpu_code *code)
{
    size_t count = 0;
    size_t distinct = 0;
    const struct af_gpu_image **sorted =
        af_memory_alloc((code->image_count + 1) * sizeof *sorted);
    for (size_t i = 0; i < code->image_count; i++) {
        const struct af_gpu_image *image = &code->images[i];
        if (code->containers[image->container].is_relocatable)
            code->relocatable_image_count++;
        else if (image->has_entry == AF_NO)
            code->empty_count++;
        else
            sorted[count++] = image;
    }
    for (size_t i = 0; i < code->container_count; i++)
        code->relocatable_container_count += code->containers[i].is_relocatable ? 1 : 0;
    qsort(sorted, count, sizeof *sorted, compare_images);
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || compare_targets(&sorted[i - 1], &sorted[i]) != 0 ? 1 : 0;
    struct af_gpu_target *targets = af_arena_array(arena, distinct, sizeof *targets);
    code->target_count = sum_up(sorted, count, targets);
    code->targets = targets;
    af_memory_free(sorted);
}

/* Why the lists may be incomplete; NULL: they are complete. */
static const char *find_problem(struct af_arena *arena, const struct walk *walk,
                                const struct af_gpu_code *code)
{
    if (walk->is_full)
        return af_arena_format(arena, "more than %u images, or too many false containers",
                               AF_GPU_IMAGES_MAX);
    if (walk->strange_bytes > 0)
        return af_arena_format(
            arena, "%llu bytes from offset %llu on are not GPU code of a known kind",
            (unsigned long long)walk->strange_bytes, (unsigned long long)walk->strange_at);
    if (code->wrapper_count > (int64_t)walk->container_count)
        return af_arena_format(arena, "%lld containers are registered, %zu were found",
                               (long long)code->wrapper_count, walk->container_count);
    return NULL;
}

/* Copies the lists of the walk to *out. */
static void publish(struct af_arena *arena, const struct walk *walk, struct af_gpu_code *code)
{
    struct af_gpu_container *containers =
        af_arena_array(arena, walk->container_count, sizeof *containers);
    struct af_gpu_image *images = af_arena_array(arena, walk->image_count, sizeof *images);
    if (walk->container_count > 0)
        memcpy(containers, walk->containers, walk->container_count * sizeof *containers);
    if (walk->image_count > 0)
        memcpy(images, walk->images, walk->image_count * sizeof *images);
    code->containers = containers;
    code->container_count = walk->container_count;
    code->images = images;
    code->image_count = walk->image_count;
    code->problem = find_problem(arena, walk, code);
    find_targets(arena, code);
}

enum anyflash_status af_gpu_code_read(struct af_arena *arena, struct af_span bytes,
                                      const char *name, bool is_section,
                                      struct af_gpu_code *out, struct anyflash_error *err)
{
    struct walk walk = {.bytes = bytes, .name = name};
    struct af_gpu_code code = {.wrapper_count = -1};
    enum anyflash_status status = ANYFLASH_OK;
    if (is_section)
        walk_range(&walk, 0, bytes.len, false, false);
    else
        status = walk_file(&walk, &code, err);
    if (status == ANYFLASH_OK) {
        look_into_small(&walk);
        publish(arena, &walk, &code);
        *out = code;
    }
    release_walk(&walk);
    return status;
}

const char *af_gpu_target_text(const struct af_gpu_target *target,
                               char text[AF_GPU_TARGET_TEXT])
{
    static const char *const starts[] = {"sm_", "compute_", "lto_"};
    const char suffix[2] = {target->suffix, '\0'};
    if (target->kind == AF_GPU_OTHER)
        snprintf(text, AF_GPU_TARGET_TEXT, "kind %u of %d%s", target->kind_number, target->sm,
                 suffix);
    else
        snprintf(text, AF_GPU_TARGET_TEXT, "%s%d%s", starts[target->kind], target->sm, suffix);
    return text;
}
