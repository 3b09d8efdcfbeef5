/*
 * fatbin_walk.c: containers and images of GPU code, header by header.
 *
 * Container: u32 magic, u16 version, u16 header size, u64 bytes of all images.
 * Image: a header of 64 bytes or more (its size is in it), then the payload;
 * the next image follows at once, and the last ends where the container does.
 * Called by fatbin.c. The layout with its sources: docs/reference/fatbin.md.
 */
#include "kit/formats/fatbin_walk.h"

#include "kit/formats/little.h"

#include <string.h>

#define CONTAINER_MAGIC 0xBA55ED50u
#define CONTAINER_BYTES 16u
#define IMAGE_BYTES 64u
#define HEADER_BYTES_MAX 65536u
#define WRAPPER_MAGIC 0x466243B1u
#define WRAPPER_BYTES 24u
#define SM_MAX 9999u
/* Reads ahead of a header: the next one, in a container of small images. */
#define NEAR_BYTES 512u

/* False containers within containers would else cost the square of the file. */
#define DROPPED_MAX (4u * AF_GPU_IMAGES_MAX)

#define FLAG_DEBUG 0x2u
#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u
#define FLAG_ARCH 0x100000u
#define FLAG_FAMILY 0x200000u

/*
 * The `len` bytes at `at`, of which `ahead` more are fetched if they must be
 * fetched at all; never past `end`.
 */
static enum anyflash_status look(struct af_fatbin_walk *walk, uint64_t at, size_t len,
                                 size_t ahead, uint64_t end, const unsigned char **bytes_out,
                                 struct anyflash_error *err)
{
    if (at < walk->window_at || at - walk->window_at > walk->window_len ||
        len > walk->window_len - (at - walk->window_at)) {
        size_t want = end - at < ahead ? (size_t)(end - at) : ahead;
        want = want < len ? len : want;
        walk->window_len = 0;
        enum anyflash_status status = af_source_read(walk->source, at, walk->window, want, err);
        if (status != ANYFLASH_OK)
            return status;
        walk->window_at = at;
        walk->window_len = want;
    }
    *bytes_out = walk->window + (at - walk->window_at);
    return ANYFLASH_OK;
}

/* Room for one more element; false without memory. */
static bool reserve(void **list, size_t *capacity, size_t count, size_t element_bytes)
{
    size_t bytes;
    if (count < *capacity)
        return true;
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown =
        af_size_mul(wanted, element_bytes, &bytes) ? af_mem_resize(*list, bytes) : NULL;
    if (grown == NULL)
        return false;
    *list = grown;
    *capacity = wanted;
    return true;
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

/* The image of a header at `at`; false when the sizes in it make no sense. */
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
        .is_debug = (flags & FLAG_DEBUG) != 0,
        .has_entry = AF_UNKNOWN,
    };
    *next_out = at + header_bytes + payload_bytes;
    return true;
}

/*
 * Adds the images between `at` and `end`; *exact_out false when they do not end
 * exactly there, and then nothing is added.
 */
static enum anyflash_status read_images(struct af_fatbin_walk *walk, uint64_t at, uint64_t end,
                                        bool *exact_out, struct anyflash_error *err)
{
    size_t before = walk->image_count;
    const unsigned char *header;
    while (end - at >= IMAGE_BYTES && walk->image_count < AF_GPU_IMAGES_MAX) {
        enum anyflash_status status =
            look(walk, at, IMAGE_BYTES, NEAR_BYTES, end, &header, err);
        if (status != ANYFLASH_OK)
            return status;
        if (!reserve((void **)&walk->images, &walk->image_capacity, walk->image_count,
                     sizeof *walk->images))
            return af_fail_memory(err);
        struct af_gpu_image *image = &walk->images[walk->image_count];
        if (!parse_image(header, at, end, image, &at))
            break;
        image->container = (uint32_t)walk->container_count;
        walk->image_count++;
    }
    *exact_out = at == end;
    walk->is_full = walk->image_count == AF_GPU_IMAGES_MAX;
    if (!*exact_out) {
        walk->dropped_count += walk->image_count - before;
        walk->is_full = walk->is_full || walk->dropped_count > DROPPED_MAX;
        walk->image_count = before;
    }
    return ANYFLASH_OK;
}

/* Adds the container at `at`; *end_out is its end, or `at` when there is none. */
static enum anyflash_status read_container(struct af_fatbin_walk *walk, uint64_t at,
                                           uint64_t to, const unsigned char *header,
                                           bool is_relocatable, uint64_t *end_out,
                                           struct anyflash_error *err)
{
    uint32_t header_bytes = af_le16(header + 6);
    uint64_t images_bytes = af_le64(header + 8);
    uint32_t first = (uint32_t)walk->image_count;
    bool exact = false;
    *end_out = at;
    if (af_le32(header) != CONTAINER_MAGIC || header_bytes < CONTAINER_BYTES ||
        header_bytes > to - at || images_bytes > to - at - header_bytes)
        return ANYFLASH_OK;
    uint64_t end = at + header_bytes + images_bytes;
    enum anyflash_status status = read_images(walk, at + header_bytes, end, &exact, err);
    if (status != ANYFLASH_OK || !exact)
        return status;
    if (!reserve((void **)&walk->containers, &walk->container_capacity, walk->container_count,
                 sizeof *walk->containers))
        return af_fail_memory(err);
    walk->containers[walk->container_count++] =
        (struct af_gpu_container){.offset = at,
                                  .image_first = first,
                                  .image_count = (uint32_t)walk->image_count - first,
                                  .is_relocatable = is_relocatable};
    *end_out = end;
    return ANYFLASH_OK;
}

static enum anyflash_status ensure_window(struct af_fatbin_walk *walk,
                                          struct anyflash_error *err)
{
    if (walk->window == NULL)
        walk->window = af_mem_alloc(AF_FATBIN_WINDOW_BYTES);
    return walk->window == NULL ? af_fail_memory(err) : ANYFLASH_OK;
}

static void note_strange(struct af_fatbin_walk *walk, uint64_t at, const unsigned char *bytes)
{
    static const unsigned char zero[8] = {0};
    if (memcmp(bytes, zero, sizeof zero) == 0)
        return;
    if (walk->strange_bytes == 0)
        walk->strange_at = at;
    walk->strange_bytes += sizeof zero;
}

enum anyflash_status af_fatbin_walk_range(struct af_fatbin_walk *walk, uint64_t from,
                                          uint64_t to, bool is_relocatable, bool is_search,
                                          struct anyflash_error *err)
{
    enum anyflash_status status = ensure_window(walk, err);
    size_t ahead = is_search ? AF_FATBIN_WINDOW_BYTES : NEAR_BYTES;
    for (uint64_t at = from;
         status == ANYFLASH_OK && !walk->is_full && at <= to && to - at >= CONTAINER_BYTES;) {
        const unsigned char *header;
        uint64_t end = at;
        status = look(walk, at, CONTAINER_BYTES, ahead, to, &header, err);
        if (status != ANYFLASH_OK)
            break;
        if (!is_search && af_le32(header) != CONTAINER_MAGIC)
            note_strange(walk, at, header);
        else if (af_le32(header) == CONTAINER_MAGIC) {
            status = read_container(walk, at, to, header, is_relocatable, &end, err);
            if (!is_search && end == at) {
                walk->strange_at = walk->strange_bytes == 0 ? at : walk->strange_at;
                walk->strange_bytes += 8;
            }
        }
        at = end > at ? (end + 7) / 8 * 8 : at + 8;
    }
    return status;
}

enum anyflash_status af_fatbin_count_wrappers(struct af_fatbin_walk *walk, uint64_t from,
                                              uint64_t to, int64_t *count_out,
                                              struct anyflash_error *err)
{
    int64_t count = 0;
    enum anyflash_status status = ensure_window(walk, err);
    for (uint64_t at = from; status == ANYFLASH_OK && at <= to && to - at >= WRAPPER_BYTES;
         at += WRAPPER_BYTES) {
        const unsigned char *wrapper;
        status = look(walk, at, WRAPPER_BYTES, AF_FATBIN_WINDOW_BYTES, to, &wrapper, err);
        if (status == ANYFLASH_OK && af_le32(wrapper) == WRAPPER_MAGIC)
            count++;
    }
    *count_out = count;
    return status;
}

void af_fatbin_walk_release(struct af_fatbin_walk *walk)
{
    af_mem_free(walk->containers);
    af_mem_free(walk->images);
    af_mem_free(walk->window);
}
