/*
 * nearest.c: edit distance between short words, for suggestions in error
 * messages.
 */
#include "kit/base/nearest.h"

#include <string.h>
#include <strings.h>

#define LETTERS_MAX 32
#define STARTS_MIN 3

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance: changes, additions, removals and swaps of neighbours. */
static int distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int cost[LETTERS_MAX + 1][LETTERS_MAX + 1];
    for (size_t i = 0; i <= a_len; i++)
        cost[i][0] = (int)i;
    for (size_t j = 0; j <= b_len; j++)
        cost[0][j] = (int)j;
    for (size_t i = 1; i <= a_len; i++) {
        for (size_t j = 1; j <= b_len; j++) {
            int change = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = smaller(change, smaller(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = smaller(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a_len][b_len];
}

/* The first word that starts with `typed`, ignoring case: "astral-sh-build" for "Astral". */
static const char *starting_with(const char *typed, const char *const *words, size_t count)
{
    size_t len = strlen(typed);
    for (size_t i = 0; len >= STARTS_MIN && i < count; i++)
        if (strncasecmp(words[i], typed, len) == 0)
            return words[i];
    return NULL;
}

const char *af_nearest(const char *typed, const char *const *words, size_t count)
{
    size_t typed_len = strlen(typed);
    const char *best = NULL;
    int best_cost = typed_len < 6 ? 2 : (int)(typed_len / 3) + 1;
    if (typed_len < 2 || typed_len > LETTERS_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(words[i]);
        int cost = len > LETTERS_MAX ? best_cost : distance(typed, typed_len, words[i], len);
        if (cost < best_cost) {
            best = words[i];
            best_cost = cost;
        }
    }
    return best != NULL ? best : starting_with(typed, words, count);
}
