/*
 * print_zip.c: reads archives from standard input, each after its length in 8 bytes (little
 * endian), and prints for each one line of JSON: the CRC-32 of what each member was unpacked
 * to, by name, or null if the archive is refused. With an argument it writes, each after its
 * length, the archives that are not refused as af_zip_write_again() makes them.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "kit/formats/little.h"
#include "kit/formats/zip.h"

#define MEMBER_BYTES_MAX (1u << 20)

/* NULL if a member cannot be read. */
static json_t *members_of(const struct af_zip *zip)
{
    json_t *found = json_object();
    struct af_arena arena;
    af_arena_init(&arena);
    for (size_t i = 0; found != NULL && i < zip->member_count; i++) {
        const struct af_zip_member *member = &zip->members[i];
        struct af_span bytes;
        if (af_zip_read(zip, member, &arena, MEMBER_BYTES_MAX, &bytes, NULL) == ANYFLASH_OK) {
            uLong crc = crc32(0, (const Bytef *)bytes.data, (uInt)bytes.len);
            json_object_set_new(found, member->name, json_integer((json_int_t)crc));
        } else {
            json_decref(found);
            found = NULL;
        }
    }
    af_arena_release(&arena);
    return found;
}

static int write_again(const struct af_zip *zip)
{
    struct af_arena arena;
    const struct af_span *pieces;
    size_t count = 0;
    uint64_t len = 0;
    af_arena_init(&arena);
    const bool good = af_zip_write_again(zip, &arena, &pieces, &count, NULL) == ANYFLASH_OK;
    for (size_t i = 0; good && i < count; i++)
        len += pieces[i].len;
    for (int i = 0; good && i < 8; i++)
        putchar((int)(len >> 8 * i & 0xff));
    for (size_t i = 0; good && i < count; i++)
        fwrite(pieces[i].data, 1, pieces[i].len, stdout);
    af_arena_release(&arena);
    return good ? 0 : 1;
}

static void print(json_t *found)
{
    char *line =
        json_dumps(found != NULL ? found : json_null(), JSON_SORT_KEYS | JSON_ENCODE_ANY);
    puts(line);
    free(line);
}

int main(int argc, char **argv)
{
    unsigned char length[8];
    int failed = 0;
    (void)argv;
    while (fread(length, sizeof length, 1, stdin) == 1) {
        const size_t len = (size_t)af_le64(length);
        char *bytes = malloc(len + 1); /* so that AddressSanitizer sees its end */
        struct af_zip zip = {0};
        json_t *found = NULL;
        if (bytes == NULL || fread(bytes, 1, len, stdin) != len)
            return 1;
        if (af_zip_open((struct af_span){bytes, len}, "x.whl", &zip, NULL) == ANYFLASH_OK)
            found = members_of(&zip);
        if (argc == 1)
            print(found);
        else if (found != NULL)
            failed |= write_again(&zip);
        json_decref(found);
        af_zip_close(&zip);
        free(bytes);
    }
    return failed;
}
