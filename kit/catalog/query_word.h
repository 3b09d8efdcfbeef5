/*
 * query_word.h: a parsed word of a query; between query_words.c, which reads,
 * and query.c, which judges wheels.
 */
#ifndef AF_KIT_CATALOG_QUERY_WORD_H
#define AF_KIT_CATALOG_QUERY_WORD_H

#include "kit/catalog/query.h"
#include "kit/formats/version.h"

#define AF_QUERY_PARTS_MAX 3

enum af_query_key {
    AF_QUERY_TORCH,
    AF_QUERY_PYTHON,
    AF_QUERY_CUDA,
    AF_QUERY_ABI,
    AF_QUERY_PLATFORM,
    AF_QUERY_PACKAGE,
    AF_QUERY_VERSION,
    AF_QUERY_SOURCE,
    AF_QUERY_SM,
    AF_QUERY_GLIBC,
    AF_QUERY_GPU,
    AF_QUERY_KEY_COUNT,
    AF_QUERY_FREE = AF_QUERY_KEY_COUNT /* a word without a key */
};

enum af_query_operator {
    AF_QUERY_IS,
    AF_QUERY_IS_NOT,
    AF_QUERY_AT_LEAST,
    AF_QUERY_AT_MOST,
    AF_QUERY_ABOVE,
    AF_QUERY_BELOW,
    AF_QUERY_COMPATIBLE /* "~=", of versions only */
};

struct af_query_word {
    enum af_query_key key;
    enum af_query_operator operator;
    const char *text;              /* the value; of a version: its specifier */
    int parts[AF_QUERY_PARTS_MAX]; /* of numbers, "12.8" */
    int part_count;
    bool free_threaded;    /* of python, "3.13t" */
    enum af_answer answer; /* of abi */
};

#endif
