/*
 * wheel.c: packs the wheel: flash-attn's Python files, our module with the library, and
 * what describes them.
 *
 * The same inputs give the same bytes: members are sorted and have no time. Sources:
 * APPNOTE.TXT 6.3 (zip), the binary distribution format of packaging.python.org.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "anyflash/anyflash.h"
#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/compile/build_steps.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define MEMBERS_MAX 1024
#define PIECE_BYTES 65536u
#define TEXT_BYTES_MAX (4u << 20)
#define FOLDER_MAX 4096
#define DATE 0x21 /* 1980-01-01, the first that zip has */
#define MADE_BY_UNIX (3u << 8 | 20u)
#define HEADER_BYTES 30
#define ENTRY_BYTES 46
#define END_BYTES 22
#define UTF8_NAME 0x800
#define MODULE "flash_attn_2_cuda/"

/* A member: its bytes are a text or a file. */
struct member {
    const char *name;
    const char *text; /* or NULL */
    const char *path;
    unsigned mode;
    uint32_t crc, packed, size, header_at;
    char sha256[AF_SHA256_HEX_BYTES];
};

struct wheel {
    struct af_build *build;
    const struct af_build_place *place;
    struct member members[MEMBERS_MAX];
    size_t count;
    const char *information; /* the name of its dist-info folder, with '/' */
    const char *tag;
    int fd;
    uint64_t at; /* bytes written */
    struct anyflash_error *err;
};

static void add(struct wheel *wheel, const char *name, const char *text, const char *path,
                unsigned mode)
{
    if (name != NULL && (text != NULL || path != NULL) && wheel->count < MEMBERS_MAX)
        wheel->members[wheel->count++] =
            (struct member){.name = name, .text = text, .path = path, .mode = mode};
}

/* A text of the dist-info folder. */
static void add_information(struct wheel *wheel, const char *name, const char *text)
{
    add(wheel, af_arena_format(wheel->build->arena, "%s%s", wheel->information, name), text,
        NULL, 0644);
}

const char *af_build_local_version(const struct af_build *build,
                                   const struct af_build_place *place)
{
    return af_arena_format(build->arena, "any.cu%.*s.%s",
                           (int)strcspn(place->cuda_version, "."), place->cuda_version,
                           af_selection_local(&build->selection, build->arena));
}

/* flash-attn's own package: the Python files of the folder and those below it. */
static enum anyflash_status add_package(struct wheel *wheel, const char *folder)
{
    struct af_arena *arena = wheel->build->arena;
    const char **names;
    size_t count;
    const char *path = af_path_join(arena, wheel->place->sources, folder);
    enum anyflash_status status = path == NULL ? af_fail_memory(wheel->err)
                                               : af_folder_list(arena, path, FOLDER_MAX, &names,
                                                                &count, NULL, wheel->err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *inner = af_arena_format(arena, "%s/%s", folder, names[i]);
        const char *file = af_path_join(arena, path, names[i]);
        if (inner == NULL || file == NULL)
            return af_fail_memory(wheel->err);
        if (af_file_is_folder(file))
            status = add_package(wheel, inner);
        else if (af_ends_with(inner, ".py"))
            add(wheel, inner, NULL, file, 0644);
    }
    return status;
}

static json_t *strings(const char *text, char separator)
{
    json_t *list = json_array();
    while (*text != '\0') {
        const char *end = strchr(text, separator);
        size_t len = end == NULL ? strlen(text) : (size_t)(end - text);
        list = af_json_append(list, json_stringn(text, len));
        text += len + (end != NULL);
    }
    return list;
}

static json_t *numbers(const int *numbers_in, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = af_json_append(list, json_integer(numbers_in[i]));
    return list;
}

/* contents.json: what the library was made of, for people and programs. */
static const char *contents_of(const struct wheel *wheel)
{
    const struct af_selection *selection = &wheel->build->selection;
    struct af_arena *arena = wheel->build->arena;
    int sizes[AF_SELECTION_HEAD_DIMS];
    size_t count = af_selection_head_dims(selection, sizes);
    const char *features = af_selection_features(selection, arena);
    bool none = features == NULL || strcmp(features, "none") == 0;
    const char *types = selection->dtypes == AF_SELECTION_BF16   ? "bf16"
                        : selection->dtypes == AF_SELECTION_FP16 ? "fp16"
                                                                 : "bf16,fp16";
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:s?}", "schema",
                  "anyflash-cuda-contents/1", "flash_attn", wheel->build->version, "anyflash",
                  anyflash_version_text(), "cuda", wheel->place->cuda_version, "targets",
                  numbers(selection->archs, selection->arch_count), "head_dims",
                  numbers(sizes, count), "dtypes", strings(types, ','), "features",
                  strings(none ? "" : features, ','), "backward", selection->backward,
                  "build_options", af_selection_options(selection, arena));
    char *text = json == NULL ? NULL : json_dumps(json, JSON_INDENT(1));
    const char *copy = text == NULL ? NULL : af_arena_format(arena, "%s\n", text);
    arena->failed |= copy == NULL;
    af_mem_free(text);
    json_decref(json);
    return copy;
}

/* Our module: the Python files of the glue, the library, and what it contains. */
static void add_module(struct wheel *wheel)
{
    static const char start[] = "python/" MODULE;
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        if (af_starts_with(file->name, start))
            add(wheel, file->name + strlen("python/"), file->text, NULL, 0644);
    }
    add(wheel, MODULE "libanyflash_cuda.so", NULL, wheel->place->library, 0755);
    add(wheel, MODULE "contents.json", contents_of(wheel), NULL, 0644);
}

static bool is_replaced(struct af_span line)
{
    static const char *const starts[] = {"Name:", "Version:", "Dynamic:", "License-File:"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (line.len >= strlen(starts[i]) &&
            memcmp(line.data, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

/* METADATA from upstream's PKG-INFO, with this build's version and a line about it. */
static enum anyflash_status add_metadata(struct wheel *wheel, const char *version)
{
    struct af_arena *arena = wheel->build->arena;
    struct af_text out = {0};
    struct af_span rest;
    struct af_span line;
    const char *path = af_path_join(arena, wheel->place->sources, "PKG-INFO");
    enum anyflash_status status =
        path == NULL ? af_fail_memory(wheel->err)
                     : af_file_read(arena, path, TEXT_BYTES_MAX, &rest, wheel->err);
    if (status != ANYFLASH_OK)
        return status;
    while (af_text_line(&rest, &line) && line.len > 0) {
        if (!is_replaced(line))
            af_text_format(&out, "%.*s\n", (int)line.len, line.data);
    }
    af_text_format(&out,
                   "Name: flash-attn\nVersion: %s\nLicense-File: LICENSE\n"
                   "License-File: AUTHORS\nLicense-File: LICENSE.anyflash\n\n"
                   "flash-attn %s built by anyflash %s from its published sources, for every "
                   "torch from 2.4 on: %s.\n\n%.*s",
                   version, wheel->build->version, anyflash_version_text(),
                   af_selection_text(&wheel->build->selection, arena), (int)rest.len,
                   rest.len == 0 ? "" : rest.data);
    add_information(wheel, "METADATA", af_arena_text(arena, af_text_get(&out)));
    arena->failed |= out.failed;
    af_text_release(&out);
    return ANYFLASH_OK;
}

static enum anyflash_status add_licenses(struct wheel *wheel)
{
    static const char *const names[] = {"LICENSE", "AUTHORS"};
    struct af_arena *arena = wheel->build->arena;
    for (size_t i = 0; i < AF_COUNT(names); i++)
        add(wheel, af_arena_format(arena, "%slicenses/%s", wheel->information, names[i]), NULL,
            af_path_join(arena, wheel->place->sources, names[i]), 0644);
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        if (strcmp(file->name, "LICENSE") == 0)
            add_information(wheel, "licenses/LICENSE.anyflash", file->text);
    }
    return arena->failed ? af_fail_memory(wheel->err) : ANYFLASH_OK;
}

static enum anyflash_status collect(struct wheel *wheel, const char *version)
{
    struct af_arena *arena = wheel->build->arena;
    enum anyflash_status status = add_package(wheel, "flash_attn");
    if (status == ANYFLASH_OK)
        status = add_metadata(wheel, version);
    if (status == ANYFLASH_OK)
        status = add_licenses(wheel);
    add_module(wheel);
    add_information(wheel, "WHEEL",
                    af_arena_format(arena,
                                    "Wheel-Version: 1.0\nGenerator: anyflash (%s)\n"
                                    "Root-Is-Purelib: false\nTag: %s\n",
                                    anyflash_version_text(), wheel->tag));
    return status == ANYFLASH_OK && arena->failed ? af_fail_memory(wheel->err) : status;
}

/* Little-endian numbers of a header. */
static unsigned char *put(unsigned char *at, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *at++ = (unsigned char)(number >> 8 * i);
    return at;
}

static enum anyflash_status fail_write(struct wheel *wheel)
{
    return af_fail(wheel->err, ANYFLASH_E_IO, "cannot write the wheel to '%s': %s",
                   wheel->place->output, strerror(errno));
}

static enum anyflash_status write_at(struct wheel *wheel, uint64_t at, const void *bytes,
                                     size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t put_now =
            pwrite(wheel->fd, (const char *)bytes + done, len - done, (off_t)(at + done));
        if (put_now < 0 && errno == EINTR)
            continue;
        if (put_now <= 0)
            return fail_write(wheel);
        done += (size_t)put_now;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status append(struct wheel *wheel, const void *bytes, size_t len)
{
    enum anyflash_status status = write_at(wheel, wheel->at, bytes, len);
    wheel->at += len;
    return wheel->at <= UINT32_MAX
               ? status
               : af_fail(wheel->err, ANYFLASH_E_LIMIT, "the wheel is larger than 4 GiB");
}

/* The part that a member's own header and its entry in the directory share. */
static unsigned char *put_common(unsigned char *at, const struct member *member)
{
    at = put(at, 20, 2); /* needs version 2.0 */
    at = put(at, UTF8_NAME, 2);
    at = put(at, Z_DEFLATED, 2);
    at = put(at, 0, 2);
    at = put(at, DATE, 2);
    at = put(at, member->crc, 4);
    at = put(at, member->packed, 4);
    at = put(at, member->size, 4);
    at = put(at, (uint32_t)strlen(member->name), 2);
    return put(at, 0, 2);
}

static enum anyflash_status write_header(struct wheel *wheel, const struct member *member,
                                         uint64_t at)
{
    unsigned char header[HEADER_BYTES];
    put_common(put(header, 0x04034b50, 4), member);
    return write_at(wheel, at, header, sizeof header);
}

/* Appends the deflated bytes. */
static enum anyflash_status deflate_all(struct wheel *wheel, struct af_span bytes)
{
    unsigned char piece[PIECE_BYTES];
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)bytes.data,
                       .avail_in = (uInt)bytes.len};
    enum anyflash_status status = ANYFLASH_OK;
    int result = Z_OK;
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return af_fail_memory(wheel->err);
    while (status == ANYFLASH_OK && result != Z_STREAM_END) {
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        result = deflate(&stream, Z_FINISH);
        status = append(wheel, piece, sizeof piece - stream.avail_out);
    }
    deflateEnd(&stream);
    return status;
}

static enum anyflash_status write_bytes(struct wheel *wheel, struct member *member,
                                        struct af_span bytes)
{
    if (bytes.len > UINT32_MAX)
        return af_fail(wheel->err, ANYFLASH_E_LIMIT, "'%s' is larger than 4 GiB", member->name);
    member->header_at = (uint32_t)wheel->at;
    member->size = (uint32_t)bytes.len;
    member->crc = (uint32_t)crc32_z(0, (const unsigned char *)bytes.data, bytes.len);
    af_sha256_bytes(bytes, member->sha256);
    wheel->at += HEADER_BYTES;
    enum anyflash_status status = append(wheel, member->name, strlen(member->name));
    uint64_t start = wheel->at;
    if (status == ANYFLASH_OK)
        status = deflate_all(wheel, bytes);
    member->packed = (uint32_t)(wheel->at - start);
    return status == ANYFLASH_OK ? write_header(wheel, member, member->header_at) : status;
}

static enum anyflash_status write_member(struct wheel *wheel, struct member *member)
{
    struct af_mapping mapping;
    if (member->text != NULL)
        return write_bytes(wheel, member, (struct af_span){member->text, strlen(member->text)});
    enum anyflash_status status = af_file_map(member->path, &mapping, wheel->err);
    if (status != ANYFLASH_OK)
        return status;
    status =
        write_bytes(wheel, member, (struct af_span){(const char *)mapping.data, mapping.len});
    af_file_unmap(&mapping);
    return status;
}

/* "sha256=..." as RECORD writes it: URL-safe base64 without padding. */
static void add_hash(struct af_text *out, const char *hex)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char bytes[AF_SHA256_BYTES + 1] = {0};
    af_sha256_from_hex(hex, bytes);
    for (size_t bit = 0; bit < AF_SHA256_BYTES * 8; bit += 6) {
        unsigned pair = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];
        af_text_add_n(out, &digits[pair >> (10 - bit % 8) & 63], 1);
    }
}

static void add_record(struct wheel *wheel)
{
    struct af_text out = {0};
    for (size_t i = 0; i < wheel->count; i++) {
        af_text_format(&out, "%s,sha256=", wheel->members[i].name);
        add_hash(&out, wheel->members[i].sha256);
        af_text_format(&out, ",%u\n", (unsigned)wheel->members[i].size);
    }
    af_text_format(&out, "%sRECORD,,\n", wheel->information);
    add_information(wheel, "RECORD", af_arena_text(wheel->build->arena, af_text_get(&out)));
    wheel->build->arena->failed |= out.failed;
    af_text_release(&out);
}

static enum anyflash_status write_directory(struct wheel *wheel)
{
    unsigned char bytes[ENTRY_BYTES];
    uint64_t start = wheel->at;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < wheel->count && status == ANYFLASH_OK; i++) {
        const struct member *member = &wheel->members[i];
        unsigned char *at = put(bytes, 0x02014b50, 4);
        at = put_common(put(at, MADE_BY_UNIX, 2), member);
        at = put(put(at, 0, 2), 0, 4); /* comment, disk, internal attributes */
        at = put(at, (0100000u | member->mode) << 16, 4);
        put(at, member->header_at, 4);
        status = append(wheel, bytes, ENTRY_BYTES);
        if (status == ANYFLASH_OK)
            status = append(wheel, member->name, strlen(member->name));
    }
    if (status != ANYFLASH_OK)
        return status;
    unsigned char *at = put(put(bytes, 0x06054b50, 4), 0, 4);
    at = put(put(at, (uint32_t)wheel->count, 2), (uint32_t)wheel->count, 2);
    at = put(put(at, (uint32_t)(wheel->at - start), 4), (uint32_t)start, 4);
    put(at, 0, 2);
    return append(wheel, bytes, END_BYTES);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

/* The dist-info folder is last, RECORD at its end, as the format recommends. */
static enum anyflash_status write_all(struct wheel *wheel)
{
    enum anyflash_status status = ANYFLASH_OK;
    qsort(wheel->members, wheel->count, sizeof wheel->members[0], compare_names);
    for (size_t i = 0; i < wheel->count && status == ANYFLASH_OK; i++)
        status = write_member(wheel, &wheel->members[i]);
    if (status != ANYFLASH_OK)
        return status;
    add_record(wheel);
    if (wheel->build->arena->failed)
        return af_fail_memory(wheel->err);
    status = write_member(wheel, &wheel->members[wheel->count - 1]);
    if (status == ANYFLASH_OK)
        status = write_directory(wheel);
    return status == ANYFLASH_OK && fsync(wheel->fd) != 0 ? fail_write(wheel) : status;
}

/* Writes it under another name first, so that a wheel with its name is complete. */
static enum anyflash_status write_file(struct wheel *wheel, const char *path)
{
    const char *staged = af_arena_format(wheel->build->arena, "%s" AF_GOVERN_NEW, path);
    if (staged == NULL)
        return af_fail_memory(wheel->err);
    wheel->fd = open(staged, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (wheel->fd < 0)
        return fail_write(wheel);
    enum anyflash_status status = write_all(wheel);
    close(wheel->fd);
    if (status == ANYFLASH_OK && rename(staged, path) != 0)
        status = fail_write(wheel);
    if (status != ANYFLASH_OK)
        unlink(staged);
    return status;
}

enum anyflash_status af_build_pack(struct af_build *build, const struct af_build_place *place,
                                   int glibc, const char **wheel_out,
                                   struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    struct wheel *wheel = af_arena_alloc(arena, sizeof *wheel);
    const char *version =
        af_arena_format(arena, "%s+%s", build->version, af_build_local_version(build, place));
    const char *tag =
        af_arena_format(arena, "py3-none-manylinux_2_%d_%s", glibc,
                        af_fact_text_or(&build->machine->platform.arch, "x86_64"));
    const char *path =
        af_arena_format(arena, "%s/flash_attn-%s-%s.whl", place->output, version, tag);
    const char *information = af_arena_format(arena, "flash_attn-%s.dist-info/", version);
    if (wheel == NULL || arena->failed)
        return af_fail_memory(err);
    *wheel = (struct wheel){
        .build = build, .place = place, .information = information, .tag = tag, .err = err};
    enum anyflash_status status = af_folder_make(place->output, 0755, err);
    if (status == ANYFLASH_OK)
        status = collect(wheel, version);
    if (status == ANYFLASH_OK)
        status = write_file(wheel, path);
    if (status == ANYFLASH_OK)
        *wheel_out = path;
    return status;
}
