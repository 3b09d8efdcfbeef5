/*
 * requirement_text.c: what the text of one requirement says: name, version and marker of PEP
 * 508, or a URL or a path. Nothing is read here.
 */
#include "kit/project/requirement_parts.h"

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/metadata.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"

#include <string.h>

#define NAME_BYTES 256

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

static struct af_span part(struct af_span span, size_t start, size_t end)
{
    return (struct af_span){span.data + start, end - start};
}

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\f';
}

static const char *copy(struct af_project *project, struct af_span span)
{
    return af_project_text(project->arena, span);
}

/* Takes name, extras, specifier, URL and marker of a PEP 508 text; false if it is none. */
static bool take_named(struct af_project *project, struct af_span text,
                       struct af_project_requirement *made)
{
    struct af_requirement requirement;
    char name[NAME_BYTES];
    if (!af_requirement_parse(text, &requirement) ||
        !af_name_normalise(requirement.name, name, sizeof name))
        return false;
    made->name = copy(project, span_of(name));
    made->extras = copy(project, requirement.extras);
    made->specifier = copy(project, requirement.specifier);
    made->marker = copy(project, requirement.marker);
    made->url = requirement.url.len == 0 ? NULL : copy(project, requirement.url);
    return true;
}

/* Removes " ; marker" from the end. A ';' without a blank may belong to a URL or a path. */
static struct af_span cut_marker(struct af_project *project, struct af_span text,
                                 struct af_project_requirement *made)
{
    for (size_t i = 1; i < text.len; i++) {
        if (text.data[i] != ';' || !is_blank(text.data[i - 1]))
            continue;
        made->marker = copy(project, af_text_trim(part(text, i + 1, text.len)));
        return af_text_trim(part(text, 0, i));
    }
    return text;
}

/* The name in "#egg=NAME" or in the wheel's file name at the end of `place`; NULL: unknown. */
static const char *name_in_place(struct af_project *project, const char *place)
{
    static struct af_wheel_name wheel;
    char name[NAME_BYTES];
    const char *egg = strstr(place, "#egg=");
    if (egg != NULL) {
        struct af_span written = {egg + 5, strcspn(egg + 5, "&[")};
        return af_name_normalise(written, name, sizeof name) ? copy(project, span_of(name))
                                                             : NULL;
    }
    const char *file = af_url_file_name(project->arena, place);
    if (af_wheel_name_parse(file, strlen(file), &wheel) != AF_WHEEL_NAME_VALID ||
        !af_name_normalise(span_of(wheel.package), name, sizeof name))
        return NULL;
    return copy(project, span_of(name));
}

bool af_project_is_archive(const char *path)
{
    return af_ends_with(path, ".whl") || af_ends_with(path, ".tar.gz") ||
           af_ends_with(path, ".zip");
}

/* Takes a URL or a path with extras; leaves both NULL for a line that is neither. */
static void take_place(struct af_project *project, struct af_span text,
                       struct af_project_requirement *made)
{
    text = cut_marker(project, text, made);
    const char *place = copy(project, text);
    if (strstr(place, "://") != NULL && !af_starts_with(place, "file:")) {
        made->url = place;
        made->name = name_in_place(project, place);
        return;
    }
    size_t bracket = strcspn(place, "[");
    if (place[bracket] == '[' && af_ends_with(place, "]")) { /* a NUL may end `place` */
        made->extras = copy(project, part(text, bracket + 1, text.len - 1));
        text.len = bracket;
        place = copy(project, text);
    }
    const char *path = af_url_file_path(project->arena, place);
    bool is_path = path != NULL || strchr(place, '/') != NULL || place[0] == '.' ||
                   af_project_is_archive(place) || made->editable;
    if (is_path) {
        made->path = path == NULL ? place : path;
        made->name = name_in_place(project, place);
    }
}

void af_project_requirement_parse(struct af_project *project, struct af_span text,
                                  struct af_project_requirement *made)
{
    if (made->editable || !take_named(project, text, made))
        take_place(project, text, made);
}

const char *af_project_pinned_version(struct af_arena *arena, const char *specifier)
{
    struct af_span text = af_text_trim(span_of(specifier));
    struct af_version version;
    if (text.len < 3 || text.data[0] != '=' || text.data[1] != '=')
        return NULL;
    text = af_text_trim(part(text, text.data[2] == '=' ? 3 : 2, text.len));
    return af_version_parse(text.data, text.len, &version)
               ? af_arena_text_n(arena, text.data, text.len)
               : NULL;
}

enum af_answer af_project_allows(const char *specifier, const char *version)
{
    struct af_version parsed;
    return af_version_parse(version, strlen(version), &parsed)
               ? af_specifier_contains(specifier, &parsed)
               : AF_UNKNOWN;
}
