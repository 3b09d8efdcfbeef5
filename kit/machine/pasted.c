/*
 * pasted.c: reads pasted text line by line: cleans a line of what terminals and
 * Markdown add and hands it to the readers. pasted_*.c know the programs, pasted_value.c
 * what values look like; pasted_apply.c turns the values into facts.
 */
#include "kit/machine/pasted.h"
#include "kit/base/json.h"
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <string.h>

#define LOG_LINES_MAX 100000u /* each state of a progress bar is one */

/* The bytes of an escape sequence at `at`: ESC [ ... letter, ESC ] ... BEL, or ESC and one. */
static size_t escape_len(const char *at, const char *end)
{
    const char *byte = at + 1;
    if (byte < end && *byte == '[') {
        for (byte++; byte < end && !(*byte >= '@' && *byte <= '~');)
            byte++;
    } else if (byte < end && *byte == ']') {
        while (byte < end && *byte != '\a' && *byte != '\\')
            byte++;
    }
    return (size_t)((byte < end ? byte + 1 : end) - at);
}

/* The length of a logger's timestamp at `at`: "2025-11-27T00:45:36.445695 - ", or
   "2025-11-27T00:45:36.4Z"; 0: there is none. */
static size_t timestamp_len(const char *at, const char *end)
{
    static const char form[] = "0000-00-00 00:00:00";
    if (end - at < (ptrdiff_t)sizeof form - 1)
        return 0;
    for (size_t i = 0; i < sizeof form - 1; i++) {
        bool right = form[i] == '0'   ? isdigit((unsigned char)at[i])
                     : form[i] == ' ' ? at[i] == 'T' || at[i] == ' '
                                      : at[i] == form[i];
        if (!right)
            return 0;
    }
    const char *rest = at + sizeof form - 1;
    while (rest < end && (isdigit((unsigned char)*rest) || *rest == '.'))
        rest++;
    rest += rest < end && *rest == 'Z';
    if (end - rest >= 2 && memcmp(rest, " -", 2) == 0 &&
        (end - rest == 2 || (unsigned char)rest[2] <= ' '))
        rest += end - rest == 2 || rest[2] != ' ' ? 2 : 3;
    return (size_t)(rest - at);
}

/* Bytes of encoding, Markdown and layout to leave out, or to replace by a blank. */
static size_t ornament_len(const char *at, const char *end, bool *blank_out)
{
    size_t left = (size_t)(end - at);
    *blank_out = false;
    if (*at == '`' || *at == '\0') /* UTF-16 has a zero byte with each ASCII character */
        return 1;
    if (left >= 2 && (memcmp(at, "**", 2) == 0 || memcmp(at, "\xFF\xFE", 2) == 0))
        return 2;
    if (left >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0)
        return 3;
    if (timestamp_len(at, end) > 0)
        return timestamp_len(at, end);
    *blank_out = true;
    if (left >= 2 && memcmp(at, "\xC2\xA0", 2) == 0) /* no-break space */
        return 2;
    return (unsigned char)*at < ' ' || *at == 0x7F ? 1 : 0;
}

/* Whether nothing to leave out begins with this byte: no ornament, escape or timestamp. */
static bool is_plain(char byte)
{
    return byte >= ' ' && byte < 0x7F && byte != '`' && byte != '*' &&
           !(byte >= '0' && byte <= '9');
}

/* Writes the line as a person reads it into `buffer` of AF_PASTED_LINE_BYTES; its text. */
static const char *clean(struct af_span line, char *buffer)
{
    const char *end = line.data + line.len;
    size_t len = 0;
    for (const char *at = line.data; at < end && len + 1 < AF_PASTED_LINE_BYTES;) {
        bool blank;
        if (is_plain(*at)) {
            buffer[len++] = *at++;
            continue;
        }
        size_t skip = *at == '\033' ? escape_len(at, end) : 0;
        if (skip > 0) {
            at += skip;
            continue;
        }
        if (*at == '\r' && at + 1 < end && at[1] != '\0') { /* overwrites a progress bar */
            len = 0;
            at++;
            continue;
        }
        skip = ornament_len(at, end, &blank);
        if (skip == 0 || blank)
            buffer[len++] = skip == 0 ? *at : ' ';
        at += skip == 0 ? 1 : skip;
    }
    while (len > 0 && buffer[len - 1] == ' ')
        len--;
    buffer[len] = '\0';
    const char *text = buffer + strspn(buffer, " ");
    while (text[0] == '>' && (text[1] == ' ' || text[1] == '>')) {
        text++;
        text += strspn(text, " ");
    }
    return text;
}

void af_pasted_begin(struct af_pasted_reader *reader, struct af_machine *machine,
                     const char *name)
{
    *reader = (struct af_pasted_reader){
        .machine = *machine, .target = machine, .name = name, .kind = AF_ORIGIN_LINE};
}

void af_pasted_line(struct af_pasted_reader *reader, struct af_span line, size_t number)
{
    static bool (*const readers[])(struct af_pasted_reader *, const char *) = {
        af_pasted_gpu_line, af_pasted_tool_line, af_pasted_report_line};
    char buffer[AF_PASTED_LINE_BYTES];
    reader->number = number;
    if (reader->is_log && reader->read_count++ > LOG_LINES_MAX)
        return;
    bool is_json = af_pasted_json_line(reader, line);
    const char *text = is_json ? "" : clean(line, buffer);
    reader->is_log = reader->is_log || af_pasted_begins_log(text);
    if (af_pasted_you_have(reader, text)) {
        reader->line_count++;
        return;
    }
    bool is_package = is_json || (text[0] != '\0' && af_pasted_package_line(reader, text));
    bool any = is_package;
    for (size_t i = 0; !any && text[0] != '\0' && i < AF_COUNT(readers); i++)
        any = readers[i](reader, text);
    any |= af_pasted_installer_line(reader, text);
    any |= af_pasted_path_line(reader, text);
    reader->kind = AF_ORIGIN_PROSE;
    any |= af_pasted_prose_line(reader, text, is_package);
    reader->kind = AF_ORIGIN_LINE;
    if (text[0] == '\0' && !any)
        af_pasted_packages_end(reader);
    reader->line_count += any;
}

void af_pasted_end(struct af_pasted_reader *reader)
{
    af_pasted_packages_end(reader);
    af_pasted_apply(reader);
    if (reader->notes.len > 0)
        reader->machine.notes =
            af_arena_text(&reader->machine.arena, af_text_get(&reader->notes));
    reader->machine.pasted = true;
    *reader->target = reader->machine;
    af_text_release(&reader->notes);
}

/* The first byte that is not a blank; 0 if all are blank. */
static char first_byte(struct af_span text)
{
    text = af_text_trim(text);
    return text.len > 0 ? text.data[0] : '\0';
}

/* Whether the text begins as JSON does: not "[Bug]: ..." or "{code}", as people's texts do. */
static bool begins_json(struct af_span text)
{
    const char first = first_byte(text);
    const char *at = memchr(text.data, first, text.len), *end = text.data + text.len;
    if (first != '{' && first != '[')
        return first == '\0';
    for (at++; at < end && isspace((unsigned char)*at);)
        at++;
    return at == end || strchr(first == '{' ? "\"}" : "\"[{]-0123456789tfn", *at) != NULL;
}

bool af_pasted_recognise(struct af_span text)
{
    struct af_machine machine;
    struct af_pasted_reader reader;
    struct af_span line;
    if (first_byte(text) == '{' && begins_json(text))
        return false;
    af_machine_init(&machine, "text", "not read");
    af_pasted_begin(&reader, &machine, "text");
    for (size_t i = 1; reader.line_count == 0 && af_text_line(&text, &line); i++)
        af_pasted_line(&reader, line, i);
    af_text_release(&reader.notes);
    af_machine_release(&reader.machine);
    return reader.line_count > 0;
}

enum anyflash_status af_pasted_read(struct af_machine *machine, struct af_span text,
                                    const char *name, struct anyflash_error *err)
{
    struct af_pasted_reader reader;
    struct af_span line;
    char shown[120];
    const char *slash = strrchr(name, '/');
    name = slash != NULL ? slash + 1 : name;
    af_text_quote(shown, sizeof shown, name, strlen(name));
    if (text.len > AF_PASTED_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' is larger than %u MiB", shown,
                       AF_PASTED_BYTES_MAX >> 20);
    af_pasted_begin(&reader, machine, shown);
    for (size_t i = 1; af_text_line(&text, &line); i++)
        af_pasted_line(&reader, line, i);
    if (reader.line_count == 0) {
        af_text_release(&reader.notes);
        machine->arena.newest = reader.machine.arena.newest;
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is neither a machine record nor output that describes a machine, "
                       "such as collect_env's",
                       shown);
    }
    af_pasted_end(&reader);
    return ANYFLASH_OK;
}

/* Whether it is JSON of another program: an object without any key of a record. */
static bool is_foreign(struct af_span bytes)
{
    json_t *json;
    size_t group_count;
    const struct af_group *groups = af_machine_groups(&group_count);
    if (af_json_parse(bytes, AF_MACHINE_BYTES_MAX, "text", &json, NULL) != ANYFLASH_OK)
        return false;
    bool ours = !json_is_object(json) || json_object_size(json) == 0 ||
                json_object_get(json, "schema") != NULL ||
                json_object_get(json, "remark") != NULL;
    for (size_t i = 0; i < group_count; i++)
        ours = ours || json_object_get(json, groups[i].name) != NULL;
    json_decref(json);
    return !ours;
}

enum anyflash_status af_machine_read(struct af_machine *machine, struct af_span bytes,
                                     const char *name, struct anyflash_error *err)
{
    if (bytes.len >= 3 && memcmp(bytes.data, "\xEF\xBB\xBF", 3) == 0)
        bytes = (struct af_span){bytes.data + 3, bytes.len - 3};
    bool json = begins_json(bytes) && (first_byte(bytes) != '[' || !af_pasted_recognise(bytes));
    if (!json)
        return af_pasted_read(machine, bytes, name, err);
    if (is_foreign(bytes) && af_pasted_read(machine, bytes, name, NULL) == ANYFLASH_OK)
        return ANYFLASH_OK;
    return af_machine_parse(machine, bytes, name, err);
}
