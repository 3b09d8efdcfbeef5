/*
 * content_metadata.c: what installers do because of the lines of a wheel's METADATA: they get
 * and install what Requires-Dist names, also from addresses and folders.
 */
#include "kit/proof/wheel_content.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"
#include "kit/formats/metadata.h"

bool af_content_hides_line(struct af_span line)
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
        if (is_requirement && af_content_hides_line(line))
            add(context, AF_CONTENT_HIDDEN_LINE, line, NULL);
        else if (is_requirement)
            compare_requirement(header.value, package, add, context);
    }
}
