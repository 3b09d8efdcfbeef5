/*
 * package.c: facts of one installed package from the small files beside METADATA: its
 * installer, its origin, how it was built. package_record.c compares its files with RECORD;
 * package_window.c reads which flash-attn its code accepts.
 */
#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define SMALL_BYTES_MAX (64u * 1024u)

bool af_probe_package_is_flash_attn(const char *name)
{
    static const char *const names[] = {"flash-attn", "flash-attn-3", "flash-attn-4",
                                        "flash-attn4", "flashattn-hopper"};
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/*
 * Reads info/file. If the file does not exist, `fact` becomes absent; if it is unreadable,
 * unknown. False in both cases.
 */
static bool read_small(const struct af_probe *probe, const char *info, const char *file,
                       struct af_fact *fact, const char **path_out, struct af_span *text_out)
{
    struct anyflash_error err = {0};
    const char *path = af_path_join(probe->arena, info, file);
    *path_out = path;
    enum anyflash_status status =
        af_file_read(probe->arena, path, SMALL_BYTES_MAX, text_out, &err);
    if (status == ANYFLASH_E_NOT_FOUND)
        af_fact_absent(probe->arena, fact, path);
    else if (status != ANYFLASH_OK)
        af_fact_unknown(probe->arena, fact, "%s", err.message);
    return status == ANYFLASH_OK;
}

static void read_installer(const struct af_probe *probe, struct af_package *package,
                           const char *info)
{
    const char *path;
    struct af_span text;
    if (!read_small(probe, info, "INSTALLER", &package->installer, &path, &text))
        return;
    text = af_text_trim(text);
    af_fact_text(probe->arena, &package->installer,
                 af_arena_text_n(probe->arena, text.data, text.len), path);
}

/* "anyflash 1.2", as in a stand-in that pip or uv unpacked; `build` writes "anyflash (1.2)". */
static bool is_own_generator(const char *value)
{
    static const char start[] = "anyflash ";
    return af_starts_with(value, start) && isdigit((unsigned char)value[sizeof start - 1]);
}

static void read_wheel(const struct af_probe *probe, struct af_package *package,
                       const char *info)
{
    const char *path;
    struct af_span text;
    struct af_header header;
    if (!read_small(probe, info, "WHEEL", &package->purelib, &path, &text))
        return;
    af_fact_unknown(probe->arena, &package->purelib, "'%s' has no Root-Is-Purelib", path);
    while (af_header_next(&text, &header)) {
        const char *value = af_arena_text_n(probe->arena, header.value.data, header.value.len);
        if (af_header_is(&header, "Root-Is-Purelib"))
            af_fact_bool(probe->arena, &package->purelib, af_equal_fold(value, "true"), path);
        else if (af_header_is(&header, "Generator") && is_own_generator(value))
            af_fact_text(probe->arena, &package->installer, "anyflash", path);
    }
}

typedef enum anyflash_status parse_json(struct af_arena *arena, struct af_span bytes,
                                        const char *name, const char **text_out,
                                        struct anyflash_error *err);

/* Reads a fact that is one text of a JSON file. */
static void read_json(const struct af_probe *probe, const char *info, const char *file,
                      parse_json *parse, struct af_fact *fact)
{
    struct anyflash_error err = {0};
    const char *path;
    const char *found = NULL;
    struct af_span text;
    if (!read_small(probe, info, file, fact, &path, &text))
        return;
    if (parse(probe->arena, text, path, &found, &err) != ANYFLASH_OK)
        af_fact_unknown(probe->arena, fact, "%s", err.message);
    else if (found == NULL)
        af_fact_absent(probe->arena, fact, path);
    else
        af_fact_text(probe->arena, fact, found, path);
}

void af_probe_package_read_info(const struct af_probe *probe, struct af_package *package,
                                const char *name, const char *site, const char *info)
{
    read_installer(probe, package, info);
    read_wheel(probe, package, info);
    read_json(probe, info, "direct_url.json", af_direct_url_parse, &package->origin);
    read_json(probe, info, "uv_build.json", af_uv_build_torch, &package->built_for_torch);
    bool is_ours = af_probe_package_is_flash_attn(name);
    af_probe_package_record_unknown(probe, package, "RECORD is compared for flash-attn only");
    if (is_ours || af_equal(name, "xformers") || af_equal(name, "vllm"))
        af_probe_package_read_record(probe, package, site, info, is_ours);
}
