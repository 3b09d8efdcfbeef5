/*
 * flash_kernel.c: parses the parts of a FlashAttention kernel's mangled name
 * that say what it computes. The kernels of a library are found in
 * flash_kernel_family.c.
 *
 * FlashAttention 2: one function template per operation, whose first argument is
 * Flash_{fwd,bwd}_kernel_traits<head_dim, ...>, then switches: Lb0E, Lb1E.
 * FlashAttention 3: cutlass::device_kernel<flash::enable_smXX<flash::
 * FlashAttnFwdSm90<Collective...<cute::tuple<cute::C<128>, ...>, ...>>>, where
 * numbers that occurred before are substitutions (S8_).
 */
#include "kit/formats/flash_kernel.h"

#include <string.h>

#include "kit/base/text.h"

#define SWITCHES_MAX 8u
#define COMPONENTS_MAX 32u
#define HEAD_DIM_MAX 4096

/* The meaning of the n-th switch of a kernel with this many switches; 0: not used. */
struct switches {
    size_t count;
    unsigned feature[SWITCHES_MAX];
};

enum { C = AF_FLASH_CAUSAL, D = AF_FLASH_DROPOUT, L = AF_FLASH_LOCAL };
enum { A = AF_FLASH_ALIBI, S = AF_FLASH_SOFTCAP, P = AF_FLASH_APPEND };

/* By release: local since 2.3, alibi since 2.4, softcap since 2.6. */
static const struct switches forward_switches[] = {
    {5, {D, C}}, {6, {D, C, L}}, {7, {D, C, L, A}}, {8, {D, C, L, A, 0, 0, S}}};
static const struct switches split_switches[] = {{5, {C, 0, 0, 0, P}},
                                                 {6, {C, L, 0, 0, 0, P}},
                                                 {7, {C, L, A, 0, 0, 0, P}},
                                                 {8, {C, L, A, 0, 0, S, 0, P}}};
static const struct switches backward_switches[] = {
    {4, {D, C}}, {5, {D, C, L}}, {6, {D, C, L, A}}, {7, {D, C, L, A, 0, 0, S}}};

/* A function template of FlashAttention 2 and the meaning of its switches. */
struct template_name {
    const char *start;
    enum af_flash_operation operation;
    const struct switches *switches;
    size_t switches_count;
};

static const struct template_name templates[] = {
    {"flash_fwd_kernelI", AF_FLASH_FORWARD, forward_switches, AF_COUNT(forward_switches)},
    {"flash_fwd_splitkv_kernelI", AF_FLASH_FORWARD_SPLIT, split_switches,
     AF_COUNT(split_switches)},
    {"flash_fwd_splitkv_combine_kernelI", AF_FLASH_COMBINE, NULL, 0},
    {"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI", AF_FLASH_BACKWARD, backward_switches,
     AF_COUNT(backward_switches)},
    {"flash_bwd_dq_dk_dv_loop_kernelI", AF_FLASH_BACKWARD, backward_switches,
     AF_COUNT(backward_switches)},
    {"flash_bwd_dot_do_o_kernelI", AF_FLASH_BACKWARD_HELP, NULL, 0},
    {"flash_bwd_clear_dkvaccum_kernelI", AF_FLASH_BACKWARD_HELP, NULL, 0},
    {"flash_bwd_convert_dq_kernelI", AF_FLASH_BACKWARD_HELP, NULL, 0},
    {"flash_bwd_convert_dkv_kernelI", AF_FLASH_BACKWARD_HELP, NULL, 0},
};

/* The classes of FlashAttention 3. */
static const struct {
    const char *name;
    enum af_flash_operation operation;
} classes[] = {
    {"FlashAttnFwdCombine", AF_FLASH_COMBINE},
    {"FlashAttnFwdSm", AF_FLASH_FORWARD},
    {"FlashAttnBwdSm", AF_FLASH_BACKWARD},
    {"FlashAttnBwdPreprocess", AF_FLASH_BACKWARD_HELP},
    {"FlashAttnBwdPostprocess", AF_FLASH_BACKWARD_HELP},
};

/* Reads the decimal number at *at and moves past it; -1 if there is none. */
static int read_number(const char **at, int max)
{
    int number = 0;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        number = number * 10 + (**at - '0');
        if (number > max)
            return -1;
    }
    return *at == start ? -1 : number;
}

static const struct {
    const char *mangled;
    const char *text;
} types[] = {{"6half_t", "fp16"},
             {"6__half", "fp16"},
             {"10bfloat16_t", "bf16"},
             {"13__nv_bfloat16", "bf16"},
             {"12float_e4m3_t", "e4m3"}};

/* The first number type named at or after `at`. */
static const char *find_dtype(const char *at)
{
    const char *first = NULL;
    const char *text = NULL;
    for (size_t i = 0; i < AF_COUNT(types); i++) {
        const char *found = strstr(at, types[i].mangled);
        if (found != NULL && (first == NULL || found < first)) {
            first = found;
            text = types[i].text;
        }
    }
    return text;
}

/* The features enabled in the sequence of switches at `at`. */
static unsigned read_switches(const struct template_name *name, const char *at)
{
    unsigned on = 0;
    size_t count = 0;
    for (; count <= SWITCHES_MAX && at[0] == 'L' && at[1] == 'b' &&
           (at[2] == '0' || at[2] == '1') && at[3] == 'E';
         at += 4) {
        on |= at[2] == '1' ? 1u << count : 0u;
        count++;
    }
    unsigned features = 0;
    for (size_t i = 0; i < name->switches_count; i++) {
        for (size_t n = 0; name->switches[i].count == count && n < count; n++)
            features |= (on >> n & 1u) != 0 ? name->switches[i].feature[n] : 0u;
    }
    return features;
}

static bool parse_generation_2(const char *mangled, struct af_flash_kernel *kernel)
{
    for (size_t i = 0; i < AF_COUNT(templates); i++) {
        const char *at = strstr(mangled, templates[i].start);
        const char *traits = at == NULL ? NULL : strstr(at, "_kernel_traitsILi");
        if (traits == NULL)
            continue;
        const char *number = traits + strlen("_kernel_traitsILi");
        const char *rest = strstr(number, "19Flash_kernel_traitsI");
        /* Ends both trait classes; their last argument is the type, a substitution. */
        const char *end = rest == NULL ? NULL : strstr(rest, "_EE");
        *kernel = (struct af_flash_kernel){
            .operation = templates[i].operation,
            .generation = 2,
            .head_dim = read_number(&number, HEAD_DIM_MAX),
            .dtype = find_dtype(traits),
            .features = end == NULL ? 0 : read_switches(&templates[i], end + 3),
        };
        return true;
    }
    return false;
}

/*
 * Reads the number of a substitution: "_" is 0, "0_" 1, "Z_" 36; moves *at past
 * it. -1: none.
 */
static int read_substitution(const char **at)
{
    int number = 0;
    if (**at == '_') {
        ++*at;
        return 0;
    }
    for (int digits = 0; **at != '_'; ++*at, digits++) {
        bool is_digit = **at >= '0' && **at <= '9';
        if (digits == 3 || (!is_digit && (**at < 'A' || **at > 'Z')))
            return -1;
        number = number * 36 + (is_digit ? **at - '0' : **at - 'A' + 10);
    }
    ++*at;
    return number + 1;
}

/* Constants named so far, and the number of the next substitution. */
struct constants {
    int values[COMPONENTS_MAX];
    int numbers[COMPONENTS_MAX];
    size_t count;
    int next;
};

/*
 * Reads one component of a tuple at *at: NS5_1CILi64EEE (the first),
 * NS7_ILi64EEE, or the substitution S8_; -1 for anything else.
 */
static int read_component(const char **at, struct constants *constants)
{
    const char *p = *at;
    bool is_new = af_starts_with(p, "NS");
    int value = -1;
    if (!is_new && *p != 'S')
        return -1;
    p += is_new ? 2 : 1;
    int number = read_substitution(&p);
    if (number < 0)
        return -1;
    if (!is_new) {
        for (size_t i = 0; i < constants->count; i++)
            value = constants->numbers[i] == number ? constants->values[i] : value;
        *at = p;
        return value;
    }
    if (af_starts_with(p, "1CILi")) {
        p += strlen("1CILi");
        constants->next = number + 3; /* after cute: tuple and C */
    } else if (af_starts_with(p, "ILi"))
        p += strlen("ILi");
    else
        return -1;
    value = read_number(&p, HEAD_DIM_MAX);
    if (value < 0 || !af_starts_with(p, "EEE") || constants->count == COMPONENTS_MAX)
        return -1;
    constants->values[constants->count] = value;
    constants->numbers[constants->count++] = constants->next++;
    *at = p + 3;
    return value;
}

/*
 * The last component of the last tuple after `at`: clusters come first, then the
 * tile, whose last side is the head dimension. -1: not found.
 */
static int read_head_dim(const char *at)
{
    struct constants constants = {0};
    int last = -1;
    at = strstr(at, "tupleIJ");
    for (at = at == NULL ? NULL : at + strlen("tupleIJ"); at != NULL;) {
        while (*at == 'N' || *at == 'S') {
            last = read_component(&at, &constants);
            if (last < 0)
                return -1;
        }
        if (!af_starts_with(at, "EEE"))
            return -1;
        at += 3;
        constants.next++;
        const char *next = at;
        bool is_tuple = af_starts_with(next, "NS");
        next += is_tuple ? 2 : 0;
        is_tuple = is_tuple && read_substitution(&next) >= 0 && af_starts_with(next, "IJ");
        at = is_tuple ? next + 2 : NULL;
    }
    return last;
}

static bool parse_generation_3(const char *mangled, struct af_flash_kernel *kernel)
{
    for (size_t i = 0; i < AF_COUNT(classes); i++) {
        const char *at = strstr(mangled, classes[i].name);
        if (at == NULL)
            continue;
        bool is_main = af_ends_with(classes[i].name, "Sm");
        const char *main = is_main ? strstr(at, "CollectiveMainloop") : at;
        *kernel = (struct af_flash_kernel){
            .operation = classes[i].operation,
            .generation = 3,
            .head_dim = main == NULL || classes[i].operation == AF_FLASH_COMBINE
                            ? -1
                            : read_head_dim(main),
            .dtype = main == NULL ? NULL : find_dtype(main),
        };
        if (strstr(mangled, "enable_sm80_to_sm89") != NULL) {
            kernel->sm_min = 80;
            kernel->sm_max = 89;
        } else if (is_main && strstr(mangled, "FlashAttnFwdSm90") != NULL)
            kernel->sm_min = kernel->sm_max = 90;
        else if (is_main && strstr(mangled, "FlashAttnBwdSm90") != NULL)
            kernel->sm_min = kernel->sm_max = 90;
        return true;
    }
    return false;
}

bool af_flash_kernel_parse(const char *mangled, struct af_flash_kernel *kernel_out)
{
    return parse_generation_2(mangled, kernel_out) || parse_generation_3(mangled, kernel_out);
}

const char *af_flash_operation_text(enum af_flash_operation operation)
{
    static const char *const texts[] = {"flash_fwd", "flash_fwd_split", "flash_combine",
                                        "flash_bwd", "flash_bwd_help"};
    return texts[operation];
}
