/*
 * symbol_needs.c: reading mangled names, without demangling them: which are torch's,
 * and what the set of wanted names says about the extension.
 */
#include "kit/proof/symbol_needs.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"

static const char new_string[] = "NSt7__cxx1112basic_string";
/* Keeps the tensor that a call from Python hands over. */
static const char tensor_caster[] = "_ZN8pybind116detail11type_casterIN2at6TensorE";

/* Behind "_Z", a special name ("TV", "TI", "GV", ...) and "N" with qualifiers; or NULL. */
static const char *nested_name(const char *name)
{
    if (!af_starts_with(name, "_Z"))
        return NULL;
    name += 2;
    if ((name[0] == 'T' || name[0] == 'G') && isalpha((unsigned char)name[1]))
        name += 2;
    if (name[0] != 'N')
        return NULL;
    name++;
    return name + strspn(name, "rVKRO");
}

bool af_proof_name_is_torch(const char *name)
{
    static const char *const spaces[] = {"3c10", "2at", "5torch", "6caffe2"};
    const char *nested = nested_name(name);
    for (size_t i = 0; nested != NULL && i < AF_COUNT(spaces); i++) {
        if (af_starts_with(nested, spaces[i]))
            return true;
    }
    return false;
}

/* One "<length><identifier>" at *at; false when there is none. */
static bool take_identifier(const char **at, const char **text_out, size_t *len_out)
{
    size_t len = 0;
    const char *digits = *at;
    while (isdigit((unsigned char)**at) && len < 1000)
        len = len * 10 + (size_t)(*(*at)++ - '0');
    if (*at == digits || len == 0 || strnlen(*at, len) < len)
        return false;
    *text_out = *at;
    *len_out = len;
    *at += len;
    return true;
}

const char *af_proof_name_readable(struct af_arena *arena, const char *name)
{
    const char *at = nested_name(name);
    const char *text;
    const char *last = NULL;
    size_t last_len = 0;
    size_t len;
    const char *readable = NULL;
    while (at != NULL && take_identifier(&at, &text, &len)) {
        readable = readable == NULL
                       ? af_arena_text_n(arena, text, len)
                       : af_arena_format(arena, "%s::%.*s", readable, (int)len, text);
        last = text;
        last_len = len;
    }
    if (readable == NULL)
        return af_arena_text(arena, name);
    if (at[0] == 'C' && isdigit((unsigned char)at[1])) /* a constructor */
        readable = af_arena_format(arena, "%s::%.*s", readable, (int)last_len, last);
    else if (at[0] == 'D' && isdigit((unsigned char)at[1]))
        readable = af_arena_format(arena, "%s::~%.*s", readable, (int)last_len, last);
    return readable;
}

/* Names of torch behind which no object's members are read. */
static bool is_plain_function(const char *name)
{
    static const char *const starts[] = {"_ZN3c106detail14torchCheckFail",
                                         "_ZN3c106detail23torchInternalAssertFail",
                                         "_ZN3c104cuda",
                                         "_ZN3c104warn",
                                         "_ZN3c107Warning",
                                         "_ZN3c105Error",
                                         "_ZTIN3c10",
                                         "_ZTVN3c105Error"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (af_starts_with(name, starts[i]))
            return true;
    }
    return false;
}

/* An operator that returns a new tensor: at::_ops::empty_like::call. */
static bool makes_tensor(const char *name)
{
    static const char *const makers[] = {"empty", "zeros", "ones", "full"};
    static const char start[] = "_ZN2at4_ops";
    if (!af_starts_with(name, start))
        return false;
    name += strlen(start);
    name += strspn(name, "0123456789");
    for (size_t i = 0; i < AF_COUNT(makers); i++) {
        if (af_starts_with(name, makers[i]))
            return true;
    }
    return false;
}

static void read_torch_name(const char *name, struct af_proof_symbol_needs *wants)
{
    wants->torch = true;
    wants->objects = wants->objects || !is_plain_function(name);
    wants->tensors = wants->tensors || strstr(name, "2at6Tensor") != NULL ||
                     strstr(name, "2at10TensorBase") != NULL ||
                     strstr(name, "TensorImpl") != NULL;
    wants->registers = wants->registers || af_starts_with(name, "_ZN5torch7Library") ||
                       af_starts_with(name, "_ZNO5torch7Library") ||
                       af_starts_with(name, "_ZNR5torch7Library") ||
                       af_starts_with(name, "_ZN3c1017RegisterOperators");
    wants->tensor_counts =
        wants->tensor_counts || strstr(name, "cref_pyobjectEv") != NULL; /* inc, dec */
    wants->owns_tensors = wants->owns_tensors || makes_tensor(name);
    bool is_new = strstr(name, new_string) != NULL;
    bool is_old = strstr(name, "RKSs") != NULL || strstr(name, "LocationESs") != NULL;
    if (wants->cxx11abi == AF_UNKNOWN && (is_new || is_old)) {
        wants->cxx11abi = is_new ? AF_YES : AF_NO;
        wants->abi_name = name;
    }
}

/* libtorch_python's own: its C names, and pybind11 casters that it instantiates. */
static bool is_torch_python(const char *name)
{
    return af_starts_with(name, "THP") ||
           af_starts_with(name, "_ZN8pybind116detail11type_caster");
}

void af_proof_symbol_needs_read(const struct af_binary *binary,
                                struct af_proof_symbol_needs *out)
{
    *out = (struct af_proof_symbol_needs){.cxx11abi = AF_UNKNOWN};
    for (size_t i = 0; i < binary->undefined_count; i++) {
        const char *name = binary->undefined[i].name;
        if (af_proof_name_is_torch(name))
            read_torch_name(name, out);
        else if (is_torch_python(name))
            out->torch = out->objects = out->tensors = out->torch_python = true;
        else if (af_starts_with(name, "aoti_torch_"))
            out->stable_torch = true;
        out->owns_tensors = out->owns_tensors || af_starts_with(name, tensor_caster);
    }
}
