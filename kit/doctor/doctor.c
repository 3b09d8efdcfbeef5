/*
 * doctor.c: runs every rule, sorts the findings with the worst first, and
 * chooses the next step. A problem that stops every CUDA program or every
 * install comes first, then the plan. If nothing is wrong with the installed
 * flash-attn, no step is needed. The rules here are about environment variables,
 * the project's files, and the environment's own state.
 */
#include "kit/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"

#define DETAIL_BYTES 1200

void af_examination_add(struct af_examination *examination, enum af_reason_id cause,
                        const char *format, ...)
{
    char text[DETAIL_BYTES];
    va_list arguments;
    if (examination->count == AF_FINDINGS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct af_finding *finding = &examination->findings[examination->count++];
    finding->cause = cause;
    finding->detail = af_arena_text(examination->arena, text);
    finding->hint = af_reason_finding_hint(cause);
}

void af_examination_hint(struct af_examination *examination, const char *hint)
{
    if (examination->count > 0 && hint != NULL)
        examination->findings[examination->count - 1].hint = hint;
}

bool af_examination_version(const struct af_fact *fact, struct af_version *version_out)
{
    const char *text = af_fact_text_or(fact, NULL);
    return text != NULL && af_version_parse(text, strlen(text), version_out);
}

int af_examination_number(const struct af_fact *fact, int place)
{
    struct af_version version;
    return af_examination_version(fact, &version) && version.release_count > place
               ? (int)version.release[place]
               : -1;
}

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

static void examine_variables(struct af_examination *examination)
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
static void examine_caches(struct af_examination *examination)
{
    const struct af_cached_wheel_rows *wheels = &examination->machine->cached_wheels;
    const struct af_fact *python = &examination->machine->python.version;
    int minor = af_examination_number(python, 1);
    if (minor < 0)
        return;
    const char *tag = af_arena_format(examination->arena, "-cp%d%d-",
                                      af_examination_number(python, 0), minor);
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

static void examine_project(struct af_examination *examination)
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

static void examine_environment(struct af_examination *examination)
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

/* ---- all rules ---- */

typedef void rule_function(struct af_examination *examination);

/* The order of findings with the same severity. */
static rule_function *const rules[] = {
    examine_environment,          /* whether there is a Python that can be used */
    af_examine_source_tree,       /* what Python really imports */
    af_examine_damaged_torch,     /* what it cannot be imported without */
    af_examine_shim,              /* whether anyflash replaces it */
    af_examine_double_installs,   /* whether it is the only one */
    af_examine_installed_files,   /* whether it is complete */
    af_examine_installed_torch,   /* whether it fits this torch, judged by its own files */
    af_examine_installed_wheel,   /* whether it fits this machine, judged by the catalog */
    af_examine_other_generations, /* whether it is another FlashAttention */
    af_examine_driver,
    af_examine_devices,
    af_examine_torch,
    af_examine_peers,
    examine_variables,
    examine_caches,
    examine_project,
    af_examine_building,
};

/* Stable: findings of one severity stay in the order of the rules. */
static void sort_by_severity(struct af_finding *findings, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct af_finding moved = findings[i];
        size_t at = i;
        for (; at > 0 &&
               af_reasons[findings[at - 1].cause].severity > af_reasons[moved.cause].severity;
             at--)
            findings[at] = findings[at - 1];
        findings[at] = moved;
    }
}

enum anyflash_status af_doctor_examine(const struct af_catalog *catalog,
                                       const struct af_machine *machine,
                                       const struct af_decision *decision,
                                       struct af_arena *arena,
                                       const struct af_finding **findings_out,
                                       size_t *count_out, struct anyflash_error *err)
{
    struct af_examination examination = {
        .catalog = catalog,
        .machine = machine,
        .decision = decision,
        .arena = arena,
        .findings = af_arena_array(arena, AF_FINDINGS_MAX, sizeof(struct af_finding)),
        .err = err,
    };
    for (size_t i = 0; i < AF_COUNT(rules) && examination.status == ANYFLASH_OK; i++)
        rules[i](&examination);
    if (examination.status != ANYFLASH_OK)
        return examination.status;
    sort_by_severity(examination.findings, examination.count);
    *findings_out = examination.findings;
    *count_out = examination.count;
    return ANYFLASH_OK;
}

struct af_next af_doctor_next(const struct af_machine *machine,
                              const struct af_decision *decision,
                              const struct af_finding *findings, size_t count)
{
    bool is_installed =
        af_machine_flash_attn(machine) != NULL && machine->torch.version.state == AF_FACT_KNOWN;
    for (size_t i = 0; i < count; i++) {
        if (af_reasons[findings[i].cause].comes_first)
            return (struct af_next){AF_NEXT_FINDING, &findings[i]};
        is_installed = is_installed && !af_reason_asks_to_replace(findings[i].cause);
    }
    if (is_installed)
        return (struct af_next){AF_NEXT_NOTHING, NULL};
    return (struct af_next){decision->possible ? AF_NEXT_PLAN : AF_NEXT_NO_WAY, NULL};
}
