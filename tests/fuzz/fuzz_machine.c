/*
 * fuzz_machine.c: machine records and --given words. The input is read as a
 * record, then each of its lines as a word. What was accepted is written, read
 * and written again, and both texts must be equal.
 */
#include "kit/base/json.h"
#include "kit/machine/machine.h"

#include "tests/fuzz/write_twice.h"

#define WORDS_MAX 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    struct anyflash_error err;
    struct af_machine machine;
    struct af_arena words;
    struct af_span rest = {(const char *)data, size};
    struct af_span line;
    if (!started)
        af_json_start();
    started = true;
    af_machine_init(&machine, "fuzz", "not said");
    af_arena_init(&words);
    if (af_machine_parse(&machine, rest, "fuzz.json", &err) == ANYFLASH_OK)
        write_twice(&machine);
    for (int i = 0; i < WORDS_MAX && af_text_line(&rest, &line); i++) {
        const char *remark;
        af_machine_given(&machine, af_arena_text_n(&words, line.data, line.len), &remark, &err);
    }
    write_twice(&machine);
    af_arena_release(&words);
    af_machine_release(&machine);
    return 0;
}
