/*
 * pack.c: reads the file with the kernels. Its index is text; names point into it.
 */
#include "engine/gpu/pack.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#include <unistd.h>
#endif

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "engine/gpu/params.h"

#define MAGIC "afkern1\n"
#define MAGIC_BYTES 8
#define HEAD_BYTES 48 /* the magic, the bytes of the index, their SHA-256 */
#define INDEX_BYTES_MAX (16u << 20)
#define INDEX_TEXT_BYTES_MAX (64u << 20)
#define FAMILY_BYTES_MAX (64u << 20)
#define WORDS_MAX 8
#define MODULE_BYTES_MAX (32u << 20)

struct family {
    uint64_t offset, bytes, raw_bytes;
};

struct kernel_row {
    const char *name, *pieces; /* "OFFSET:LENGTH OFFSET:LENGTH ..." */
    uint32_t family;
};

struct af_pack {
    FILE *file;
    pthread_mutex_t lock; /* of the file's position */
    uint64_t file_bytes;
    char *path, *text; /* the index, its words ended by NUL */
    const char *release, *maker;
    int ptx_version; /* as 10 * major + minor */
    uint32_t members;
    struct family *families;
    struct kernel_row *kernels;
    uint32_t family_count, kernel_count;
    uint64_t behind_index; /* where the families begin */
};

static enum anyflash_status fail_damaged(const struct af_pack *pack, const char *why,
                                         struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s' is not a usable pack of kernels: %s", pack->path,
                   why);
}

static enum anyflash_status read_at(struct af_pack *pack, uint64_t offset, void *bytes,
                                    uint64_t count, struct anyflash_error *err)
{
    pthread_mutex_lock(&pack->lock);
    bool done = offset <= LONG_MAX && fseek(pack->file, (long)offset, SEEK_SET) == 0 &&
                fread(bytes, 1, count, pack->file) == count;
    pthread_mutex_unlock(&pack->lock);
    return done
               ? ANYFLASH_OK
               : af_fail(err, ANYFLASH_E_IO, "cannot read '%s': it ends too early", pack->path);
}

/* One frame of zstd, as text that ends with NUL. */
static enum anyflash_status unpack(struct af_pack *pack, uint64_t offset, uint64_t bytes,
                                   uint64_t raw_max, char **text_out, uint64_t *len_out,
                                   struct anyflash_error *err)
{
    char *packed = af_mem_alloc((size_t)bytes);
    char *text = NULL;
    enum anyflash_status status =
        packed == NULL ? af_fail_memory(err) : read_at(pack, offset, packed, bytes, err);
    const unsigned long long raw =
        status == ANYFLASH_OK ? ZSTD_getFrameContentSize(packed, (size_t)bytes) : 0;
    if (status == ANYFLASH_OK && raw > raw_max) /* or unknown, or no frame */
        status = fail_damaged(pack, "a part of it is no zstd frame", err);
    if (status == ANYFLASH_OK)
        text = af_mem_alloc((size_t)raw + 1);
    if (status == ANYFLASH_OK && text == NULL)
        status = af_fail_memory(err);
    if (status == ANYFLASH_OK &&
        ZSTD_decompress(text, (size_t)raw, packed, (size_t)bytes) != raw)
        status = fail_damaged(pack, "a part of it does not decompress", err);
    af_mem_free(packed);
    if (status != ANYFLASH_OK) {
        af_mem_free(text);
        return status;
    }
    text[raw] = '\0';
    *text_out = text;
    *len_out = raw;
    return ANYFLASH_OK;
}

/* A decimal number that ends where the text or `end` does. */
static bool read_number(const char **at, char end, uint64_t *number_out)
{
    char *after;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    *number_out = strtoull(*at, &after, 10);
    if (errno != 0 || (*after != end && *after != '\0'))
        return false;
    *at = *after == '\0' ? after : after + 1;
    return true;
}

static bool is_number(const char *word, uint64_t *number_out)
{
    return read_number(&word, '\0', number_out);
}

static const char *read_struct(const char *const *words)
{
    uint64_t size;
    bool backward = strcmp(words[1], "backward") == 0;
    size_t ours =
        backward ? sizeof(struct af_launch_backward) : sizeof(struct af_launch_forward);
    if (!is_number(words[2], &size) || size != ours)
        return "its parameters have another size";
    return NULL;
}

static const char *read_member(struct af_pack *pack, const char *const *words)
{
    uint64_t offset, size;
    for (unsigned i = 0; i < af_launch_member_count; i++) {
        const struct af_launch_member *member = &af_launch_members[i];
        if (strcmp(member->name, words[1]) != 0)
            continue;
        pack->members++;
        return is_number(words[2], &offset) && is_number(words[3], &size) &&
                       offset == member->offset && size == member->size
                   ? NULL
                   : "a parameter lies elsewhere";
    }
    return "it has a parameter that is not known";
}

static const char *read_family(struct af_pack *pack, const char *const *words)
{
    uint64_t number;
    struct family *family = &pack->families[pack->family_count];
    if (!is_number(words[1], &number) || number != pack->family_count ||
        !is_number(words[2], &family->offset) || !is_number(words[3], &family->bytes) ||
        !is_number(words[4], &family->raw_bytes))
        return "a family has no numbers";
    if (family->offset > pack->file_bytes - pack->behind_index ||
        family->bytes > pack->file_bytes - pack->behind_index - family->offset ||
        family->raw_bytes > FAMILY_BYTES_MAX)
        return "it is cut short";
    family->offset += pack->behind_index;
    pack->family_count++;
    return NULL;
}

static const char *read_kernel(struct af_pack *pack, const char *const *words)
{
    uint64_t family;
    struct kernel_row *row = &pack->kernels[pack->kernel_count];
    if (!is_number(words[2], &family) || family >= pack->family_count)
        return "a kernel has no family";
    if (pack->kernel_count > 0 && strcmp(row[-1].name, words[1]) >= 0)
        return "its kernels are not sorted";
    *row = (struct kernel_row){words[1], words[3], (uint32_t)family};
    pack->kernel_count++;
    return NULL;
}

static const char *read_ptx(struct af_pack *pack, const char *word)
{
    char *after;
    const long major = strtol(word, &after, 10);
    const long minor = *after == '.' ? strtol(after + 1, &after, 10) : -1;
    if (*after != '\0' || major < 1 || major > 99 || minor < 0 || minor > 9)
        return "its version of PTX is not a number";
    pack->ptx_version = (int)(10 * major + minor);
    return NULL;
}

/* What is wrong with a line of the index, or NULL. Other words may be added later. */
static const char *read_line(struct af_pack *pack, const char *const *words, int count)
{
    if (strcmp(words[0], "kernel") == 0)
        return count == 4 ? read_kernel(pack, words) : "a kernel has no pieces";
    if (strcmp(words[0], "family") == 0)
        return count == 6 ? read_family(pack, words) : "a family is cut short";
    if (strcmp(words[0], "member") == 0)
        return count == 4 ? read_member(pack, words) : "a parameter has no place";
    if (strcmp(words[0], "struct") == 0)
        return count == 3 ? read_struct(words) : "its parameters have no size";
    if (strcmp(words[0], "ptx") == 0 && count > 1)
        return read_ptx(pack, words[1]);
    if (strcmp(words[0], "flash-attn") == 0 && count > 1)
        pack->release = words[1];
    if (strcmp(words[0], "made") == 0 && count > 1)
        pack->maker = words[1];
    return NULL;
}

/* Ends each word of the line at `*at` with NUL; `*at` is then the next line. */
static int split_line(char **at, const char *words[WORDS_MAX])
{
    int count = 0;
    char *line = *at, *end = strchr(line, '\n');
    *at = end == NULL ? line + strlen(line) : end + 1;
    if (end != NULL)
        *end = '\0';
    while (count < WORDS_MAX) {
        words[count++] = line;
        line = strchr(line, '\t');
        if (line == NULL)
            break;
        *line++ = '\0';
    }
    return count;
}

/* How many lines begin with `word`. */
static uint32_t count_lines(const char *text, const char *word)
{
    uint32_t count = 0;
    const size_t len = strlen(word);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, word, len) == 0;
    }
    return count;
}

static enum anyflash_status read_index(struct af_pack *pack, struct anyflash_error *err)
{
    const char *words[WORDS_MAX], *why = NULL;
    pack->families =
        af_mem_alloc((count_lines(pack->text, "family\t") + 1) * sizeof *pack->families);
    pack->kernels =
        af_mem_alloc((count_lines(pack->text, "kernel\t") + 1) * sizeof *pack->kernels);
    if (pack->families == NULL || pack->kernels == NULL)
        return af_fail_memory(err);
    for (char *at = pack->text; *at != '\0' && why == NULL;) {
        const int count = split_line(&at, words);
        why = read_line(pack, words, count);
    }
    if (why == NULL && pack->members != af_launch_member_count)
        why = "a parameter is missing";
    if (why == NULL && (pack->release == NULL || pack->maker == NULL || pack->ptx_version == 0))
        why = "it does not say what made it";
    return why == NULL ? ANYFLASH_OK : fail_damaged(pack, why, err);
}

static const char here; /* an address of this library */

void af_pack_find_library(char path[AF_PACK_PATH_BYTES])
{
    path[0] = '\0';
#ifdef _WIN32
    HMODULE module;
    if (GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                               GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                           &here, &module) &&
        GetModuleFileNameA(module, path, AF_PACK_PATH_BYTES) == AF_PACK_PATH_BYTES)
        path[0] = '\0'; /* cut */
#else
    Dl_info info;
    if (dladdr((const void *)&here, &info) != 0 && info.dli_fname != NULL &&
        strlen(info.dli_fname) < AF_PACK_PATH_BYTES)
        memcpy(path, info.dli_fname, strlen(info.dli_fname) + 1);
#endif
}

#ifndef _WIN32
/* Whose code runs in this process anyway. */
static bool is_trusted(uid_t owner)
{
    char path[AF_PACK_PATH_BYTES];
    struct stat facts;
    af_pack_find_library(path);
    return owner == geteuid() || owner == 0 ||
           (path[0] != '\0' && stat(path, &facts) == 0 && owner == facts.st_uid);
}
#endif

/* Its code runs in this process's GPU context: nobody else may have written it. */
static enum anyflash_status check_owner(struct af_pack *pack, struct anyflash_error *err)
{
    struct stat facts;
    if (fstat(fileno(pack->file), &facts) != 0 || !S_ISREG(facts.st_mode))
        return af_fail(err, ANYFLASH_E_IO, "'%s' is not a regular file", pack->path);
    pack->file_bytes = (uint64_t)facts.st_size;
#ifndef _WIN32
    if (!is_trusted(facts.st_uid))
        return af_fail(err, ANYFLASH_E_IO, "'%s' belongs to another user", pack->path);
    if ((facts.st_mode & S_IWOTH) != 0)
        return af_fail(err, ANYFLASH_E_IO,
                       "other users may write to '%s': remove that permission (chmod o-w)",
                       pack->path);
#endif
    return ANYFLASH_OK;
}

static enum anyflash_status open_file(struct af_pack *pack, const char *path,
                                      struct anyflash_error *err)
{
    unsigned char head[HEAD_BYTES];
    uint64_t bytes = 0, len;
    pack->path = af_mem_alloc(strlen(path) + 1);
    if (pack->path == NULL)
        return af_fail_memory(err);
    memcpy(pack->path, path, strlen(path) + 1);
    pack->file = fopen(path, "rb");
    if (pack->file == NULL)
        return af_fail(err, errno == ENOENT ? ANYFLASH_E_NOT_FOUND : ANYFLASH_E_IO,
                       "cannot open '%s': %s", path, strerror(errno));
    enum anyflash_status status = check_owner(pack, err);
    if (status == ANYFLASH_OK)
        status = read_at(pack, 0, head, sizeof head, err);
    if (status == ANYFLASH_OK && memcmp(head, MAGIC, MAGIC_BYTES) != 0)
        status = fail_damaged(pack, "it does not begin like one", err);
    for (int i = 0; status == ANYFLASH_OK && i < 8; i++)
        bytes |= (uint64_t)head[MAGIC_BYTES + i] << 8 * i;
    if (status == ANYFLASH_OK &&
        (bytes > INDEX_BYTES_MAX || bytes > pack->file_bytes - HEAD_BYTES))
        status = fail_damaged(pack, "it is cut short", err);
    pack->behind_index = HEAD_BYTES + bytes;
    if (status == ANYFLASH_OK)
        status = unpack(pack, HEAD_BYTES, bytes, INDEX_TEXT_BYTES_MAX, &pack->text, &len, err);
    return status == ANYFLASH_OK ? read_index(pack, err) : status;
}

enum anyflash_status af_pack_open(const char *path, struct af_pack **pack_out,
                                  struct anyflash_error *err)
{
    struct af_pack *pack = af_mem_alloc(sizeof *pack);
    if (pack == NULL)
        return af_fail_memory(err);
    memset(pack, 0, sizeof *pack);
    pthread_mutex_init(&pack->lock, NULL);
    enum anyflash_status status = open_file(pack, path, err);
    if (status != ANYFLASH_OK) {
        af_pack_close(pack);
        return status;
    }
    *pack_out = pack;
    return ANYFLASH_OK;
}

void af_pack_close(struct af_pack *pack)
{
    if (pack == NULL)
        return;
    if (pack->file != NULL)
        fclose(pack->file);
    pthread_mutex_destroy(&pack->lock);
    af_mem_free(pack->families);
    af_mem_free(pack->kernels);
    af_mem_free(pack->text);
    af_mem_free(pack->path);
    af_mem_free(pack);
}

const char *af_pack_path(const struct af_pack *pack)
{
    return pack->path;
}

const char *af_pack_release(const struct af_pack *pack)
{
    return pack->release;
}

const char *af_pack_maker(const struct af_pack *pack)
{
    return pack->maker;
}

/* PTX 7.0 came with CUDA 11.0, 8.0 with 12.0: until 9.0 the minor versions agree, too. */
int af_pack_cuda_version(const struct af_pack *pack)
{
    return (pack->ptx_version / 10 + 4) * 1000 + pack->ptx_version % 10 * 10;
}

static int compare(const void *name, const void *row)
{
    return strcmp(name, ((const struct kernel_row *)row)->name);
}

static const struct kernel_row *find(const struct af_pack *pack, const char *name)
{
    return bsearch(name, pack->kernels, pack->kernel_count, sizeof *pack->kernels, compare);
}

bool af_pack_has(const struct af_pack *pack, const char *name)
{
    return find(pack, name) != NULL;
}

size_t af_pack_count(const struct af_pack *pack)
{
    return pack->kernel_count;
}

const char *af_pack_name(const struct af_pack *pack, size_t at)
{
    return pack->kernels[at].name;
}

/* Copies the pieces to `ptx`, or only counts their bytes; false: they are not in the text. */
static bool join(const char *pieces, const char *text, uint64_t len, char *ptx,
                 uint64_t *bytes_out)
{
    uint64_t offset, length, bytes = 0;
    for (const char *at = pieces; *at != '\0';) {
        if (!read_number(&at, ':', &offset) || !read_number(&at, ' ', &length) ||
            offset > len || length > len - offset || length > MODULE_BYTES_MAX - bytes)
            return false;
        if (ptx != NULL)
            memcpy(ptx + bytes, text + offset, length);
        bytes += length;
    }
    *bytes_out = bytes;
    return true;
}

enum anyflash_status af_pack_module(struct af_pack *pack, const char *name, char **ptx_out,
                                    struct anyflash_error *err)
{
    const struct kernel_row *row = find(pack, name);
    char *text = NULL, *ptx = NULL;
    uint64_t len = 0, bytes = 0;
    if (row == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' has no kernel '%s'; `anyflash build` makes a wheel with more",
                       pack->path, name);
    const struct family *family = &pack->families[row->family];
    enum anyflash_status status =
        unpack(pack, family->offset, family->bytes, FAMILY_BYTES_MAX, &text, &len, err);
    if (status == ANYFLASH_OK && !join(row->pieces, text, len, NULL, &bytes))
        status = fail_damaged(pack, "a kernel's pieces lie outside their family", err);
    if (status == ANYFLASH_OK) {
        ptx = af_mem_alloc((size_t)bytes + 1);
        status = ptx == NULL ? af_fail_memory(err) : ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK) {
        join(row->pieces, text, len, ptx, &bytes);
        ptx[bytes] = '\0';
        *ptx_out = ptx;
    }
    af_mem_free(text);
    return status;
}
