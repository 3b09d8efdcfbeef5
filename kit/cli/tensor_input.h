/*
 * tensor_input.h: a tensor that the command line names: a .npy file, or a
 * tensor of a safetensors file as FILE or FILE:NAME. Files are mapped, not read.
 */
#ifndef AF_KIT_CLI_TENSOR_INPUT_H
#define AF_KIT_CLI_TENSOR_INPUT_H

#include "kit/formats/array.h"
#include "kit/system/file.h"

/* `array` borrows from the mapping, or from `copy` where the file's bytes lie unaligned. */
struct af_tensor_input {
    const char *shown; /* the file's name for errors, scrubbed */
    struct af_mapping mapping;
    void *copy;
    struct af_npy_array array;
};

/*
 * Opens what `word` names. `tensor` is the name to look for in a safetensors
 * file where the word has none. `raw` is what 16 bits without a type are, or
 * AF_ELEMENT_RAW16: then they are refused, with a hint in *hint_out. Fails as
 * af_file_map(), af_npy_read() and af_safetensors_read() do. Release in every
 * case; zero-initialised it holds nothing.
 */
enum anyflash_status af_tensor_input_open(struct af_arena *arena, const char *word,
                                          const char *tensor, enum af_element raw,
                                          struct af_tensor_input *input, const char **hint_out,
                                          struct anyflash_error *err);
void af_tensor_input_release(struct af_tensor_input *input);

#endif
