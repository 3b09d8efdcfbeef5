/*
 * corpus_main.c: runs a fuzz target over the files of a corpus folder, for
 * builds without libFuzzer. Each file is also cut short at a few places, in a
 * buffer of exactly its size, so that sanitizers notice a read past its end.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILE_BYTES_MAX (1u << 20)

static void run_exact(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    if (exact == NULL)
        abort();
    if (size > 0)
        memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static size_t run_file(const char *folder, const char *name, uint8_t *buffer)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    size_t size = fread(buffer, 1, FILE_BYTES_MAX, file);
    fclose(file);
    for (size_t part = 1; part <= 8; part++)
        run_exact(buffer, size * part / 8);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *stream = argc == 2 ? opendir(argv[1]) : NULL;
    uint8_t *buffer = malloc(FILE_BYTES_MAX);
    if (stream == NULL || buffer == NULL) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    size_t count = 0;
    struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] != '.')
            count += run_file(argv[1], entry->d_name, buffer);
    }
    closedir(stream);
    free(buffer);
    printf("%zu inputs\n", count);
    return count == 0;
}
