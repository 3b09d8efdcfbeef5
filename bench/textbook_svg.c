/*
 * textbook_svg.c: draws the report as two panels in plain SVG 1.1: time and memory over N,
 * on logarithmic axes. The background is white, so that it is readable on any page.
 */
#include "bench/textbook_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/report.h"

#define WIDTH 960
#define HEIGHT 400
#define PANEL_WIDTH 340
#define TOP 84
#define BOTTOM 350

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
    return BOTTOM - (BOTTOM - TOP) * log(value / panel->low) / log(panel->high / panel->low);
}

static void add_rule(struct af_text *out, double x1, double y1, double x2, double y2)
{
    af_text_format(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                   x1, y1, x2, y2);
}

static void add_grid(const struct panel *panel, const struct af_textbook_report *report,
                     struct af_text *out)
{
    char text[24];
    af_bench_svg_text(out, panel->left, TOP - 14, "font-weight=\"bold\"", panel->title);
    for (double value = panel->low; value < panel->high * 1.001; value *= panel->step) {
        const bool is_large = value > panel->larger * 0.999;
        const double y = place_y(panel, value);
        snprintf(text, sizeof text, "%.4g %s", is_large ? value / panel->larger : value,
                 panel->units[is_large]);
        add_rule(out, panel->left, y, panel->left + PANEL_WIDTH, y);
        af_bench_svg_text(out, panel->left - 8, y + 4, "text-anchor=\"end\" fill=\"#555\"",
                          text);
    }
    for (size_t i = 0; i < report->count; i++) {
        const double x = place_x(panel, i, report->count);
        snprintf(text, sizeof text, "%lld", (long long)report->lines[i].length);
        add_rule(out, x, TOP, x, BOTTOM);
        af_bench_svg_text(out, x, BOTTOM + 18, "text-anchor=\"middle\" fill=\"#555\"", text);
    }
    af_bench_svg_text(out, panel->left + PANEL_WIDTH / 2.0, BOTTOM + 38,
                      "text-anchor=\"middle\" fill=\"#555\"", "N, tokens");
}

/* The curve of a side, its name at the end, and why that is not the last length. */
static void add_curve(const struct panel *panel, const struct af_textbook_report *report,
                      size_t side, struct af_text *out)
{
    const bool is_upper = side == AF_TEXTBOOK_PLAIN;
    char attributes[80], text[64];
    double x = panel->left, y = BOTTOM;
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
    af_bench_svg_text(out, is_upper ? x - 10 : x + 8, is_upper ? y : y + 14, attributes, text);
}

void af_textbook_svg(const struct af_textbook_report *report, struct af_text *out)
{
    struct panel panels[] = {
        {"Time of one call", 74, 10, 1000, {"ms", "s"}, {{0}}, 0, 0},
        {"Peak memory, tensors included", 545, 4, 1024, {"MiB", "GiB"}, {{0}}, 0, 0},
    };
    char title[200];
    snprintf(title, sizeof title, "Textbook attention beside the engine: %s, %d threads",
             report->facts.cpu, report->facts.threads);
    af_text_format(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" "
        "role=\"img\">\n<title>Time and memory of textbook attention and of anyflash "
        "by the number of tokens</title>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    af_bench_svg_text(out, 16, 28, "font-size=\"16\" font-weight=\"bold\"", title);
    af_bench_svg_text(out, 16, 48, "fill=\"#555\"",
                      "f32, 8 heads of size 64, not causal; both axes are logarithmic");
    for (size_t i = 0; i < report->count; i++)
        for (size_t side = 0; side < AF_TEXTBOOK_SIDES; side++) {
            const struct af_textbook_figures *figures = &report->lines[i].sides[side];
            panels[0].values[i][side] = af_bench_samples_at(&figures->ms, 0.5);
            panels[1].values[i][side] = figures->peak_bytes / (1 << 20);
        }
    for (size_t i = 0; i < AF_COUNT(panels); i++) {
        fit_range(&panels[i]);
        add_grid(&panels[i], report, out);
        for (size_t side = 0; side < AF_TEXTBOOK_SIDES; side++)
            add_curve(&panels[i], report, side, out);
    }
    af_text_add(out, "</svg>\n");
}
