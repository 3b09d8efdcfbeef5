/*
 * doctor_variables.c: rules about environment variables that do something else than
 * their names promise, or that lead an install astray without a word.
 * Sources: flash-attn's setup.py from 2.0.6 on, and what uv 0.13.8 and pip 26.3
 * were seen to do.
 */
#include <string.h>

#include "kit/doctor/rules.h"

/* What uv and pip read as true in a variable. */
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
        const char *value = af_examination_variable(examination, switches[i].name);
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
    const char *value = af_examination_variable(examination, "FLASH_ATTN_CUDA_ARCHS");
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

/* One variable that says yes, with a cause of its own. */
static void truth(struct af_examination *examination, const char *name, enum af_reason_id cause)
{
    const char *value = af_examination_variable(examination, name);
    if (is_true(value))
        af_examination_add(examination, cause, "%s=%s in the environment", name, value);
}

/* Wheels are refused for everything, or for flash-attn by name. */
static void no_binary(struct af_examination *examination, const char *name)
{
    const char *value = af_examination_variable(examination, name);
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
    const char *list = af_examination_variable(examination, "TORCH_CUDA_ARCH_LIST");
    if (list != NULL && list[0] != '\0')
        af_examination_add(examination, AF_REASON_ARCH_LIST,
                           "TORCH_CUDA_ARCH_LIST=%s in the environment", list);
    const char *isolation = af_examination_variable(examination, "PIP_NO_BUILD_ISOLATION");
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
