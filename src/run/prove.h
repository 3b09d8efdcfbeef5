/*
 * prove.h: the extensions of what was unpacked, proved against the environment
 * before anything of it is moved there. Private to this module.
 */
#ifndef AF_RUN_PROVE_H
#define AF_RUN_PROVE_H

#include "run/install.h"

/*
 * Proves each extension below `fresh`, of a wheel that says it was built for
 * `stated_torch` ("2.8"; NULL: it says nothing), and tells the outcome by run->talk. With
 * `strict` one that would not load is a refusal; else only when none would:
 * packages of others bring libraries for several versions of their neighbours.
 * *refusal_out is a sentence in the run's arena, or NULL. What is unknown is
 * told, and no refusal.
 */
enum anyflash_status af_prove(struct af_run *run, const char *fresh, bool strict,
                              const char *stated_torch, const char **refusal_out,
                              struct anyflash_error *err);

#endif
