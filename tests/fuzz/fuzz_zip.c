/*
 * fuzz_zip.c: any bytes as a zip archive, unchanged and with an end record that
 * fits them, so that the rest is read too. Members are read completely, from
 * their start, and, if they are stored, from the middle.
 */
#include "kit/formats/zip.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define READ_BYTES_MAX (1u << 20)
#define END_BYTES 22u

static void read_member(const struct af_zip *zip, const struct af_zip_member *member)
{
    struct af_arena arena;
    struct af_span whole = {NULL, 0};
    struct af_span start = {NULL, 0};
    af_arena_init(&arena);
    enum anyflash_status status =
        af_zip_read(zip, member, &arena, READ_BYTES_MAX, &whole, NULL);
    if (status == ANYFLASH_OK && whole.len != member->size_bytes)
        abort();
    if (af_zip_read_start(zip, member, &arena, 7, &start, NULL) == ANYFLASH_OK &&
        status == ANYFLASH_OK && memcmp(start.data, whole.data, start.len) != 0)
        abort();
    af_arena_release(&arena);
}

static void read_archive(const uint8_t *data, size_t size)
{
    struct af_zip zip;
    if (af_zip_open((struct af_span){(const char *)data, size}, "fuzz", &zip, NULL) !=
        ANYFLASH_OK)
        return;
    for (size_t i = 0; i < zip.member_count; i++) {
        const struct af_zip_member *member = &zip.members[i];
        if (member->name[0] == '/' || strncmp(member->name, "../", 3) == 0 ||
            strstr(member->name, "/../") != NULL || af_zip_find(&zip, member->name) != member)
            abort();
        read_member(&zip, member);
    }
    af_zip_close(&zip);
}

static void put_number(uint8_t *at, size_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number >> (8 * i));
}

/* A copy with an end record, for a directory that starts at the first entry's signature. */
static void read_repaired(const uint8_t *data, size_t size)
{
    const uint8_t *first = memmem(data, size, "PK\1\2", 4);
    size_t directory_at = first == NULL ? 0 : (size_t)(first - data);
    size_t end_at = directory_at;
    size_t count = 0;
    while (first != NULL && size - end_at >= 46 && memcmp(data + end_at, "PK\1\2", 4) == 0) {
        size_t len = 46u + data[end_at + 28] + data[end_at + 30] + data[end_at + 32];
        if (len > size - end_at)
            break;
        end_at += len;
        count++;
    }
    uint8_t *copy = count == 0 ? NULL : malloc(end_at + END_BYTES);
    if (copy == NULL)
        return;
    memcpy(copy, data, end_at);
    memset(copy + end_at, 0, END_BYTES);
    memcpy(copy + end_at, "PK\5\6", 4);
    put_number(copy + end_at + 8, count, 2);
    put_number(copy + end_at + 10, count, 2);
    put_number(copy + end_at + 12, end_at - directory_at, 4);
    put_number(copy + end_at + 16, directory_at, 4);
    read_archive(copy, end_at + END_BYTES);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_archive(data, size);
    read_repaired(data, size);
    return 0;
}
