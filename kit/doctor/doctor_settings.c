/*
 * doctor_settings.c: rules about environment variables, the project's files, the
 * environment's own state.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/doctor/rules.h"
#include "kit/formats/version.h"

/*
 * Rules about environment variables that do not do what their names suggest, or
 * that silently break an install. Sources: flash-attn's setup.py from 2.0.6 on,
 * and observations of uv 0.13.8 and pip 26.3.
 */

/* Values that uv and pip read as true. */
static bool is_true(const char *value)
{
    static const char *const words[] = {"1", "true", "yes", "on", "t", "y"};
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (af_equal_fold(value, words[i]))
            return true;
    return false;
}

static void flash_switches(struct af_examination *examination)
{
    static const struct {
        const char *name;
        enum af_reason_id cause;
    } switches[] = {
        {"FLASH_ATTENTION_SKIP_CUDA_BUILD", AF_REASON_SKIP_BUILD},
        {"FLASH_ATTENTION_FORCE_BUILD", AF_REASON_FORCE_BUILD},
    };
    for (size_t i = 0; i < AF_COUNT(switches); i++) {
        const char *value = af_machine_variable(examination->machine, switches[i].name);
        if (value == NULL || value[0] == '\0' || strcmp(value, "FALSE") == 0)
            continue;
        bool counts = strcmp(value, "TRUE") == 0;
        af_examination_add(examination, counts ? switches[i].cause : AF_REASON_SWITCH_IGNORED,
                           "%s=%s in the environment", switches[i].name, value);
    }
}

static bool arch_known(struct af_span token)
{
    static const char *const known[] = {"80", "90", "100", "110", "120"};
    for (size_t i = 0; i < AF_COUNT(known); i++)
        if (af_text_span_equal(token, known[i]))
            return true;
    return false;
}

static void flash_archs(struct af_examination *examination)
{
    const char *value = af_machine_variable(examination->machine, "FLASH_ATTN_CUDA_ARCHS");
    while (value != NULL && *value != '\0') {
        size_t len = strcspn(value, ";");
        struct af_span token = {value, len};
        if (len > 0 && !arch_known(token))
            af_examination_add(examination, AF_REASON_ARCHS_UNKNOWN,
                               "'%.*s' in FLASH_ATTN_CUDA_ARCHS", (int)(len < 40 ? len : 40),
                               value);
        value += len + (value[len] == ';');
    }
}

/* Reports a variable that is true, with its own cause. */
static void truth(struct af_examination *examination, const char *name, enum af_reason_id cause)
{
    const char *value = af_machine_variable(examination->machine, name);
    if (is_true(value))
        af_examination_add(examination, cause, "%s=%s in the environment", name, value);
}

/* Wheels are forbidden, for all packages or for flash-attn by name. */
static void no_binary(struct af_examination *examination, const char *name)
{
    const char *value = af_machine_variable(examination->machine, name);
    if (value != NULL &&
        (is_true(value) || strstr(value, ":all:") != NULL ||
         strstr(value, "flash-attn") != NULL || strstr(value, "flash_attn") != NULL))
        af_examination_add(examination, AF_REASON_WHEELS_REFUSED, "%s=%s in the environment",
                           name, value);
}

void af_examine_variables(struct af_examination *examination)
{
    flash_switches(examination);
    flash_archs(examination);
    const char *list = af_machine_variable(examination->machine, "TORCH_CUDA_ARCH_LIST");
    if (list != NULL && list[0] != '\0')
        af_examination_add(examination, AF_REASON_ARCH_LIST,
                           "TORCH_CUDA_ARCH_LIST=%s in the environment", list);
    const char *isolation = af_machine_variable(examination->machine, "PIP_NO_BUILD_ISOLATION");
    if (isolation != NULL && isolation[0] != '\0')
        af_examination_add(examination, AF_REASON_PIP_ISOLATION,
                           "PIP_NO_BUILD_ISOLATION=%s: isolation is %s", isolation,
                           is_true(isolation) ? "on" : "off");
    truth(examination, "UV_OFFLINE", AF_REASON_OFFLINE);
    truth(examination, "PIP_NO_INDEX", AF_REASON_OFFLINE);
    truth(examination, "UV_NO_INDEX", AF_REASON_OFFLINE);
    no_binary(examination, "UV_NO_BINARY");
    no_binary(examination, "UV_NO_BINARY_PACKAGE");
    no_binary(examination, "PIP_NO_BINARY");
    const char *kind = af_fact_text_or(&examination->machine->python.kind, NULL);
    if (kind != NULL && strcmp(kind, "system") != 0)
        truth(examination, "UV_SYSTEM_PYTHON", AF_REASON_SYSTEM_PYTHON);
}

/*
 * A wheel that pip or uv built earlier. Its torch is unknown, so it is reported only if an
 * installer may use it for this Python: the interpreter tag of its name is this Python's, or
 * any. Those of `anyflash build` work with each torch.
 */
void af_examine_caches(struct af_examination *examination)
{
    const struct af_cached_wheel_rows *wheels = &examination->machine->cached_wheels;
    const char *python = af_fact_text_or(&examination->machine->python.version, NULL);
    struct af_version version;
    if (python == NULL || !af_version_parse(python, strlen(python), &version) ||
        version.release_count < 2)
        return;
    const char *tag = af_arena_format(examination->arena, "-cp%d%d-", (int)version.release[0],
                                      (int)version.release[1]);
    for (size_t i = 0; tag != NULL && i < wheels->count; i++) {
        const char *path = af_fact_text_or(&wheels->rows[i].path, "");
        if (af_fact_is(&wheels->rows[i].tool, "anyflash"))
            continue;
        if (strstr(path, tag) != NULL || strstr(path, "-py3-") != NULL) {
            af_examination_add(examination, AF_REASON_STALE_CACHE, "%s", path);
            return;
        }
    }
}

/*
 * Rules about the project's files and the state of the environment.
 * Any of these can make a correct installation fail, ignore it or undo it.
 */

/* The project file called `name` in `folder` (NULL: anywhere), or NULL. */
static const struct af_project_file *project_file(struct af_examination *examination,
                                                  const char *name, const char *folder)
{
    const struct af_project_file_rows *files = &examination->machine->project_files;
    for (size_t i = 0; i < files->count; i++) {
        const char *path = af_fact_text_or(&files->rows[i].path, NULL);
        if (path != NULL && af_equal(af_path_name(path), name) &&
            (folder == NULL || af_equal(af_path_folder(examination->arena, path), folder)))
            return &files->rows[i];
    }
    return NULL;
}

/* uv 0.11.0 reads the sdist's Dynamic lines case-insensitively; 0.11.1 reverted that. */
static void check_uv(struct af_examination *examination)
{
    const struct af_tool_rows *tools = &examination->machine->tools;
    for (size_t i = 0; i < tools->count; i++)
        if (af_fact_is(&tools->rows[i].name, "uv") &&
            af_fact_is(&tools->rows[i].version, "0.11.0"))
            af_examination_add(examination, AF_REASON_UV_STATIC, "uv 0.11.0 (%s)",
                               tools->rows[i].version.source);
}

void af_examine_project(struct af_examination *examination)
{
    check_uv(examination);
    const struct af_project_file *settings = project_file(examination, "uv.toml", NULL);
    if (settings != NULL) {
        const char *path = settings->path.value.text;
        if (project_file(examination, "pyproject.toml",
                         af_path_folder(examination->arena, path)) != NULL)
            af_examination_add(examination, AF_REASON_UV_TOML, "%s", path);
    }
    const struct af_project_file *lock = project_file(examination, "uv.lock", NULL);
    if (lock != NULL && af_fact_truth(&lock->names_flash_attn) == AF_NO &&
        af_machine_package(examination->machine, "flash-attn") != NULL)
        af_examination_add(examination, AF_REASON_UV_SYNC, "%s", lock->path.value.text);
}

void af_examine_environment(struct af_examination *examination)
{
    const struct af_python *python = &examination->machine->python;
    const char *prefix = af_fact_text_or(&python->prefix, "the environment");
    const struct af_reason *problem =
        af_fit_environment_problem(examination->machine, examination->arena);
    if (problem != NULL) {
        af_examination_add(examination, problem->id, "%s", problem->detail);
        af_examination_hint(examination, problem->hint);
    }
    if (python->prefix.state == AF_FACT_ABSENT || python->problem.state == AF_FACT_KNOWN)
        return;
    if (af_fact_truth(&python->externally_managed) == AF_YES)
        af_examination_add(examination, AF_REASON_MANAGED, "%s (%s)", prefix,
                           python->externally_managed.source);
    else if (python->writable.state == AF_FACT_KNOWN && !python->writable.value.truth)
        af_examination_add(examination, AF_REASON_READ_ONLY, "%s (%s)", prefix,
                           python->writable.source);
}
