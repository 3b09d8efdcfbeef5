/*
 * wheel_table.c: prints wheels as rows of a table.
 */
#include "kit/cli/wheel_table.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/catalog/publisher.h"
#include "kit/cli/screen.h"

#define VERDICT_COLUMNS 7
#define PACKAGE_COLUMNS 15 /* flash_attn_3_nv */
#define VERSION_COLUMNS 11
#define TORCH_COLUMNS 6
#define CUDA_COLUMNS 5
#define ABI_COLUMNS 5
#define PYTHON_COLUMNS 6
#define PLATFORM_COLUMNS 22
#define ROW_INDENT 8 /* of what follows a row */

/* The C++ ABI that the extension has; if that is unknown, the one in the name. */
static const char *abi_text(const struct af_catalog_wheel *wheel)
{
    enum af_answer abi =
        wheel->cxx11abi_effective != AF_UNKNOWN ? wheel->cxx11abi_effective : wheel->cxx11abi;
    return abi == AF_UNKNOWN ? "-" : abi == AF_YES ? "true" : "false";
}

static const char *cuda_text(const struct af_catalog_wheel *wheel)
{
    if (wheel->rocm)
        return "rocm";
    return wheel->cuda != NULL ? wheel->cuda : "-";
}

/*
 * The cells of one row, one column apart. A cell that would pass the right edge of a terminal
 * starts an indented line; a pipe has no right edge.
 */
struct cells {
    struct af_text *out;
    int columns; /* of the screen */
    int column;  /* where the last cell ends */
    int end;     /* where its column ends */
};

static struct cells first_cell(struct af_text *out)
{
    return (struct cells){out, isatty(STDOUT_FILENO) == 1 ? af_screen_columns() : INT_MAX, 0,
                          -1};
}

static void add_cell(struct cells *cells, int width, const char *text)
{
    int len = af_cli_text_columns(text, strlen(text));
    int start = cells->end + 1;
    if (start > 0 && start + (len > width ? len : width) > cells->columns) {
        af_text_add(cells->out, "\n");
        cells->column = 0;
        start = ROW_INDENT;
    }
    af_text_format(cells->out, "%*s%s", start - cells->column, "", text);
    cells->column = start + len;
    cells->end = start + (len > width ? len : width);
}

void af_cli_wheel_table_head(struct af_text *out, unsigned columns)
{
    struct cells cells = first_cell(out);
    if ((columns & AF_CLI_WHEEL_VERDICT) != 0)
        add_cell(&cells, VERDICT_COLUMNS, "FITS");
    if ((columns & AF_CLI_WHEEL_PACKAGE) != 0)
        add_cell(&cells, PACKAGE_COLUMNS, "PACKAGE");
    add_cell(&cells, VERSION_COLUMNS, "VERSION");
    add_cell(&cells, TORCH_COLUMNS, "TORCH");
    add_cell(&cells, CUDA_COLUMNS, "CUDA");
    add_cell(&cells, ABI_COLUMNS, "ABI");
    add_cell(&cells, PYTHON_COLUMNS, "PYTHON");
    add_cell(&cells, PLATFORM_COLUMNS, "PLATFORM");
    add_cell(&cells, 0, "SOURCE, RELEASE");
    af_text_add(out, "\n");
}

/* The last column: "official v2.8.3", "mjun0812 v0.4.0". */
static void add_source(struct cells *cells, const struct af_catalog_wheel *wheel)
{
    struct af_text source = {0};
    const char *name = wheel->official ? "official" : wheel->source;
    af_text_add_n(&source, name, af_publisher_len(name));
    if (wheel->release_tag != NULL)
        af_text_format(&source, " %s", wheel->release_tag);
    add_cell(cells, 0, af_text_get(&source));
    af_text_release(&source);
}

static void add_reasons(struct af_screen *screen, const struct af_candidate *verdict)
{
    struct af_text ids = {0};
    for (int id = 0; id < AF_REASON_BITS; id++)
        if ((verdict->reason_bits >> id & 1u) != 0)
            af_text_format(&ids, "%s%s", ids.len > 0 ? ", " : "", af_reasons[id].text_id);
    if (ids.len > 0)
        af_screen_take(screen, 10, "", AF_TONE_PLAIN, &ids);
}

void af_cli_wheel_table_row(struct af_text *out, const struct af_catalog_wheel *wheel,
                            unsigned columns, const struct af_candidate *verdict, bool verbose)
{
    struct af_screen screen = {out, af_screen_columns(), false};
    struct cells cells = first_cell(out);
    char platform[PLATFORM_COLUMNS + 1]; /* only the first of several */
    snprintf(platform, sizeof platform, "%.*s", (int)strcspn(wheel->platform, "."),
             wheel->platform);
    if ((columns & AF_CLI_WHEEL_VERDICT) != 0)
        add_cell(&cells, VERDICT_COLUMNS,
                 verdict != NULL ? af_answer_text(verdict->answer) : "-");
    if ((columns & AF_CLI_WHEEL_PACKAGE) != 0)
        add_cell(&cells, PACKAGE_COLUMNS, wheel->package);
    add_cell(&cells, VERSION_COLUMNS, wheel->version);
    add_cell(&cells, TORCH_COLUMNS, wheel->torch != NULL ? wheel->torch : "-");
    add_cell(&cells, CUDA_COLUMNS, cuda_text(wheel));
    add_cell(&cells, ABI_COLUMNS, abi_text(wheel));
    add_cell(&cells, PYTHON_COLUMNS,
             af_starts_with(wheel->abi, "cp") ? wheel->abi : wheel->python);
    add_cell(&cells, PLATFORM_COLUMNS, platform);
    add_source(&cells, wheel);
    af_text_add(out, "\n");
    if (!verbose)
        return;
    af_text_format(out, "%*s%s\n", ROW_INDENT, "", wheel->filename);
    if (verdict != NULL)
        add_reasons(&screen, verdict);
}
