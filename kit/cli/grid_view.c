/*
 * grid_view.c: what the documents of a grid share, and the HTML document.
 */
#include "kit/cli/grid_view.h"

#include <stdio.h>
#include <string.h>

#include "kit/machine/key_facts.h"

#define VALUE_BYTES 120

const struct af_cli_grid_colors af_cli_grid_colors[AF_PLAN_WAY_COUNT] = {
    [AF_PLAN_WAY_OFFICIAL] = {"#0b6e4f", "#ffffff", "#58c79d", "#07261b"},
    [AF_PLAN_WAY_COMMUNITY] = {"#6fbf73", "#10201a", "#2f7a4c", "#f4f7f5"},
    [AF_PLAN_WAY_PROVE] = {"#c5dd8f", "#10201a", "#58702c", "#f4f7f5"},
    [AF_PLAN_WAY_KERNELS] = {"#8ab6e8", "#10201a", "#386ba5", "#f4f7f5"},
    [AF_PLAN_WAY_CHANGE] = {"#f0c36d", "#10201a", "#85600f", "#f4f7f5"},
    [AF_PLAN_WAY_BUILD] = {"#e89a6c", "#10201a", "#a05025", "#f4f7f5"},
    [AF_PLAN_WAY_NOTHING] = {"#e3e6e4", "#10201a", "#2b302d", "#f4f7f5"},
    [AF_PLAN_WAY_UNDECIDED] = {"#f3eefb", "#10201a", "#3a3149", "#f4f7f5"},
};

/* U+FFFE and U+FFFF are valid UTF-8 but not allowed in XML. */
static bool is_noncharacter(const char *at)
{
    return at[0] == '\xef' && at[1] == '\xbf' && (at[2] == '\xbe' || at[2] == '\xbf');
}

void af_cli_grid_escape(struct af_text *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (is_noncharacter(at)) {
            af_text_add(out, "\xef\xbf\xbd");
            at += 2;
        } else if (strchr("<>&\"'", *at) != NULL) {
            af_text_format(out, "&#%d;", *at);
        } else {
            af_text_add_n(out, at, 1);
        }
    }
}

static void add_subject(struct af_cli_grid_subject *subjects, size_t *count, const char *label,
                        const char *value, struct af_arena *arena)
{
    const char *shown = af_text_scrub(arena, value, VALUE_BYTES);
    if (*count < AF_CLI_GRID_SUBJECTS_MAX && shown != NULL)
        subjects[(*count)++] = (struct af_cli_grid_subject){label, shown};
}

/* Torch is what the table is about. */
static void add_key_facts(struct af_cli_grid_subject *subjects, size_t *count,
                          const struct af_plan_request *request, struct af_arena *arena)
{
    struct af_machine_key_fact facts[AF_MACHINE_KEY_FACT_COUNT];
    af_machine_key_facts(request->machines[0], arena, facts);
    for (size_t i = 0; i < AF_COUNT(facts); i++) {
        bool replaced = af_equal(facts[i].key, "gpu") && request->fit.arch != NULL;
        if (!replaced && !af_starts_with(facts[i].key, "torch"))
            add_subject(subjects, count, facts[i].label,
                        facts[i].value != NULL ? facts[i].value : "unknown", arena);
    }
}

size_t af_cli_grid_subjects(const struct af_plan_request *request, struct af_arena *arena,
                            struct af_cli_grid_subject subjects[AF_CLI_GRID_SUBJECTS_MAX])
{
    size_t count = 0;
    if (request->fit.arch != NULL)
        add_subject(subjects, &count, "Compute capability", request->fit.arch, arena);
    if (request->machine_count == 1)
        add_key_facts(subjects, &count, request, arena);
    for (size_t i = 0; request->machine_count > 1 && i < request->machine_count; i++)
        add_subject(subjects, &count, "Machine", request->machines[i]->name, arena);
    if (request->fit.official_only)
        add_subject(subjects, &count, "Wheels", "official ones only", arena);
    return count;
}

const char *af_cli_grid_words(const struct af_plan_grid_cell *cell, struct af_arena *arena)
{
    const char *words = af_arena_format(arena, "%s%s%s", af_plan_way_title(cell->way),
                                        cell->version != NULL ? " " : "",
                                        cell->version != NULL ? cell->version : "");
    return words != NULL ? words : "";
}

const char *af_cli_grid_origin(const struct af_plan_request *request, struct af_arena *arena)
{
    const struct af_catalog *catalog = request->catalog;
    const char *origin =
        af_arena_format(arena, "Catalog of %s with %zu wheels; anyflash %s",
                        catalog->date != NULL ? af_text_scrub(arena, catalog->date, VALUE_BYTES)
                                              : "an unknown date",
                        catalog->count, anyflash_version_text());
    return origin != NULL ? origin : "";
}

static const char *const style =
    "body{margin:0 auto;padding:1.5rem clamp(1rem,4vw,2rem);max-width:84rem;"
    "background:#fbfbf9;color:#1b1f1d;"
    "font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "h1{font-size:1.6rem;line-height:1.2;margin:0 0 .75rem}\n"
    "h2{font-size:1.1rem;margin:1.25rem 0 .25rem}\n"
    "dl{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;margin:0 0 1rem}\n"
    "dl div{display:flex;gap:.4rem}\n"
    "dt,.quiet,caption{color:#55605b}\n"
    "dd{margin:0;font-weight:600;overflow-wrap:anywhere}\n"
    "caption{text-align:left}\n"
    "caption span{display:inline-block;position:sticky;left:0;max-width:calc(100vw - 2rem)}\n"
    ".scroll{overflow-x:auto;position:relative}\n"
    "table{border-collapse:separate;border-spacing:3px}\n"
    "th{text-align:left;padding:.2rem .3rem;white-space:nowrap}\n"
    "th[scope=row]{position:sticky;left:0;background:#fbfbf9}\n"
    "td{padding:.2rem .3rem;min-width:6.9rem;border-radius:.3rem;font-size:.75rem;"
    "line-height:1.25}\n"
    "td b{display:block;font-size:.875rem}\n"
    "ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.4rem 1.25rem;margin:0}\n"
    "li{display:flex;align-items:center;gap:.4rem}\n"
    ".swatch{width:1.1rem;height:1.1rem;border-radius:.25rem}\n"
    "td[class],.swatch{box-shadow:inset 0 0 0 1px #00000026}\n"
    ".unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}\n"
    "code{font-family:ui-monospace,Menlo,Consolas,\"DejaVu Sans "
    "Mono\",monospace;white-space:nowrap}\n"
    ":focus-visible{outline:3px solid #0b6e4f}\n";
static const char *const dark_style =
    "body,th[scope=row]{background:#131615;color:#e7ebe9}\n"
    "dt,.quiet,caption{color:#a3aea9}\n"
    "td[class],.swatch{box-shadow:inset 0 0 0 1px #ffffff33}\n"
    ":focus-visible{outline-color:#58c79d}\n";
static const char *const print_style =
    "@media print{body,th[scope=row]{background:#fff;color:#000}dt,.quiet,caption{color:#333}"
    "body{font-size:12px}.scroll{overflow:visible}table{border-spacing:1px}"
    "th,td{font-size:.6rem;padding:.1rem .2rem;min-width:0}td b{font-size:.65rem}"
    "td,.swatch{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n";

static void add_style(struct af_text *out)
{
    af_text_format(out, "<style>\n%s", style);
    for (size_t i = 0; i < AF_PLAN_WAY_COUNT; i++)
        af_text_format(out, ".%s{background:%s;color:%s}\n",
                       af_plan_way_name((enum af_plan_way)i), af_cli_grid_colors[i].ground,
                       af_cli_grid_colors[i].ink);
    af_text_format(out, "@media screen and (prefers-color-scheme:dark){\n%s", dark_style);
    for (size_t i = 0; i < AF_PLAN_WAY_COUNT; i++)
        af_text_format(out, ".%s{background:%s;color:%s}\n",
                       af_plan_way_name((enum af_plan_way)i), af_cli_grid_colors[i].dark_ground,
                       af_cli_grid_colors[i].dark_ink);
    af_text_format(out, "}\n%s</style>\n", print_style);
}

static void add_facts(const struct af_plan_request *request, struct af_arena *arena,
                      struct af_text *out)
{
    struct af_cli_grid_subject subjects[AF_CLI_GRID_SUBJECTS_MAX];
    size_t count = af_cli_grid_subjects(request, arena, subjects);
    af_text_add(out, "<dl>\n");
    for (size_t i = 0; i < count; i++) {
        af_text_format(out, "<div><dt>%s</dt><dd>", subjects[i].label);
        af_cli_grid_escape(out, subjects[i].value);
        af_text_add(out, "</dd></div>\n");
    }
    af_text_add(out, "</dl>\n");
}

static void add_cell(const struct af_plan_grid_cell *cell, struct af_text *out)
{
    if (!cell->is_published) {
        af_text_add(out, "<td><span class=\"unseen\">not published</span></td>\n");
        return;
    }
    af_text_format(out, "<td class=\"%s\" title=\"", af_plan_way_name(cell->way));
    af_cli_grid_escape(out, cell->headline);
    af_text_add(out, "\">");
    if (cell->version != NULL) {
        af_text_add(out, "<b>");
        af_cli_grid_escape(out, cell->version);
        af_text_add(out, "</b> ");
    }
    af_cli_grid_escape(out, af_plan_way_title(cell->way));
    af_text_add(out, "</td>\n");
}

static void add_table(const struct af_plan_grid *grid, struct af_text *out)
{
    af_text_add(out,
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of "
                "torch and CUDA builds\">\n<table>\n<caption><span>The best way to get "
                "FlashAttention with each release of torch (rows) and CUDA build "
                "(columns)</span></caption>\n<thead>\n<tr><th scope=\"col\">torch</th>");
    for (size_t i = 0; i < grid->column_count; i++) {
        af_text_add(out, "<th scope=\"col\">");
        af_cli_grid_escape(out, grid->cells[i].build);
        af_text_add(out, "</th>");
    }
    af_text_add(out, "</tr>\n</thead>\n<tbody>\n");
    for (size_t row = 0; row < grid->row_count; row++) {
        const struct af_plan_grid_cell *cells = &grid->cells[row * grid->column_count];
        af_text_add(out, "<tr><th scope=\"row\">");
        af_cli_grid_escape(out, cells[0].torch);
        af_text_add(out, "</th>\n");
        for (size_t i = 0; i < grid->column_count; i++)
            add_cell(&cells[i], out);
        af_text_add(out, "</tr>\n");
    }
    af_text_add(out, "</tbody>\n</table>\n</div>\n");
}

static void add_legend(struct af_text *out)
{
    af_text_add(out, "<h2>Legend</h2>\n<ul>\n");
    for (int way = 0; way < AF_PLAN_WAY_COUNT; way++)
        af_text_format(out, "<li><span class=\"swatch %s\"></span>%s</li>\n",
                       af_plan_way_name((enum af_plan_way)way),
                       af_plan_way_title((enum af_plan_way)way));
    af_text_add(
        out, "<li>" AF_CLI_GRID_EMPTY "</li>\n</ul>\n"
             "<p><code>anyflash plan</code> prints the commands for a cell. Give it the same "
             "options and the torch of the cell, for example "
             "<code>--given torch=2.9.1+cu128</code>.</p>\n");
}

void af_cli_grid_html(const struct af_plan_grid *grid, const struct af_plan_request *request,
                      struct af_arena *arena, struct af_text *out)
{
    af_text_add(out, AF_CLI_GRID_HTML_START
                "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n"
                "<title>" AF_CLI_GRID_TITLE "</title>\n");
    add_style(out);
    af_text_add(out, "</head>\n<body>\n<main>\n<h1>" AF_CLI_GRID_TITLE "</h1>\n");
    add_facts(request, arena, out);
    if (grid->row_count > 0) {
        add_table(grid, out);
        add_legend(out);
    } else {
        af_text_add(out, "<p>There is no CUDA build of torch for this platform.</p>\n");
    }
    af_text_add(out, "<p class=\"quiet\">");
    af_cli_grid_escape(out, af_cli_grid_origin(request, arena));
    af_text_add(out, "</p>\n</main>\n</body>\n</html>\n");
}
