/*
 * given_words.c: applies --given, and says what the user may have meant by a word that is
 * refused.
 */
#include "kit/cli/given_words.h"

#include <string.h>
#include <strings.h>

#include "kit/base/nearest.h"

#define KEYS_MAX 64u
#define PART_BYTES_MIN 3u

/* Whether the key may be given several times, each one adding to the earlier ones. */
static bool adds(const char *key)
{
    return strcasecmp(key, "gpu") == 0 || strcasecmp(key, "env") == 0;
}

static size_t list_keys(const char *names[KEYS_MAX])
{
    const char *doc;
    size_t count = 0;
    while (count < KEYS_MAX && (names[count] = af_machine_given_key(count, &doc)) != NULL)
        count++;
    return count;
}

/* "did you mean torch_cuda, cuda_api or cuda_toolkit?" for "cuda": the keys that contain it. */
static const char *containing(struct af_arena *arena, const char *typed,
                              const char *const *names, size_t count)
{
    const char *found[KEYS_MAX];
    size_t found_count = 0;
    const char *text = "did you mean ";
    for (size_t i = 0; i < count && strlen(typed) >= PART_BYTES_MIN; i++)
        if (strcasestr(names[i], typed) != NULL)
            found[found_count++] = names[i];
    for (size_t i = 0; i < found_count && text != NULL; i++)
        text = af_arena_format(arena, "%s%s%s", text,
                               i == 0                 ? ""
                               : i + 1 == found_count ? " or "
                                                      : ", ",
                               found[i]);
    return found_count == 0 || text == NULL ? NULL : af_arena_format(arena, "%s?", text);
}

/* What the user may have meant by a key that does not exist, or what its values look like. */
static const char *hint_for(struct af_arena *arena, const char *word)
{
    const char *names[KEYS_MAX + 1];
    size_t count = list_keys(names);
    const char *key = af_arena_text_n(arena, word, strcspn(word, "="));
    const char *doc;
    for (size_t i = 0; i < count && key != NULL; i++)
        if (strcasecmp(names[i], key) == 0) {
            af_machine_given_key(i, &doc);
            return af_arena_format(arena, "values of %s: %s", names[i], doc);
        }
    const char *hint = key == NULL ? NULL : containing(arena, key, names, count);
    const char *near = key == NULL ? NULL : af_nearest(key, names, count);
    return hint != NULL || near == NULL ? hint
                                        : af_arena_format(arena, "did you mean %s?", near);
}

static bool same_key(const char *a, const char *b)
{
    return strncasecmp(a, b, strcspn(a, "=") + 1) == 0;
}

/* Says once that a later --given replaces the value of this one. */
static void remark_replaced(struct af_cli *cli, size_t index)
{
    const char *const *words = cli->options.givens.items;
    const char *word = words[index];
    size_t count = 0;
    for (size_t i = 0; i < cli->options.givens.count; i++) {
        if (i < index && same_key(word, words[i]))
            return;
        count += same_key(word, words[i]);
    }
    const char *key = af_arena_text_n(&cli->arena, word, strcspn(word, "="));
    if (count < 2 || key == NULL || adds(key))
        return;
    const char *remark = af_arena_format(&cli->arena, "%s is given %s; the last value counts",
                                         af_text_scrub(&cli->arena, key, 60),
                                         count == 2 ? "twice" : "more than twice");
    if (remark != NULL)
        af_cli_remark(cli, remark);
}

enum anyflash_status af_cli_given_apply(struct af_cli *cli, struct af_machine *machine,
                                        bool with_remarks, struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.givens;
    for (size_t i = 0; i < words->count; i++) {
        const char *remark = NULL;
        enum anyflash_status status =
            af_machine_given_strictly(machine, words->items[i], &remark, err);
        if (status == ANYFLASH_E_ARGUMENT)
            cli->hint = hint_for(&cli->arena, words->items[i]);
        if (status != ANYFLASH_OK)
            return status;
        if (remark != NULL && with_remarks)
            af_cli_remark(cli, remark);
        if (with_remarks)
            remark_replaced(cli, i);
    }
    return ANYFLASH_OK;
}
