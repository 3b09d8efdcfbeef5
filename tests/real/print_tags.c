/*
 * print_tags.c: takes MAJOR MINOR FLAGS PLATFORM... on the command line and
 * prints all wheel tags of that interpreter in order, one per line. For
 * compare.py.
 */
#include "kit/formats/tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct af_arena arena;
    struct anyflash_error err = {0};
    const char **tags;
    size_t count;
    if (argc < 4)
        return 2;
    struct af_interpreter interpreter = {
        .major = (int)strtol(argv[1], NULL, 10),
        .minor = (int)strtol(argv[2], NULL, 10),
        .free_threaded = strchr(argv[3], 't') != NULL,
        .debug = strchr(argv[3], 'd') != NULL,
        .platform_tags = (const char *const *)(argv + 4),
        .platform_count = (size_t)(argc - 4),
    };
    af_arena_init(&arena);
    if (af_tags_list(&interpreter, &arena, &tags, &count, &err) != ANYFLASH_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        puts(tags[i]);
    af_arena_release(&arena);
    return 0;
}
