/* record_files.h: compares RECORD with the installed files. Private to the package probes. */
#ifndef AF_KIT_PROBE_RECORD_FILES_H
#define AF_KIT_PROBE_RECORD_FILES_H

#include "kit/formats/metadata.h"
#include "kit/probe/probes.h"

/* Where the result goes. Each list names the first few files, relative to `site`. */
struct af_probe_record_facts {
    struct af_fact *missing; /* they do not exist */
    struct af_fact *changed; /* their size is not the one in RECORD */
    struct af_fact *broken;  /* of `changed`: libraries cut short, or no ELF files at all */
};

/*
 * Compares the existence and size of files, which takes a microsecond each; no file is read
 * except the header of a library whose size differs. `record` is the content of RECORD at
 * `path`, or some of its lines. Compiled Python is left out, because anybody may delete it.
 */
void af_probe_record_compare(const struct af_probe *probe, const char *site, const char *path,
                             struct af_span record, const struct af_probe_record_facts *facts);

/* Gives all three facts the reason `why`. */
void af_probe_record_unknown(const struct af_probe *probe, const char *why,
                             const struct af_probe_record_facts *facts);

#endif
