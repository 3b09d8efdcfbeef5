/*
 * fuzz_python_imports.c: any bytes as a Python source. What is found lies in the source, in
 * its order.
 */
#include "kit/project/project_asks.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_arena arena;
    struct af_import_facts facts;
    struct af_span text = {(const char *)data, size};
    size_t at = 0;
    af_arena_init(&arena);
    af_imports_of_python(&arena, text, &facts);
    for (const struct af_import_statement *import = facts.imports; import != NULL;
         import = import->next) {
        require(at <= import->start && import->start < import->end && import->end <= size);
        require(import->names.data >= text.data &&
                import->names.data + import->names.len <= text.data + size);
        at = import->end;
    }
    for (const struct af_import_string *string = facts.install_requires; string != NULL;
         string = string->next)
        require(string->text.data >= text.data &&
                string->text.data + string->text.len <= text.data + size);
    af_arena_release(&arena);
    return 0;
}
