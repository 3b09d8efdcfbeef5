/*
 * json_parts.c: pieces that several JSON answers share.
 */
#include "kit/cli/json_parts.h"

json_t *af_cli_json_append(json_t *list, json_t *item)
{
    if (list != NULL && item != NULL && json_array_append(list, item) == 0) {
        json_decref(item);
        return list;
    }
    json_decref(item);
    json_decref(list);
    return NULL;
}

json_t *af_cli_json_text(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

json_t *af_cli_json_count(int64_t number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

json_t *af_cli_json_answer(enum af_answer answer)
{
    return json_string(af_answer_text(answer));
}

json_t *af_cli_json_catalog(const struct af_catalog *catalog)
{
    return json_pack("{s:s, s:o, s:o}", "name", catalog->name, "date",
                     af_cli_json_text(catalog->date), "count",
                     af_cli_json_count((int64_t)catalog->count));
}

/* true, false or null */
static json_t *truth(enum af_answer answer)
{
    return answer == AF_UNKNOWN ? json_null() : json_boolean(answer == AF_YES);
}

json_t *af_cli_json_wheel(const struct af_catalog_wheel *wheel)
{
    return json_pack(
        "{s:s, s:o, s:s, s:b, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}",
        "filename", wheel->filename, "url", af_cli_json_text(wheel->url), "source",
        wheel->source, "official", wheel->official, "package", wheel->package, "version",
        wheel->version, "local", af_cli_json_text(wheel->local), "python", wheel->python, "abi",
        wheel->abi, "platform", wheel->platform, "torch", af_cli_json_text(wheel->torch),
        "cuda", af_cli_json_text(wheel->cuda), "cxx11abi", truth(wheel->cxx11abi),
        "cxx11abi_effective", truth(wheel->cxx11abi_effective), "sm",
        af_cli_json_text(wheel->sm), "glibc_min", af_cli_json_text(wheel->glibc_min));
}

json_t *af_cli_json_machine_name(const struct af_machine *machine)
{
    return json_pack("{s:s, s:o}", "name", machine->name, "remark",
                     af_cli_json_text(machine->remark));
}
