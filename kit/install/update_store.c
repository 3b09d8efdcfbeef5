/*
 * update_store.c: writes an updated catalog to the state folder or to a file of the user, and
 * removes the stored one.
 */
#include <errno.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_update.h"
#include "kit/install/update.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/state.h"

enum anyflash_status af_update_save(const struct af_update *update, const char *folder,
                                    struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_text bytes = {0};
    if (folder == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "no folder for the catalog: HOME is not set");
    af_arena_init(&arena);
    const char *path = af_state_catalog_path(&arena, folder);
    enum anyflash_status status = af_catalog_stored_write(&update->catalog, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(folder, 0700, err);
    if (status == ANYFLASH_OK) {
        const struct af_span piece = {bytes.data, bytes.len};
        status = af_file_write(&arena, path, &piece, 1, err);
    }
    af_text_release(&bytes);
    af_arena_release(&arena);
    return status;
}

enum anyflash_status af_update_export(const struct af_update *update, const char *path,
                                      struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_text rows = {0};
    af_arena_init(&arena);
    af_catalog_write_date(&rows, update->catalog.date);
    for (size_t i = 0; i < update->catalog.count; i++)
        af_catalog_write_row(&rows, &update->catalog.wheels[i]);
    const struct af_span piece = {rows.data, rows.len};
    enum anyflash_status status = af_file_write(&arena, path, &piece, 1, err);
    af_text_release(&rows);
    af_arena_release(&arena);
    return status;
}

enum anyflash_status af_update_undo(const char *folder, bool *there_out,
                                    struct anyflash_error *err)
{
    struct af_arena arena;
    enum anyflash_status status = ANYFLASH_OK;
    af_arena_init(&arena);
    const char *path = af_state_catalog_path(&arena, folder);
    *there_out = false;
    if (path != NULL && unlink(path) == 0)
        *there_out = true;
    else if (path != NULL && errno != ENOENT && errno != ENOTDIR)
        status = af_file_fail("remove", path, err);
    af_arena_release(&arena);
    return status;
}
