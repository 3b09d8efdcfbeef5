/*
 * fatbin_walk.h: steps through containers and their images within a range of a
 * source, and sums them up; private to the files of fatbin.h.
 */
#ifndef AF_KIT_FORMATS_FATBIN_WALK_H
#define AF_KIT_FORMATS_FATBIN_WALK_H

#include "kit/formats/fatbin.h"

#define AF_FATBIN_WINDOW_BYTES 65536u

/* Zero-initialise, set `source`, release. Lists are on the heap. */
struct af_fatbin_walk {
    struct af_source *source;
    struct af_gpu_container *containers;
    size_t container_count;
    size_t container_capacity;
    struct af_gpu_image *images;
    size_t image_count;
    size_t image_capacity;
    bool is_full;           /* AF_GPU_IMAGES_MAX reached, or too much looked at in vain */
    size_t dropped_count;   /* images of containers that turned out to be none */
    uint64_t strange_bytes; /* that are neither container nor zero */
    uint64_t strange_at;    /* where the first of them are */
    unsigned char *window;  /* the bytes last looked at */
    uint64_t window_at;
    size_t window_len;
};

/*
 * Adds the containers between `from` and `to`, both multiples of 8 in most
 * files. Only containers whose chain of images ends exactly at their end are
 * taken; other bytes are passed over 8 at a time. With `is_search` such bytes
 * are no surprise, else they are counted as strange unless zero.
 */
enum anyflash_status af_fatbin_walk_range(struct af_fatbin_walk *walk, uint64_t from,
                                          uint64_t to, bool is_relocatable, bool is_search,
                                          struct anyflash_error *err);

/* How many wrappers (24 bytes each) of .nvFatBinSegment lie between `from` and `to`. */
enum anyflash_status af_fatbin_count_wrappers(struct af_fatbin_walk *walk, uint64_t from,
                                              uint64_t to, int64_t *count_out,
                                              struct anyflash_error *err);

/* Fills targets and counts of `code` from its containers and images. */
enum anyflash_status af_fatbin_sum_up(struct af_arena *arena, struct af_gpu_code *code,
                                      struct anyflash_error *err);

void af_fatbin_walk_release(struct af_fatbin_walk *walk);

#endif
