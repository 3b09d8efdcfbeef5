/*
 * attend.c: attention of random queries over random keys, and what a wrong
 * argument looks like. Against the installed library:
 *
 *     cc attend.c -lanyflash -o attend && ./attend
 */
#include <stdio.h>
#include <stdlib.h>

#include <anyflash/anyflash.h>

enum { HEADS = 8, ROWS = 512, DIM = 64 };

/* [HEADS, ROWS, DIM] numbers between -1 and 1. */
static float *random_rows(void)
{
    float *rows = malloc(sizeof *rows * HEADS * ROWS * DIM);
    for (int i = 0; rows != NULL && i < HEADS * ROWS * DIM; i++)
        rows[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    return rows;
}

int main(void)
{
    float *q = random_rows(), *k = random_rows(), *v = random_rows(), *o = random_rows();
    struct anyflash_error err = {ANYFLASH_OK, ""};
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    if (q == NULL || k == NULL || v == NULL || o == NULL)
        return 1;

    args.batch = 1;
    args.heads = args.kv_heads = HEADS;
    args.q_len = args.k_len = ROWS;
    args.head_dim = args.value_dim = DIM;
    args.q = anyflash_bhsd(q, ANYFLASH_F32, HEADS, ROWS, DIM);
    args.k = anyflash_bhsd(k, ANYFLASH_F32, HEADS, ROWS, DIM);
    args.v = anyflash_bhsd(v, ANYFLASH_F32, HEADS, ROWS, DIM);
    args.o = anyflash_bhsd(o, ANYFLASH_F32, HEADS, ROWS, DIM);
    args.causal = 1;
    if (anyflash_attend(NULL, &args, &err) != ANYFLASH_OK) {
        fprintf(stderr, "error: %s\n", err.message);
        return 1;
    }
    /* the first query sees the first key only, so its output is that key's value */
    printf("anyflash %s: o[0] = %g, v[0] = %g\n", anyflash_version_text(), (double)o[0],
           (double)v[0]);

    args.kv_heads = 3;
    if (anyflash_attend(NULL, &args, &err) != ANYFLASH_OK)
        printf("a wrong argument: %s\n", err.message);

    int same = o[0] == v[0];
    free(q);
    free(k);
    free(v);
    free(o);
    return same ? 0 : 1;
}
