/*
 * catalog_write.h: wheels back into the JSON lines that catalog_rows.h reads.
 */
#ifndef AF_KIT_CATALOG_CATALOG_WRITE_H
#define AF_KIT_CATALOG_CATALOG_WRITE_H

#include "kit/base/text.h"
#include "kit/catalog/catalog.h"

/* The first line: the state of the sources, as "2026-11-21". */
void af_catalog_write_date(struct af_text *rows, const char *date);

/* One line. Reading it back gives the same wheel. NO_MEMORY at worst. */
enum anyflash_status af_catalog_write_row(struct af_text *rows,
                                          const struct af_catalog_wheel *wheel,
                                          struct anyflash_error *err);

#endif
