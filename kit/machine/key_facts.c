/*
 * key_facts.c: describes a machine by a few facts, each as --given reads it.
 */
#include "kit/machine/machine.h"

#include "kit/formats/tags.h"

#include <string.h>

#define GPUS_NAMED_MAX 8u

/* A NULL value is unknown. */
struct said {
    const char *value;
    const char *source;
};

static struct said said_by(const struct af_fact *fact)
{
    return (struct said){af_fact_text_or(fact, NULL), fact->source};
}

/* "8x A100", "A100, T4": as --given reads it. */
static struct said says_gpu(const struct af_machine *machine, struct af_arena *arena)
{
    const struct af_gpu_rows *gpus = &machine->gpus;
    struct af_text text = {0};
    size_t named = 0;
    if (gpus->state == AF_FACT_KNOWN && gpus->count == 0)
        return (struct said){"none", gpus->source};
    for (size_t i = 0; i < gpus->count && named < GPUS_NAMED_MAX;) {
        const char *name = af_fact_text_or(&gpus->rows[i].name, NULL);
        const char *sm = af_fact_text_or(&gpus->rows[i].sm, NULL);
        size_t end = i + 1;
        while (end < gpus->count &&
               af_equal(af_fact_text_or(&gpus->rows[end].name, NULL), name) &&
               af_equal(af_fact_text_or(&gpus->rows[end].sm, NULL), sm))
            end++;
        af_text_add(&text, text.len > 0 ? ", " : "");
        if (end - i > 1)
            af_text_format(&text, "%zux ", end - i);
        af_text_format(&text, "%s%s", name == NULL && sm != NULL ? "sm_" : "",
                       name != NULL ? name
                       : sm != NULL ? sm
                                    : "unknown");
        named++;
        i = end;
    }
    const char *value = text.len == 0 ? NULL : af_arena_text(arena, text.data);
    af_text_release(&text);
    if (af_equal(value, "unknown"))
        value = NULL;
    const char *source = gpus->count == 0 ? gpus->source : gpus->rows[0].name.source;
    return (struct said){value, source};
}

static struct said says_os(const struct af_machine *machine, struct af_arena *arena)
{
    (void)arena;
    const struct af_platform *platform = &machine->platform;
    struct said said = said_by(&platform->os);
    if (said.value != NULL && af_fact_truth(&platform->wsl) == AF_YES)
        said = (struct said){"WSL2", platform->wsl.source};
    return said;
}

static struct said says_python(const struct af_machine *machine, struct af_arena *arena)
{
    const struct af_python *python = &machine->python;
    struct said said = said_by(&python->version);
    if (said.value != NULL && strchr(af_fact_text_or(&python->abi_flags, ""), 't') != NULL)
        said.value = af_arena_format(arena, "%st", said.value);
    return said;
}

/* Without the local version, which torch_cuda has. */
static struct said says_torch(const struct af_machine *machine, struct af_arena *arena)
{
    const struct af_fact *version = &machine->torch.version;
    struct said said = said_by(version);
    if (version->state == AF_FACT_ABSENT)
        said.value = "none";
    else if (said.value != NULL)
        said.value = af_arena_text_n(arena, said.value, strcspn(said.value, "+"));
    return said;
}

/* "cu124" for the CUDA "12.4" of a torch. */
static const char *build_of_cuda(struct af_arena *arena, const char *cuda)
{
    size_t major = strspn(cuda, "0123456789");
    size_t minor = cuda[major] == '.' ? strspn(cuda + major + 1, "0123456789") : 0;
    return af_arena_format(arena, "cu%.*s%.*s", (int)major, cuda, (int)minor,
                           cuda + major + (minor > 0));
}

static struct said says_torch_cuda(const struct af_machine *machine, struct af_arena *arena)
{
    const struct af_torch *torch = &machine->torch;
    const char *version = af_fact_text_or(&torch->version, "");
    const char *local = strchr(version, '+');
    if (local != NULL && (af_starts_with(local, "+cu") || af_starts_with(local, "+cpu") ||
                          af_starts_with(local, "+rocm")))
        return (struct said){local + 1, torch->version.source};
    if (torch->cuda.state == AF_FACT_KNOWN)
        return (struct said){build_of_cuda(arena, torch->cuda.value.text), torch->cuda.source};
    if (torch->hip.state == AF_FACT_KNOWN)
        return (struct said){af_arena_format(arena, "rocm%s", torch->hip.value.text),
                             torch->hip.source};
    if (torch->cuda.state == AF_FACT_ABSENT && version[0] != '\0')
        return (struct said){"cpu", torch->cuda.source};
    return (struct said){NULL, torch->cuda.source};
}

static struct said says_driver(const struct af_machine *machine, struct af_arena *arena)
{
    (void)arena;
    const struct af_driver *driver = &machine->driver;
    return said_by(driver->user_version.state == AF_FACT_KNOWN ? &driver->user_version
                                                               : &driver->kernel_version);
}

static struct said says_libc(const struct af_machine *machine, struct af_arena *arena)
{
    const struct af_platform *platform = &machine->platform;
    const char *version = af_fact_text_or(&platform->libc_version, NULL);
    const char *name = af_fact_text_or(&platform->libc, "glibc");
    return (struct said){version == NULL ? NULL
                                         : af_arena_format(arena, "%s %s", name, version),
                         platform->libc_version.source};
}

static struct said says_arch(const struct af_machine *machine, struct af_arena *arena)
{
    (void)arena;
    struct said said = said_by(&machine->platform.arch);
    af_platform_arch_at(said.value, &said.value);
    return said;
}

static const struct {
    const char *key;
    const char *label;
    struct said (*says)(const struct af_machine *machine, struct af_arena *arena);
} rows[AF_MACHINE_KEY_FACT_COUNT] = {
    {"gpu", "GPU", says_gpu},
    {"os", "System", says_os},
    {"python", "Python", says_python},
    {"torch", "torch", says_torch},
    {"torch_cuda", "CUDA build of torch", says_torch_cuda},
    {"driver", "NVIDIA driver", says_driver},
    {"libc", "C library", says_libc},
    {"arch", "Processor", says_arch},
};

void af_machine_key_facts(const struct af_machine *machine, struct af_arena *arena,
                          struct af_machine_key_fact facts[AF_MACHINE_KEY_FACT_COUNT])
{
    for (size_t i = 0; i < AF_MACHINE_KEY_FACT_COUNT; i++) {
        struct said said = rows[i].says(machine, arena);
        facts[i] =
            (struct af_machine_key_fact){rows[i].key, rows[i].label, said.value, said.source};
    }
}
