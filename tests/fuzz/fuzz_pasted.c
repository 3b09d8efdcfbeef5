/*
 * fuzz_pasted.c: pasted output, as text and as lines of a log. The resulting
 * record is written, read and written again, and both texts must be equal.
 */
#include "kit/base/json.h"
#include "kit/machine/pasted.h"

#include <stdlib.h>

#include "tests/fuzz/write_twice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    struct anyflash_error err;
    struct af_machine machine;
    struct af_machine log;
    struct af_pasted_reader reader;
    struct af_span text = {(const char *)data, size};
    struct af_span line;
    if (!started)
        af_json_start();
    started = true;
    af_machine_init(&machine, "fuzz", "not said");
    bool recognised = af_pasted_recognise(text);
    bool read = af_pasted_read(&machine, text, "fuzz.txt", &err) == ANYFLASH_OK;
    if (recognised && !read)
        abort();
    write_twice(&machine);
    af_machine_release(&machine);
    af_machine_init(&log, "fuzz", "not said");
    af_pasted_begin(&reader, &log, "fuzz.log");
    for (size_t i = 1; af_text_line(&text, &line); i++)
        af_pasted_line(&reader, line, i);
    af_pasted_end(&reader);
    write_twice(&log);
    af_machine_release(&log);
    return 0;
}
