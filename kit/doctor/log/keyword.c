/*
 * keyword.c: the automaton of Aho and Corasick (1975), with all transitions
 * resolved, so that searching is one look-up per byte. Only the bytes that occur
 * in words have a column.
 */
#include "kit/doctor/log/keyword.h"

#define FOUND_BIT (UINT32_C(1) << 31) /* in table->next: words end in this state */

struct trie {
    struct af_keyword_table *table;
    uint32_t state_count;
    uint32_t *fallback; /* [state]: the longest proper suffix that is a state */
    uint32_t *queue;    /* states in order of their depth */
};

static size_t cut(struct af_span word)
{
    return word.len < AF_KEYWORD_BYTES_MAX ? word.len : AF_KEYWORD_BYTES_MAX;
}

static void number_classes(struct af_keyword_table *table, const struct af_span *words,
                           size_t count)
{
    table->class_count = 1;
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < cut(words[i]); at++) {
            unsigned char *class = &table->class_of[(unsigned char)words[i].data[at]];
            if (*class == 0)
                *class = (unsigned char)table->class_count++;
        }
    }
}

static void add_word(struct trie *trie, struct af_span word, size_t index)
{
    struct af_keyword_table *table = trie->table;
    uint32_t state = 0;
    for (size_t at = 0; at < cut(word); at++) {
        size_t class = table->class_of[(unsigned char)word.data[at]];
        uint32_t *next = &table->next[state * table->class_count + class];
        if (*next == 0)
            *next = trie->state_count++;
        state = *next;
    }
    if (state == 0)
        return;
    table->also[index] = table->found[state];
    table->found[state] = (uint32_t)index + 1;
}

/* Appends the words that end in `suffix` to those of `state`. */
static void add_found(struct af_keyword_table *table, uint32_t state, uint32_t suffix)
{
    uint32_t *last = &table->found[state];
    while (*last != 0)
        last = &table->also[*last - 1];
    *last = table->found[suffix];
}

/* Fills in the transitions of states breadth first: a suffix is always done before. */
static void resolve(struct trie *trie)
{
    struct af_keyword_table *table = trie->table;
    size_t classes = table->class_count;
    size_t head = 0;
    size_t tail = 1; /* the queue begins with state 0 */
    while (head < tail) {
        uint32_t state = trie->queue[head++];
        uint32_t suffix = trie->fallback[state];
        if (state != 0)
            add_found(table, state, suffix);
        for (size_t class = 1; class < classes; class ++) {
            uint32_t *next = &table->next[state * classes + class];
            uint32_t of_suffix = state == 0 ? 0 : table->next[suffix * classes + class];
            if (*next == 0) {
                *next = of_suffix;
                continue;
            }
            trie->fallback[*next] = of_suffix;
            trie->queue[tail++] = *next;
        }
    }
}

enum anyflash_status af_keyword_table_build(const struct af_span *words, size_t count,
                                            struct af_arena *arena,
                                            struct af_keyword_table *out,
                                            struct anyflash_error *err)
{
    struct af_keyword_table table = {.class_count = 0};
    size_t states = 1;
    number_classes(&table, words, count);
    for (size_t i = 0; i < count; i++)
        states += cut(words[i]);
    table.next = af_arena_array(arena, states * table.class_count, sizeof *table.next);
    table.found = af_arena_array(arena, states, sizeof *table.found);
    table.also = af_arena_array(arena, count + 1, sizeof *table.also);
    struct trie trie = {
        .table = &table,
        .state_count = 1,
        .fallback = af_arena_array(arena, states, sizeof *trie.fallback),
        .queue = af_arena_array(arena, states, sizeof *trie.queue),
    };
    if (arena->failed)
        return af_fail_memory(err);
    for (size_t i = 0; i < count; i++)
        add_word(&trie, words[i], i);
    resolve(&trie);
    for (size_t i = 0; i < trie.state_count * table.class_count; i++) {
        uint32_t state = table.next[i];
        table.next[i] =
            state * (uint32_t)table.class_count | (table.found[state] != 0 ? FOUND_BIT : 0);
    }
    *out = table;
    return ANYFLASH_OK;
}

void af_keyword_search(const struct af_keyword_table *table, const char *text, size_t len,
                       af_keyword_found *found, void *context)
{
    uint32_t row = 0;
    for (size_t at = 0; at < len; at++) {
        row = table->next[row + table->class_of[(unsigned char)text[at]]];
        if ((row & FOUND_BIT) == 0)
            continue;
        row &= ~FOUND_BIT;
        for (uint32_t word = table->found[row / table->class_count]; word != 0;
             word = table->also[word - 1])
            found(context, word - 1);
    }
}
