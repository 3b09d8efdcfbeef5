/*
 * kernels.cpp: which of FlashAttention-2's kernels this library contains, and the call of
 * one. Each of its CUDA files defines one function for a head size, type and causality.
 * They are declared weak here, so a build may leave any of them out; such a function has
 * no address.
 */
#include "glue.h"

#include <cstdarg>
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

/* Features that a build may lack: flash-attn's word for each, and that of `anyflash build`. */
static const struct feature {
    const char *word, *option;
    bool absent;
} features[] = {
    {"dropout", "dropout", IS_DEFINED(FLASHATTENTION_DISABLE_DROPOUT)},
    {"alibi", "alibi", IS_DEFINED(FLASHATTENTION_DISABLE_ALIBI)},
    {"softcap", "softcap", IS_DEFINED(FLASHATTENTION_DISABLE_SOFTCAP)},
    {"local attention", "window", IS_DEFINED(FLASHATTENTION_DISABLE_LOCAL)},
};

static const struct kernels *find(int64_t dim, bool is_bf16, bool causal)
{
    for (const auto &row : all)
        if (dim <= row.dim && is_bf16 == row.is_bf16 && causal == row.causal)
            return &row;
    return NULL; /* not reached: the head size was checked */
}

/* A build with forward has the kernels for split keys, too. */
static bool has(const struct kernels *row, bool backward)
{
    return backward ? row->backward != NULL
                    : row->forward != NULL && row->forward_split != NULL;
}

enum anyflash_status af_glue_kernels_check(const struct af_glue_problem *problem, bool backward,
                                           struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->a;
    const bool is_bf16 = a->q.dtype == ANYFLASH_BF16;
    const bool causal = problem->window_left < 0 && problem->window_right == 0;
    const bool window = !causal && (problem->window_left >= 0 || problem->window_right >= 0);
    const bool used[] = {a->dropout > 0, a->alibi_slopes != NULL, a->softcap > 0, window};
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
        if (used[i] && features[i].absent)
            return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                                "This flash attention build does not support %s. Build it: "
                                "anyflash build with --features %s",
                                features[i].word, features[i].option);
    const struct kernels *row = find(a->head_dim, is_bf16, causal);
    if (!has(row, backward))
        return af_glue_fail(
            err, ANYFLASH_E_UNSUPPORTED,
            "this flash-attn build has no kernel for: %s, head size %d, %s. Add "
            "it: anyflash build --head-dim %d --dtype %s%s",
            backward ? "backward" : "forward", row->dim, is_bf16 ? "bf16" : "fp16", row->dim,
            is_bf16 ? "bf16" : "fp16", backward ? ", without --inference" : "");
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

/* Appends to a text of size_bytes, of which *used are taken. */
static void add_line(char *text, size_t size_bytes, size_t *used, const char *format, ...)
{
    va_list values;
    if (*used >= size_bytes)
        return;
    va_start(values, format);
    *used += (size_t)vsnprintf(text + *used, size_bytes - *used, format, values);
    va_end(values);
}

void anyflash_cuda_contents(char *text, size_t size_bytes)
{
    size_t used = 0;
    if (size_bytes > 0)
        text[0] = 0;
    for (int backward = 0; backward <= 1; backward++)
        for (const auto &row : all)
            if (!row.causal && has(&row, backward != 0))
                add_line(text, size_bytes, &used, "%s: head size %d: %s\n",
                         backward != 0 ? "backward" : "forward", row.dim,
                         row.is_bf16 ? "bf16" : "fp16");
    for (const auto &feature : features)
        if (feature.absent)
            add_line(text, size_bytes, &used, "without: %s\n", feature.option);
}
