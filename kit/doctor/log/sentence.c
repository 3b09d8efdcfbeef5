/*
 * sentence.c: splits a line of prose into sentences and looks up their words. Word order
 * and grammar are ignored: what counts is which concepts one sentence mentions.
 */
#include "kit/doctor/log/sentence.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"

#define LINE_BYTES_MAX 1500u /* of a paragraph; longer lines are output */
#define SENTENCE_BYTES_MAX 600u
#define KIND "WORD"

bool af_sentence_rule_parse(const char *source, struct af_sentence_rule *out)
{
    char word[32];
    *out = (struct af_sentence_rule){0, 0};
    for (const char *at = source + strspn(source, " "); *at != '\0'; at += strspn(at, " ")) {
        bool excluded = *at == '!';
        at += excluded ? 1 : 0;
        size_t len = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)len, at);
        int index = af_text_word_index(AF_SENTENCE_CONCEPTS, word);
        if (index < 0)
            return false;
        *(excluded ? &out->excluded : &out->needed) |= UINT64_C(1) << index;
        at += len;
    }
    return out->needed != 0;
}

bool af_sentence_rule_holds(const struct af_sentence_rule *rule, uint64_t said)
{
    return (said & rule->needed) == rule->needed && (said & rule->excluded) == 0;
}

/* ASCII words begin after a blank, and end before one unless '*' stands for any ending. */
static struct af_span search_text(const char *word, size_t len, struct af_arena *arena)
{
    bool is_ascii = (unsigned char)word[0] < 0x80;
    bool is_stem = word[len - 1] == '*';
    const char *text =
        af_arena_format(arena, "%s%.*s%s", is_ascii ? " " : "", (int)(len - is_stem), word,
                        is_stem || !is_ascii ? "" : " ");
    return (struct af_span){text, strlen(text)};
}

static size_t count_words(void)
{
    size_t count = 0;
    for (const char *const(*row)[4] = af_embedded_log_parts; (*row)[0] != NULL; row++) {
        for (const char *at = (*row)[1]; strcmp((*row)[0], KIND) == 0 && at != NULL; count++)
            at = strchr(at, '|') == NULL ? NULL : strchr(at, '|') + 1;
    }
    return count;
}

enum anyflash_status af_sentence_words_build(struct af_arena *arena,
                                             struct af_sentence_words *out,
                                             struct anyflash_error *err)
{
    size_t count = 0;
    struct af_sentence_rule concept;
    struct af_span *texts = af_arena_array(arena, count_words() + 1, sizeof *texts);
    out->concepts = af_arena_array(arena, count_words() + 1, sizeof *out->concepts);
    for (const char *const(*row)[4] = af_embedded_log_parts; (*row)[0] != NULL; row++) {
        if (strcmp((*row)[0], KIND) != 0)
            continue;
        if (!af_sentence_rule_parse((*row)[2], &concept))
            return af_fail(err, ANYFLASH_E_INTERNAL, "'%s' is no concept", (*row)[2]);
        for (const char *at = (*row)[1]; *at != '\0'; at += *at == '|' ? 1 : 0) {
            size_t len = strcspn(at, "|");
            texts[count] = search_text(at, len, arena);
            out->concepts[count++] = concept.needed;
            at += len;
        }
    }
    af_keyword_table_build(texts, count, arena, &out->keywords);
    return ANYFLASH_OK;
}

/* "torch.OutOfMemoryError: ..." at the line's start. */
static bool is_exception(const struct af_log_line *line)
{
    static const char *const ends[] = {"Error", "Exception"};
    size_t len = 0;
    while (len < line->len && (isalnum((unsigned char)line->text[len]) != 0 ||
                               line->text[len] == '.' || line->text[len] == '_'))
        len++;
    for (size_t i = 0; i < AF_COUNT(ends); i++) {
        size_t end = strlen(ends[i]);
        if (len > end && len + 1 < line->len && line->text[len] == ':' &&
            memcmp(line->text + len - end, ends[i], end) == 0)
            return true;
    }
    return false;
}

/* What Python and pip print: a warning, a line of a call stack, a row about a package. */
static bool is_printed(const struct af_log_line *line)
{
    static const char *const starts[] = {"File \"", "Requirement already",
                                         "Required-by:", "Requires:", "Collecting "};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        size_t len = strlen(starts[i]);
        if (line->len > len && memcmp(line->text, starts[i], len) == 0)
            return true;
    }
    return is_exception(line) || memmem(line->text, line->len, "Warning: ", 9) != NULL;
}

/* Commands, paths and what programs print have more signs than sentences have; "name: value"
   is no sentence. */
static bool is_prose(const struct af_log_line *line)
{
    static const char signs[] = "/\\=<>{}[]_|:;#*$@&~^\"";
    size_t blanks = 0;
    size_t odd = 0;
    bool is_pair = false;
    if (!line->begins || line->joint > 0 || line->len > LINE_BYTES_MAX || is_printed(line))
        return false;
    for (size_t i = 0; i < line->len; i++) {
        char byte = line->text[i];
        blanks += byte == ' ' || (unsigned char)byte >= 0xE3 ? 1 : 0;
        is_pair = is_pair || byte == ':';
        odd += byte != '\0' && strchr(signs, byte) != NULL ? 1 : 0;
    }
    return blanks >= (is_pair ? 5 : 2) && odd * 10 <= line->len + 20;
}

/* The length of a mark that ends a sentence here, in ASCII or Chinese; 0: none. */
static size_t mark_len(const char *at, size_t len, bool *asks_out)
{
    static const char *const wide[] = {"\xEF\xBC\x9F", "\xE3\x80\x82", "\xEF\xBC\x81",
                                       "\xEF\xBC\x9B"};
    *asks_out = *at == '?';
    if (strchr(".!?;", *at) != NULL)
        return *asks_out || len == 1 || at[1] == ' ' ? 1 : 0;
    for (size_t i = 0; i < AF_COUNT(wide); i++) {
        *asks_out = i == 0;
        if (len >= 3 && memcmp(at, wide[i], 3) == 0)
            return 3;
    }
    return 0;
}

/* 1: ASCII; 2: any other script, which may have no blanks between words; 0: not in a word. */
static int script_of(char byte)
{
    if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '+')
        return 1;
    return (unsigned char)byte >= 0x80 ? 2 : 0;
}

/* Writes the words of the sentence with one blank around each; the number of bytes. */
static size_t spread_words(const char *folded, size_t len, char *out)
{
    size_t count = 0;
    int before = 0;
    out[count++] = ' ';
    for (size_t i = 0; i < len; i++) {
        bool is_inner = folded[i] == '\'' && before == 1 && i + 1 < len;
        int script = is_inner ? script_of(folded[i + 1]) : script_of(folded[i]);
        if (script != before && out[count - 1] != ' ')
            out[count++] = ' ';
        if (script != 0)
            out[count++] = folded[i];
        before = script;
    }
    if (out[count - 1] != ' ')
        out[count++] = ' ';
    return count;
}

struct saying {
    const struct af_sentence_words *words;
    uint64_t said;
};

static void add_concept(void *context, size_t word)
{
    struct saying *saying = context;
    saying->said |= saying->words->concepts[word];
}

void af_sentence_read(const struct af_sentence_words *words, const struct af_log_line *line,
                      af_sentence_function *take, void *context)
{
    struct af_sentence_rule question;
    char spread[2 * SENTENCE_BYTES_MAX + 2]; /* at most a blank before each byte */
    size_t start = 0;
    if (!is_prose(line) || !af_sentence_rule_parse("ask", &question))
        return;
    while (start < line->len) {
        size_t end = start;
        size_t mark = 0;
        bool asks = false;
        while (end < line->len && end - start < SENTENCE_BYTES_MAX && mark == 0) {
            mark = mark_len(line->folded + end, line->len - end, &asks);
            end += mark == 0 ? 1 : 0;
        }
        struct saying saying = {words, mark > 0 && asks ? question.needed : 0};
        size_t len = spread_words(line->folded + start, end - start, spread);
        af_keyword_search(&words->keywords, spread, len, add_concept, &saying);
        if (saying.said != 0)
            take(context, start, end, saying.said);
        start = end + mark;
    }
}
