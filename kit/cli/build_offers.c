/*
 * build_offers.c: offers of builds for people and programs.
 */
#include "kit/cli/build_offers.h"

#include "kit/cli/facts_view.h"

#include <math.h>

#define HOUR 3600.0

const char *af_cli_build_time_text(struct af_arena *arena,
                                   const struct af_offer_build_needs *needs)
{
    double seconds = needs->wall_seconds;
    const char *text =
        seconds <= 0
            ? af_arena_format(arena, "%.0f min of one core", ceil(needs->cpu_seconds / 60))
        : seconds >= 2 * HOUR ? af_arena_format(arena, "about %.1f hours", seconds / HOUR)
                              : af_arena_format(arena, "about %.0f min", ceil(seconds / 60));
    return text == NULL ? "" : text;
}

static void view_one(struct af_page *page, int indent, const struct af_offer_build_offer *offer,
                     struct af_arena *arena)
{
    const struct af_offer_build_needs *needs = &offer->needs;
    const char *line = af_offer_build_line(offer, arena);
    af_page_format(page, indent + 2, "", AF_TONE_PLAIN, "%s, %s: %s", offer->name,
                   af_cli_build_time_text(arena, needs),
                   offer->holds == NULL ? "" : offer->holds);
    af_page_format(page, indent + 2, "", AF_TONE_PLAIN,
                   "%s of memory (%s the largest compiler), %s of disk, %s to download",
                   af_bytes_text(arena, (int64_t)needs->memory_bytes),
                   af_bytes_text(arena, (int64_t)needs->peak_bytes),
                   af_bytes_text(arena, (int64_t)needs->disk_bytes),
                   af_bytes_text(arena, (int64_t)needs->download_bytes));
    if (line != NULL)
        af_page_command(page, indent + 2, line);
}

void af_cli_build_offers_view(struct af_page *page, int indent,
                              const struct af_offer_build_offer *offers, size_t count,
                              struct af_arena *arena)
{
    for (size_t i = 0; i < count; i++)
        view_one(page, indent, &offers[i], arena);
}
