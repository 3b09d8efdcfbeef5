/*
 * module.c: the decisions as a WebAssembly module: JSON in, JSON out.
 *
 * A caller writes a request into memory from anyflash_alloc(), calls
 * anyflash_answer(), and reads the NUL-terminated UTF-8 text that it points to,
 * which stays until the next call. The module imports nothing.
 */
#include <string.h>

#include "engine/base/mem.h"
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/machine/machine.h"

#define EXPORT(name) __attribute__((export_name(name)))

/* jansson's, whose own source asks a clock; objects keep the order of their keys. */
volatile uint32_t hashtable_seed = 1;
void json_object_seed(size_t seed);

static struct af_text answer;

void json_object_seed(size_t seed)
{
    (void)seed;
}

EXPORT("anyflash_alloc") void *anyflash_alloc(size_t len)
{
    return af_mem_alloc(len);
}

EXPORT("anyflash_free") void anyflash_free(void *memory)
{
    af_mem_free(memory);
}
