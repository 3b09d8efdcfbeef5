/*
 * module_log.h: the logs that the page has passed in, and their diagnosis.
 *
 * Logs may be larger than a request, so they come in pieces of bytes:
 *
 *   anyflash_log_clear();                    forgets the logs before
 *   anyflash_log_begin(NAME, len);           for each log; both return 0, or an
 *   anyflash_log_feed(BYTES, len);           anyflash_status that says what failed
 *   anyflash_answer({"command": "doctor"})   as often as the facts change
 */
#ifndef AF_PAGE_MODULE_LOG_H
#define AF_PAGE_MODULE_LOG_H

#include "kit/base/json.h"
#include "kit/catalog/catalog.h"
#include "kit/machine/machine.h"

/*
 * Marks the functions that the web page calls. In a native build, which the tests use, the
 * mark means nothing.
 */
#ifdef __wasm__
#define AF_MODULE_EXPORT(name) __attribute__((export_name(name)))
#else
#define AF_MODULE_EXPORT(name)
#endif

/*
 * Applies one word of "given". A value that cannot be read fails with ARGUMENT, as in the
 * program; "torch=unknown" takes back what a text says.
 */
enum anyflash_status af_module_given(struct af_machine *machine, const char *word,
                                     struct anyflash_error *err);

/*
 * The diagnosis of the logs, as `anyflash doctor LOG --json` prints it. Facts from the
 * logs are written into `machine`, then the words of `given`, an array of texts or
 * NULL, which override them. `has_record`: the machine was read from a record. Texts
 * are in the arena. Fails with ARGUMENT if there is no log.
 */
enum anyflash_status af_module_log_diagnose(struct af_machine *machine, bool has_record,
                                            const json_t *given,
                                            const struct af_catalog *catalog,
                                            struct af_arena *arena, json_t **answer_out,
                                            struct anyflash_error *err);

/*
 * Writes what the logs say about the machine into `machine`. May be called any
 * number of times. Fails with ARGUMENT if there is no log.
 */
enum anyflash_status af_module_log_apply(struct af_machine *machine,
                                         struct anyflash_error *err);

#endif
