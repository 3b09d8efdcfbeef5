/*
 * sentence.h: what a person's sentence says, as a set of concepts: what was done
 * (install, build, import), how it ended (fail, slow, missing), and what it was about
 * (torch, wheel, gpu). The words of each concept are the rows WORD of
 * data/log_parts.tsv; a trailing '*' stands for any ending.
 */
#ifndef AF_KIT_DOCTOR_LOG_SENTENCE_H
#define AF_KIT_DOCTOR_LOG_SENTENCE_H

#include "kit/doctor/log/keyword.h"
#include "kit/doctor/log/log_lines.h"

/* Bit N of a set stands for the Nth concept. "not" says no or denies; "ask" is a question. */
#define AF_SENTENCE_CONCEPTS                                                                   \
    "install build download import run upgrade fail not hang slow killed wrong missing "       \
    "support ask avoid replace detect need changed flash torch cuda compiler driver gpu "      \
    "windows mac amd python wheel memory machine network disk symbol version old new peer "    \
    "model dtype headdim glibc function core idle cpu after which helper image broken "        \
    "blackwell fa3 arm isolation works"

/* Signatures require and exclude concepts: "build slow !memory". */
struct af_sentence_rule {
    uint64_t needed;
    uint64_t excluded;
};

/* False if a word is no concept, or none is needed. */
bool af_sentence_rule_parse(const char *source, struct af_sentence_rule *out);

bool af_sentence_rule_holds(const struct af_sentence_rule *rule, uint64_t said);

/* Immutable once built; in the arena. */
struct af_sentence_words {
    uint64_t *concepts; /* [word]: the bit of its concept */
    struct af_keyword_table keywords;
};

/* Fails with INTERNAL if the table has a word of an unknown concept. */
enum anyflash_status af_sentence_words_build(struct af_arena *arena,
                                             struct af_sentence_words *out,
                                             struct anyflash_error *err);

/* Called for each sentence that says something: where it is in the line, and its concepts. */
typedef void af_sentence_function(void *context, size_t start, size_t end, uint64_t said);

/* Reads the sentences of a line; a line that is not prose has none. */
void af_sentence_read(const struct af_sentence_words *words, const struct af_log_line *line,
                      af_sentence_function *take, void *context);

#endif
