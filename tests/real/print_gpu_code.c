/*
 * print_gpu_code.c: prints the GPU code of files, one JSON object per line with
 * the file's name: print_gpu_code [--kernels] FILE... For
 * tests/real/gpu_code.py and bench/fatbin.py.
 */
#include "kit/cli/inspect_view.h"
#include "kit/system/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print(const char *path, bool with_kernels)
{
    struct af_arena arena;
    struct af_mapping mapping = {0};
    struct af_gpu_code code;
    struct af_flash_kernels kernels;
    struct anyflash_error err;
    enum anyflash_status status = af_file_map(path, &mapping, &err);
    if (status != ANYFLASH_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 3;
    }
    af_arena_init(&arena);
    status = af_gpu_code_read(&arena, af_mapping_bytes(&mapping), "file", false, &code, &err);
    if (status == ANYFLASH_OK && with_kernels)
        status = af_flash_kernels_read(&arena, af_mapping_bytes(&mapping), "file", &code,
                                       &kernels, &err);
    json_t *json = status == ANYFLASH_OK
                       ? af_cli_gpu_code_json(&code, with_kernels ? &kernels : NULL)
                       : NULL;
    if (json != NULL)
        json_object_set_new(json, "file", json_string(path));
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    if (text == NULL)
        fprintf(stderr, "%s: %s\n", path, status == ANYFLASH_OK ? "no memory" : err.message);
    else
        puts(text);
    free(text);
    json_decref(json);
    af_arena_release(&arena);
    af_file_unmap(&mapping);
    return text == NULL ? 3 : 0;
}

int main(int argc, char **argv)
{
    bool with_kernels = argc > 1 && strcmp(argv[1], "--kernels") == 0;
    int code = 0;
    for (int i = with_kernels ? 2 : 1; i < argc; i++) {
        int one = print(argv[i], with_kernels);
        code = one > code ? one : code;
    }
    return code;
}
