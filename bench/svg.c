/*
 * svg.c: writes the report as a bar chart in plain SVG 1.1, without scripts or
 * fonts; readable on light and dark backgrounds.
 */
#include "bench/report.h"

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

/* In the order of the peers. */
static const char *const peer_colors[AF_BENCH_PEER_COUNT] = {"#e08214", "#fdb863", "#d6604d",
                                                             "#c51b7d", "#8073ac", "#4d9221",
                                                             "#3690c0", "#bf812d", "#35978f"};

void af_bench_svg_text(struct af_text *out, double x, double y, const char *attributes,
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
    af_bench_svg_text(out, LEFT - 8, y + BAR - 3, "text-anchor=\"end\"", shape);
    add_bar(out, y, part, BAR, "#2166ac");
    af_bench_svg_text(out, WIDTH - 8, y + BAR - 3, "text-anchor=\"end\" fill=\"#555\"", value);
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
        af_bench_svg_text(out, x, bottom + 14, "text-anchor=\"middle\" fill=\"#555\"", label);
    }
}

/* Draws names and colours above the bars, in two lines. */
static void add_legend(const struct af_bench_report *report, struct af_text *out)
{
    double x = LEFT + 70, y = 48;
    af_bench_svg_text(out, LEFT, y, "fill=\"#2166ac\" font-weight=\"bold\"", "anyflash");
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
        af_bench_svg_text(out, x, y, attributes, name);
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
    af_bench_svg_text(out, 16, y, "font-weight=\"bold\"", text);
}

void af_bench_svg(const struct af_bench_report *report, struct af_text *out)
{
    int bottom = TOP;
    for (size_t i = 0; i < report->count; i++)
        if (is_drawn(&report->lines[i]))
            bottom += line_height(&report->lines[i]) +
                      (af_bench_starts_group(report, i) ? HEADING : 0);
    af_text_format(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                   "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
                   "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                   WIDTH, bottom + 28, WIDTH, bottom + 28);
    char title[200];
    snprintf(title, sizeof title, "Share of the roof measured beside each run: %s, %d threads",
             report->facts.cpu, report->facts.threads);
    af_bench_svg_text(out, 16, 28, "font-size=\"16\" font-weight=\"bold\"", title);
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
