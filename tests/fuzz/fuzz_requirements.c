/*
 * fuzz_requirements.c: any text as a requirements file, as a pyproject.toml, and as the words
 * of an installer's command.
 */
#include "kit/project/requirements.h"

#include <string.h>

#define WORDS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum anyflash_status read_input(void *context, struct af_arena *arena, const char *path,
                                       struct af_span *text_out, struct anyflash_error *err)
{
    const struct af_span *input = context;
    (void)arena;
    (void)path;
    (void)err;
    *text_out = *input;
    return ANYFLASH_OK;
}

static void read_words(struct af_project *project, struct af_span text)
{
    const char *words[WORDS_MAX];
    size_t count = 0;
    struct af_project_command command;
    const char *rest = af_arena_text_n(project->arena, text.data, text.len);
    while (rest != NULL && *rest != '\0' && count < WORDS_MAX) {
        size_t len = strcspn(rest, " \n");
        words[count++] = af_arena_text_n(project->arena, rest, len);
        rest += len + (rest[len] != '\0');
    }
    if (count > 0)
        af_project_command_read(project, words, count, &command, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct af_marker_environment here = {.python_full_version = "3.12.4",
                                                      .extra = ""};
    struct af_span text = {(const char *)data, size};
    struct af_arena arena;
    af_arena_init(&arena);
    struct af_project project = {.arena = &arena, .read = read_input, .context = &text};
    af_project_add_file(&project, "requirements.txt", false, NULL);
    af_project_add_folder(&project, ".", "all", NULL);
    af_project_add_group(&project, "pyproject.toml", "dev", NULL);
    read_words(&project, text);
    const struct af_project_requirement *found = NULL;
    while ((found = af_project_next(&project, found, "flash-attn", &here)) != NULL)
        af_project_pinned_version(&arena, found->specifier);
    af_arena_release(&arena);
    return 0;
}
