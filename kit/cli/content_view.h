/*
 * content_view.h: what a wheel contains beside what its package's own wheels contain, for
 * people and as JSON.
 */
#ifndef AF_KIT_CLI_CONTENT_VIEW_H
#define AF_KIT_CLI_CONTENT_VIEW_H

#include "kit/base/json.h"
#include "kit/cli/screen.h"
#include "kit/proof/wheel_content.h"

/* The label "content" and a line for each finding. */
void af_cli_content_view(struct af_screen *screen, const struct af_content *content);

/* {"package", "unexpected", "unlisted"}, a new object; NULL when memory runs out. */
json_t *af_cli_content_json(const struct af_content *content);

#endif
