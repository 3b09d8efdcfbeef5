/*
 * expected_files.h: which files an installer may write for wheels that were checked, and with
 * which content. Zip readers disagree about some archives, so what was read from an archive
 * does not say what another program writes: its files are compared, by size and CRC-32.
 */
#ifndef AF_KIT_INSTALL_EXPECTED_FILES_H
#define AF_KIT_INSTALL_EXPECTED_FILES_H

#include "kit/install/record.h"

struct af_expected_file;

/* A list that grows. Zero-initialise it; release `items` with af_memory_free(). */
struct af_expected_files {
    struct af_expected_file *items;
    size_t count;
    size_t capacity;
};

/*
 * Adds the members of the wheel at `path`, and what installers write for it: the scripts of its
 * entry points, RECORD, INSTALLER and similar files. Keys of the files are in `arena`. Fails as
 * af_wheel_archive_open(), or with DATA if its entry points or scripts cannot be read.
 */
enum anyflash_status af_expected_files_add(struct af_expected_files *files, const char *path,
                                           struct af_arena *arena, struct anyflash_error *err);

/*
 * Compares every file below `tree`, the folder of --prefix. Fails with DATA, naming the first
 * file that no wheel has or has with another content, or IO or LIMIT.
 */
enum anyflash_status af_expected_files_check_tree(struct af_expected_files *files,
                                                  const char *tree, struct af_arena *arena,
                                                  struct anyflash_error *err);

/*
 * Compares the files of an installed distribution, as its RECORD lists them: each is one of the
 * wheels', and each file that the wheels have in the site folder is there. *difference_out is
 * the first that is not ("flash_attn/a.py: another content"), or NULL. Caches of compiled
 * modules do not count. Fails with IO.
 */
enum anyflash_status af_expected_files_compare(struct af_expected_files *files,
                                               const char *site,
                                               const struct af_distribution *distribution,
                                               struct af_arena *arena,
                                               const char **difference_out,
                                               struct anyflash_error *err);

#endif
