/*
 * wheelhouse_page.c: the pages of an index as HTML (PEP 503) and as JSON (PEP
 * 691). Names, versions and hashes are of plain letters (wheel_name.h); what
 * METADATA says is escaped.
 */
#include <inttypes.h>
#include <string.h>

#include "kit/install/wheelhouse_parts.h"

#define REPOSITORY_VERSION "1.1" /* PEP 700 */

static void add_escaped(struct af_text *text, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        switch (*c) {
        case '&':
            af_text_add(text, "&amp;");
            break;
        case '<':
            af_text_add(text, "&lt;");
            break;
        case '>':
            af_text_add(text, "&gt;");
            break;
        case '"':
            af_text_add(text, "&quot;");
            break;
        default:
            af_text_add_n(text, c, 1);
        }
    }
}

/* A string of JSON. */
static void add_string(struct af_text *text, const char *value)
{
    af_text_add(text, "\"");
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            af_text_format(text, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            af_text_format(text, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            af_text_add_n(text, c, 1);
    }
    af_text_add(text, "\"");
}

/* RFC 3986: everything but unreserved letters as %XX; '+' would be a blank to some. */
static void add_link(struct af_text *text, const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~";
    for (const char *c = name; *c != '\0'; c++) {
        if (strchr(plain, *c) != NULL)
            af_text_add_n(text, c, 1);
        else
            af_text_format(text, "%%%02X", (unsigned)(unsigned char)*c);
    }
}

static void begin_html(struct af_text *text, const char *title)
{
    af_text_format(text,
                   "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"pypi:repository-version\" content=\"%s\">\n%s\n"
                   "<title>%s</title>\n</head>\n<body>\n",
                   REPOSITORY_VERSION, AF_WHEELHOUSE_MARK_HTML, title);
}

static void begin_json(struct af_text *text)
{
    af_text_format(text, "{\"meta\": {\"api-version\": \"%s\", %s}", REPOSITORY_VERSION,
                   AF_WHEELHOUSE_MARK_JSON);
}

void af_wheelhouse_project_html(const struct af_wheelhouse_wheel *wheels, size_t count,
                                struct af_text *text)
{
    begin_html(text, wheels[0].project);
    for (size_t i = 0; i < count; i++) {
        const struct af_wheelhouse_wheel *wheel = &wheels[i];
        af_text_add(text, "<a href=\"");
        add_link(text, wheel->filename);
        af_text_format(text, "#sha256=%s\"", wheel->sha256);
        if (wheel->requires_python != NULL) {
            af_text_add(text, " data-requires-python=\"");
            add_escaped(text, wheel->requires_python);
            af_text_add(text, "\"");
        }
        if (wheel->metadata_sha256 != NULL)
            af_text_format(text,
                           " data-core-metadata=\"sha256=%s\""
                           " data-dist-info-metadata=\"sha256=%s\"",
                           wheel->metadata_sha256, wheel->metadata_sha256);
        af_text_format(text, ">%s</a><br>\n", wheel->filename);
    }
    af_text_add(text, "</body>\n</html>\n");
}

/* Each version once. */
static void add_versions(const struct af_wheelhouse_wheel *wheels, size_t count,
                         struct af_text *text)
{
    bool is_first = true;
    for (size_t i = 0; i < count; i++) {
        bool is_known = false;
        for (size_t k = 0; k < i && !is_known; k++)
            is_known = strcmp(wheels[k].version, wheels[i].version) == 0;
        if (is_known)
            continue;
        af_text_add(text, is_first ? "" : ", ");
        add_string(text, wheels[i].version);
        is_first = false;
    }
}

static void add_file(const struct af_wheelhouse_wheel *wheel, struct af_text *text)
{
    af_text_format(text, "{\"filename\": \"%s\", \"url\": \"", wheel->filename);
    add_link(text, wheel->filename);
    af_text_format(text, "\", \"hashes\": {\"sha256\": \"%s\"}, \"size\": %" PRIu64,
                   wheel->sha256, wheel->size_bytes);
    if (wheel->requires_python != NULL) {
        af_text_add(text, ", \"requires-python\": ");
        add_string(text, wheel->requires_python);
    }
    if (wheel->metadata_sha256 != NULL)
        af_text_format(text, ", \"core-metadata\": {\"sha256\": \"%s\"}",
                       wheel->metadata_sha256);
    af_text_add(text, "}");
}

void af_wheelhouse_project_json(const struct af_wheelhouse_wheel *wheels, size_t count,
                                struct af_text *text)
{
    begin_json(text);
    af_text_format(text, ",\n \"name\": \"%s\",\n \"versions\": [", wheels[0].project);
    add_versions(wheels, count, text);
    af_text_add(text, "],\n \"files\": [");
    for (size_t i = 0; i < count; i++) {
        af_text_add(text, i == 0 ? "\n  " : ",\n  ");
        add_file(&wheels[i], text);
    }
    af_text_add(text, "]}\n");
}

size_t af_wheelhouse_project_wheels(const struct af_wheelhouse_wheel *wheels, size_t count)
{
    size_t n = 0;
    while (n < count && strcmp(wheels[n].project, wheels[0].project) == 0)
        n++;
    return n;
}

void af_wheelhouse_root_html(const struct af_wheelhouse_wheel *wheels, size_t count,
                             struct af_text *text)
{
    begin_html(text, "Simple index");
    for (size_t i = 0; i < count; i += af_wheelhouse_project_wheels(&wheels[i], count - i))
        af_text_format(text, "<a href=\"%s/\">%s</a><br>\n", wheels[i].project,
                       wheels[i].project);
    af_text_add(text, "</body>\n</html>\n");
}

void af_wheelhouse_root_json(const struct af_wheelhouse_wheel *wheels, size_t count,
                             struct af_text *text)
{
    begin_json(text);
    af_text_add(text, ",\n \"projects\": [");
    for (size_t i = 0; i < count; i += af_wheelhouse_project_wheels(&wheels[i], count - i))
        af_text_format(text, "%s{\"name\": \"%s\"}", i == 0 ? "" : ", ", wheels[i].project);
    af_text_add(text, "]}\n");
}
