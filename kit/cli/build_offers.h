/*
 * build_offers.h: what `anyflash build` would make, in `plan`, as lines and JSON.
 */
#ifndef AF_KIT_CLI_BUILD_OFFERS_H
#define AF_KIT_CLI_BUILD_OFFERS_H

#include "kit/base/json.h"
#include "kit/build/offer/offer.h"
#include "kit/cli/page.h"

/* "about 4 min", "about 5.1 hours"; "one compiler needs more memory than there is". */
const char *af_cli_build_time_text(struct af_arena *arena,
                                   const struct af_offer_build_needs *needs);

/* Each offer with its price and its line to type, hanging at `indent`. */
void af_cli_build_offers_view(struct af_page *page, int indent,
                              const struct af_offer_build_offer *offers, size_t count,
                              struct af_arena *arena);

#endif
