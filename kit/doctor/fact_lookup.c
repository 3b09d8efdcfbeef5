/*
 * fact_lookup.c: the derived facts, one function each, and the table of their
 * names; facts of the record are found through its table of fields.
 */
#include "kit/doctor/fact_lookup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kit/doctor/published.h"
#include "kit/formats/symbol_name.h"

#define GIB (INT64_C(1) << 30)

typedef struct af_lookup_value value;

static const char looked_up[] = "the symbol, looked up in torch's releases";
static const value unknown = {AF_FACT_UNKNOWN, NULL, NULL};

static value known(const char *text, const char *source)
{
    return text == NULL ? unknown : (value){AF_FACT_KNOWN, text, source};
}

static value joined(const struct af_fact *fact, struct af_arena *arena)
{
    const char *text = "";
    for (size_t i = 0; text != NULL && i < fact->value.list.count; i++)
        text = af_arena_format(arena, "%s%s%s", text, i == 0 ? "" : " ",
                               fact->value.list.items[i]);
    return known(text, fact->source);
}

static value of_fact(const struct af_fact *fact, enum af_fact_type type, struct af_arena *arena)
{
    if (fact->state != AF_FACT_KNOWN)
        return (value){fact->state, NULL, fact->source};
    if (type == AF_FACT_INT)
        return known(af_arena_format(arena, "%" PRId64, fact->value.number), fact->source);
    if (type == AF_FACT_BOOL)
        return known(fact->value.truth ? "true" : "false", fact->source);
    if (type == AF_FACT_LIST)
        return joined(fact, arena);
    return known(fact->value.text, fact->source);
}

static value text_fact(const struct af_fact *fact)
{
    return of_fact(fact, AF_FACT_TEXT, NULL);
}

/* The first `count` numbers of a dotted version. */
static value numbers_of(value whole, int count, struct af_arena *arena)
{
    size_t len = 0;
    if (whole.state != AF_FACT_KNOWN)
        return whole;
    while (whole.text[len] != '\0' && strchr("0123456789.", whole.text[len]) != NULL) {
        if (whole.text[len] == '.' && --count == 0)
            break;
        len++;
    }
    return known(af_arena_text_n(arena, whole.text, len), whole.source);
}

/* The visible GPU with the lowest (sign 1) or highest (sign -1) compute capability. */
static value gpu_sm(const struct af_lookup *lookup, int sign)
{
    const struct af_gpu_rows *gpus = &lookup->machine->gpus;
    value best = gpus->state == AF_FACT_KNOWN && gpus->count == 0
                     ? (value){AF_FACT_ABSENT, NULL, gpus->source}
                     : unknown;
    struct af_version best_version = {0};
    for (size_t i = 0; i < gpus->count; i++) {
        struct af_version version;
        value sm = text_fact(&gpus->rows[i].sm);
        if (sm.state != AF_FACT_KNOWN || !af_version_parse(sm.text, strlen(sm.text), &version))
            continue;
        if (af_fact_truth(&gpus->rows[i].visible) == AF_NO)
            continue;
        if (best.state != AF_FACT_KNOWN ||
            sign * af_version_compare(&version, &best_version) < 0) {
            best = sm;
            best_version = version;
        }
    }
    return best;
}

static value lowest_sm(const struct af_lookup *lookup)
{
    return gpu_sm(lookup, 1);
}

static value highest_sm(const struct af_lookup *lookup)
{
    return gpu_sm(lookup, -1);
}

static value gpu_count(const struct af_lookup *lookup)
{
    const struct af_gpu_rows *gpus = &lookup->machine->gpus;
    if (gpus->state != AF_FACT_KNOWN)
        return unknown;
    return known(af_arena_format(lookup->arena, "%zu", gpus->count), gpus->source);
}

static value gpu_vendor(const struct af_lookup *lookup)
{
    const struct af_gpu_rows *gpus = &lookup->machine->gpus;
    return gpus->count > 0 ? text_fact(&gpus->rows[0].vendor) : unknown;
}

static value gpu_name(const struct af_lookup *lookup)
{
    const struct af_gpu_rows *gpus = &lookup->machine->gpus;
    return gpus->count > 0 ? text_fact(&gpus->rows[0].name) : unknown;
}

/* The toolkit that torch takes, else the first. */
static value toolkit_version(const struct af_lookup *lookup)
{
    const struct af_toolkit_rows *toolkits = &lookup->machine->toolkits;
    for (size_t i = 0; i < toolkits->count; i++) {
        if (af_fact_truth(&toolkits->rows[i].torch_takes_it) == AF_YES)
            return text_fact(&toolkits->rows[i].version);
    }
    if (toolkits->count > 0)
        return text_fact(&toolkits->rows[0].version);
    return (value){toolkits->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   toolkits->source};
}

static value toolkit_major(const struct af_lookup *lookup)
{
    return numbers_of(toolkit_version(lookup), 1, lookup->arena);
}

static value compiler_version(const struct af_lookup *lookup)
{
    const struct af_compiler_rows *compilers = &lookup->machine->compilers;
    if (compilers->count > 0)
        return text_fact(&compilers->rows[0].version);
    return (value){compilers->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   compilers->source};
}

static value compiler_major(const struct af_lookup *lookup)
{
    return numbers_of(compiler_version(lookup), 1, lookup->arena);
}

static value package_version(const struct af_lookup *lookup, const char *name)
{
    const struct af_package *package = af_machine_package(lookup->machine, name);
    const struct af_package_rows *packages = &lookup->machine->packages;
    if (package != NULL)
        return text_fact(&package->version);
    return (value){packages->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   packages->source};
}

static value flash_attn_version(const struct af_lookup *lookup)
{
    return package_version(lookup, "flash-attn");
}

static value torch_cuda_major(const struct af_lookup *lookup)
{
    return numbers_of(text_fact(&lookup->machine->torch.cuda), 1, lookup->arena);
}

static value torch_minor(const struct af_lookup *lookup)
{
    return numbers_of(text_fact(&lookup->machine->torch.version), 2, lookup->arena);
}

static value python_minor(const struct af_lookup *lookup)
{
    return numbers_of(text_fact(&lookup->machine->python.version), 2, lookup->arena);
}

/* What a process may use: the memory that is available, at most the cgroup's limit. */
static value memory_gib(const struct af_lookup *lookup)
{
    const struct af_resources *resources = &lookup->machine->resources;
    const struct af_fact *facts[] = {&resources->memory_total_bytes,
                                     &resources->memory_limit_bytes};
    const struct af_fact *least = NULL;
    for (size_t i = 0; i < AF_COUNT(facts); i++) {
        if (facts[i]->state == AF_FACT_KNOWN &&
            (least == NULL || facts[i]->value.number < least->value.number))
            least = facts[i];
    }
    if (least == NULL)
        return unknown;
    return known(af_arena_format(lookup->arena, "%" PRId64, least->value.number / GIB),
                 least->source);
}

static value installer(const struct af_lookup *lookup)
{
    const struct af_tool_rows *tools = &lookup->machine->tools;
    return tools->count == 1 ? text_fact(&tools->rows[0].name) : unknown;
}

static value wheel_text(const struct af_lookup *lookup, const char *text)
{
    if (lookup->wheel == NULL)
        return unknown;
    return text[0] == '\0' ? (value){AF_FACT_ABSENT, NULL, lookup->wheel_source}
                           : known(af_arena_text(lookup->arena, text), lookup->wheel_source);
}

static struct af_wheel_local wheel_local(const struct af_lookup *lookup)
{
    struct af_wheel_local local = {.cxx11abi = AF_UNKNOWN};
    if (lookup->wheel != NULL)
        af_wheel_local_parse(lookup->wheel->version.local, AF_FORMATS_TORCH_DIGITS_NONE,
                             &local);
    return local;
}

static value wheel_version(const struct af_lookup *lookup)
{
    char text[128];
    if (lookup->wheel == NULL)
        return unknown;
    return wheel_text(lookup,
                      af_version_format(&lookup->wheel->version, false, text, sizeof text));
}

static value wheel_torch(const struct af_lookup *lookup)
{
    return wheel_text(lookup, wheel_local(lookup).torch);
}

static value wheel_cuda_major(const struct af_lookup *lookup)
{
    return numbers_of(wheel_text(lookup, wheel_local(lookup).cuda), 1, lookup->arena);
}

static value wheel_cxx11abi(const struct af_lookup *lookup)
{
    enum af_answer answer = wheel_local(lookup).cxx11abi;
    return wheel_text(lookup, answer == AF_YES ? "true" : answer == AF_NO ? "false" : "");
}

/* "cp312" as "3.12". */
static value wheel_python(const struct af_lookup *lookup)
{
    if (lookup->wheel == NULL)
        return unknown;
    const char *tag = lookup->wheel->python;
    size_t digits = af_starts_with(tag, "cp") ? strspn(tag + 2, "0123456789") : 0;
    if (digits < 2 || tag[2 + digits] != '\0')
        return unknown;
    return known(af_arena_format(lookup->arena, "%c.%s", tag[2], tag + 3),
                 lookup->wheel_source);
}

static value wheel_platform(const struct af_lookup *lookup)
{
    return wheel_text(lookup, lookup->wheel == NULL ? "" : lookup->wheel->platform);
}

static value symbol_value(const struct af_lookup *lookup, const char *text)
{
    return lookup->symbol == NULL ? unknown : known(text, lookup->symbol_source);
}

static value symbol_name(const struct af_lookup *lookup)
{
    if (lookup->symbol == NULL)
        return unknown;
    return symbol_value(lookup, af_symbol_readable(lookup->arena, lookup->symbol));
}

static value symbol_is_torch(const struct af_lookup *lookup)
{
    if (lookup->symbol == NULL)
        return unknown;
    return symbol_value(lookup, af_symbol_is_torch(lookup->symbol) ? "true" : "false");
}

static value symbol_cxx11abi(const struct af_lookup *lookup)
{
    enum af_answer answer =
        lookup->symbol == NULL ? AF_UNKNOWN : af_symbol_cxx11abi(lookup->symbol);
    if (answer == AF_UNKNOWN)
        return unknown;
    return symbol_value(lookup, answer == AF_YES ? "true" : "false");
}

static value symbol_torch(const struct af_lookup *lookup, bool newest)
{
    const char *oldest_version;
    const char *newest_version;
    if (lookup->symbol == NULL || lookup->symbols == NULL)
        return unknown;
    if (!af_catalog_torch_symbols_span(lookup->symbols, lookup->symbol, &oldest_version,
                                       &newest_version))
        return (value){AF_FACT_ABSENT, NULL, lookup->symbol_source};
    return numbers_of(known(newest ? newest_version : oldest_version, looked_up), 2,
                      lookup->arena);
}

static value symbol_torch_min(const struct af_lookup *lookup)
{
    return symbol_torch(lookup, false);
}

static value symbol_torch_max(const struct af_lookup *lookup)
{
    return symbol_torch(lookup, true);
}

/* "torch 2.1 to 2.2", "torch 2.8 or later" */
static value symbol_built_for(const struct af_lookup *lookup)
{
    value oldest = symbol_torch(lookup, false);
    value newest = symbol_torch(lookup, true);
    if (oldest.state != AF_FACT_KNOWN || newest.state != AF_FACT_KNOWN)
        return oldest;
    size_t count = lookup->symbols->build_count;
    bool from_first = af_starts_with(lookup->symbols->builds[0].version, oldest.text);
    bool to_last = af_starts_with(lookup->symbols->builds[count - 1].version, newest.text);
    const char *text =
        from_first && to_last ? af_arena_format(lookup->arena, "any torch from %s to %s",
                                                oldest.text, newest.text)
        : from_first ? af_arena_format(lookup->arena, "torch %s or earlier", newest.text)
        : to_last    ? af_arena_format(lookup->arena, "torch %s or later", oldest.text)
        : strcmp(oldest.text, newest.text) == 0
            ? af_arena_format(lookup->arena, "torch %s", oldest.text)
            : af_arena_format(lookup->arena, "torch %s to %s", oldest.text, newest.text);
    return known(text, looked_up);
}

static value symbol_in_torch(const struct af_lookup *lookup)
{
    const char *torch = af_fact_text_or(&lookup->machine->torch.version, NULL);
    struct af_catalog_torch_choice choice;
    if (lookup->symbol == NULL || lookup->symbols == NULL || torch == NULL)
        return unknown;
    if (af_catalog_torch_symbols_choose(lookup->symbols, torch, "linux_x86_64", lookup->arena,
                                        &choice, NULL) != ANYFLASH_OK ||
        choice.build == NULL)
        return unknown;
    bool found =
        af_catalog_torch_symbols_in(lookup->symbols, choice.build, lookup->symbol) != 0;
    return known(found ? "true" : "false", looked_up);
}

static value published(const struct af_lookup *lookup, unsigned what)
{
    enum af_answer answer = lookup->catalog == NULL
                                ? AF_UNKNOWN
                                : af_published_find(lookup->catalog, lookup->machine, what);
    if (answer == AF_UNKNOWN)
        return unknown;
    return known(answer == AF_YES ? "true" : "false", "the catalog of published wheels");
}

static value published_wheel(const struct af_lookup *lookup)
{
    unsigned what = AF_PUBLISHED_TORCH | AF_PUBLISHED_PYTHON | AF_PUBLISHED_PLATFORM;
    if (lookup->machine->torch.cuda.state == AF_FACT_KNOWN)
        what |= AF_PUBLISHED_CUDA;
    return published(lookup, what);
}

static value published_version(const struct af_lookup *lookup)
{
    return published(lookup, AF_PUBLISHED_TORCH | AF_PUBLISHED_PYTHON | AF_PUBLISHED_PLATFORM |
                                 AF_PUBLISHED_VERSION);
}

static value published_torch(const struct af_lookup *lookup)
{
    return published(lookup, AF_PUBLISHED_TORCH);
}

static value published_python(const struct af_lookup *lookup)
{
    return published(lookup, AF_PUBLISHED_PYTHON);
}

static value published_platform(const struct af_lookup *lookup)
{
    return published(lookup, AF_PUBLISHED_PLATFORM);
}

/* Derived facts, and commands that show them. */
static const struct {
    const char *name;
    value (*find)(const struct af_lookup *lookup);
    const char *command;
} derived[] = {
    {"gpu.sm", lowest_sm, "nvidia-smi --query-gpu=compute_cap --format=csv"},
    {"gpu.sm_max", highest_sm, "nvidia-smi --query-gpu=compute_cap --format=csv"},
    {"gpu.count", gpu_count, "nvidia-smi -L"},
    {"gpu.name", gpu_name, "nvidia-smi -L"},
    {"gpu.vendor", gpu_vendor, "nvidia-smi -L"},
    {"toolkit.version", toolkit_version, "nvcc --version"},
    {"toolkit.major", toolkit_major, "nvcc --version"},
    {"compiler.version", compiler_version, "gcc --version"},
    {"compiler.major", compiler_major, "gcc --version"},
    {"flash_attn.version", flash_attn_version, "pip show flash-attn"},
    {"torch.cuda_major", torch_cuda_major,
     "python -c \"import torch; print(torch.version.cuda)\""},
    {"torch.minor", torch_minor, "python -c \"import torch; print(torch.__version__)\""},
    {"python.minor", python_minor, "python --version"},
    {"resources.memory_gib", memory_gib, "free -g"},
    {"given.installer", installer, NULL},
    {"wheel.version", wheel_version, NULL},
    {"wheel.torch", wheel_torch, NULL},
    {"wheel.cuda_major", wheel_cuda_major, NULL},
    {"wheel.cxx11abi", wheel_cxx11abi, NULL},
    {"wheel.python", wheel_python, NULL},
    {"wheel.platform", wheel_platform, NULL},
    {"catalog.wheel", published_wheel, "anyflash find"},
    {"catalog.wheel_of_version", published_version, "anyflash find"},
    {"catalog.torch", published_torch, "anyflash find"},
    {"catalog.python", published_python, "anyflash find"},
    {"catalog.platform", published_platform, "anyflash find"},
    {"symbol.name", symbol_name, NULL},
    {"symbol.is_torch", symbol_is_torch, NULL},
    {"symbol.cxx11abi", symbol_cxx11abi, NULL},
    {"symbol.torch_min", symbol_torch_min, NULL},
    {"symbol.torch_max", symbol_torch_max, NULL},
    {"symbol.built_for", symbol_built_for, NULL},
    {"symbol.in_torch", symbol_in_torch,
     "python -c \"import torch; print(torch.__version__)\""},
};

/* Commands that show facts of the record. */
static const struct {
    const char *name;
    const char *command;
} commands[] = {
    {"torch.version", "python -c \"import torch; print(torch.__version__)\""},
    {"torch.cuda", "python -c \"import torch; print(torch.version.cuda)\""},
    {"torch.hip", "python -c \"import torch; print(torch.version.hip)\""},
    {"torch.cxx11abi", "python -c \"import torch; print(torch._C._GLIBCXX_USE_CXX11_ABI)\""},
    {"python.version", "python --version"},
    {"platform.libc_version", "ldd --version"},
    {"platform.glibcxx", "strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX_"},
    {"platform.os", "uname -sm"},
    {"platform.arch", "uname -sm"},
    {"driver.kernel_version", "nvidia-smi"},
    {"driver.cuda_api", "nvidia-smi"},
    {"driver.rocm", "rocminfo"},
};

/* The field "group.field" of a record that is no list. */
static const struct af_field *find_field(const char *name, const struct af_group **group_out)
{
    size_t count;
    const struct af_group *groups = af_machine_groups(&count);
    for (size_t g = 0; g < count; g++) {
        size_t len = strlen(groups[g].name);
        if (groups[g].is_list || strncmp(name, groups[g].name, len) != 0 || name[len] != '.')
            continue;
        *group_out = &groups[g];
        for (size_t f = 0; f < groups[g].field_count; f++) {
            if (strcmp(name + len + 1, groups[g].fields[f].name) == 0)
                return &groups[g].fields[f];
        }
    }
    return NULL;
}

/* NAME of "package.NAME.version", in the buffer. */
static bool package_of(const char *name, char *buffer, size_t size_bytes)
{
    if (!af_starts_with(name, "package.") || !af_ends_with(name, ".version") ||
        strlen(name) <= strlen("package..version"))
        return false;
    struct af_span word = {name + strlen("package."),
                           strlen(name) - strlen("package..version")};
    return af_name_normalise(word, buffer, size_bytes);
}

static value variable_value(const struct af_lookup *lookup, const char *name)
{
    const struct af_variable_rows *variables = &lookup->machine->variables;
    for (size_t i = 0; i < variables->count; i++) {
        if (af_fact_is(&variables->rows[i].name, name))
            return text_fact(&variables->rows[i].value);
    }
    return (value){variables->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   variables->source};
}

struct af_lookup_value af_lookup_find(const struct af_lookup *lookup, const char *name)
{
    char package[64];
    const struct af_group *group;
    for (size_t i = 0; i < AF_COUNT(derived); i++) {
        if (strcmp(derived[i].name, name) == 0)
            return derived[i].find(lookup);
    }
    if (package_of(name, package, sizeof package))
        return package_version(lookup, package);
    if (af_starts_with(name, "variable."))
        return variable_value(lookup, name + strlen("variable."));
    const struct af_field *field = find_field(name, &group);
    if (field == NULL)
        return unknown;
    const char *record = (const char *)lookup->machine + group->offset;
    const struct af_fact *facts = (const struct af_fact *)(const void *)record;
    return of_fact(&facts[field - group->fields], field->type, lookup->arena);
}

bool af_lookup_is_name(const char *name)
{
    char package[64];
    const struct af_group *group;
    for (size_t i = 0; i < AF_COUNT(derived); i++) {
        if (strcmp(derived[i].name, name) == 0)
            return true;
    }
    return package_of(name, package, sizeof package) ||
           (af_starts_with(name, "variable.") && name[strlen("variable.")] != '\0') ||
           find_field(name, &group) != NULL;
}

const char *af_lookup_command(const char *name)
{
    for (size_t i = 0; i < AF_COUNT(derived); i++) {
        if (strcmp(derived[i].name, name) == 0)
            return derived[i].command;
    }
    for (size_t i = 0; i < AF_COUNT(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].command;
    }
    return NULL;
}
