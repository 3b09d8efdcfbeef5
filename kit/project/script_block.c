/*
 * script_block.c: the block "# /// script" of a Python file. Source: PEP 723.
 */
#include <string.h>

#include "kit/project/project_asks.h"

/* The line without its end, and where the next one starts. */
static struct af_span take_line(struct af_span text, size_t *at)
{
    const char *start = text.data + *at;
    const char *end = memchr(start, '\n', text.len - *at);
    size_t len = end == NULL ? text.len - *at : (size_t)(end - start);
    *at += len + (end != NULL);
    return (struct af_span){start, len - (len > 0 && start[len - 1] == '\r')};
}

static bool is_line(struct af_span line, const char *text)
{
    return line.len == strlen(text) && memcmp(line.data, text, line.len) == 0;
}

/* The TOML of the block stays where it is in the file, and all other bytes become blanks. */
void af_project_asks_read_script(struct af_project_asks *asks, size_t source)
{
    static const char first[] = "# /// script";
    struct af_span text = asks->sources[source].text;
    const bool has_block = memmem(text.data, text.len, first, sizeof first - 1) != NULL;
    char *block = has_block ? af_arena_alloc(asks->arena, text.len) : NULL;
    bool is_inside = false, is_closed = false;
    if (block == NULL)
        return;
    memset(block, ' ', text.len);
    for (size_t at = 0; at < text.len && !is_closed;) {
        struct af_span line = take_line(text, &at);
        is_closed = is_inside && is_line(line, "# ///");
        if (is_inside && line.len >= 2 && memcmp(line.data, "# ", 2) == 0 && !is_closed)
            memcpy(block + (line.data - text.data) + 2, line.data + 2, line.len - 2);
        else
            is_inside = is_line(line, first) || (is_inside && is_line(line, "#"));
        block[at - 1] = '\n';
    }
    if (is_closed)
        af_project_asks_read_tables(asks, source, (struct af_span){block, text.len});
}
