/*
 * variables.c: the probe of environment variables that affect what is chosen, built or loaded.
 * Machine documents are pasted into bug reports, so credentials in addresses and the values of
 * secret variables are removed here.
 */
#include "kit/probe/probes.h"

#include <stdlib.h>
#include <string.h>

#define VARIABLES_MAX 1024u

static bool interesting(const char *name, size_t len)
{
    static const char *const starts[] = {"UV_",         "PIP_",    "FLASH_ATTENTION_",
                                         "FLASH_ATTN_", "NVCC_",   "TORCH",
                                         "PYTORCH_",    "CONDA_",  "NVIDIA_",
                                         "CUDA_",       "POETRY_", "PDM_",
                                         "PIXI_",       "HIP_",    "ROCM_"};
    static const char *const names[] = {"BUILD_TARGET",
                                        "CC",
                                        "CCACHE_DIR",
                                        "CPATH",
                                        "CXX",
                                        "CXXFLAGS",
                                        "CFLAGS",
                                        "GPU_ARCHS",
                                        "LD_LIBRARY_PATH",
                                        "LD_PRELOAD",
                                        "LDFLAGS",
                                        "LIBRARY_PATH",
                                        "MAKEFLAGS",
                                        "MAX_JOBS",
                                        "CMAKE_ARGS",
                                        "PYENV_VERSION",
                                        "PYTHONHOME",
                                        "PYTHONNOUSERSITE",
                                        "PYTHONPATH",
                                        "PYTHONUSERBASE",
                                        "TMPDIR",
                                        "VIRTUAL_ENV",
                                        "XDG_CACHE_HOME",
                                        "XDG_CONFIG_HOME",
                                        "SETUPTOOLS_USE_DISTUTILS"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (len > strlen(starts[i]) && strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (len == strlen(names[i]) && strncmp(name, names[i], len) == 0)
            return true;
    }
    return false;
}

static bool is_secret(const char *name)
{
    static const char *const words[] = {"TOKEN",      "PASSWORD", "SECRET", "KEY",
                                        "CREDENTIAL", "USERNAME", "AUTH",   "PASS"};
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        if (strstr(name, words[i]) != NULL)
            return true;
    }
    return false;
}

/*
 * Length of the text after "://" that may contain credentials: up to the path. It is longer if
 * a colon is not followed by a port, as in a password with a slash.
 */
static size_t authority_len(const char *host)
{
    size_t len = strcspn(host, "/?# \t,;");
    const char *colon = memchr(host, ':', len);
    if (memchr(host, '@', len) == NULL && colon != NULL && (colon[1] < '0' || colon[1] > '9'))
        return strcspn(host, " \t,;");
    return len;
}

/*
 * Replaces "user:password" before the @ and the query after the ? of every address in the value
 * by three stars; with `bare` also in addresses without "://".
 */
static const char *without_credentials(struct af_arena *arena, const char *value, bool bare)
{
    char *copy = af_arena_alloc(arena, 3 * strlen(value) + 8);
    char *to = copy;
    bool address = bare;
    while (*value != '\0') {
        bool scheme = strncmp(value, "://", 3) == 0;
        const char *host = scheme ? value + 3 : value;
        const char *at = scheme || bare ? memrchr(host, '@', authority_len(host)) : NULL;
        bool query = address && *value == '?';
        address = scheme || (address && strchr(" \t,;", *value) == NULL);
        bare = false;
        memcpy(to, value, (size_t)(host - value));
        to += host - value;
        value = host;
        if (at != NULL) {
            memcpy(to, "***", 3);
            to += 3;
            value = at;
        } else if (query) {
            memcpy(to, "?***", 4);
            to += 4;
            value += strcspn(value, " \t,;");
        } else if (!scheme) {
            *to++ = *value++;
        }
    }
    return copy;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add(struct af_probe *probe, const char *text)
{
    size_t len = strcspn(text, "=");
    const char *name = af_arena_text_n(probe->arena, text, len);
    struct af_variable *variable =
        af_machine_row_add(probe->machine, offsetof(struct af_machine, variables), "not read");
    if (variable == NULL)
        return;
    af_fact_text(probe->arena, &variable->name, name, "environment");
    if (is_secret(name))
        af_fact_text(probe->arena, &variable->value, "(removed)", "environment");
    else
        af_fact_text(
            probe->arena, &variable->value,
            without_credentials(probe->arena, text + len + 1, strstr(name, "PROXY") != NULL),
            "environment");
}

void af_probe_variables(struct af_probe *probe)
{
    char *const *all = probe->options->environment;
    const char **found = af_arena_array(probe->arena, VARIABLES_MAX, sizeof *found);
    size_t count = 0;
    probe->machine->variables.state = AF_FACT_KNOWN;
    probe->machine->variables.source = "environment";
    for (size_t i = 0; all != NULL && all[i] != NULL; i++) {
        size_t len = strcspn(all[i], "=");
        if (count < VARIABLES_MAX && all[i][len] == '=' && interesting(all[i], len))
            found[count++] = all[i];
    }
    if (count > 0)
        qsort(found, count, sizeof *found, by_text);
    for (size_t i = 0; i < count; i++)
        add(probe, found[i]);
}
