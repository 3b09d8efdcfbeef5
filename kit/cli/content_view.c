/*
 * content_view.c: the findings of wheel_content.h, one line each.
 */
#include "kit/cli/content_view.h"

#define LABEL_COLUMNS 9

void af_cli_content_view(struct af_screen *screen, const struct af_content *content)
{
    if (content->count == 0 && content->package != NULL)
        af_screen_format(screen, LABEL_COLUMNS, "content", AF_TONE_PLAIN,
                         "nothing beside what %s's own wheels contain", content->package);
    for (size_t i = 0; i < content->count; i++) {
        const struct af_content_finding *finding = &content->findings[i];
        af_screen_format(
            screen, LABEL_COLUMNS, i == 0 ? "content" : "",
            finding->is_refused ? AF_TONE_BAD : AF_TONE_PLAIN, "%s%s: %s%s%s%s",
            finding->is_refused ? "unexpected: " : "", finding->name,
            af_content_kind_why(finding->kind), finding->detail != NULL ? " (" : "",
            finding->detail != NULL ? finding->detail : "", finding->detail != NULL ? ")" : "");
    }
    if (content->unlisted_count > 0)
        af_screen_format(screen, LABEL_COLUMNS, "", AF_TONE_BAD, "and %zu more",
                         content->unlisted_count);
}

json_t *af_cli_content_json(const struct af_content *content)
{
    json_t *list = json_array();
    for (size_t i = 0; i < content->count; i++) {
        const struct af_content_finding *finding = &content->findings[i];
        list = af_json_append(
            list,
            json_pack("{s:s, s:s, s:s, s:o, s:b}", "kind", af_content_kind_name(finding->kind),
                      "name", finding->name, "why", af_content_kind_why(finding->kind),
                      "detail", af_json_text(finding->detail), "refused", finding->is_refused));
    }
    return json_pack("{s:o, s:o, s:I}", "package", af_json_text(content->package), "unexpected",
                     list, "unlisted", (json_int_t)content->unlisted_count);
}
