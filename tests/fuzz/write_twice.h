/*
 * write_twice.h: for fuzz targets that make a machine record. Writes the record,
 * reads the text and writes it again; aborts unless both texts are equal.
 */
#ifndef AF_TESTS_FUZZ_WRITE_TWICE_H
#define AF_TESTS_FUZZ_WRITE_TWICE_H

#include "kit/machine/machine.h"

#include <stdlib.h>
#include <string.h>

static void write_twice(struct af_machine *machine)
{
    struct af_text first = {0};
    struct af_text second = {0};
    struct af_machine again;
    af_machine_init(&again, "again", "not said");
    af_machine_write(machine, &first);
    if (af_machine_parse(&again, (struct af_span){first.data, first.len}, "again", NULL) !=
        ANYFLASH_OK)
        abort();
    af_machine_write(&again, &second);
    if (strcmp(first.data, second.data) != 0)
        abort();
    af_machine_release(&again);
    af_text_release(&second);
    af_text_release(&first);
}

#endif
