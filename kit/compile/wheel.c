/*
 * wheel.c: packs the wheel: flash-attn's Python files, our module with the library, and
 * what describes them.
 *
 * The same inputs give the same bytes: members are sorted and have no time. Sources:
 * APPNOTE.TXT 6.3 (zip), the binary distribution format of packaging.python.org.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "anyflash/anyflash.h"
#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/compile/build_steps.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define MEMBERS_MAX 1024
#define FILE_BYTES_MAX (4u << 20)
#define FOLDER_MAX 4096
#define DATE 0x21 /* 1980-01-01, the first that zip has */
#define MADE_BY_UNIX (3u << 8 | 20u)
#define HEADER_BYTES 30
#define ENTRY_BYTES 46
#define END_BYTES 22
#define UTF8_NAME 0x800
#define MODULE "flash_attn_2_cuda/"

struct member {
    const char *name;
    struct af_span bytes;
    struct af_span packed; /* deflated */
    unsigned mode;
    uint32_t crc, header_at;
    unsigned char header[HEADER_BYTES]; /* its own */
    unsigned char entry[ENTRY_BYTES];   /* in the directory */
};

struct wheel {
    struct af_build *build;
    const struct af_build_place *place;
    struct member members[MEMBERS_MAX];
    size_t count;
    const char *information; /* the name of its dist-info folder, with '/' */
    const char *tag;
    struct anyflash_error *err;
};

static void add(struct wheel *wheel, const char *name, struct af_span bytes, unsigned mode)
{
    if (name != NULL && bytes.data != NULL && wheel->count < MEMBERS_MAX)
        wheel->members[wheel->count++] =
            (struct member){.name = name, .bytes = bytes, .mode = mode};
}

static void add_text(struct wheel *wheel, const char *name, const char *text)
{
    if (text != NULL)
        add(wheel, name, (struct af_span){text, strlen(text)}, 0644);
}

static enum anyflash_status add_file(struct wheel *wheel, const char *name, const char *path)
{
    struct af_span bytes;
    if (name == NULL || path == NULL)
        return af_fail_memory(wheel->err);
    enum anyflash_status status =
        af_file_read(wheel->build->arena, path, FILE_BYTES_MAX, &bytes, wheel->err);
    if (status == ANYFLASH_OK)
        add(wheel, name, bytes, 0644);
    return status;
}

/* A text of the dist-info folder. */
static void add_information(struct wheel *wheel, const char *name, const char *text)
{
    add_text(wheel, af_arena_format(wheel->build->arena, "%s%s", wheel->information, name),
             text);
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
            status = add_file(wheel, inner, file);
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
static void add_module(struct wheel *wheel, const struct af_mapping *library)
{
    static const char start[] = "python/" MODULE;
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        if (af_starts_with(file->name, start))
            add_text(wheel, file->name + strlen("python/"), file->text);
    }
    add(wheel, MODULE "libanyflash_cuda.so",
        (struct af_span){(const char *)library->data, library->len}, 0755);
    add_text(wheel, MODULE "contents.json", contents_of(wheel));
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
                     : af_file_read(arena, path, FILE_BYTES_MAX, &rest, wheel->err);
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
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < AF_COUNT(names) && status == ANYFLASH_OK; i++)
        status = add_file(wheel,
                          af_arena_format(arena, "%slicenses/%s", wheel->information, names[i]),
                          af_path_join(arena, wheel->place->sources, names[i]));
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        if (strcmp(file->name, "LICENSE") == 0)
            add_information(wheel, "licenses/LICENSE.anyflash", file->text);
    }
    return status;
}

static enum anyflash_status collect(struct wheel *wheel, const char *version,
                                    const struct af_mapping *library)
{
    struct af_arena *arena = wheel->build->arena;
    enum anyflash_status status = add_package(wheel, "flash_attn");
    if (status == ANYFLASH_OK)
        status = add_metadata(wheel, version);
    if (status == ANYFLASH_OK)
        status = add_licenses(wheel);
    add_module(wheel, library);
    add_information(wheel, "WHEEL",
                    af_arena_format(arena,
                                    "Wheel-Version: 1.0\nGenerator: anyflash (%s)\n"
                                    "Root-Is-Purelib: false\nTag: %s\n",
                                    anyflash_version_text(), wheel->tag));
    return status == ANYFLASH_OK && arena->failed ? af_fail_memory(wheel->err) : status;
}

/* "sha256=..." as RECORD writes it: URL-safe base64 without padding. */
static void add_hash(struct af_text *out, struct af_span content)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char hex[AF_SHA256_HEX_BYTES];
    unsigned char bytes[AF_SHA256_BYTES + 1] = {0};
    af_sha256_bytes(content, hex);
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
        add_hash(&out, wheel->members[i].bytes);
        af_text_format(&out, ",%zu\n", wheel->members[i].bytes.len);
    }
    af_text_format(&out, "%sRECORD,,\n", wheel->information);
    add_information(wheel, "RECORD", af_arena_text(wheel->build->arena, af_text_get(&out)));
    wheel->build->arena->failed |= out.failed;
    af_text_release(&out);
}

static enum anyflash_status deflate_member(struct wheel *wheel, struct member *member)
{
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)member->bytes.data,
                       .avail_in = (uInt)member->bytes.len};
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return af_fail_memory(wheel->err);
    size_t most = deflateBound(&stream, (uLong)member->bytes.len);
    stream.next_out = af_arena_alloc(wheel->build->arena, most);
    stream.avail_out = (uInt)most;
    member->packed.data = (const char *)stream.next_out;
    if (stream.next_out != NULL)
        deflate(&stream, Z_FINISH); /* there is room for all */
    member->packed.len = most - stream.avail_out;
    deflateEnd(&stream);
    member->crc =
        (uint32_t)crc32_z(0, (const unsigned char *)member->bytes.data, member->bytes.len);
    return member->packed.data == NULL ? af_fail_memory(wheel->err) : ANYFLASH_OK;
}

/* Little-endian numbers of a header. */
static unsigned char *put(unsigned char *at, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *at++ = (unsigned char)(number >> 8 * i);
    return at;
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
    at = put(at, (uint32_t)member->packed.len, 4);
    at = put(at, (uint32_t)member->bytes.len, 4);
    at = put(at, (uint32_t)strlen(member->name), 2);
    return put(at, 0, 2);
}

static void put_headers(struct member *member)
{
    put_common(put(member->header, 0x04034b50, 4), member);
    unsigned char *at = put(member->entry, 0x02014b50, 4);
    at = put_common(put(at, MADE_BY_UNIX, 2), member);
    at = put(put(at, 0, 2), 0, 4); /* comment, disk, internal attributes */
    at = put(at, (0100000u | member->mode) << 16, 4);
    put(at, member->header_at, 4);
}

static void put_end(unsigned char *end, size_t count, uint64_t directory_at,
                    uint64_t directory_bytes)
{
    unsigned char *at = put(put(end, 0x06054b50, 4), 0, 4);
    at = put(put(at, (uint32_t)count, 2), (uint32_t)count, 2);
    at = put(put(at, (uint32_t)directory_bytes, 4), (uint32_t)directory_at, 4);
    put(at, 0, 2);
}

/* Adds a piece of the file; returns the size of the file with it. */
static uint64_t add_piece(struct af_span *pieces, size_t *count, uint64_t at, const void *data,
                          size_t len)
{
    pieces[(*count)++] = (struct af_span){data, len};
    return at + len;
}

/* The archive from members that are deflated. */
static enum anyflash_status write_archive(struct wheel *wheel, const char *path)
{
    struct af_arena *arena = wheel->build->arena;
    struct af_span *pieces = af_arena_array(arena, 5 * wheel->count + 1, sizeof *pieces);
    unsigned char end[END_BYTES];
    size_t count = 0;
    uint64_t at = 0;
    if (pieces == NULL)
        return af_fail_memory(wheel->err);
    for (size_t i = 0; i < wheel->count; i++) {
        struct member *member = &wheel->members[i];
        member->header_at = (uint32_t)at;
        put_headers(member);
        at = add_piece(pieces, &count, at, member->header, HEADER_BYTES);
        at = add_piece(pieces, &count, at, member->name, strlen(member->name));
        at = add_piece(pieces, &count, at, member->packed.data, member->packed.len);
    }
    uint64_t directory_at = at;
    for (size_t i = 0; i < wheel->count; i++) {
        const struct member *member = &wheel->members[i];
        at = add_piece(pieces, &count, at, member->entry, ENTRY_BYTES);
        at = add_piece(pieces, &count, at, member->name, strlen(member->name));
    }
    put_end(end, wheel->count, directory_at, at - directory_at);
    add_piece(pieces, &count, at, end, END_BYTES);
    return at <= UINT32_MAX
               ? af_file_write(arena, path, pieces, count, wheel->err)
               : af_fail(wheel->err, ANYFLASH_E_LIMIT, "the wheel is larger than 4 GiB");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

/* RECORD is last, as the format recommends. */
static enum anyflash_status write_all(struct wheel *wheel, const char *path)
{
    enum anyflash_status status = ANYFLASH_OK;
    qsort(wheel->members, wheel->count, sizeof wheel->members[0], compare_names);
    add_record(wheel);
    for (size_t i = 0; i < wheel->count && status == ANYFLASH_OK; i++)
        status = deflate_member(wheel, &wheel->members[i]);
    if (status == ANYFLASH_OK && wheel->build->arena->failed)
        return af_fail_memory(wheel->err);
    return status == ANYFLASH_OK ? write_archive(wheel, path) : status;
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
    struct af_mapping library;
    enum anyflash_status status = af_folder_make(place->output, 0755, err);
    if (status == ANYFLASH_OK)
        status = af_file_map(place->library, &library, err);
    if (status != ANYFLASH_OK)
        return status;
    status = library.len > UINT32_MAX
                 ? af_fail(err, ANYFLASH_E_LIMIT, "the library is larger than 4 GiB")
                 : collect(wheel, version, &library);
    if (status == ANYFLASH_OK)
        status = write_all(wheel, path);
    af_file_unmap(&library);
    if (status == ANYFLASH_OK)
        *wheel_out = path;
    return status;
}
