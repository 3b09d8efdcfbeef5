/*
 * module_choices.h: the menus of the page: the facts that can be chosen by hand,
 * their values, and what a machine's text says about each.
 */
#ifndef AF_PAGE_MODULE_CHOICES_H
#define AF_PAGE_MODULE_CHOICES_H

#include "kit/base/json.h"
#include "kit/catalog/catalog.h"
#include "kit/machine/machine.h"

/* The menus: the member "facts" of "anyflash-choices/1", a new array. Texts are in `arena`. */
json_t *af_module_menus(const struct af_machine *machine, struct af_arena *arena);

/*
 * "anyflash-choices/1" (docs/reference/schema/choices.schema.json), a new object.
 * Texts are in the arena.
 */
json_t *af_module_choices(const struct af_machine *machine, const struct af_catalog *catalog,
                          struct af_arena *arena);

#endif
