/*
 * fact_lookup.c: facts that are derived from a machine's record, one function
 * each, and the table of their names; facts of the record are found through its
 * table of fields. Those of a log are in fact_log.c.
 */
#include "kit/doctor/log/fact_lookup.h"

#include <inttypes.h>
#include <string.h>

#include "kit/doctor/log/lookup_rows.h"

#define GIB (INT64_C(1) << 30)

const value af_lookup_unknown = {AF_FACT_UNKNOWN, NULL, NULL};

value af_lookup_known(const char *text, const char *source)
{
    return text == NULL ? af_lookup_unknown : (value){AF_FACT_KNOWN, text, source};
}

static bool may_use(const struct af_lookup *lookup, const struct af_fact *fact)
{
    return !lookup->without_prose || fact->origin.kind != AF_ORIGIN_PROSE;
}

const char *af_lookup_text(const struct af_lookup *lookup, const struct af_fact *fact)
{
    return may_use(lookup, fact) ? af_fact_text_or(fact, NULL) : NULL;
}

static value joined(const struct af_fact *fact, struct af_arena *arena)
{
    const char *text = "";
    for (size_t i = 0; text != NULL && i < fact->value.list.count; i++)
        text = af_arena_format(arena, "%s%s%s", text, i == 0 ? "" : " ",
                               fact->value.list.items[i]);
    return af_lookup_known(text, fact->source);
}

static value of_fact(const struct af_lookup *lookup, const struct af_fact *fact,
                     enum af_fact_type type)
{
    struct af_arena *arena = lookup->arena;
    if (!may_use(lookup, fact))
        return af_lookup_unknown;
    if (fact->state != AF_FACT_KNOWN)
        return (value){fact->state, NULL, fact->source};
    if (type == AF_FACT_INT)
        return af_lookup_known(af_arena_format(arena, "%" PRId64, fact->value.number),
                               fact->source);
    if (type == AF_FACT_BOOL)
        return af_lookup_known(fact->value.truth ? "true" : "false", fact->source);
    if (type == AF_FACT_LIST)
        return joined(fact, arena);
    return af_lookup_known(fact->value.text, fact->source);
}

static value text_fact(const struct af_lookup *lookup, const struct af_fact *fact)
{
    return of_fact(lookup, fact, AF_FACT_TEXT);
}

/* The first `count` numbers of a dotted version. */
value af_lookup_numbers(value whole, int count, struct af_arena *arena)
{
    size_t len = 0;
    if (whole.state != AF_FACT_KNOWN)
        return whole;
    while (whole.text[len] != '\0' && strchr("0123456789.", whole.text[len]) != NULL) {
        if (whole.text[len] == '.' && --count == 0)
            break;
        len++;
    }
    return af_lookup_known(af_arena_text_n(arena, whole.text, len), whole.source);
}

/* The lowest compute capability of the visible GPUs. */
static value lowest_sm(const struct af_lookup *lookup)
{
    const struct af_gpu_rows *gpus = &lookup->machine->gpus;
    value best = gpus->state == AF_FACT_KNOWN && gpus->count == 0
                     ? (value){AF_FACT_ABSENT, NULL, gpus->source}
                     : af_lookup_unknown;
    struct af_version best_version = {0};
    for (size_t i = 0; i < gpus->count; i++) {
        struct af_version version;
        value sm = text_fact(lookup, &gpus->rows[i].sm);
        if (sm.state != AF_FACT_KNOWN || !af_version_parse(sm.text, strlen(sm.text), &version))
            continue;
        if (af_fact_truth(&gpus->rows[i].visible) == AF_NO)
            continue;
        if (best.state != AF_FACT_KNOWN || af_version_compare(&version, &best_version) < 0) {
            best = sm;
            best_version = version;
        }
    }
    return best;
}

static value gpu_vendor(const struct af_lookup *lookup)
{
    const struct af_gpu_rows *gpus = &lookup->machine->gpus;
    return gpus->count > 0 ? text_fact(lookup, &gpus->rows[0].vendor) : af_lookup_unknown;
}

/* The toolkit that torch would use, else the first. */
static value toolkit_version(const struct af_lookup *lookup)
{
    const struct af_toolkit_rows *toolkits = &lookup->machine->toolkits;
    for (size_t i = 0; i < toolkits->count; i++) {
        if (af_fact_truth(&toolkits->rows[i].torch_takes_it) == AF_YES)
            return text_fact(lookup, &toolkits->rows[i].version);
    }
    if (toolkits->count > 0)
        return text_fact(lookup, &toolkits->rows[0].version);
    return (value){toolkits->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   toolkits->source};
}

static value compiler_version(const struct af_lookup *lookup)
{
    const struct af_compiler_rows *compilers = &lookup->machine->compilers;
    if (compilers->count > 0)
        return text_fact(lookup, &compilers->rows[0].version);
    return (value){compilers->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   compilers->source};
}

static value package_version(const struct af_lookup *lookup, const char *name)
{
    const struct af_package *package = af_machine_package(lookup->machine, name);
    const struct af_package_rows *packages = &lookup->machine->packages;
    if (package != NULL)
        return text_fact(lookup, &package->version);
    return (value){packages->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   packages->source};
}

/* The version of the installed flash-attn, or else the one that was asked for. */
static value flash_attn_version(const struct af_lookup *lookup)
{
    value found = package_version(lookup, "flash-attn");
    return found.state != AF_FACT_UNKNOWN || lookup->asked == NULL
               ? found
               : af_lookup_known(lookup->asked, lookup->asked_source);
}

/* The record's value, else the one that PyTorch published. */
static value torch_cxx11abi(const struct af_lookup *lookup)
{
    const struct af_fact *fact = &lookup->machine->torch.cxx11abi;
    if (fact->state != AF_FACT_UNKNOWN || lookup->torch_cxx11abi_source == NULL)
        return of_fact(lookup, fact, AF_FACT_BOOL);
    return af_lookup_known(lookup->torch_cxx11abi ? "true" : "false",
                           lookup->torch_cxx11abi_source);
}

static value torch_lacks(const struct af_lookup *lookup)
{
    return af_lookup_known(lookup->torch_lacks, "torch's published builds");
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
        return af_lookup_unknown;
    return af_lookup_known(
        af_arena_format(lookup->arena, "%" PRId64, least->value.number / GIB), least->source);
}

static value installer(const struct af_lookup *lookup)
{
    const struct af_tool_rows *tools = &lookup->machine->tools;
    return tools->count == 1 ? text_fact(lookup, &tools->rows[0].name) : af_lookup_unknown;
}

/* Derived facts, and commands that show them. */
static const struct af_lookup_row derived[] = {
    {"gpu.sm", lowest_sm, "nvidia-smi --query-gpu=compute_cap --format=csv", 0, NULL, 0},
    {"gpu.vendor", gpu_vendor, "nvidia-smi -L", 0, NULL, 0},
    {"toolkit.version", toolkit_version, "nvcc --version", 0, NULL, 0},
    {"toolkit.major", NULL, "nvcc --version", 0, "toolkit.version", 1},
    {"compiler.version", compiler_version, "gcc --version", 0, NULL, 0},
    {"compiler.major", NULL, "gcc --version", 0, "compiler.version", 1},
    {"flash_attn.version", flash_attn_version, "pip show flash-attn", 0, NULL, 0},
    {"torch.cuda_major", NULL, "python -c \"import torch; print(torch.version.cuda)\"", 0,
     "torch.cuda", 1},
    {"torch.cxx11abi", torch_cxx11abi,
     "python -c \"import torch; print(torch._C._GLIBCXX_USE_CXX11_ABI)\"", 0, NULL, 0},
    {"torch.lacks_gpu", torch_lacks,
     "python -c \"import torch; print(torch.cuda.get_arch_list())\"", 0, NULL, 0},
    {"python.minor", NULL, "python --version", 0, "python.version", 2},
    {"resources.memory_gib", memory_gib, "free -g", 0, NULL, 0},
    {"given.installer", installer, NULL, 0, NULL, 0},
};

/* Commands that show facts of the record. */
static const struct {
    const char *name;
    const char *command;
} commands[] = {
    {"torch.version", "python -c \"import torch; print(torch.__version__)\""},
    {"torch.cuda", "python -c \"import torch; print(torch.version.cuda)\""},
    {"torch.hip", "python -c \"import torch; print(torch.version.hip)\""},
    {"python.version", "python --version"},
    {"platform.libc_version", "ldd --version"},
    {"platform.glibcxx", "strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX_"},
    {"platform.os", "uname -sm"},
    {"platform.arch", "uname -sm"},
    {"driver.kernel_version", "nvidia-smi"},
    {"driver.cuda_api", "nvidia-smi"},
    {"driver.rocm", "rocminfo"},
};

/* The field "group.field" of a record (not of a list). */
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
            return text_fact(lookup, &variables->rows[i].value);
    }
    return (value){variables->state == AF_FACT_KNOWN ? AF_FACT_ABSENT : AF_FACT_UNKNOWN, NULL,
                   variables->source};
}

/* The row of a derived fact, or NULL. */
static const struct af_lookup_row *find_row(const char *name)
{
    for (size_t i = 0; i < AF_COUNT(derived); i++) {
        if (strcmp(derived[i].name, name) == 0)
            return &derived[i];
    }
    for (size_t i = 0; i < af_lookup_log_row_count; i++) {
        if (strcmp(af_lookup_log_rows[i].name, name) == 0)
            return &af_lookup_log_rows[i];
    }
    return NULL;
}

struct af_lookup_value af_lookup_find(const struct af_lookup *lookup, const char *name)
{
    char package[64];
    const struct af_group *group;
    const struct af_lookup_row *row = find_row(name);
    if (row != NULL && row->whole != NULL)
        return af_lookup_numbers(af_lookup_find(lookup, row->whole), row->numbers,
                                 lookup->arena);
    if (row != NULL)
        return row->find != NULL ? row->find(lookup)
                                 : af_lookup_published(lookup, row->published);
    if (package_of(name, package, sizeof package))
        return package_version(lookup, package);
    if (af_starts_with(name, "variable."))
        return variable_value(lookup, name + strlen("variable."));
    const struct af_field *field = find_field(name, &group);
    if (field == NULL)
        return af_lookup_unknown;
    const char *record = (const char *)lookup->machine + group->offset;
    const struct af_fact *facts = (const struct af_fact *)(const void *)record;
    return of_fact(lookup, &facts[field - group->fields], field->type);
}

bool af_lookup_is_name(const char *name)
{
    char package[64];
    const struct af_group *group;
    return find_row(name) != NULL || package_of(name, package, sizeof package) ||
           (af_starts_with(name, "variable.") && name[strlen("variable.")] != '\0') ||
           find_field(name, &group) != NULL;
}

const char *af_lookup_command(const char *name)
{
    const struct af_lookup_row *row = find_row(name);
    if (row != NULL)
        return row->command;
    for (size_t i = 0; i < AF_COUNT(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].command;
    }
    return NULL;
}
