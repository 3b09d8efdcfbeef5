/*
 * module_menus.h: the menus of the page, one for each fact that a person names: which
 * values can be chosen, and what a machine's text says.
 */
#ifndef AF_PAGE_MODULE_MENUS_H
#define AF_PAGE_MODULE_MENUS_H

#include "kit/base/json.h"
#include "kit/catalog/tables.h"
#include "kit/machine/machine.h"

/*
 * The member "facts" of "anyflash-choices/1", a new array. Texts are in `arena`. When
 * memory runs out, the result is NULL or arena->failed is set.
 */
json_t *af_module_menus(const struct af_machine *machine, struct af_arena *arena);

#endif
