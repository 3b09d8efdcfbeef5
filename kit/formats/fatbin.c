/*
 * fatbin.c: reads the GPU code of a file: the positions of containers, their
 * images header by header, and small cubins that may be empty. Images are unpacked in
 * fatbin_image.c and summed up by target in fatbin_target.c.
 *
 * Container: u32 magic, u16 version, u16 header size, u64 bytes of all images.
 * Image: a header of 64 bytes or more (it contains its size), then the payload;
 * the next image follows directly, and the last one ends where the container
 * does. Layout and sources: docs/reference/fatbin.md.
 */
#include "kit/formats/fatbin.h"

#include <string.h>

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

/* Larger cubins have a kernel; nvcc's empty ones have half this size. */
#define MAYBE_EMPTY_BYTES 4096u

#define SECTION_LOADED ".nv_fatbin"
#define SECTION_RELOCATABLE "__nv_relfatbin"
#define SECTION_WRAPPERS ".nvFatBinSegment"

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
    af_gpu_targets_find(arena, code);
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
