/*
 * content_metadata.c: what installers do because of the lines of a wheel's metadata: they get
 * and install what Requires-Dist of METADATA names, also from addresses and folders, and make
 * the commands of entry_points.txt, whose other groups programs ask for.
 */
#include "kit/proof/wheel_content.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"
#include "kit/formats/metadata.h"

/*
 * Whether Python ends a line in the middle of this one (str.splitlines()), so that it may read
 * what is not seen here.
 */
static bool hides_line(struct af_span line)
{
    for (size_t i = 0; i < line.len; i++) {
        unsigned char letter = (unsigned char)line.data[i];
        if ((letter < ' ' && letter != '\t') || letter == 0x7f)
            return true;
    }
    return memmem(line.data, line.len, "\xc2\x85", 2) != NULL ||
           memmem(line.data, line.len, "\xe2\x80\xa8", 3) != NULL ||
           memmem(line.data, line.len, "\xe2\x80\xa9", 3) != NULL;
}

/* Whether the package's own wheels need `name` (rows "requirement" of its list). */
static bool is_needed(const char *package, struct af_span name)
{
    for (size_t i = 0; af_embedded_wheel_contents[i][0] != NULL; i++)
        if (strcmp(af_embedded_wheel_contents[i][0], package) == 0 &&
            strcmp(af_embedded_wheel_contents[i][2], "requirement") == 0 &&
            af_name_is(name, af_embedded_wheel_contents[i][1]))
            return true;
    return false;
}

static void compare_requirement(struct af_span text, const char *package, af_content_add *add,
                                void *context)
{
    struct af_requirement requirement;
    if (!af_requirement_parse(text, &requirement) || requirement.url.len > 0)
        add(context, AF_CONTENT_REQUIREMENT_PLACE, text, NULL);
    else if (package != NULL && !requirement.only_for_extra &&
             !is_needed(package, requirement.name))
        add(context, AF_CONTENT_REQUIREMENT, requirement.name, NULL);
}

/* Without the CR before its LF. */
static struct af_span without_end(struct af_span line)
{
    line.len -= line.len > 0 && line.data[line.len - 1] == '\r';
    return line;
}

void af_content_metadata(struct af_span text, const char *package, af_content_add *add,
                         void *context)
{
    bool is_requirement = false;
    while (text.len > 0) {
        const char *end = memchr(text.data, '\n', text.len);
        const size_t len = end == NULL ? text.len : (size_t)(end - text.data);
        const struct af_span line = without_end((struct af_span){text.data, len});
        struct af_span rest = line;
        struct af_header header;
        text =
            (struct af_span){text.data + len + (end != NULL), text.len - len - (end != NULL)};
        if (line.len == 0)
            return;
        const bool goes_on = line.data[0] == ' ' || line.data[0] == '\t';
        if (memchr(line.data, '\r', line.len) != NULL ||
            memchr(line.data, '\0', line.len) != NULL)
            add(context, AF_CONTENT_HIDDEN_LINE, line, NULL);
        if (goes_on && is_requirement)
            add(context, AF_CONTENT_HIDDEN_LINE, line, NULL);
        if (goes_on)
            continue;
        is_requirement =
            af_header_next(&rest, &header) && af_header_is(&header, "Requires-Dist");
        if (is_requirement && hides_line(line))
            add(context, AF_CONTENT_HIDDEN_LINE, line, NULL);
        else if (is_requirement)
            compare_requirement(header.value, package, add, context);
    }
}

/* Some installers join the name of a command to a folder unchecked. */
static bool is_command_name(struct af_span name)
{
    return name.len > 0 && name.data[0] != '.' && memchr(name.data, '/', name.len) == NULL &&
           memchr(name.data, '\\', name.len) == NULL && !hides_line(name);
}

static struct af_span group_name(struct af_span line)
{
    while (line.len > 0 && line.data[0] == '[')
        line = (struct af_span){line.data + 1, line.len - 1};
    while (line.len > 0 && line.data[line.len - 1] == ']')
        line.len--;
    return af_text_trim(line);
}

static void compare_entry_point(struct af_span group, struct af_span line,
                                struct af_arena *arena, af_content_add *add, void *context)
{
    const char *equals = memchr(line.data, '=', line.len);
    size_t len = equals == NULL ? line.len : (size_t)(equals - line.data);
    struct af_span name = af_text_trim((struct af_span){line.data, len});
    const char *detail = af_arena_format(arena, "group %.*s", (int)group.len, group.data);
    if (equals == NULL && line.data[0] == ';')
        return; /* a remark: Python fails to read such an entry point */
    if (hides_line(line))
        add(context, AF_CONTENT_COMMAND_NAME, line, NULL);
    else if (!af_text_span_equal(group, "console_scripts") &&
             !af_text_span_equal(group, "gui_scripts"))
        add(context, AF_CONTENT_ENTRY_POINT, name, detail);
    else if (!is_command_name(name))
        add(context, AF_CONTENT_COMMAND_NAME, name, NULL);
    else
        add(context,
            af_content_is_environment_command(name) ? AF_CONTENT_ENVIRONMENT
                                                    : AF_CONTENT_COMMAND,
            name, NULL);
}

void af_content_entry_points(struct af_span text, struct af_arena *arena, af_content_add *add,
                             void *context)
{
    struct af_span line;
    struct af_span group = {"", 0};
    while (af_text_line(&text, &line)) {
        line = af_text_trim(line);
        if (line.len == 0 || line.data[0] == '#')
            continue;
        if (line.data[0] == '[' && line.data[line.len - 1] == ']' && !hides_line(line))
            group = group_name(line);
        else
            compare_entry_point(group, line, arena, add, context);
    }
}
