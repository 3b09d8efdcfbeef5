/*
 * kernels.cpp: which of FlashAttention-2's kernels this library contains, and the call of
 * one. Each of its CUDA files defines one function for a head size, type and causality.
 * They are declared weak here, so a build may leave any of them out; such a function has
 * no address.
 */
#include "glue.h"

#include <cutlass/numeric_types.h>
#include <type_traits>

#define ALL_KERNELS(WITH)                                                                      \
    WITH_TYPES(WITH, 32)                                                                       \
    WITH_TYPES(WITH, 64)                                                                       \
    WITH_TYPES(WITH, 96)                                                                       \
    WITH_TYPES(WITH, 128)                                                                      \
    WITH_TYPES(WITH, 192)                                                                      \
    WITH_TYPES(WITH, 256)
#define WITH_TYPES(WITH, dim)                                                                  \
    WITH(dim, cutlass::half_t, false)                                                          \
    WITH(dim, cutlass::half_t, true)                                                           \
    WITH(dim, cutlass::bfloat16_t, false)                                                      \
    WITH(dim, cutlass::bfloat16_t, true)

namespace FLASH_NAMESPACE {
/* Hidden, so that the linker settles them: no other library of the process can define one. */
#define OPTIONAL __attribute__((weak, visibility("hidden")))
#define DECLARE(dim, type, causal)                                                             \
    template <>                                                                                \
    OPTIONAL void run_mha_fwd_<type, dim, causal>(Flash_fwd_params &, cudaStream_t);           \
    template <>                                                                                \
    OPTIONAL void run_mha_fwd_splitkv_dispatch<type, dim, causal>(Flash_fwd_params &,          \
                                                                  cudaStream_t);               \
    template <> OPTIONAL void run_mha_bwd_<type, dim, causal>(Flash_bwd_params &, cudaStream_t);
ALL_KERNELS(DECLARE)
} // namespace FLASH_NAMESPACE

/* The functions of one head size, type and causality; NULL: left out. */
struct kernels {
    int dim;
    bool is_bf16, causal;
    void (*forward)(af_forward_params &, cudaStream_t);
    void (*forward_split)(af_forward_params &, cudaStream_t);
    void (*backward)(af_backward_params &, cudaStream_t);
};

#define ROW(dim, type, causal)                                                                 \
    {dim,                                                                                      \
     std::is_same<type, cutlass::bfloat16_t>::value,                                           \
     causal,                                                                                   \
     FLASH_NAMESPACE::run_mha_fwd_<type, dim, causal>,                                         \
     FLASH_NAMESPACE::run_mha_fwd_splitkv_dispatch<type, dim, causal>,                         \
     FLASH_NAMESPACE::run_mha_bwd_<type, dim, causal>},
static const struct kernels all[] = {ALL_KERNELS(ROW)};

/* Whether a compiler option defines the macro of flash-attn that removes a feature. */
#define IS_DEFINED(macro) (sizeof(AS_TEXT(macro)) == sizeof "1")
#define AS_TEXT(macro) #macro
static const bool no_dropout = IS_DEFINED(FLASHATTENTION_DISABLE_DROPOUT);
static const bool no_alibi = IS_DEFINED(FLASHATTENTION_DISABLE_ALIBI);
static const bool no_softcap = IS_DEFINED(FLASHATTENTION_DISABLE_SOFTCAP);
static const bool no_window = IS_DEFINED(FLASHATTENTION_DISABLE_LOCAL);

static const struct kernels *find(int64_t dim, bool is_bf16, bool causal)
{
    for (const auto &row : all)
        if (dim <= row.dim && is_bf16 == row.is_bf16 && causal == row.causal)
            return &row;
    return NULL; /* not reached: the head size was checked */
}

static bool has(const struct kernels *row, enum af_glue_pass pass)
{
    return pass == AF_GLUE_BACKWARD        ? row->backward != NULL
           : pass == AF_GLUE_FORWARD_SPLIT ? row->forward_split != NULL
                                           : row->forward != NULL;
}

static const char *const pass_names[] = {"forward", "forward with split keys", "backward"};

enum anyflash_status af_glue_kernels_check(const struct af_glue_problem *problem,
                                           enum af_glue_pass pass, struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->a;
    const bool is_bf16 = a->q.dtype == ANYFLASH_BF16;
    const bool causal = problem->window_left < 0 && problem->window_right == 0;
    const bool window = !causal && (problem->window_left >= 0 || problem->window_right >= 0);
    const char *feature = no_dropout && a->dropout > 0          ? "dropout"
                          : no_alibi && a->alibi_slopes != NULL ? "alibi"
                          : no_softcap && a->softcap > 0        ? "softcap"
                          : no_window && window                 ? "local attention"
                                                                : NULL;
    if (feature != NULL)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "This flash attention build does not support %s. Build another: "
                            "anyflash build --features NAME,...",
                            feature);
    const struct kernels *row = find(a->head_dim, is_bf16, causal);
    if (!has(row, pass))
        return af_glue_fail(
            err, ANYFLASH_E_UNSUPPORTED,
            "this flash-attn build has no kernel for: %s, head size %d, %s. Add "
            "it: anyflash build --head-dim %d --dtype %s%s",
            pass_names[pass], row->dim, is_bf16 ? "bf16" : "fp16", row->dim,
            is_bf16 ? "bf16" : "fp16", pass == AF_GLUE_BACKWARD ? ", without --inference" : "");
    return ANYFLASH_OK;
}

void af_glue_run_forward(af_forward_params *params, bool split, cudaStream_t stream)
{
    const struct kernels *row = find(params->d, params->is_bf16, params->is_causal);
    (split ? row->forward_split : row->forward)(*params, stream);
}

void af_glue_run_backward(af_backward_params *params, cudaStream_t stream)
{
    find(params->d, params->is_bf16, params->is_causal)->backward(*params, stream);
}

void anyflash_cuda_contents(char *text, size_t size_bytes)
{
    const struct {
        const char *name;
        bool absent;
    } features[] = {{"dropout", no_dropout},
                    {"alibi", no_alibi},
                    {"softcap", no_softcap},
                    {"local attention", no_window}};
    size_t used = 0;
    const auto add = [&](const char *a, const char *b, int dim, const char *c) {
        if (used < size_bytes)
            used += (size_t)(dim == 0 ? snprintf(text + used, size_bytes - used, a, b)
                                      : snprintf(text + used, size_bytes - used, a, b, dim, c));
    };
    if (size_bytes > 0)
        text[0] = 0;
    for (int pass = AF_GLUE_FORWARD; pass <= AF_GLUE_BACKWARD; pass++)
        for (const auto &row : all)
            if (!row.causal && has(&row, (enum af_glue_pass)pass))
                add("%s: head size %d: %s\n", pass_names[pass], row.dim,
                    row.is_bf16 ? "bf16" : "fp16");
    for (const auto &feature : features)
        if (feature.absent)
            add("without: %s\n", feature.name, 0, NULL);
}
