/*
 * pack.h: the file with FlashAttention-2's kernels as PTX (docs/reference/pack.md).
 *
 *     af_pack_open("flash-attn-2.8.3.post2.kernels", &pack, err);
 *     af_pack_module(pack, "flash_fwd_kernel 64 128 128 4 0 0 bf16 ...", &ptx, err);
 *     ... af_mem_free(ptx);
 *     af_pack_close(pack);
 *
 * A pack does not change once it is open, and several threads may read it.
 */
#ifndef AF_ENGINE_GPU_PACK_H
#define AF_ENGINE_GPU_PACK_H

#include <stdbool.h>

#include "anyflash/anyflash.h"

struct af_pack;

/*
 * Reads the index. Fails with NOT_FOUND or IO if it cannot be read, or if somebody else could
 * have written it than this user, root and the owner of this library; DATA if it is no pack,
 * is cut short or damaged, or was made for parameters that are not those of params.h.
 */
enum anyflash_status af_pack_open(const char *path, struct af_pack **pack_out,
                                  struct anyflash_error *err);
void af_pack_close(struct af_pack *pack);

const char *af_pack_path(const struct af_pack *pack);

/* "2.8.3.post2"; and what made it, in a line. */
const char *af_pack_release(const struct af_pack *pack);
const char *af_pack_maker(const struct af_pack *pack);

/* Oldest CUDA version whose driver reads its PTX, as 1000 * major + 10 * minor. */
int af_pack_cuda_version(const struct af_pack *pack);

bool af_pack_has(const struct af_pack *pack, const char *name);

/* The names of all kernels, sorted. */
size_t af_pack_count(const struct af_pack *pack);
const char *af_pack_name(const struct af_pack *pack, size_t at);

/*
 * A module with one entry, "kernel", NUL-terminated; the caller frees it with af_mem_free().
 * Fails with UNSUPPORTED if the pack has no such kernel, else with IO, DATA or NO_MEMORY.
 */
enum anyflash_status af_pack_module(struct af_pack *pack, const char *name, char **ptx_out,
                                    struct anyflash_error *err);

#define AF_PACK_PATH_BYTES 4096

/* The file of this library, or "". */
void af_pack_find_library(char path[AF_PACK_PATH_BYTES]);

#endif
