/*
 * given_python.c: Python and torch given by the user. A given torch replaces the
 * known one: only its own facts, and other facts given by the user, remain.
 */
#include "kit/formats/tags.h"
#include "kit/formats/version.h"
#include "kit/machine/given.h"

#include <stdio.h>
#include <string.h>

/* Clears facts of a record that no other key gave. */
static void forget(struct af_given *given, struct af_fact *facts, size_t count,
                   const char *own_key)
{
    for (size_t i = 0; i < count; i++) {
        if (!af_given_by(&facts[i], NULL) || af_given_by(&facts[i], own_key))
            af_fact_unknown(given->arena, &facts[i], "not said by %s", given->source);
    }
}

/* "3.13t", "3.12.4", "cp312", "python3.11", "pypy3.10" */
void af_given_python(struct af_given *given)
{
    struct af_python *python = &given->machine->python;
    struct af_fact tags = python->platform_tags; /* the platform's, not the version's */
    forget(given, (struct af_fact *)(void *)python, sizeof *python / sizeof tags, "python");
    python->platform_tags = tags;
    const char *digits = given->lower + strcspn(given->lower, "0123456789");
    size_t len = strspn(digits, "0123456789.");
    char version[32];
    if (strncmp(given->lower, "cp", 2) == 0 && len >= 2 && memchr(digits, '.', len) == NULL)
        snprintf(version, sizeof version, "%c.%.*s", digits[0], (int)(len < 8 ? len - 1 : 8),
                 digits + 1);
    else
        snprintf(version, sizeof version, "%.*s", (int)(len < 30 ? len : 30), digits);
    int major;
    int minor;
    if (!af_platform_libc_parse(version, &major, &minor) || digits[len] == 'x') {
        af_given_unclear(given, &python->version, "not a Python version such as 3.12 or 3.13t");
        return;
    }
    const char *implementation = strstr(given->lower, "pypy") != NULL    ? "pypy"
                                 : strstr(given->lower, "graal") != NULL ? "graalpy"
                                                                         : "cpython";
    const char *rest = digits + len;
    char flags[3] = {0};
    if (*rest == 't')
        flags[0] = *rest++;
    if (*rest == 'd')
        flags[strlen(flags)] = 'd';
    af_given_text(given, &python->version, version, NULL);
    af_given_text(given, &python->abi_flags, flags, NULL);
    af_given_text(given, &python->implementation, implementation, NULL);
}

/* The CUDA version in a local part: "cu128" is 12.8, "cu92" 9.2; else NULL. */
static const char *cuda_of_local(struct af_arena *arena, const char *local)
{
    if (!af_starts_with(local, "cu"))
        return NULL;
    const char *digits = local + 2;
    size_t len = strspn(digits, "0123456789");
    bool old = len == 2 && digits[0] >= '8'; /* cu80 to cu92; cu12 has no minor */
    if (len != 3 && !old)
        return NULL;
    return af_arena_format(arena, "%.*s.%c", (int)len - 1, digits, digits[len - 1]);
}

/*
 * The builder of a torch with this version: PyTorch's releases have no
 * pre-release part, its nightlies have devN; aN with a commit is a vendor's or
 * the user's own build.
 */
static const char *build_of(const struct af_version *version)
{
    const char *local = version->local;
    if (strstr(local, "debian") != NULL || strstr(local, "fedora") != NULL)
        return "distribution";
    if (strstr(local, "git") != NULL)
        return "source";
    if (strstr(local, "nv") != NULL || (version->pre_kind == 'a' && local[0] != '\0'))
        return "vendor";
    return af_version_is_prerelease(version) ? "prerelease" : "release";
}

/* "12.8" needs libcudart.so.12; CUDA 11 has one name for all minors. */
static void imply_cudart(struct af_given *given, const char *cuda)
{
    int major;
    int minor;
    if (!af_platform_libc_parse(cuda, &major, &minor))
        return;
    const char *soname = major == 11 ? "libcudart.so.11.0"
                                     : af_arena_format(given->arena, "libcudart.so.%d", major);
    af_given_text(given, &given->machine->torch.cudart_soname, soname,
                  "the runtime of that CUDA");
}

static void take_local(struct af_given *given, const char *local)
{
    static const char why[] = "its local version";
    struct af_torch *torch = &given->machine->torch;
    const char *cuda = cuda_of_local(given->arena, local);
    bool rocm = af_starts_with(local, "rocm");
    if (cuda != NULL && !af_given_by(&torch->cuda, "torch_cuda")) {
        af_given_text(given, &torch->cuda, cuda, why);
        imply_cudart(given, cuda);
    }
    if (cuda != NULL || strcmp(local, "cpu") == 0)
        af_given_absent(given, &torch->hip, why);
    if (rocm)
        af_given_text(given, &torch->hip, local + strlen("rocm"), why);
    if (rocm || strcmp(local, "cpu") == 0)
        af_given_absent(given, &torch->cuda, why);
}

static void torch_absent(struct af_given *given)
{
    struct af_fact *facts = (struct af_fact *)(void *)&given->machine->torch;
    for (size_t i = 0; i < sizeof given->machine->torch / sizeof *facts; i++)
        af_given_absent(given, &facts[i], NULL);
}

void af_given_torch(struct af_given *given)
{
    struct af_torch *torch = &given->machine->torch;
    struct af_version version;
    if (af_given_is_none(given)) {
        torch_absent(given);
        return;
    }
    forget(given, (struct af_fact *)(void *)torch, sizeof *torch / sizeof torch->version,
           "torch");
    const char *text = af_given_version(given);
    if (text == NULL || !af_version_parse(text, strlen(text), &version)) {
        af_given_unclear(given, &torch->version, "not one version of torch");
        return;
    }
    bool nightly = strstr(given->lower, "nightly") != NULL;
    const char *build = nightly ? "prerelease" : build_of(&version);
    af_given_text(given, &torch->version, text, NULL);
    af_given_text(given, &torch->build, build, NULL);
    if (strcmp(build, "release") == 0 || strcmp(build, "prerelease") == 0)
        af_given_text(given, &torch->c10_soname, "libc10.so",
                      "every torch of PyTorch's own indexes");
    take_local(given, version.local);
}

void af_given_torch_cuda(struct af_given *given)
{
    struct af_torch *torch = &given->machine->torch;
    const char *lower = given->lower;
    if (af_given_is_none(given) || strcmp(lower, "cpu") == 0) {
        af_given_absent(given, &torch->cuda, NULL);
        return;
    }
    const char *version = cuda_of_local(given->arena, lower);
    int major;
    int minor;
    if (version == NULL)
        version = af_given_version(given);
    if (!af_platform_libc_parse(version, &major, &minor)) {
        af_given_unclear(given, &torch->cuda, "not a CUDA version such as 12.8");
        return;
    }
    version = af_arena_format(given->arena, "%d.%d", major, minor);
    af_given_text(given, &torch->cuda, version, NULL);
    imply_cudart(given, version);
}
