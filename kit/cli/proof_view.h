/*
 * proof_view.h: a proof as lines for people and as JSON.
 */
#ifndef AF_KIT_CLI_PROOF_VIEW_H
#define AF_KIT_CLI_PROOF_VIEW_H

#include "kit/base/json.h"
#include "kit/cli/page.h"
#include "kit/proof/proof.h"

/* "loads", "does not load", "imports, but must not be used", ... */
const char *af_cli_proof_headline(const struct af_proof *proof);

/*
 * The headline with the checks that are not yes; of what is `alone` on the page
 * every check, with `all` also every missing name.
 */
void af_cli_proof_view(struct af_page *page, const char *name, const struct af_proof *proof,
                       bool alone, bool all);

/* The keys of one extension; takes `gpu_code` over. NULL without memory. */
json_t *af_cli_proof_json(const char *name, const struct af_proof *proof, json_t *gpu_code);

#endif
