/*
 * catalog_pack.c: both directions of the packed catalog. Unpacking runs at
 * every start of the program, so it is one pass per column; packing runs once,
 * at build time. There each distinct text is stored once, with a number.
 */
#include "kit/catalog/catalog_pack.h"

#include "kit/base/sha256.h"

#include <string.h>

#define MAGIC "AFC2"
#define HEAD_BYTES 20u
#define TEXTS_MAX 65535u
#define FIRST_SLOTS 1024u

static size_t hash_of(const char *text, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ (hash >> 32));
}

/* The slot that contains `text`, or the free one where it belongs. */
static uint32_t *find_slot(const struct af_intern *intern, const char *text, size_t len)
{
    size_t mask = intern->slot_count - 1;
    for (size_t at = hash_of(text, len) & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &intern->slots[at];
        if (*slot == 0)
            return slot;
        const char *known = intern->texts[*slot - 1];
        if (strncmp(known, text, len) == 0 && known[len] == '\0')
            return slot;
    }
}

/* Doubles the slots when they are half full. */
static void grow_slots(struct af_intern *intern)
{
    if (intern->slot_count > intern->count * 2)
        return;
    struct af_intern larger = *intern;
    larger.slot_count = intern->slot_count == 0 ? FIRST_SLOTS : intern->slot_count * 2;
    larger.slots = af_memory_alloc(larger.slot_count * sizeof *larger.slots);
    memset(larger.slots, 0, larger.slot_count * sizeof *larger.slots);
    for (size_t i = 0; i < intern->count; i++)
        *find_slot(&larger, intern->texts[i], strlen(intern->texts[i])) = (uint32_t)(i + 1);
    af_memory_free(intern->slots);
    *intern = larger;
}

static void grow_texts(struct af_intern *intern)
{
    if (intern->count < intern->text_capacity)
        return;
    size_t capacity = intern->text_capacity == 0 ? FIRST_SLOTS : intern->text_capacity * 2;
    intern->texts = af_memory_resize(intern->texts, capacity * sizeof *intern->texts);
    intern->text_capacity = capacity;
}

size_t af_intern_add(struct af_intern *intern, struct af_arena *arena, const char *text,
                     size_t len)
{
    grow_slots(intern);
    grow_texts(intern);
    uint32_t *slot = find_slot(intern, text, len);
    if (*slot == 0) {
        intern->texts[intern->count++] = af_arena_text_n(arena, text, len);
        *slot = (uint32_t)intern->count;
    }
    return *slot - 1;
}

void af_intern_release(struct af_intern *intern)
{
    af_memory_free(intern->texts);
    af_memory_free(intern->slots);
    *intern = (struct af_intern){0};
}

static void add_number(struct af_text *packed, uint32_t number, size_t bytes)
{
    char little[4];
    for (size_t i = 0; i < bytes; i++)
        little[i] = (char)(number >> (8 * i));
    af_text_add_n(packed, little, bytes);
}

static void add_ended(struct af_text *packed, const char *text)
{
    if (text != NULL)
        af_text_add_n(packed, text, strlen(text));
    af_text_add_n(packed, "", 1);
}

/* Index + 1 of `text`, which is added if it is new; 0 for NULL. */
static uint32_t place_of(struct af_intern *texts, struct af_arena *arena, const char *text)
{
    return text == NULL ? 0 : (uint32_t)af_intern_add(texts, arena, text, strlen(text)) + 1;
}

static void add_columns(const struct af_catalog_wheel *wheels, size_t count,
                        struct af_intern *texts, struct af_arena *arena,
                        struct af_text *columns)
{
#define COLUMN(value, bytes)                                                                   \
    for (size_t i = 0; i < count; i++)                                                         \
        add_number(columns, (uint32_t)(value), bytes);
#define AF_CATALOG_WHEEL_LONG(member, needed)
#define AF_CATALOG_WHEEL_TEXT(member, needed)                                                  \
    COLUMN(place_of(texts, arena, wheels[i].member), 2)
#define AF_CATALOG_WHEEL_JOINED(member) COLUMN(place_of(texts, arena, wheels[i].member), 2)
#define AF_CATALOG_WHEEL_NUMBER(member, type) COLUMN(wheels[i].member, sizeof(type))
#define AF_CATALOG_WHEEL_ANSWER(member) COLUMN(wheels[i].member, 1)
#define AF_CATALOG_WHEEL_FLAG(member) COLUMN(wheels[i].member, 1)
#define AF_CATALOG_WHEEL_HASH(member)                                                          \
    COLUMN(wheels[i].member != NULL, 1)                                                        \
    for (size_t i = 0; i < count; i++)                                                         \
        if (wheels[i].member != NULL)                                                          \
            af_text_add_n(columns, (const char *)wheels[i].member, AF_SHA256_BYTES);
#include "kit/catalog/wheel_fields.inc"
#undef COLUMN
}

/* Parts of a packed catalog before they are joined. */
struct parts {
    struct af_arena arena;
    struct af_intern texts;
    struct af_text vocabulary;
    struct af_text names;
    struct af_text columns;
};

static void collect(struct parts *parts, const struct af_catalog_wheel *wheels, size_t count,
                    const char *date)
{
    place_of(&parts->texts, &parts->arena, date);
    add_columns(wheels, count, &parts->texts, &parts->arena, &parts->columns);
    for (size_t i = 0; i < parts->texts.count; i++)
        add_ended(&parts->vocabulary, parts->texts.texts[i]);
    for (size_t i = 0; i < count; i++) {
        add_ended(&parts->names, wheels[i].filename);
        add_ended(&parts->names, wheels[i].url);
    }
}

static void join(const struct parts *parts, size_t count, struct af_text *packed)
{
    af_text_add(packed, MAGIC);
    add_number(packed, (uint32_t)count, 4);
    add_number(packed, (uint32_t)parts->texts.count, 4);
    add_number(packed, (uint32_t)parts->vocabulary.len, 4);
    add_number(packed, (uint32_t)parts->names.len, 4);
    af_text_add_n(packed, parts->vocabulary.data, parts->vocabulary.len);
    af_text_add_n(packed, parts->names.data, parts->names.len);
    af_text_add_n(packed, parts->columns.data, parts->columns.len);
}

enum anyflash_status af_catalog_pack(const struct af_catalog_wheel *wheels, size_t count,
                                     const char *date, struct af_text *packed,
                                     struct anyflash_error *err)
{
    struct parts parts = {.texts = {0}};
    enum anyflash_status status = ANYFLASH_OK;
    af_arena_init(&parts.arena);
    collect(&parts, wheels, count, date == NULL ? "" : date);
    if (parts.texts.count > TEXTS_MAX)
        status = af_fail(err, ANYFLASH_E_LIMIT,
                         "the catalog has too many distinct strings (%zu)", parts.texts.count);
    else
        join(&parts, count, packed);
    af_text_release(&parts.columns);
    af_text_release(&parts.names);
    af_text_release(&parts.vocabulary);
    af_intern_release(&parts.texts);
    af_arena_release(&parts.arena);
    return status;
}

/* The unread packed bytes. Failure is sticky. */
struct unpacking {
    const unsigned char *at;
    const unsigned char *end;
    const char **texts;
    size_t text_count;
    bool failed;
};

static const unsigned char *take(struct unpacking *left, size_t bytes)
{
    const unsigned char *start = left->at;
    if (left->failed || bytes > (size_t)(left->end - left->at)) {
        left->failed = true;
        return NULL;
    }
    left->at += bytes;
    return start;
}

static uint32_t number_at(const unsigned char *bytes, size_t count)
{
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint32_t)bytes[i] << (8 * i);
    return number;
}

/* The next NUL-terminated text of a region; NULL if the region ends first. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at;
    const char *nul = memchr(text, '\0', (size_t)(end - text));
    if (nul == NULL)
        return NULL;
    *at = nul + 1;
    return text;
}

static void take_texts(struct unpacking *left, size_t bytes)
{
    const char *at = (const char *)take(left, bytes);
    for (size_t i = 0; !left->failed && i < left->text_count; i++) {
        left->texts[i] = next_text(&at, (const char *)left->at);
        left->failed = left->texts[i] == NULL;
    }
}

static void take_names(struct unpacking *left, size_t bytes, struct af_catalog_wheel *wheels,
                       size_t count)
{
    const char *at = (const char *)take(left, bytes);
    for (size_t i = 0; !left->failed && i < count; i++) {
        const char *filename = next_text(&at, (const char *)left->at);
        const char *url = filename == NULL ? NULL : next_text(&at, (const char *)left->at);
        left->failed = url == NULL;
        wheels[i].filename = filename;
        wheels[i].url = url == NULL || *url == '\0' ? NULL : url;
    }
}

static const char *text_at(struct unpacking *left, const unsigned char *column, size_t row)
{
    uint32_t place = number_at(column + 2 * row, 2);
    if (place > left->text_count)
        left->failed = true;
    return place == 0 || left->failed ? NULL : left->texts[place - 1];
}

static void take_columns(struct unpacking *left, struct af_catalog_wheel *wheels, size_t count)
{
    const unsigned char *column;
#define COLUMN(member, bytes, value)                                                           \
    column = take(left, count * (bytes));                                                      \
    for (size_t i = 0; !left->failed && i < count; i++)                                        \
        wheels[i].member = value;
#define AF_CATALOG_WHEEL_LONG(member, needed)
#define AF_CATALOG_WHEEL_TEXT(member, needed) COLUMN(member, 2, text_at(left, column, i))
#define AF_CATALOG_WHEEL_JOINED(member) COLUMN(member, 2, text_at(left, column, i))
#define AF_CATALOG_WHEEL_NUMBER(member, type)                                                  \
    COLUMN(member, sizeof(type), (type)number_at(column + sizeof(type) * i, sizeof(type)))
#define AF_CATALOG_WHEEL_ANSWER(member)                                                        \
    COLUMN(member, 1, column[i] <= AF_UNKNOWN ? column[i] : AF_UNKNOWN)
#define AF_CATALOG_WHEEL_FLAG(member) COLUMN(member, 1, column[i] != 0)
#define AF_CATALOG_WHEEL_HASH(member)                                                          \
    COLUMN(member, 1, column[i] != 0 ? column : NULL)                                          \
    for (size_t i = 0; !left->failed && i < count; i++)                                        \
        if (wheels[i].member != NULL)                                                          \
            wheels[i].member = take(left, AF_SHA256_BYTES);
#include "kit/catalog/wheel_fields.inc"
#undef COLUMN
}

/* Checks the texts that every wheel must have; readers never check these for NULL. */
static bool is_complete(const struct af_catalog_wheel *wheel)
{
    return wheel->source != NULL && wheel->package != NULL && wheel->version != NULL &&
           wheel->python != NULL && wheel->abi != NULL && wheel->platform != NULL;
}

enum anyflash_status af_catalog_unpack(struct af_span bytes, struct af_arena *arena,
                                       const struct af_catalog_wheel **wheels_out,
                                       size_t *count_out, const char **date_out,
                                       struct anyflash_error *err)
{
    struct unpacking left = {.at = (const unsigned char *)bytes.data};
    left.end = left.at + bytes.len;
    const unsigned char *head = take(&left, HEAD_BYTES);
    if (head == NULL || memcmp(head, MAGIC, 4) != 0)
        return af_fail(err, ANYFLASH_E_DATA, "not a packed catalog: the header is wrong");
    size_t count = number_at(head + 4, 4);
    left.text_count = number_at(head + 8, 4);
    if (count > bytes.len || left.text_count > TEXTS_MAX || left.text_count == 0)
        return af_fail(err, ANYFLASH_E_DATA,
                       "the packed catalog is truncated: its counts exceed its size");
    struct af_catalog_wheel *wheels = af_arena_array(arena, count, sizeof *wheels);
    left.texts = af_arena_array(arena, left.text_count, sizeof *left.texts);
    take_texts(&left, number_at(head + 12, 4));
    take_names(&left, number_at(head + 16, 4), wheels, count);
    take_columns(&left, wheels, count);
    for (size_t i = 0; !left.failed && i < count; i++)
        left.failed = !is_complete(&wheels[i]);
    if (left.failed)
        return af_fail(err, ANYFLASH_E_DATA, "the packed catalog is inconsistent");
    *wheels_out = wheels;
    *count_out = count;
    *date_out = *left.texts[0] == '\0' ? NULL : left.texts[0];
    return ANYFLASH_OK;
}
