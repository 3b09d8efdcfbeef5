/*
 * wheel_table.c: prints wheels as rows, for `find` and `plan --all`.
 */
#include "kit/cli/wheel_table.h"

#include <string.h>

#include "kit/catalog/publisher.h"

#define SOURCE_COLUMNS 26
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

void af_cli_wheel_table_head(struct af_text *out, bool with_verdict)
{
    af_text_format(out, "%s%-11s %-6s %-5s %-5s %-6s %-*s %s\n", with_verdict ? "FITS    " : "",
                   "VERSION", "TORCH", "CUDA", "ABI", "PYTHON", PLATFORM_COLUMNS, "PLATFORM",
                   "SOURCE, RELEASE");
}

static void add_reasons(struct af_page *page, const struct af_candidate *verdict)
{
    struct af_text ids = {0};
    for (int id = 0; id < AF_REASON_COUNT && id < 64; id++)
        if (has_reason(verdict, id))
            af_text_format(&ids, "%s%s", ids.len > 0 ? ", " : "",
                           af_reason_text_id((enum af_reason_id)id));
    if (ids.len > 0)
        af_page_add(page, 10, "", AF_TONE_PLAIN, af_text_get(&ids));
    page->out->failed |= ids.failed;
    af_text_release(&ids);
}

void af_cli_wheel_table_row(struct af_text *out, const struct af_catalog_wheel *wheel,
                            bool with_verdict, const struct af_candidate *verdict, bool verbose)
{
    struct af_page page = {out, AF_PAGE_COLUMNS, false};
    const char *source = wheel->official ? "official" : wheel->source;
    int source_len = (int)af_publisher_len(source);
    const char *tag = wheel->release_tag != NULL ? wheel->release_tag : "";
    const char *python = af_starts_with(wheel->abi, "cp") ? wheel->abi : wheel->python;
    size_t platform_len = strcspn(wheel->platform, "."); /* show only the first of several */
    if (platform_len > PLATFORM_COLUMNS)
        platform_len = PLATFORM_COLUMNS;
    if (with_verdict)
        af_text_format(out, "%-7s ", verdict != NULL ? af_answer_text(verdict->answer) : "-");
    af_text_format(out, "%-11.11s %-6.6s %-5.5s %-5s %-6.6s %-*.*s ", wheel->version,
                   wheel->torch != NULL ? wheel->torch : "-", cuda_text(wheel), abi_text(wheel),
                   python, PLATFORM_COLUMNS, (int)platform_len, wheel->platform);
    af_text_format(out, "%.*s%s%.*s\n",
                   source_len < SOURCE_COLUMNS ? source_len : SOURCE_COLUMNS, source,
                   tag[0] == '\0' ? "" : " ",
                   source_len < SOURCE_COLUMNS ? SOURCE_COLUMNS - source_len : 0, tag);
    if (!verbose)
        return;
    af_page_add(&page, 8, "", AF_TONE_PLAIN, wheel->filename);
    if (verdict != NULL)
        add_reasons(&page, verdict);
}
