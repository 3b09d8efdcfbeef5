/*
 * log_owner.c: keeps which packages a log states, and finds whom a line is about.
 */
#include "kit/doctor/log/log_owner.h"

#include <string.h>

#include "kit/doctor/log/condition.h"

#define BELOW_LINES 30u   /* a message stands at most that far below what it is about */
#define BEFORE_LINES 400u /* "Failed to build" follows the output of the build */
#define KEPT_FIRST (AF_LOG_OWNERS_MAX / 2)

static struct af_span after(struct af_span text, const char *mark)
{
    size_t len = strlen(mark);
    const char *found = memmem(text.data, text.len, mark, len);
    if (found == NULL)
        return text;
    size_t skipped = (size_t)(found - text.data) + len;
    return (struct af_span){text.data + skipped, text.len - skipped};
}

static bool is_hash(struct af_span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr("0123456789abcdef", text.data[i]) == NULL)
            return false;
    return text.len >= 8;
}

/* Without the suffix, if that is not all of it. */
static struct af_span without(struct af_span text, const char *suffix)
{
    size_t len = strlen(suffix);
    if (text.len > len && memcmp(text.data + text.len - len, suffix, len) == 0)
        text.len -= len;
    return text;
}

/* "/x/vllm" of "/x/vllm/_C.abi3.so": many packages have an extension of that name. */
static struct af_span owner_of_unnamed(struct af_span path)
{
    static const char *const names[] = {"/_C", "/_ext", "/_cuda", "/_ops"};
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        const char *found = memmem(path.data, path.len, names[i], strlen(names[i]));
        const char *end = path.data + path.len;
        if (found == NULL || found == path.data)
            continue;
        const char *after_name = found + strlen(names[i]);
        if (after_name == end || *after_name == '.')
            return (struct af_span){path.data, (size_t)(found - path.data)};
    }
    return path;
}

/*
 * "mamba_ssm" of "mamba_ssm==2.2.4", "/x/selective_scan_cuda.cpython-310-x86_64-linux-gnu.so",
 * "mamba-ssm_1f2e3d4c5b6a79881f2e3d4c5b6a7988"; "xformers" of a file in its folder.
 */
static struct af_span reduce(struct af_span text)
{
    text = owner_of_unnamed(text);
    bool has_folder = memmem(text.data, text.len, "-packages", 9) != NULL;
    text = has_folder ? after(text, "-packages") : text;
    while (text.len > 0 && strchr("/\\", text.data[0]) != NULL) {
        text.data++;
        text.len--;
    }
    for (size_t i = 0; i < text.len; i++)
        if (strchr("/\\", text.data[i]) != NULL) {
            if (has_folder) {
                text.len = i;
                break;
            }
            text = (struct af_span){text.data + i + 1, text.len - i - 1};
            i = (size_t)-1;
        }
    for (size_t i = 1; i < text.len; i++)
        if (strchr(".=<>!~[;:@(", text.data[i]) != NULL ||
            (strchr("-_", text.data[i]) != NULL &&
             ((i + 1 < text.len && strchr("0123456789", text.data[i + 1]) != NULL &&
               memchr(text.data + i, '.', text.len - i) != NULL) ||
              is_hash((struct af_span){text.data + i + 1, text.len - i - 1}))))
            text.len = i;
    return without(text, "_cuda");
}

/* "xformers" for the name of a file of it, "_C_flashattention". */
static struct af_span package_of(struct af_span name)
{
    struct af_capture owner = {"OWNER", name};
    const char *alias = af_capture_text(&owner, 1, "OWNER.detail", NULL);
    return alias == NULL || alias[0] == '-' ? name : (struct af_span){alias, strlen(alias)};
}

/* The package of "mamba_ssm causal-conv1d", "'deepspeed' when getting requirements". */
static struct af_span first_word(struct af_span text)
{
    size_t len = 0;
    while (text.len > 0 && strchr("'`\"( ", text.data[0]) != NULL)
        text = (struct af_span){text.data + 1, text.len - 1};
    while (len < text.len && strchr("'`\"), ", text.data[len]) == NULL)
        len++;
    return reduce((struct af_span){text.data, len});
}

/* The class of the row OWNER for the name; NULL: there is none. */
static const char *class_of(struct af_span name)
{
    struct af_capture owner = {"OWNER", name};
    return af_capture_class(&owner, 1);
}

static bool is_name(struct af_span name)
{
    size_t letters = 0;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.data[i];
        unsigned char lower = byte | 0x20;
        bool is_letter = lower >= 'a' && lower <= 'z';
        letters += is_letter;
        if (!is_letter && !(byte >= '0' && byte <= '9') && byte != '-' && byte != '_')
            return false;
    }
    return letters > 1 && name.len < AF_LOG_OWNER_NAME_BYTES;
}

/* The index of the name, added if there is room; AF_LOG_OWNER_NAMES_MAX: there is none. */
static size_t index_of(struct af_log_owners *owners, struct af_span name, bool is_ours)
{
    for (size_t i = 0; i < owners->name_count; i++)
        if (strlen(owners->names[i]) == name.len &&
            memcmp(owners->names[i], name.data, name.len) == 0)
            return i;
    if (owners->name_count == AF_LOG_OWNER_NAMES_MAX)
        return AF_LOG_OWNER_NAMES_MAX;
    memcpy(owners->names[owners->name_count], name.data, name.len);
    owners->is_ours[owners->name_count] = is_ours;
    return owners->name_count++;
}

/* The index of the package that is stated; AF_LOG_OWNER_NAMES_MAX: it is no statement. */
static size_t name_of(struct af_log_owners *owners, const struct af_capture *stated,
                      bool has_failed)
{
    struct af_span name = has_failed ? first_word(stated->value) : reduce(stated->value);
    const char *class = is_name(name) ? class_of(name) : "base";
    bool is_frame = strcmp(stated->name, "frame") == 0;
    bool is_origin = strcmp(stated->name, "fault") == 0 || strcmp(stated->name, "source") == 0;
    bool is_known = class != NULL && strcmp(class, "base") != 0 &&
                    (is_origin || strcmp(class, "host") != 0);
    if (class == NULL ? is_frame : !is_known)
        return AF_LOG_OWNER_NAMES_MAX;
    return index_of(owners, package_of(name), class != NULL && strcmp(class, "ours") == 0);
}

/* The same, from what was looked up before. */
static size_t known_name_of(struct af_log_owners *owners, const struct af_capture *stated,
                            bool has_failed)
{
    const struct af_span text = stated->value;
    if (text.len > AF_LOG_OWNER_TEXT_BYTES)
        return name_of(owners, stated, has_failed);
    for (size_t i = 0; i < AF_LOG_OWNER_LOOKUPS; i++) {
        const struct af_log_owner_lookup *known = &owners->lookups[i];
        if (known->kind != NULL && known->len == text.len &&
            memcmp(known->text, text.data, text.len) == 0 &&
            strcmp(known->kind, stated->name) == 0)
            return known->name;
    }
    struct af_log_owner_lookup *made =
        &owners->lookups[owners->next_lookup++ % AF_LOG_OWNER_LOOKUPS];
    made->kind = stated->name;
    made->len = text.len;
    memcpy(made->text, text.data, text.len);
    made->name = name_of(owners, stated, has_failed);
    return made->name;
}

void af_log_owners_note(struct af_log_owners *owners, const struct af_capture *stated,
                        uint64_t line)
{
    bool has_failed = strcmp(stated->name, "fault") == 0 || strcmp(stated->name, "failed") == 0;
    size_t index = known_name_of(owners, stated, has_failed);
    if (index == AF_LOG_OWNER_NAMES_MAX)
        return;
    struct af_log_owner *last = owners->count == 0 ? NULL : &owners->rows[owners->count - 1];
    if (last != NULL && last->name == index && last->has_failed == has_failed) {
        last->last = line;
        return;
    }
    if (owners->count == AF_LOG_OWNERS_MAX) {
        memmove(&owners->rows[KEPT_FIRST], &owners->rows[KEPT_FIRST + 1],
                (AF_LOG_OWNERS_MAX - KEPT_FIRST - 1) * sizeof *owners->rows);
        owners->count--;
    }
    owners->rows[owners->count++] =
        (struct af_log_owner){line, line, (unsigned char)index, has_failed};
}

/* The lines between a statement and the line; those that it is stated on are 0. */
static uint64_t lines_to(const struct af_log_owner *row, uint64_t line)
{
    return line < row->first ? row->first - line : line > row->last ? line - row->last : 0;
}

enum af_log_subject af_log_owners_subject(const struct af_log_owners *owners, uint64_t line,
                                          bool names_flash_attn, const char **name_out)
{
    const struct af_log_owner *above = NULL, *failed = NULL;
    for (size_t i = 0; i < owners->count; i++) {
        const struct af_log_owner *row = &owners->rows[i];
        if (row->first <= line && lines_to(row, line) <= BELOW_LINES)
            above = row;
        if (row->has_failed && row->first > line && failed == NULL &&
            lines_to(row, line) <= BEFORE_LINES)
            failed = row;
    }
    const struct af_log_owner *row = above != NULL ? above : failed;
    if (names_flash_attn && (row == NULL || lines_to(row, line) > 0))
        return AF_LOG_SUBJECT_OURS;
    if (row == NULL)
        return AF_LOG_SUBJECT_UNKNOWN;
    if (owners->is_ours[row->name])
        return AF_LOG_SUBJECT_OURS;
    *name_out = owners->names[row->name];
    return AF_LOG_SUBJECT_OTHER;
}

const char *af_log_owners_failed(const struct af_log_owners *owners, uint64_t *line_out)
{
    const struct af_log_owner *found = NULL;
    for (size_t i = 0; i < owners->count; i++) {
        const struct af_log_owner *row = &owners->rows[i];
        if (row->has_failed && owners->is_ours[row->name])
            return NULL;
        if (row->has_failed)
            found = row;
    }
    *line_out = found == NULL ? 0 : found->first;
    return found == NULL ? NULL : owners->names[found->name];
}
