/*
 * keyword.c: hashes each window of four bytes of the text. Few are those of a word,
 * which a table of bits tells that stays in the processor's nearest cache; only then
 * the words filed under the hash are compared.
 */
#include "kit/doctor/log/keyword.h"

#include <string.h>

static uint32_t hash_at(const char *text)
{
    uint32_t window;
    memcpy(&window, text, AF_KEYWORD_BYTES_MIN);
    return (window * UINT32_C(0x9E3779B1)) >> 16;
}

/* The window that is rarest in words; of equal ones the last, because messages often differ
   at their ends: "undefined symbol: ...". */
static size_t choose_window(struct af_span word, const uint32_t *counts)
{
    size_t chosen = 0;
    for (size_t at = 1; at + AF_KEYWORD_BYTES_MIN <= word.len; at++) {
        if (counts[hash_at(word.data + at)] <= counts[hash_at(word.data + chosen)])
            chosen = at;
    }
    return chosen;
}

static void file_word(struct af_keyword_table *table, size_t index)
{
    uint32_t hash = hash_at(table->words[index].data + table->windows[index]);
    table->also[index] = table->first[hash];
    table->first[hash] = (uint32_t)index + 1;
    table->present[hash / 64] |= UINT64_C(1) << hash % 64;
}

void af_keyword_table_build(const struct af_span *words, size_t count, struct af_arena *arena,
                            struct af_keyword_table *out)
{
    struct af_keyword_table table = {
        .words = words,
        .present = af_arena_array(arena, AF_KEYWORD_HASHES / 64, sizeof *table.present),
        .first = af_arena_array(arena, AF_KEYWORD_HASHES, sizeof *table.first),
        .also = af_arena_array(arena, count + 1, sizeof *table.also),
        .windows = af_arena_array(arena, count + 1, sizeof *table.windows),
    };
    uint32_t *counts = af_arena_array(arena, AF_KEYWORD_HASHES, sizeof *counts);
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at + AF_KEYWORD_BYTES_MIN <= words[i].len; at++)
            counts[hash_at(words[i].data + at)]++;
    for (size_t i = 0; i < count; i++) {
        table.windows[i] = choose_window(words[i], counts);
        if (words[i].len >= AF_KEYWORD_BYTES_MIN)
            file_word(&table, i);
    }
    *out = table;
}

void af_keyword_search(const struct af_keyword_table *table, const char *text, size_t len,
                       af_keyword_found *found, void *context)
{
    for (size_t at = 0; at + AF_KEYWORD_BYTES_MIN <= len; at++) {
        uint32_t hash = hash_at(text + at);
        if ((table->present[hash / 64] >> hash % 64 & 1) == 0)
            continue;
        for (uint32_t next = table->first[hash]; next != 0; next = table->also[next - 1]) {
            struct af_span word = table->words[next - 1];
            size_t before = table->windows[next - 1];
            if (before <= at && word.len <= len - (at - before) &&
                memcmp(text + at - before, word.data, word.len) == 0)
                found(context, next - 1);
        }
    }
}
