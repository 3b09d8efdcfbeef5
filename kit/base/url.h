/*
 * url.h: URLs as text: which ones may be fetched, how they are printed, percent
 * encoding. Source: RFC 3986.
 *
 * In the names of wheels only '+' needs an escape: indexes and lock files write
 * it as %2B in paths, users write either. Results are in the arena; if it has
 * failed they are NULL, of af_url_encode_path() "".
 */
#ifndef AF_KIT_BASE_URL_H
#define AF_KIT_BASE_URL_H

#include "kit/base/text.h"

#define AF_URL_BYTES_MAX 4096u
#define AF_URL_SHOWN_BYTES 200

/* Whether it starts with https://, in either case. */
bool af_url_is_secure(const char *url);

/* Whether it is http:// or https:// followed by a host. */
bool af_url_is_http(const char *text);

/*
 * Whether the URL may be fetched. Fails with ARGUMENT (not http, characters that
 * need an escape), LIMIT (AF_URL_BYTES_MAX) or UNSUPPORTED (plain http without
 * `allow_http`).
 */
enum anyflash_status af_url_check(const char *url, bool allow_http, struct anyflash_error *err);

/*
 * Writes `url` for printing, without user, password, query and fragment, in at
 * most size_bytes. Returns `buffer`.
 */
char *af_url_show(char *buffer, size_t size_bytes, const char *url);

/*
 * Writes the absolute URL of a redirect's target `place`, as a server may write it: absolute or
 * relative to `url`; bytes that need an escape are escaped. "" if `place` is empty or the
 * result is too long.
 */
void af_url_join(char *buffer, size_t size_bytes, const char *url, const char *place);

/* The URL without "user:password@" and "?query"; the fragment stays. */
const char *af_url_without_secrets(struct af_arena *arena, const char *url);

/* The URL with each '+' written as %2B; NULL for NULL. */
const char *af_url_encode_plus(struct af_arena *arena, const char *url);

/* Whether the URLs are equal, treating '+' and %2B as the same, without their fragments. */
bool af_url_equal(const char *a, const char *b);

/*
 * The URL with the fragment "#sha256=HEX", which pip and uv check; the URL itself
 * if `sha256` is NULL.
 */
const char *af_url_with_sha256(struct af_arena *arena, const char *url, const char *sha256);

/* The path with all bytes except letters, digits and "-._~/" written as %XX. */
const char *af_url_encode_path(struct af_arena *arena, const char *path);

/* The byte that "%XX" at `at` stands for; -1 if there is no such escape. */
int af_url_escape_at(const char *at, size_t len);

/*
 * The file name at the end of a URL or a path, without query and fragment.
 * Escapes are decoded, except those of '/', blanks and bytes that are not
 * printable ASCII.
 */
const char *af_url_file_name(struct af_arena *arena, const char *url);

/* Whether the file name at the end of `url` is `name`, as af_url_file_name() decodes it. */
bool af_url_names_file(const char *url, const char *name);

/* The path of "file:///a%20b"; NULL for every other URL. */
const char *af_url_file_path(struct af_arena *arena, const char *url);

#endif
