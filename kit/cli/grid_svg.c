/*
 * grid_svg.c: a grid as a picture in plain SVG. It has its own background, so that it can
 * be read on pages of either colour.
 */
#include "kit/cli/grid_view.h"

#include <string.h>

#define MARGIN 16
#define ROW_HEAD 56 /* width of the column with torch's releases */
#define CELL_WIDTH 78
#define CELL_HEIGHT 24
#define GAP 3
#define LINE 20
#define WIDTH_MIN 480

static const char *const style =
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "fill:#1b1f1d}\n.strong{font-weight:600}\n.title{font-size:16px;font-weight:600}\n"
    ".middle{text-anchor:middle}\n.quiet{fill:#55605b}\nrect{stroke:#00000026}\n"
    ".paper{fill:#fbfbf9}\n";
static const char *const dark_style =
    "text{fill:#e7ebe9}\n.quiet{fill:#a3aea9}\nrect{stroke:#ffffff33}\n.paper{fill:#131615}\n";

struct drawing {
    struct af_text *out;
    struct af_arena *arena;
    int width;
    double y; /* top of what comes next */
};

static void add_style(struct af_text *out)
{
    af_text_format(out, "<style>\n%s", style);
    for (size_t i = 0; i < AF_PLAN_WAY_COUNT; i++) {
        const char *name = af_plan_way_name((enum af_plan_way)i);
        af_text_format(out, "rect.%s{fill:%s}text.%s{fill:%s}\n", name,
                       af_cli_grid_colors[i].ground, name, af_cli_grid_colors[i].ink);
    }
    af_text_format(out, "@media (prefers-color-scheme:dark){\n%s", dark_style);
    for (size_t i = 0; i < AF_PLAN_WAY_COUNT; i++) {
        const char *name = af_plan_way_name((enum af_plan_way)i);
        af_text_format(out, "rect.%s{fill:%s}text.%s{fill:%s}\n", name,
                       af_cli_grid_colors[i].dark_ground, name, af_cli_grid_colors[i].dark_ink);
    }
    af_text_add(out, "}\n</style>\n");
}

static void add_text(struct af_text *out, double x, double y, const char *classes,
                     const char *text)
{
    af_text_format(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, classes);
    af_cli_grid_escape(out, text);
    af_text_add(out, "</text>\n");
}

/* An estimate of the width at 12 px, from DejaVu Sans, which is wider than most sans-serifs. */
static double width_of_text(const char *text)
{
    double width = 0;
    for (const char *at = text; *at != '\0'; at++)
        width += strchr("fijlrt .,:'()", *at) != NULL ? 4.2
                 : strchr("mwMW", *at) != NULL        ? 11
                                                      : 7.5;
    return width;
}

/* Where the next of several items in lines goes; starts a new line if it is full. */
static double place(struct drawing *drawing, double *x, const char *text, double extra)
{
    double width = extra + width_of_text(text) + 18;
    if (*x > MARGIN && *x + width > drawing->width - MARGIN) {
        *x = MARGIN;
        drawing->y += LINE;
    }
    double at = *x;
    *x += width;
    return at;
}

static void add_subjects(struct drawing *drawing, const struct af_plan_request *request)
{
    struct af_cli_grid_subject subjects[AF_CLI_GRID_SUBJECTS_MAX];
    size_t count = af_cli_grid_subjects(request, drawing->arena, subjects);
    double x = MARGIN;
    for (size_t i = 0; i < count; i++) {
        const char *text =
            af_arena_format(drawing->arena, "%s: %s", subjects[i].label, subjects[i].value);
        if (text == NULL)
            return;
        double at = place(drawing, &x, text, 0);
        add_text(drawing->out, at, drawing->y + 14, "quiet", text);
    }
    drawing->y += LINE + 10;
}

static void add_cell(struct drawing *drawing, const struct af_plan_grid_cell *cell, double x)
{
    const char *name = af_plan_way_name(cell->way);
    af_text_format(drawing->out, "<g><title>torch %s+%s: ", cell->torch, cell->build);
    af_cli_grid_escape(drawing->out, af_cli_grid_words(cell, drawing->arena));
    af_text_format(drawing->out,
                   "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\" "
                   "class=\"%s\"/>",
                   x, drawing->y, CELL_WIDTH, CELL_HEIGHT, name);
    const char *classes = af_arena_format(drawing->arena, "middle %s", name);
    if (classes != NULL)
        add_text(drawing->out, x + CELL_WIDTH / 2.0, drawing->y + 16, classes, cell->label);
    af_text_add(drawing->out, "</g>\n");
}

static double column_at(size_t column)
{
    return MARGIN + ROW_HEAD + (double)column * (CELL_WIDTH + GAP);
}

static void add_table(struct drawing *drawing, const struct af_plan_grid *grid)
{
    add_text(drawing->out, MARGIN, drawing->y + 14, "strong", "torch");
    for (size_t i = 0; i < grid->column_count; i++)
        add_text(drawing->out, column_at(i) + CELL_WIDTH / 2.0, drawing->y + 14,
                 "strong middle", grid->cells[i].build);
    drawing->y += CELL_HEIGHT;
    for (size_t row = 0; row < grid->row_count; row++) {
        const struct af_plan_grid_cell *cells = &grid->cells[row * grid->column_count];
        add_text(drawing->out, MARGIN, drawing->y + 16, "strong", cells[0].torch);
        for (size_t i = 0; i < grid->column_count; i++)
            if (cells[i].is_published)
                add_cell(drawing, &cells[i], column_at(i));
        drawing->y += CELL_HEIGHT + GAP;
    }
}

static void add_legend(struct drawing *drawing)
{
    double x = MARGIN;
    drawing->y += 12;
    for (int i = 0; i < AF_PLAN_WAY_COUNT; i++) {
        enum af_plan_way way = (enum af_plan_way)i;
        const char *label = af_plan_way_label(way);
        const char *text = label == NULL ? af_plan_way_title(way)
                                         : af_arena_format(drawing->arena, "%s: %s", label,
                                                           af_plan_way_title(way));
        if (text == NULL)
            return;
        double at = place(drawing, &x, text, LINE);
        af_text_format(drawing->out,
                       "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" rx=\"3\" "
                       "class=\"%s\"/>",
                       at, drawing->y + 2, af_plan_way_name(way));
        add_text(drawing->out, at + LINE, drawing->y + 13, "", text);
    }
    double at = place(drawing, &x, AF_CLI_GRID_EMPTY, 0);
    add_text(drawing->out, at, drawing->y + 13, "", AF_CLI_GRID_EMPTY);
    drawing->y += LINE + 6;
}

static int width_of(const struct af_plan_grid *grid)
{
    int width = (int)column_at(grid->column_count) - GAP + MARGIN;
    return width > WIDTH_MIN ? width : WIDTH_MIN;
}

void af_cli_grid_svg(const struct af_plan_grid *grid, const struct af_plan_request *request,
                     struct af_arena *arena, struct af_text *out)
{
    struct af_text body = {0};
    struct drawing drawing = {&body, arena, width_of(grid), MARGIN};
    add_text(&body, MARGIN, drawing.y + 14, "title", AF_CLI_GRID_TITLE);
    drawing.y += LINE + 8;
    add_subjects(&drawing, request);
    if (grid->row_count > 0) {
        add_table(&drawing, grid);
        add_legend(&drawing);
    } else {
        add_text(&body, MARGIN, drawing.y + 14, "",
                 "There is no CUDA build of torch for this platform.");
        drawing.y += LINE + 6;
    }
    add_text(&body, MARGIN, drawing.y + 14, "quiet", af_cli_grid_origin(request, arena));
    drawing.y += LINE + MARGIN;
    af_text_format(out,
                   AF_CLI_GRID_SVG_START
                   "xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
                   "viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>" AF_CLI_GRID_TITLE
                   "</title>\n",
                   drawing.width, drawing.y, drawing.width, drawing.y);
    add_style(out);
    af_text_add(out, "<rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n");
    af_text_add(out, af_text_get(&body));
    af_text_add(out, "</svg>\n");
    out->failed |= body.failed;
    af_text_release(&body);
}
