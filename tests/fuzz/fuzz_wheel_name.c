/*
 * fuzz_wheel_name.c: any text as a wheel's file name and as a local version.
 */
#include "kit/formats/wheel_name.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_local(const char *local)
{
    struct af_wheel_local parsed;
    af_wheel_local_parse(local, AF_FORMATS_TORCH_DIGITS_NONE, &parsed);
    af_wheel_local_parse(local, AF_FORMATS_TORCH_DIGITS_PATCH_LAST, &parsed);
    af_wheel_local_parse(local, AF_FORMATS_TORCH_DIGITS_PATCH_MAYBE, &parsed);
    if (strlen(parsed.cuda) >= sizeof parsed.cuda ||
        strlen(parsed.torch) >= sizeof parsed.torch)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_wheel_name name;
    char local[1024];
    size_t len = size < sizeof local ? size : sizeof local - 1;
    enum af_wheel_name_problem problem = af_wheel_name_parse((const char *)data, size, &name);
    if (af_wheel_name_problem_text(problem) == NULL)
        abort();
    if (problem == AF_WHEEL_NAME_VALID)
        read_local(name.version.local);
    if (size > 0)
        memcpy(local, data, len);
    local[len] = '\0';
    read_local(local);
    return 0;
}
