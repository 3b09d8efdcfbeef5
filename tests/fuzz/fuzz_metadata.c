/*
 * fuzz_metadata.c: any text as each of the files of metadata.h.
 */
#include "kit/base/json.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_headers(struct af_span text)
{
    static const struct af_marker_environment here = {
        .python_full_version = "3.12.4", .sys_platform = "linux", .extra = ""};
    struct af_header header;
    struct af_span rest = text;
    struct af_span value;
    struct af_requirement requirement;
    char name[64];
    while (af_header_next(&rest, &header)) {
        if (af_requirement_parse(header.value, &requirement)) {
            af_name_normalise(requirement.name, name, sizeof name);
            af_marker_holds(requirement.marker, &here);
        }
    }
    while (af_requirement_next(&text, &requirement))
        af_header_find(requirement.text, "Name", &value);
}

static void read_record(struct af_span text)
{
    static struct af_formats_record_line line;
    while (af_formats_record_next(&text, &line))
        continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    struct af_span text = {(const char *)data, size};
    struct af_span value;
    struct af_arena arena;
    const char *found;
    if (!started)
        af_json_start();
    started = true;
    af_arena_init(&arena);
    read_headers(text);
    read_record(text);
    af_formats_key_value(text, "home", &value);
    af_direct_url_parse(&arena, text, "fuzz", &found, NULL);
    af_uv_build_torch(&arena, text, "fuzz", &found, NULL);
    af_arena_release(&arena);
    return 0;
}
