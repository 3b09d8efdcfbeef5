/*
 * content_environment.c: which paths and commands belong to an environment itself, not to a
 * package in it.
 */
#include "kit/proof/wheel_content.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "kit/base/text.h"

const char *af_content_in_packages(const char *path)
{
    static const char *const folders[] = {"site-packages/", "dist-packages/"};
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        const char *at = strstr(path, folders[i]);
        if (at != NULL)
            return at + strlen(folders[i]);
    }
    return NULL;
}

bool af_content_is_environment_command(struct af_span name)
{
    static const char *const starts[] = {"activate", "deactivate", "activate_this",
                                         "pydoc",    "pythonw",    "python"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        size_t len = strlen(starts[i]);
        if (name.len < len || strncasecmp(name.data, starts[i], len) != 0)
            continue;
        bool is_python = starts[i][0] == 'p';
        while (is_python && len < name.len &&
               (isdigit((unsigned char)name.data[len]) || name.data[len] == '.'))
            len++;
        return len == name.len || name.data[len] == '.' ||
               (is_python && name.data[len - 1] == '.');
    }
    return false;
}

/* Whether the path is in the standard library or in its archive, lib/python313.zip. */
static bool is_standard_library(const char *path)
{
    static const char *const starts[] = {"lib/python", "lib64/python", "Lib/"};
    for (size_t i = 0; i < AF_COUNT(starts); i++)
        if (strncasecmp(path, starts[i], strlen(starts[i])) == 0)
            return af_content_in_packages(path) == NULL;
    return false;
}

bool af_content_is_environment_file(const char *path)
{
    static const char *const folders[] = {"bin/", "Scripts/"};
    static const char *const names[] = {"pyvenv.cfg", "pip.conf", "pip.ini", "uv.toml",
                                        "pyproject.toml"};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (strcasecmp(path, names[i]) == 0)
            return true;
    if (is_standard_library(path))
        return true;
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        size_t len = strlen(folders[i]);
        if (strncasecmp(path, folders[i], len) == 0 &&
            af_content_is_environment_command((struct af_span){path + len, strlen(path + len)}))
            return true;
    }
    return false;
}
