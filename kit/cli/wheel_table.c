/*
 * wheel_table.c: prints wheels as rows, for `find` and `plan --all`.
 */
#include "kit/cli/wheel_table.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "kit/catalog/publisher.h"

#define PACKAGE_COLUMNS 15 /* flash_attn_3_nv */
#define PLATFORM_COLUMNS 22

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

static bool has_reason(const struct af_candidate *verdict, int id)
{
    return (verdict->reason_bits >> id & 1u) != 0;
}

/* Bytes that a row may still have after `used` of them; a pipe has no right edge. */
static int room_after(int used)
{
    int room = af_screen_columns() - used;
    return isatty(STDOUT_FILENO) != 1 ? INT_MAX : room < 0 ? 0 : room;
}

void af_cli_wheel_table_head(struct af_text *out, unsigned columns)
{
    if ((columns & AF_CLI_WHEEL_VERDICT) != 0)
        af_text_format(out, "%-7s ", "FITS");
    if ((columns & AF_CLI_WHEEL_PACKAGE) != 0)
        af_text_format(out, "%-*s ", PACKAGE_COLUMNS, "PACKAGE");
    af_text_format(out, "%-11s %-6s %-5s %-5s %-6s %-*s %s\n", "VERSION", "TORCH", "CUDA",
                   "ABI", "PYTHON", PLATFORM_COLUMNS, "PLATFORM", "SOURCE, RELEASE");
}

/* The last column: "official v2.8.3", "mjun0812 v0.4.0". */
static void add_source(struct af_text *out, const struct af_catalog_wheel *wheel, int room)
{
    struct af_text source = {0};
    const char *name = wheel->official ? "official" : wheel->source;
    af_text_add_n(&source, name, af_publisher_len(name));
    if (wheel->release_tag != NULL)
        af_text_format(&source, " %s", wheel->release_tag);
    af_text_format(out, "%.*s\n", room, af_text_get(&source));
    out->failed |= source.failed;
    af_text_release(&source);
}

static void add_reasons(struct af_screen *screen, const struct af_candidate *verdict)
{
    struct af_text ids = {0};
    for (int id = 0; id < AF_REASON_BITS; id++)
        if (has_reason(verdict, id))
            af_text_format(&ids, "%s%s", ids.len > 0 ? ", " : "", af_reasons[id].text_id);
    if (ids.len > 0)
        af_screen_add(screen, 10, "", AF_TONE_PLAIN, af_text_get(&ids));
    screen->out->failed |= ids.failed;
    af_text_release(&ids);
}

void af_cli_wheel_table_row(struct af_text *out, const struct af_catalog_wheel *wheel,
                            unsigned columns, const struct af_candidate *verdict, bool verbose)
{
    struct af_screen screen = {out, AF_SCREEN_COLUMNS, false};
    size_t start = out->len;
    const char *python = af_starts_with(wheel->abi, "cp") ? wheel->abi : wheel->python;
    size_t platform_len = strcspn(wheel->platform, "."); /* show only the first of several */
    if (platform_len > PLATFORM_COLUMNS)
        platform_len = PLATFORM_COLUMNS;
    if ((columns & AF_CLI_WHEEL_VERDICT) != 0)
        af_text_format(out, "%-7s ", verdict != NULL ? af_answer_text(verdict->answer) : "-");
    if ((columns & AF_CLI_WHEEL_PACKAGE) != 0)
        af_text_format(out, "%-*.*s ", PACKAGE_COLUMNS, PACKAGE_COLUMNS, wheel->package);
    af_text_format(out, "%-11.11s %-6.6s %-5.5s %-5s %-6.6s %-*.*s ", wheel->version,
                   wheel->torch != NULL ? wheel->torch : "-", cuda_text(wheel), abi_text(wheel),
                   python, PLATFORM_COLUMNS, (int)platform_len, wheel->platform);
    add_source(out, wheel, room_after((int)(out->len - start)));
    if (!verbose)
        return;
    af_text_format(out, "        %s\n", wheel->filename);
    if (verdict != NULL)
        add_reasons(&screen, verdict);
}
