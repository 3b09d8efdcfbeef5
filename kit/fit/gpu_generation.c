/*
 * gpu_generation.c: reads the rows of data/gpu_generations.tsv.
 */
#include "kit/fit/gpu_generation.h"

#include "kit/formats/embedded.h"

enum { SM, NAME, INTEGRATED, SAME_CHIP, TARGET, FIRST_CUDA, PACKAGE, CUDNN };

/* "12.8" as 128, "90" as 90; 0 for "-". */
static int number_of(const char *text)
{
    int number = 0;
    for (; *text != '\0'; text++)
        number = *text >= '0' && *text <= '9' ? number * 10 + (*text - '0') : number;
    return number;
}

/* The row of `sm`, or of the nearest older SM of its major version; NULL: none. */
static const char *const *row_of(int sm)
{
    const char *const *best = NULL;
    bool best_is_integrated = false;
    for (size_t i = 0; af_embedded_gpu_generations[i][SM] != NULL; i++) {
        const char *const *row = af_embedded_gpu_generations[i];
        int number = number_of(row[SM]);
        bool is_integrated = row[INTEGRATED][0] != '-';
        if (number == sm)
            return row;
        if (number / 10 != sm / 10 || number > sm ||
            (best != NULL && is_integrated && !best_is_integrated))
            continue;
        best = row;
        best_is_integrated = is_integrated;
    }
    return best;
}

struct af_sm_generation af_sm_generation_of(int sm)
{
    const char *const *row = row_of(sm);
    if (row == NULL)
        return (struct af_sm_generation){0};
    bool is_exact = number_of(row[SM]) == sm;
    return (struct af_sm_generation){
        .is_integrated = is_exact && row[INTEGRATED][0] != '-',
        .same_chip = is_exact ? number_of(row[SAME_CHIP]) : 0,
        .build_target = number_of(row[TARGET]),
        .first_cuda = number_of(row[FIRST_CUDA]),
        .package = row[PACKAGE][0] == '-' ? NULL : row[PACKAGE],
        .prefers_cudnn = row[CUDNN][0] != '-',
    };
}
