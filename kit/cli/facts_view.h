/*
 * facts_view.h: prints a machine in ten lines for people, or as a short JSON
 * object.
 */
#ifndef AF_KIT_CLI_FACTS_VIEW_H
#define AF_KIT_CLI_FACTS_VIEW_H

#include "kit/base/json.h"
#include "kit/cli/screen.h"
#include "kit/machine/machine.h"

/*
 * Appends the sections "Machine" and "Environment". With `with_sources` each
 * line is followed by the source of its main fact. Texts are allocated in
 * `arena`.
 */
void af_cli_facts_view(struct af_screen *screen, const struct af_machine *machine,
                       bool with_sources, struct af_arena *arena);

/* The same facts as a new JSON object; null: unknown or absent. */
json_t *af_cli_facts_json(const struct af_machine *machine);

#endif
