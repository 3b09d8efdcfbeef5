/*
 * published.c: the rows are sorted by package, then by version.
 */
#include "kit/project/published.h"

#include <string.h>

#include "kit/formats/embedded.h"
#include "kit/formats/version.h"
#include "kit/project/requirements.h"

enum { PACKAGE, VERSION, DAY };

#define ROWS af_embedded_index_releases

enum af_answer af_published_has(const char *package, const char *version)
{
    struct af_version wanted, row;
    bool is_known = false, is_newer = false;
    if (!af_version_parse(version, strlen(version), &wanted))
        return AF_UNKNOWN;
    for (size_t i = 0; ROWS[i][PACKAGE] != NULL; i++) {
        if (strcmp(ROWS[i][PACKAGE], package) != 0 ||
            !af_version_parse(ROWS[i][VERSION], strlen(ROWS[i][VERSION]), &row))
            continue;
        int order = af_version_compare_public(&wanted, &row);
        if (order == 0)
            return AF_YES;
        is_known = true;
        is_newer = order > 0; /* than the last row of the package, in the end */
    }
    return is_newer || !is_known ? AF_UNKNOWN : AF_NO;
}

const char *af_published_nth(const char *package, const char *specifier, size_t nth)
{
    size_t count = 0;
    while (ROWS[count][PACKAGE] != NULL)
        count++;
    while (count-- > 0)
        if (strcmp(ROWS[count][PACKAGE], package) == 0 &&
            af_project_allows(specifier, ROWS[count][VERSION]) == AF_YES && nth-- == 0)
            return ROWS[count][VERSION];
    return NULL;
}

const char *af_published_day(const char *package, const char *version)
{
    for (size_t i = 0; ROWS[i][PACKAGE] != NULL; i++)
        if (strcmp(ROWS[i][PACKAGE], package) == 0 && strcmp(ROWS[i][VERSION], version) == 0)
            return ROWS[i][DAY];
    return "";
}
