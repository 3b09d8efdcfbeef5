/*
 * catalog_rows.h: wheels as JSON lines, the form of data/wheels.jsonl. They are
 * read when the program is built and when a newer catalog file is given, and
 * written by the update.
 */
#ifndef AF_KIT_CATALOG_CATALOG_ROWS_H
#define AF_KIT_CATALOG_CATALOG_ROWS_H

#include "kit/base/text.h"
#include "kit/catalog/catalog.h"

/*
 * Reads the lines of `bytes` into `arena`; `name` is the file's name for errors.
 * A first line {"catalog_date": "2026-08-22"} sets *date_out, which is otherwise
 * NULL. Empty lines are skipped. Fails with DATA ("'name' line 7, field 'torch':
 * ..."), LIMIT or NO_MEMORY.
 */
enum anyflash_status af_catalog_rows_read(struct af_span bytes, const char *name,
                                          struct af_arena *arena,
                                          const struct af_catalog_wheel **wheels_out,
                                          size_t *count_out, const char **date_out,
                                          struct anyflash_error *err);

/* Appends the first line: the date of the sources, such as "2026-11-21". */
void af_catalog_write_date(struct af_text *rows, const char *date);

/* Appends one line. Reading it back gives the same wheel. Fails with NO_MEMORY only. */
enum anyflash_status af_catalog_write_row(struct af_text *rows,
                                          const struct af_catalog_wheel *wheel,
                                          struct anyflash_error *err);

#endif
