/*
 * metadata.c: METADATA, WHEEL, RECORD and the other small files of a distribution. Environment
 * markers are evaluated in metadata_marker.c.
 */
#include "kit/formats/metadata.h"

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static struct af_span part(struct af_span span, size_t start, size_t end)
{
    if (span.data == NULL)
        return span;
    return (struct af_span){span.data + start, end - start};
}

/* Index of `letter`, or span.len. */
static size_t find_letter(struct af_span span, char letter)
{
    const char *found = span.len == 0 ? NULL : memchr(span.data, letter, span.len);
    return found == NULL ? span.len : (size_t)(found - span.data);
}

static bool cut_end(struct af_span *span, const char *end)
{
    size_t len = strlen(end);
    bool has = span->len >= len && memcmp(span->data + span->len - len, end, len) == 0;
    if (has)
        span->len -= len;
    return has;
}

bool af_info_folder_parse(struct af_span folder, struct af_info_folder *parts_out)
{
    bool egg = cut_end(&folder, ".egg-info") || cut_end(&folder, ".egg");
    if (!egg && !cut_end(&folder, ".dist-info"))
        return false;
    size_t dash = find_letter(folder, '-');
    struct af_span version = part(folder, dash < folder.len ? dash + 1 : dash, folder.len);
    if (egg) /* the version of Python follows */
        version.len = find_letter(version, '-');
    *parts_out = (struct af_info_folder){part(folder, 0, dash), version, egg};
    return true;
}

bool af_header_next(struct af_span *rest, struct af_header *header_out)
{
    struct af_span line;
    while (af_text_line(rest, &line)) {
        if (af_text_trim(line).len == 0) {
            *rest = (struct af_span){NULL, 0};
            return false;
        }
        size_t colon = find_letter(line, ':');
        if (line.data[0] == ' ' || line.data[0] == '\t' || colon == line.len)
            continue;
        header_out->name = af_text_trim(part(line, 0, colon));
        header_out->value = af_text_trim(part(line, colon + 1, line.len));
        return true;
    }
    return false;
}

static bool equal_fold(struct af_span span, const char *text)
{
    return span.len == strlen(text) && strncasecmp(span.data, text, span.len) == 0;
}

bool af_header_is(const struct af_header *header, const char *name)
{
    return equal_fold(header->name, name);
}

bool af_header_find(struct af_span text, const char *name, struct af_span *value_out)
{
    struct af_header header;
    while (af_header_next(&text, &header)) {
        if (!af_header_is(&header, name))
            continue;
        *value_out = header.value;
        return true;
    }
    return false;
}

static bool is_name_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '-' || letter == '_' || letter == '.';
}

/* Whether the marker names the variable "extra" (outside quoted values). */
static bool speaks_of_extra(struct af_span marker)
{
    char quote = '\0';
    for (size_t i = 0; i < marker.len; i++) {
        char letter = marker.data[i];
        if (quote != '\0') {
            quote = letter == quote ? '\0' : quote;
        } else if (letter == '"' || letter == '\'') {
            quote = letter;
        } else if (marker.len - i >= 5 && memcmp(marker.data + i, "extra", 5) == 0 &&
                   (i == 0 || !is_name_letter(marker.data[i - 1]))) {
            return true;
        }
    }
    return false;
}

/* The version specifier before the marker, without the old style's parentheses. */
static struct af_span specifier_of(struct af_span text)
{
    struct af_span found = af_text_trim(text);
    if (found.len >= 2 && found.data[0] == '(' && found.data[found.len - 1] == ')')
        found = af_text_trim(part(found, 1, found.len - 1));
    return found;
}

/* Whether pip takes the name for that of a file in the current folder. */
static bool is_archive_name(struct af_span name)
{
    static const char *const ends[] = {".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2",
                                       ".tbz", ".xz",  ".txz", ".lz", ".tlz", ".lzma"};
    for (size_t i = 0; i < AF_COUNT(ends); i++) {
        size_t len = strlen(ends[i]);
        if (name.len > len && equal_fold(part(name, name.len - len, name.len), ends[i]))
            return true;
    }
    return false;
}

bool af_requirement_parse(struct af_span text, struct af_requirement *requirement_out)
{
    struct af_requirement made = {.text = af_text_trim(text)};
    size_t at = 0;
    text = made.text;
    while (at < text.len && is_name_letter(text.data[at]))
        at++;
    if (at == 0 || !isalnum((unsigned char)text.data[0]))
        return false; /* a name "-r" would be read as an option by an installer */
    made.name = part(text, 0, at);
    if (is_archive_name(made.name))
        return false;
    struct af_span rest = af_text_trim(part(text, at, text.len));
    if (rest.len > 0 && rest.data[0] == '[') {
        size_t end = find_letter(rest, ']');
        if (end == rest.len)
            return false;
        made.extras = af_text_trim(part(rest, 1, end));
        rest = af_text_trim(part(rest, end + 1, rest.len));
    }
    size_t marker = find_letter(rest, ';');
    made.has_marker = marker < rest.len;
    if (made.has_marker)
        made.marker = af_text_trim(part(rest, marker + 1, rest.len));
    made.only_for_extra = speaks_of_extra(made.marker);
    if (rest.len > 0 && rest.data[0] == '@')
        made.url = af_text_trim(part(rest, 1, marker));
    else
        made.specifier = specifier_of(part(rest, 0, marker));
    if (!af_specifier_is_set(made.specifier))
        return false;
    *requirement_out = made;
    return true;
}

bool af_requirement_next(struct af_span *rest, struct af_requirement *requirement_out)
{
    struct af_header header;
    while (af_header_next(rest, &header)) {
        if (af_header_is(&header, "Requires-Dist") &&
            af_requirement_parse(header.value, requirement_out))
            return true;
    }
    return false;
}

static int base64url_value(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '-' ? 62 : letter == '_' ? 63 : -1;
}

/*
 * Converts 43 characters of unpadded base64url to 64 hexadecimal digits; "" if
 * malformed.
 */
static void decode_sha256(struct af_span text, char hex[AF_FORMATS_SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned bits = 0;
    int bit_count = 0;
    size_t len = 0;
    while (text.len > 0 && text.data[text.len - 1] == '=')
        text.len--;
    hex[0] = '\0';
    if (text.len != 43)
        return;
    for (size_t i = 0; i < text.len; i++) {
        int value = base64url_value(text.data[i]);
        if (value < 0) {
            hex[0] = '\0';
            return;
        }
        bits = (bits << 6 | (unsigned)value) & 0xffffu;
        for (bit_count += 6; bit_count >= 4 && len < 64; bit_count -= 4)
            hex[len++] = digits[bits >> (bit_count - 4) & 15u];
    }
    hex[len] = '\0';
}

/* Appends one character of a path; false if it does not fit. */
static bool put_letter(struct af_formats_record_line *line, size_t *len, char letter)
{
    if (*len + 1 >= sizeof line->path || letter == '\0')
        return false;
    line->path[(*len)++] = letter;
    line->path[*len] = '\0';
    return true;
}

/* Reads the first CSV field into line->path; *rest_out is what follows its comma. */
static bool read_path(struct af_span text, struct af_formats_record_line *line,
                      struct af_span *rest_out)
{
    size_t len = 0;
    size_t at = 0;
    bool quoted = text.len > 0 && text.data[0] == '"';
    line->path[0] = '\0';
    for (at = quoted ? 1 : 0; at < text.len; at++) {
        char letter = text.data[at];
        if (!quoted && letter == ',')
            break;
        if (quoted && letter == '"') {
            at++;
            if (at >= text.len || text.data[at] != '"')
                break;
        }
        if (!put_letter(line, &len, letter))
            return false;
    }
    bool comma = at < text.len && text.data[at] == ',';
    *rest_out = comma ? part(text, at + 1, text.len) : (struct af_span){NULL, 0};
    return len > 0;
}

static int64_t read_size(struct af_span text)
{
    char digits[24];
    int64_t size_bytes;
    text = af_text_trim(text);
    if (text.len == 0 || text.len >= sizeof digits)
        return -1;
    memcpy(digits, text.data, text.len);
    digits[text.len] = '\0';
    return af_parse_i64(digits, 0, INT64_MAX, &size_bytes) ? size_bytes : -1;
}

bool af_formats_record_next(struct af_span *rest, struct af_formats_record_line *line_out)
{
    static const char algorithm[] = "sha256=";
    struct af_span text;
    struct af_span fields;
    while (af_text_line(rest, &text)) {
        if (!read_path(af_text_trim(text), line_out, &fields))
            continue;
        size_t comma = find_letter(fields, ',');
        struct af_span hash = part(fields, 0, comma);
        line_out->sha256[0] = '\0';
        if (hash.len > sizeof algorithm - 1 &&
            memcmp(hash.data, algorithm, sizeof algorithm - 1) == 0)
            decode_sha256(part(hash, sizeof algorithm - 1, hash.len), line_out->sha256);
        line_out->size_bytes =
            comma < fields.len ? read_size(part(fields, comma + 1, fields.len)) : -1;
        return true;
    }
    return false;
}

bool af_formats_key_value(struct af_span text, const char *key, struct af_span *value_out)
{
    struct af_span line;
    while (af_text_line(&text, &line)) {
        size_t equals = find_letter(line, '=');
        if (equals == line.len || !equal_fold(af_text_trim(part(line, 0, equals)), key))
            continue;
        *value_out = af_text_trim(part(line, equals + 1, line.len));
        return true;
    }
    return false;
}

/* Finds the wanted text in a parsed file; NULL if it is not there. */
typedef const char *find_text(struct af_arena *arena, const json_t *document);

static enum anyflash_status read_json(struct af_arena *arena, struct af_span bytes,
                                      const char *name, find_text *find, const char **text_out,
                                      struct anyflash_error *err)
{
    json_t *document;
    enum anyflash_status status =
        af_json_parse(bytes, AF_METADATA_JSON_BYTES_MAX, name, &document, err);
    if (status != ANYFLASH_OK)
        return status;
    *text_out = find(arena, document);
    json_decref(document);
    return ANYFLASH_OK;
}

static const char *find_url(struct af_arena *arena, const json_t *document)
{
    const char *url = json_string_value(json_object_get(document, "url"));
    const json_t *vcs_info = json_object_get(document, "vcs_info");
    const char *vcs = json_string_value(json_object_get(vcs_info, "vcs"));
    const char *commit = json_string_value(json_object_get(vcs_info, "commit_id"));
    const char *shown = url == NULL ? NULL : af_url_without_secrets(arena, url);
    if (shown == NULL || vcs == NULL)
        return shown;
    return af_arena_format(arena, "%s+%s%s%s", vcs, shown, commit == NULL ? "" : "@",
                           commit == NULL ? "" : commit);
}

enum anyflash_status af_direct_url_parse(struct af_arena *arena, struct af_span bytes,
                                         const char *name, const char **url_out,
                                         struct anyflash_error *err)
{
    return read_json(arena, bytes, name, find_url, url_out, err);
}

static const char *find_torch(struct af_arena *arena, const json_t *document)
{
    const json_t *list = json_object_get(document, "extra_build_requires");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *requirement = json_object_get(json_array_get(list, i), "requirement");
        const char *package = json_string_value(json_object_get(requirement, "name"));
        const char *specifier = json_string_value(json_object_get(requirement, "specifier"));
        if (package != NULL && af_name_is((struct af_span){package, strlen(package)}, "torch"))
            return af_arena_text(arena, specifier == NULL ? "" : specifier);
    }
    return NULL;
}

enum anyflash_status af_uv_build_torch(struct af_arena *arena, struct af_span bytes,
                                       const char *name, const char **specifier_out,
                                       struct anyflash_error *err)
{
    return read_json(arena, bytes, name, find_torch, specifier_out, err);
}
