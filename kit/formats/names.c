/*
 * names.c: PEP 503 names. Used wherever two spellings of a distribution meet.
 */
#include "kit/formats/names.h"

#include <string.h>

static bool is_separator(char letter)
{
    return letter == '-' || letter == '_' || letter == '.';
}

bool af_name_normalise(struct af_span name, char *buffer, size_t size_bytes)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len; i++) {
        char letter = name.data[i];
        if (is_separator(letter) && i + 1 < name.len && is_separator(name.data[i + 1]))
            continue;
        if (len + 1 >= size_bytes) {
            buffer[0] = '\0';
            return false;
        }
        if (is_separator(letter))
            letter = '-';
        else if (letter >= 'A' && letter <= 'Z')
            letter = (char)(letter - 'A' + 'a');
        buffer[len++] = letter;
    }
    buffer[len] = '\0';
    return true;
}

bool af_name_is(struct af_span name, const char *normalised)
{
    char buffer[128];
    return name.len <= 2 * sizeof buffer && af_name_normalise(name, buffer, sizeof buffer) &&
           strcmp(buffer, normalised) == 0;
}
