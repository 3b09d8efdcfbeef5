/*
 * query_word.h: one term of a query, as query_parse.c reads it and query.c compares it with
 * wheels. Private to this room.
 */
#ifndef AF_KIT_CATALOG_QUERY_WORD_H
#define AF_KIT_CATALOG_QUERY_WORD_H

#include "kit/catalog/query.h"

#define AF_QUERY_PARTS_MAX 3

/* What a term is compared with. */
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
    AF_QUERY_NAME /* of a term without a key: the file name */
};

struct af_query_word {
    enum af_query_key key;
    const char *text;              /* the value; of a version: its specifier */
    int parts[AF_QUERY_PARTS_MAX]; /* of numbers, "12.8" */
    int part_count;
    int cuda[AF_QUERY_PARTS_MAX]; /* of torch, "2.9.1+cu128": its 12.8 */
    int cuda_count;
    bool free_threaded;    /* of python, "3.13t" */
    enum af_answer answer; /* of abi */
};

#endif
