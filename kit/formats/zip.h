/*
 * zip.h: zip archives in the form that wheels use, in memory: first the
 * list of members, then any member, whole or from its start.
 *
 * Opening reads the end of the archive, its directory and the members' headers. It refuses
 * archives that could trick an installer: names that leave the folder (absolute,
 * "..", drive letters, backslashes), duplicate names, names that are both file
 * and folder, links and devices, members that overlap each other or the
 * directory, impossible sizes, bytes before or after the archive, two end
 * records of which different programs use different ones, names that programs
 * read in different ways. The members' own headers are compared with the
 * directory. A member must end where the directory says.
 *
 * Sources: APPNOTE.TXT 6.3 (zip, zip64; 4.6.9: Unicode path), PEP 427 (wheels:
 * stored or deflated).
 */
#ifndef AF_KIT_FORMATS_ZIP_H
#define AF_KIT_FORMATS_ZIP_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/* Archives that exceed these fail with LIMIT. */
#define AF_ZIP_MEMBERS_MAX 200000u
#define AF_ZIP_NAME_BYTES_MAX 1024u
#define AF_ZIP_DIRECTORY_BYTES_MAX (64u << 20)
#define AF_ZIP_MEMBER_BYTES_MAX (UINT64_C(16) << 30)
#define AF_ZIP_TOTAL_BYTES_MAX (UINT64_C(64) << 30)
#define AF_ZIP_HEADER_BYTES 30u /* a member's own header, without its name */
/* Highest compression ratio of a member, and of all, of more than AF_ZIP_RATIO_FROM bytes. */
#define AF_ZIP_RATIO_MAX 250u
#define AF_ZIP_RATIO_ALL_MAX 100u
#define AF_ZIP_RATIO_FROM (UINT64_C(16) << 20)

enum af_zip_method { AF_ZIP_STORED = 0, AF_ZIP_DEFLATED = 8 };

/* A member. Its name is UTF-8 without control characters, with '/' between parts. */
struct af_zip_member {
    const char *name; /* a folder's name ends in '/' */
    uint64_t size_bytes;
    uint64_t packed_bytes;
    uint64_t header_at; /* offset of its own header in the archive */
    uint64_t limit_at;  /* its bytes must end before this offset */
    uint32_t crc32;
    uint16_t flags;
    enum af_zip_method method;
    bool is_folder;
    bool is_executable; /* by its owner */
};

/* An archive. Members are in directory order; they and their texts belong to it. */
struct af_zip {
    const struct af_zip_member *members;
    const struct af_zip_member *const *by_name; /* all members, in the order of strcmp() */
    size_t member_count;
    struct af_arena arena;
    struct af_span bytes; /* borrowed */
    const char *name;     /* for errors */
};

/*
 * Reads the list of members. The bytes are borrowed until af_zip_close(); `name`
 * is for errors. Fails with DATA (not a zip archive, truncated, contradictory, or
 * one of the tricks above), LIMIT or UNSUPPORTED (encrypted, several disks, another
 * compression).
 */
enum anyflash_status af_zip_open(struct af_span bytes, const char *name, struct af_zip *zip_out,
                                 struct anyflash_error *err);

/* Closes the archive. Does nothing for a zero-initialised one. */
void af_zip_close(struct af_zip *zip);

/* The member of that name, or NULL. Takes logarithmic time. */
const struct af_zip_member *af_zip_find(const struct af_zip *zip, const char *name);

/*
 * Reads the whole member into `arena`, followed by a NUL. Fails with LIMIT when
 * it has more than `max_bytes`, DATA when its bytes do not match its size and
 * CRC-32.
 */
enum anyflash_status af_zip_read(const struct af_zip *zip, const struct af_zip_member *member,
                                 struct af_arena *arena, size_t max_bytes,
                                 struct af_span *bytes_out, struct anyflash_error *err);

/*
 * As af_zip_read(), but reads only the first `max_bytes` of a longer member,
 * whose CRC-32 is then not checked.
 */
enum anyflash_status af_zip_read_start(const struct af_zip *zip,
                                       const struct af_zip_member *member,
                                       struct af_arena *arena, size_t max_bytes,
                                       struct af_span *bytes_out, struct anyflash_error *err);

/*
 * Passes the member to `write` piece by piece. Fails with DATA as af_zip_read(),
 * or as `write` does; then only part was written.
 */
typedef enum anyflash_status af_zip_take(void *context, const void *bytes, size_t len,
                                         struct anyflash_error *err);
enum anyflash_status af_zip_extract(const struct af_zip *zip,
                                    const struct af_zip_member *member, af_zip_take *write,
                                    void *context, struct anyflash_error *err);

/* A member that is to be written, with its bytes as they are packed. */
struct af_zip_packed {
    const char *name; /* a folder's name ends in '/' */
    uint64_t size_bytes;
    struct af_span bytes;
    uint32_t crc32;
    enum af_zip_method method;
    unsigned mode; /* 0644, or 0755 for a folder, a program or a library */
};

/*
 * The archive of these members, in this order, as pieces, which are in the arena or borrowed
 * from the members. The same members give the same bytes: no time is stored. Fails with LIMIT
 * (4 GiB, 65,534 members).
 */
enum anyflash_status af_zip_write(const struct af_zip_packed *members, size_t member_count,
                                  struct af_arena *arena, const struct af_span **pieces_out,
                                  size_t *count_out, struct anyflash_error *err);

/*
 * An archive of the members of `zip` and of nothing else: no extra fields, comments or other
 * bytes, which programs could read in different ways. Fails as af_zip_write().
 */
enum anyflash_status af_zip_write_again(const struct af_zip *zip, struct af_arena *arena,
                                        const struct af_span **pieces_out, size_t *count_out,
                                        struct anyflash_error *err);

/* ---- Private to zip*.c ---- */

/* Where the directory is. */
struct af_zip_end {
    uint64_t directory_at;
    uint64_t directory_bytes;
    uint64_t member_count;
};

/*
 * Finds the end of the archive, of whose fields only `bytes` and `name` are used. The directory
 * that it says is inside the bytes, and its size and member count are within the limits. Fails
 * with DATA, LIMIT or UNSUPPORTED as af_zip_open().
 */
enum anyflash_status af_zip_find_end(const struct af_zip *zip, struct af_zip_end *end_out,
                                     struct anyflash_error *err);

/*
 * Reads extra fields, of the directory or of a member's own header; those of zip64 replace
 * numbers of the member that are UINT32_MAX. Returns what is wrong with them, for
 * "member 'x' ...", or NULL. The field "Unicode path" is refused: programs that know it use the
 * name in it, others the member's own.
 */
const char *af_zip_take_extra(const unsigned char *extra, size_t len,
                              struct af_zip_member *member);

/*
 * Compares the member's own header with the directory; *data_at_out is where its
 * bytes begin. Fails with DATA.
 */
enum anyflash_status af_zip_check_header(const struct af_zip *zip,
                                         const struct af_zip_member *member,
                                         uint64_t *data_at_out, struct anyflash_error *err);

#endif
