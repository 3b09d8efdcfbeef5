/*
 * grid_view.h: the best way for every torch and CUDA build, as a document to publish:
 * HTML for browsers and printers, SVG for READMEs. Each is one file without scripts and
 * references, in light or dark as the reader's system is set, and each cell says its way
 * in words.
 */
#ifndef AF_KIT_CLI_GRID_VIEW_H
#define AF_KIT_CLI_GRID_VIEW_H

#include "kit/plan/grid.h"

/* A document starts with this text, by which an earlier one is recognised. */
#define AF_CLI_GRID_HTML_START "<!DOCTYPE html>\n<!-- anyflash matrix -->\n"
#define AF_CLI_GRID_SVG_START "<!-- anyflash matrix -->\n<svg "

/*
 * Append the document to `out`. The grid was made for the request. Texts are escaped.
 * When memory runs out, `arena` or `out` has failed.
 */
void af_cli_grid_html(const struct af_plan_grid *grid, const struct af_plan_request *request,
                      struct af_arena *arena, struct af_text *out);
void af_cli_grid_svg(const struct af_plan_grid *grid, const struct af_plan_request *request,
                     struct af_arena *arena, struct af_text *out);

/*
 * What both documents share. The colours of a way: `ground` behind a text in `ink`. Those of
 * the web page (page/style.css) are the same; a test compares them.
 */
struct af_cli_grid_colors {
    const char *ground, *ink;           /* light */
    const char *dark_ground, *dark_ink; /* dark */
};
extern const struct af_cli_grid_colors af_cli_grid_colors[AF_PLAN_WAY_COUNT];

#define AF_CLI_GRID_TITLE "FlashAttention for every torch and CUDA build"
#define AF_CLI_GRID_EMPTY "empty: torch was not published for this CUDA"

/* What the grid was made for: "GPU", "RTX 4090". */
struct af_cli_grid_subject {
    const char *label;
    const char *value;
};
#define AF_CLI_GRID_SUBJECTS_MAX 16

/* Returns how many it has set, all texts not NULL. */
size_t af_cli_grid_subjects(const struct af_plan_request *request, struct af_arena *arena,
                            struct af_cli_grid_subject subjects[AF_CLI_GRID_SUBJECTS_MAX]);

/* "official wheel 2.8.3" */
const char *af_cli_grid_words(const struct af_plan_grid_cell *cell, struct af_arena *arena);

/* "catalog of 2026-11-20, 8,139 wheels; anyflash 0.1.0" */
const char *af_cli_grid_origin(const struct af_plan_request *request, struct af_arena *arena);

/* Appends text for XML and HTML, inside elements and attributes. */
void af_cli_grid_escape(struct af_text *out, const char *text);

#endif
