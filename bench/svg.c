/*
 * svg.c: draws the reports in plain SVG 1.1, without scripts or fonts: that of the cases as a
 * bar chart; that of textbook attention as two panels, time and memory over N, on logarithmic
 * axes.
 */
#include "bench/textbook_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 940
#define LEFT 290    /* names are left of this */
#define SCALE 500.0 /* pixels of the full roofline */
#define VALUES 120  /* pixels at the right for the figures, which no bar or line enters */
#define BAR 14
#define THIN 6
#define GAP 8
#define HEADING 34
#define TOP 76

/* Of the panels. */
#define PANELS_WIDTH 960
#define PANELS_HEIGHT 400
#define PANEL_WIDTH 340
#define PANEL_TOP 84
#define PANEL_BOTTOM 350

/* In the order of the peers. */
static const char *const peer_colors[AF_BENCH_PEER_COUNT] = {"#e08214", "#fdb863", "#d6604d",
                                                             "#c51b7d", "#8073ac", "#4d9221",
                                                             "#3690c0", "#bf812d", "#35978f"};

/* Adds text; characters with a meaning in XML are escaped. */
static void add_text(struct af_text *out, double x, double y, const char *attributes,
                     const char *text)
{
    af_text_format(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '<' || *at == '>' || *at == '&' || *at == '"')
            af_text_format(out, "&#%d;", *at);
        else
            af_text_add_n(out, at, 1);
    }
    af_text_add(out, "</text>\n");
}

/*
 * Starts a document; `attributes` and `element` are its own. Its heading names the machine. The
 * background is white, so that it is readable on any page.
 */
static void add_start(struct af_text *out, int width, int height, const char *attributes,
                      const char *element, const char *heading,
                      const struct af_bench_facts *facts)
{
    char text[200];
    af_text_format(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                   "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\"%s>\n"
                   "%s<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                   width, height, width, height, attributes, element);
    snprintf(text, sizeof text, "%s: %s, %d threads", heading, facts->cpu, facts->threads);
    add_text(out, 16, 28, "font-size=\"16\" font-weight=\"bold\"", text);
}

static void add_bar(struct af_text *out, double y, double part, int height, const char *color)
{
    double width = part * SCALE;
    const double capacity = WIDTH - LEFT - VALUES;
    af_text_format(out,
                   "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
                   LEFT, y, width > capacity ? capacity : width, height, color);
}

static double peer_part(const struct af_bench_line *line, size_t i)
{
    double ratio = af_bench_line_ratio(line, i);
    return ratio > 0 ? af_bench_line_part(line) / ratio : 0;
}

static int line_height(const struct af_bench_line *line)
{
    int height = BAR + GAP;
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT; i++)
        height += peer_part(line, i) > 0 ? THIN : 0;
    return height;
}

static void add_line(struct af_text *out, const struct af_bench_line *line, double y)
{
    char shape[AF_BENCH_NAME_BYTES], value[64];
    double part = af_bench_line_part(line);
    af_bench_shape(line->row, shape);
    snprintf(value, sizeof value, "%.0f %%, %.4g ms", part * 100, af_bench_line_ms(line));
    add_text(out, LEFT - 8, y + BAR - 3, "text-anchor=\"end\"", shape);
    add_bar(out, y, part, BAR, "#2166ac");
    add_text(out, WIDTH - 8, y + BAR - 3, "text-anchor=\"end\" fill=\"#555\"", value);
    y += BAR;
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT; i++) {
        if (peer_part(line, i) <= 0)
            continue;
        add_bar(out, y, peer_part(line, i), THIN - 1, peer_colors[i]);
        y += THIN;
    }
}

/* Draws the roofline and its quarters. */
static void add_grid(struct af_text *out, int bottom)
{
    for (int quarter = 0; quarter <= 4; quarter++) {
        char label[16];
        double x = LEFT + SCALE * quarter / 4;
        snprintf(label, sizeof label, "%d %%", 25 * quarter);
        af_text_format(out,
                       "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"%s\"/>\n", x,
                       TOP, x, bottom, quarter == 4 ? "#b2182b" : "#ddd");
        add_text(out, x, bottom + 14, "text-anchor=\"middle\" fill=\"#555\"", label);
    }
}

/* Draws names and colours above the bars, in two lines. */
static void add_legend(const struct af_bench_report *report, struct af_text *out)
{
    double x = LEFT + 70, y = 48;
    add_text(out, LEFT, y, "fill=\"#2166ac\" font-weight=\"bold\"", "anyflash");
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT && report->pythons != NULL; i++) {
        char attributes[64], name[96];
        if (report->peers[i].version == NULL)
            continue;
        snprintf(attributes, sizeof attributes, "fill=\"%s\"", peer_colors[i]);
        snprintf(name, sizeof name, "%s %s", report->peers[i].name, report->peers[i].version);
        double width = 10 + 7.2 * (double)strlen(name);
        if (x + width > WIDTH) {
            x = LEFT;
            y += 15;
        }
        add_text(out, x, y, attributes, name);
        x += width;
    }
}

/* CALL has no roofline, so it is not drawn. */
static bool is_drawn(const struct af_bench_line *line)
{
    return line->row->operation != AF_BENCH_CALL;
}

static void add_heading(struct af_text *out, const struct af_bench_case *row, double y)
{
    char text[40];
    snprintf(text, sizeof text, "%s%s", af_bench_operation_text(row->operation),
             row->level == ANYFLASH_CPU_ALL ? "" : ", AVX2 level");
    add_text(out, 16, y, "font-weight=\"bold\"", text);
}

void af_bench_svg(const struct af_bench_report *report, struct af_text *out)
{
    int bottom = TOP;
    for (size_t i = 0; i < report->count; i++)
        if (is_drawn(&report->lines[i]))
            bottom += line_height(&report->lines[i]) +
                      (af_bench_starts_group(report, i) ? HEADING : 0);
    add_start(out, WIDTH, bottom + 28, "", "", "Share of the roof measured beside each run",
              &report->facts);
    add_legend(report, out);
    add_grid(out, bottom);
    double y = TOP;
    for (size_t i = 0; i < report->count; i++) {
        const struct af_bench_line *line = &report->lines[i];
        if (!is_drawn(line))
            continue;
        if (af_bench_starts_group(report, i)) {
            add_heading(out, line->row, y + HEADING - 12);
            y += HEADING;
        }
        add_line(out, line, y);
        y += line_height(line);
    }
    af_text_add(out, "</svg>\n");
}

/* In the order of the sides. */
static const char *const names[AF_TEXTBOOK_SIDES] = {"anyflash", "textbook"};
static const char *const colors[AF_TEXTBOOK_SIDES] = {"#2166ac", "#c05a00"};

struct panel {
    const char *title;
    double left;
    double step;   /* from one line of the grid to the next, as a factor */
    double larger; /* the larger unit, in smaller ones */
    const char *units[2];
    double values[AF_TEXTBOOK_LINES][AF_TEXTBOOK_SIDES]; /* in smaller units; 0: declined */
    double low;                                          /* at the bottom, and at the top */
    double high;
};

/* Sets the range of the axis to the grid lines just below and just above all values. */
static void fit_range(struct panel *panel)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < AF_TEXTBOOK_LINES; i++)
        for (size_t side = 0; side < AF_TEXTBOOK_SIDES; side++) {
            const double value = panel->values[i][side];
            least = value > 0 ? fmin(least, value) : least;
            most = fmax(most, value);
        }
    panel->low = pow(panel->step, floor(log(least) / log(panel->step)));
    panel->high = pow(panel->step, ceil(log(most) / log(panel->step) + 1e-9));
}

static double place_x(const struct panel *panel, size_t i, size_t count)
{
    return panel->left + PANEL_WIDTH * (double)i / (double)(count - 1);
}

static double place_y(const struct panel *panel, double value)
{
    return PANEL_BOTTOM -
           (PANEL_BOTTOM - PANEL_TOP) * log(value / panel->low) / log(panel->high / panel->low);
}

static void add_rule(struct af_text *out, double x1, double y1, double x2, double y2)
{
    af_text_format(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                   x1, y1, x2, y2);
}

static void add_axes(const struct panel *panel, const struct af_textbook_report *report,
                     struct af_text *out)
{
    char text[24];
    add_text(out, panel->left, PANEL_TOP - 14, "font-weight=\"bold\"", panel->title);
    for (double value = panel->low; value < panel->high * 1.001; value *= panel->step) {
        const bool is_large = value > panel->larger * 0.999;
        const double y = place_y(panel, value);
        snprintf(text, sizeof text, "%.4g %s", is_large ? value / panel->larger : value,
                 panel->units[is_large]);
        add_rule(out, panel->left, y, panel->left + PANEL_WIDTH, y);
        add_text(out, panel->left - 8, y + 4, "text-anchor=\"end\" fill=\"#555\"", text);
    }
    for (size_t i = 0; i < report->count; i++) {
        const double x = place_x(panel, i, report->count);
        snprintf(text, sizeof text, "%lld", (long long)report->lines[i].length);
        add_rule(out, x, PANEL_TOP, x, PANEL_BOTTOM);
        add_text(out, x, PANEL_BOTTOM + 18, "text-anchor=\"middle\" fill=\"#555\"", text);
    }
    add_text(out, panel->left + PANEL_WIDTH / 2.0, PANEL_BOTTOM + 38,
             "text-anchor=\"middle\" fill=\"#555\"", "N, tokens");
}

/* The curve of a side, its name at the end, and why that is not the last length. */
static void add_curve(const struct panel *panel, const struct af_textbook_report *report,
                      size_t side, struct af_text *out)
{
    const bool is_upper = side == AF_TEXTBOOK_PLAIN;
    char attributes[80], text[64];
    double x = panel->left, y = PANEL_BOTTOM;
    size_t count = 0;
    af_text_format(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                   colors[side]);
    for (; count < report->count && panel->values[count][side] > 0; count++) {
        x = place_x(panel, count, report->count);
        y = place_y(panel, panel->values[count][side]);
        af_text_format(out, "%.1f,%.1f ", x, y);
    }
    af_text_format(out, "\"/>\n<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y,
                   colors[side]);
    /* At the lower curve there is no room for a reason. */
    const char *decline =
        is_upper && count < report->count ? report->lines[count].sides[side].decline : "";
    snprintf(text, sizeof text, decline[0] != '\0' ? "%s (then %.*s)" : "%s", names[side],
             (int)strcspn(decline, ":"), decline);
    snprintf(attributes, sizeof attributes, "fill=\"%s\" font-weight=\"bold\"%s", colors[side],
             is_upper ? " text-anchor=\"end\"" : "");
    add_text(out, is_upper ? x - 10 : x + 8, is_upper ? y : y + 14, attributes, text);
}

void af_textbook_svg(const struct af_textbook_report *report, struct af_text *out)
{
    struct panel panels[] = {
        {"Time of one call", 74, 10, 1000, {"ms", "s"}, {{0}}, 0, 0},
        {"Peak memory, tensors included", 545, 4, 1024, {"MiB", "GiB"}, {{0}}, 0, 0},
    };
    add_start(out, PANELS_WIDTH, PANELS_HEIGHT, " role=\"img\"",
              "<title>Time and memory of textbook attention and of anyflash by the number of "
              "tokens</title>\n",
              "Textbook attention beside the engine", &report->facts);
    add_text(out, 16, 48, "fill=\"#555\"",
             "f32, 8 heads of size 64, not causal; both axes are logarithmic");
    for (size_t i = 0; i < report->count; i++)
        for (size_t side = 0; side < AF_TEXTBOOK_SIDES; side++) {
            const struct af_textbook_figures *figures = &report->lines[i].sides[side];
            panels[0].values[i][side] = af_bench_samples_at(&figures->ms, 0.5);
            panels[1].values[i][side] = figures->peak_bytes / (1 << 20);
        }
    for (size_t i = 0; i < AF_COUNT(panels); i++) {
        fit_range(&panels[i]);
        add_axes(&panels[i], report, out);
        for (size_t side = 0; side < AF_TEXTBOOK_SIDES; side++)
            add_curve(&panels[i], report, side, out);
    }
    af_text_add(out, "</svg>\n");
}
