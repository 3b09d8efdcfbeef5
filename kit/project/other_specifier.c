/*
 * other_specifier.c: version specifiers of Poetry, pixi and conda as PEP 440 writes them.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"
#include "kit/project/project_asks.h"

/* The first version that "^2.5" (`is_caret`) or "~2.5" does not allow: "3" or "2.6". */
static const char *next_version(struct af_arena *arena, const struct af_version *version,
                                bool is_caret)
{
    int at = version->release_count > 1 ? 1 : 0;
    if (is_caret)
        for (at = 0; at + 1 < version->release_count && version->release[at] == 0;)
            at++;
    const char *text = "";
    for (int i = 0; i <= at; i++)
        text = af_arena_format(arena, "%s%s%lld", text, i == 0 ? "" : ".",
                               (long long)version->release[i] + (i == at));
    return text;
}

/*
 * One clause of Poetry, pixi or conda as PEP 440 writes it; "" if it allows everything, or is
 * in a form of conda that PEP 440 lacks.
 */
static const char *clause_of(struct af_arena *arena, struct af_span clause, bool is_conda)
{
    struct af_version version;
    clause = af_text_trim(clause);
    bool is_shift = clause.len > 1 &&
                    (clause.data[0] == '^' || (clause.data[0] == '~' && clause.data[1] != '='));
    bool is_single = clause.len > 1 && clause.data[0] == '=' && clause.data[1] != '=';
    struct af_span rest = {clause.data + (is_shift || is_single),
                           clause.len - (is_shift || is_single)};
    rest = af_text_trim(rest);
    while (is_conda && rest.len > 2 && memcmp(rest.data + rest.len - 2, ".*", 2) == 0)
        rest.len -= 2;
    bool is_version = af_version_parse(rest.data, rest.len, &version);
    bool is_bare = is_version || (rest.len > 1 && (unsigned)rest.data[0] - '0' < 10 &&
                                  rest.data[rest.len - 1] == '*');
    const char *made =
        is_shift && is_version
            ? af_arena_format(arena, ">=%.*s,<%s", (int)rest.len, rest.data,
                              next_version(arena, &version, clause.data[0] == '^'))
            : af_arena_format(arena, "%s%.*s%s", is_bare ? "==" : "", (int)rest.len, rest.data,
                              is_conda && is_version && version.release_count < 3 ? ".*" : "");
    return af_specifier_is_set((struct af_span){made, strlen(made)}) ? made : "";
}

const char *af_project_asks_specifier(struct af_arena *arena, const char *text, bool is_conda)
{
    struct af_text made = {0};
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        const char *clause = clause_of(arena, (struct af_span){text, len}, is_conda);
        if (clause[0] != '\0')
            af_text_format(&made, "%s%s", made.len > 0 ? "," : "", clause);
        text += len + (text[len] == ',');
    }
    return af_text_take(&made, arena);
}
