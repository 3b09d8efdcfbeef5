/*
 * launch_choice.cpp: random calls, each as our launches and as those of flash-attn's launchers
 * for the same parameters: `launch_choice COUNT SEED SM` prints a line "case" with what was
 * drawn, then "-" lines of ours and "+" lines of theirs, for test_choice.py to compare.
 * Compiled with upstream_launches.cpp and device.cpp, for the CPU, without torch.
 */
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

extern "C" {
#include "engine/gpu/launch.h"
}

extern "C" void upstream_forward(void *params, int dim, bool is_bf16, bool causal, bool split);
extern "C" void upstream_backward(void *params, int dim, bool is_bf16, bool causal);
extern "C" size_t take_launch(const char **name_out, const char **bytes_out);

static std::mt19937_64 random_numbers;

template <typename T, size_t N> static T one_of(const T (&values)[N])
{
    return values[random_numbers() % N];
}

static bool one_in(int n)
{
    return random_numbers() % (uint64_t)n == 0;
}

/* Addresses are never read. */
static struct anyflash_tensor tensor(int32_t dtype, int64_t heads, int64_t rows, int64_t dim)
{
    static uintptr_t next = 1 << 20;
    next += 1 << 20;
    return anyflash_bshd((void *)next, dtype, heads, rows, dim);
}

struct call {
    struct anyflash_attend_args a;
    struct anyflash_cuda_args cuda;
    struct anyflash_attend_backward_args gradients;
};

static int32_t integers[4];
static float numbers[4];
static uint64_t rng_state[2];

static void draw_cache(struct call *call)
{
    struct anyflash_attend_args *a = &call->a;
    if (one_in(3)) {
        a->block_table = integers;
        a->block_table_stride = 4;
        a->page_size = 256;
        a->k_len = 1024;
    } else if (one_in(3)) {
        a->cache_batch_idx = integers;
    }
    if (a->block_table == NULL && one_in(4))
        a->leftpad_k = integers;
    if (one_in(2))
        a->seqused_k = integers;
    call->cuda.splits = one_of({0, 0, 1, 3, 17, 128});
    if (one_in(3) && a->q_len <= a->k_len) {
        a->seqused_k = integers;
        a->new_len = one_of({1, 5});
        a->k_new = tensor(a->q.dtype, a->kv_heads, a->new_len, a->head_dim);
        a->v_new = tensor(a->q.dtype, a->kv_heads, a->new_len, a->head_dim);
    }
}

static void draw(struct call *call, bool backward)
{
    struct anyflash_attend_args *a = &call->a;
    *a = ANYFLASH_ATTEND_ARGS_INIT;
    call->cuda = ANYFLASH_CUDA_ARGS_INIT;
    const int32_t dtype = one_in(2) ? ANYFLASH_BF16 : ANYFLASH_F16;
    a->head_dim =
        one_of({8, 32, 40, 64, 64, 72, 96, 96, 104, 128, 128, 160, 192, 224, 256, 256});
    a->value_dim = a->head_dim;
    a->batch = one_of({1, 1, 2, 5});
    a->kv_heads = one_of({1, 2, 3, 8});
    a->heads = a->kv_heads * one_of({1, 1, 2, 4});
    a->q_len = one_of({1, 1, 2, 7, 64, 128, 129, 256, 1024});
    a->k_len = one_of({1, 5, 64, 128, 256, 300, 700, 1024, 8192});
    a->causal = one_in(2);
    if (one_in(3)) {
        a->window_left = one_of({-1, 3, 1000});
        a->window_right = one_of({-1, 0, 5, 2000});
    }
    a->softcap = one_in(4) ? 15.0f : 0.0f;
    a->scale = one_of({0.0f, 0.3f, ANYFLASH_SCALE_DEFAULT});
    if (one_in(4)) {
        a->alibi_slopes = numbers;
        a->alibi_batch_stride = one_in(2) ? a->heads : 0;
    }
    if (a->softcap == 0 && one_in(4)) {
        a->dropout = 0.17f;
        call->cuda.rng_state = rng_state;
    }
    a->q.dtype = dtype;
    const bool packed = one_in(3);
    if (!packed && !backward && a->dropout == 0 && one_in(2))
        draw_cache(call);
    if (packed) {
        a->cu_seqlens_q = a->cu_seqlens_k = integers;
        a->total_q = a->batch * a->q_len;
        a->total_k = a->batch * a->k_len;
    }
    a->q = tensor(dtype, a->heads, a->q_len, a->head_dim);
    a->o = tensor(dtype, a->heads, a->q_len, a->head_dim);
    a->k = tensor(dtype, a->kv_heads, a->k_len, a->head_dim);
    a->v = tensor(dtype, a->kv_heads, a->k_len, a->head_dim);
    if (a->dropout > 0 && !backward && one_in(2))
        call->cuda.dropout_scores = (void *)(uintptr_t)4096;
    a->lse = numbers;
    a->lse_head_stride = packed ? a->total_q : a->q_len;
    a->lse_batch_stride = a->heads * a->q_len;
    call->cuda.deterministic = backward && one_in(3);
    call->gradients = {sizeof call->gradients, a, a->o, a->q, a->k, a->v, {}, NULL, NULL};
}

static struct af_launch_device device_of(int sm)
{
    const bool small = sm == 86 || sm == 89 || sm / 10 == 12;
    return {0,
            sm / 10,
            sm % 10,
            sm / 10 == 9 ? 132
            : sm == 80   ? 108
                         : 84,
            (small      ? 99
             : sm == 80 ? 163
                        : 227) *
                1024,
            (small      ? 100
             : sm == 80 ? 164
                        : 228) *
                1024};
}

static void print_ours(const struct af_launch_list *list)
{
    for (int32_t i = 0; i < list->count; i++) {
        char name[AF_LAUNCH_NAME_BYTES];
        const struct af_launch *launch = &list->items[i];
        if (launch->kernel.function >= AF_LAUNCH_FILL)
            continue;
        af_launch_name(&launch->kernel, name);
        printf("- %s\t%ux%ux%u %ux1x1 %u", name, launch->grid[0], launch->grid[1],
               launch->grid[2], launch->threads, launch->shared_bytes);
        if (launch->splits > 0)
            printf(" %d", launch->splits);
        printf("\n");
    }
}

static void print_theirs(struct af_launch_list *list, bool split)
{
    const struct af_launch_forward *f = &list->params.forward;
    const char *name, *bytes;
    if (list->backward)
        upstream_backward(&list->params, f->d_rounded, f->is_bf16, f->is_causal);
    else
        upstream_forward(&list->params, f->d_rounded, f->is_bf16, f->is_causal, split);
    while (take_launch(&name, &bytes) != 0)
        printf("+ %s\n", name);
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    setenv("FAKE_CUDA_SM", words[3], 1);
    random_numbers.seed(strtoull(words[2], NULL, 10));
    const struct af_launch_device device = device_of(atoi(words[3]));
    for (int n = 0; n < atoi(words[1]); n++) {
        struct call drawn;
        struct af_launch_call call;
        struct af_launch_list list;
        struct anyflash_error err = {ANYFLASH_OK, ""};
        const bool backward = one_in(3);
        draw(&drawn, backward);
        enum anyflash_status status =
            backward ? af_launch_check_backward(&call, &drawn.gradients, &drawn.cuda, &err)
                     : af_launch_check_forward(&call, &drawn.a, &drawn.cuda, &err);
        if (status == ANYFLASH_OK)
            status = af_launch_make(&call, &device, &list, &err);
        if (status != ANYFLASH_OK) {
            printf("refused %s\n", err.message);
            continue;
        }
        printf("case %d D %d Sq %d Sk %d\n", n, (int)drawn.a.head_dim, (int)drawn.a.q_len,
               (int)drawn.a.k_len);
        print_ours(&list);
        print_theirs(&list, list.items[0].kernel.function == AF_LAUNCH_SPLIT);
    }
    return 0;
}
