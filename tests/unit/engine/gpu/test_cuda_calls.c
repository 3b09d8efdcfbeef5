/*
 * Calls of anyflash_cuda.h with a stand-in for NVIDIA's driver (tests/launches/fake_driver.c)
 * and a pack of empty kernels. Each case runs in a process of its own, because a process opens
 * the driver and the pack once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "engine/base/base.h"
#include "engine/gpu/launch.h"
#include "engine/gpu/pack.h"

#define PACK_BYTES (1 << 20)
#define HEAD_BYTES 48
#define THREADS 8

#define CHECK(condition, ...)                                                                  \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "line %d: %s: ", __LINE__, #condition);                            \
            fprintf(stderr, __VA_ARGS__);                                                      \
            fprintf(stderr, "\n");                                                             \
            _exit(1);                                                                          \
        }                                                                                      \
    } while (0)

static struct {
    size_t (*take_launch)(const char **name, const unsigned char **bytes);
    int (*loads)(void);
    int (*retained)(int device);
    int (*made)(int device);
    void (*make)(int device);
    void (*capture)(int on);
    void (*forget_context)(void);
} fake;

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL, "%s", name);
    memcpy(function, &found, sizeof found);
}

/* Loads the stand-in under the driver's name, before anything else asks for that. */
static void load_fake(void)
{
    void *library = dlopen(AF_TEST_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != NULL, "%s", dlerror());
    find(library, "take_launch", &fake.take_launch);
    find(library, "fake_loads", &fake.loads);
    find(library, "fake_retained", &fake.retained);
    find(library, "fake_made", &fake.made);
    find(library, "fake_make", &fake.make);
    find(library, "fake_capture", &fake.capture);
    find(library, "fake_forget_context", &fake.forget_context);
}

/* ---- a pack ---- */

static char index_text[PACK_BYTES];
static const char *path;

static void add_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add_line(const char *format, ...)
{
    va_list values;
    const size_t used = strlen(index_text);
    va_start(values, format);
    vsnprintf(index_text + used, sizeof index_text - used, format, values);
    va_end(values);
}

static const char *const kernels[] = {
    "af_clear",
    "af_fill",
    "af_sum_groups_bf16",
    "flash_bwd_convert_dq_kernel 64 128 128 8 4 4 4 0 0 bf16",
    "flash_bwd_dot_do_o_kernel 1 64 128 128 8 4 4 4 0 0 bf16",
    "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel 64 128 128 8 4 4 4 0 0 bf16 0 0 0 0 0 1 0",
    "flash_fwd_kernel 64 128 128 4 0 0 bf16 0 0 0 0 0 1 0 0",
    "flash_fwd_splitkv_combine_kernel 64 64 256 4 0 0 bf16 8 2 1",
    "flash_fwd_splitkv_kernel 64 64 256 4 0 0 bf16 0 0 0 0 1 0 1 0",
};

/* Writes a pack whose kernels are the ones above; `change` edits the index, or is NULL. */
static void write_pack(void (*change)(void))
{
    static char family[PACK_BYTES], packed_family[PACK_BYTES], packed_index[PACK_BYTES];
    size_t places[AF_COUNT(kernels)][2], used = 0;
    for (size_t i = 0; i < AF_COUNT(kernels); i++) {
        places[i][0] = used;
        used += (size_t)snprintf(family + used, sizeof family - used,
                                 ".version 7.8\n// %s\n.visible .entry kernel()\n{\n}\n",
                                 kernels[i]);
        places[i][1] = used - places[i][0];
    }
    const size_t family_bytes =
        ZSTD_compress(packed_family, sizeof packed_family, family, used, 1);
    index_text[0] = '\0';
    add_line("flash-attn\t2.8.3.post2\nmade\tby a test\nlicence\t0\nptx\t7.8\t80\n");
    add_line("struct\tforward\t%zu\nstruct\tbackward\t%zu\n", sizeof(struct af_launch_forward),
             sizeof(struct af_launch_backward));
    for (unsigned i = 0; i < af_launch_member_count; i++)
        add_line("member\t%s\t%u\t%u\n", af_launch_members[i].name, af_launch_members[i].offset,
                 af_launch_members[i].size);
    add_line("family\t0\t0\t%zu\t%zu\t%064d\n", family_bytes, used, 0);
    for (size_t i = 0; i < AF_COUNT(kernels); i++)
        add_line("kernel\t%s\t0\t%zu:%zu\n", kernels[i], places[i][0], places[i][1]);
    if (change != NULL)
        change();
    const size_t bytes =
        ZSTD_compress(packed_index, sizeof packed_index, index_text, strlen(index_text), 1);
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL, "%s", path);
    unsigned char head[HEAD_BYTES] = "afkern1\n";
    for (int i = 0; i < 8; i++)
        head[8 + i] = (unsigned char)((uint64_t)bytes >> 8 * i);
    fwrite(head, 1, sizeof head, file);
    fwrite(packed_index, 1, bytes, file);
    fwrite(packed_family, 1, family_bytes, file);
    fclose(file);
    chmod(path, 0644);
}

/* ---- calls ---- */

static struct anyflash_attend_args args;
static struct anyflash_cuda_args cuda;
static struct anyflash_error err;
static uint64_t random_state[2];
static int32_t integers[8];
static _Alignas(256) char memory[1 << 20];

static void reset(void)
{
    args = ANYFLASH_ATTEND_ARGS_INIT;
    cuda = ANYFLASH_CUDA_ARGS_INIT;
    err = (struct anyflash_error){ANYFLASH_OK, ""};
    args.batch = 1;
    args.heads = args.kv_heads = 2;
    args.q_len = 5;
    args.k_len = 300;
    args.head_dim = args.value_dim = 64;
    args.q = anyflash_bshd(memory, ANYFLASH_BF16, 2, 5, 64);
    args.k = anyflash_bshd(memory + 4096, ANYFLASH_BF16, 2, 300, 64);
    args.v = anyflash_bshd(memory + 8192, ANYFLASH_BF16, 2, 300, 64);
    args.o = anyflash_bshd(memory + 12288, ANYFLASH_BF16, 2, 5, 64);
    cuda.workspace = memory + (512 << 10);
    cuda.workspace_bytes = 256 << 10;
    cuda.splits = 1;
}

static enum anyflash_status attend(void)
{
    return anyflash_cuda_attend(&args, &cuda, &err);
}

static int count_launches(void)
{
    const char *name;
    const unsigned char *bytes;
    int count = 0;
    while (fake.take_launch(&name, &bytes) != 0)
        count++;
    return count;
}

/* Runs a case in a child; 0: it passed. */
static void in_child(void (*body)(void))
{
    fflush(stdout);
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        alarm(120);
        load_fake();
        write_pack(NULL);
        setenv("ANYFLASH_KERNELS", path, 1);
        reset();
        body();
        _exit(0);
    }
    waitpid(child, &status, 0);
    unlink(path);
    assert_int_equal(status, 0);
}

static void start_and_load_once(void)
{
    const char *name;
    const unsigned char *bytes;
    for (int i = 0; i < 3; i++) {
        CHECK(attend() == ANYFLASH_OK, "%s", err.message);
        CHECK(fake.take_launch(&name, &bytes) != 0, "nothing was launched");
        CHECK(strcmp(name, "flash_fwd_kernel 64 128 128 4 0 0 bf16 0 0 0 0 0 1 0 0 "
                           "1x1x2 128x1x1 49152") == 0,
              "%s", name);
        const struct af_launch_forward *params = (const void *)bytes;
        CHECK(params->q_ptr == memory && params->seqlen_k == 300, "other parameters");
        CHECK(count_launches() == 0 && fake.loads() == 1, "%d loads", fake.loads());
    }
}

static void split_keys_and_merge(void)
{
    char text[4096];
    const char *name;
    const unsigned char *bytes;
    cuda.splits = 3;
    CHECK(attend() == ANYFLASH_OK, "%s", err.message);
    CHECK(fake.take_launch(&name, &bytes) != 0 && strstr(name, "splitkv_kernel") != NULL, "%s",
          name);
    CHECK(fake.take_launch(&name, &bytes) != 0 && strstr(name, "combine") != NULL, "%s", name);
    CHECK(anyflash_cuda_explain(&args, &cuda, text, sizeof text, &err) == ANYFLASH_OK, "%s",
          err.message);
    CHECK(strstr(text, "keys in 3 parts") != NULL && strstr(text, "loaded\n") != NULL, "%s",
          text);
    size_t bytes_needed;
    CHECK(anyflash_cuda_workspace_bytes(&args, &cuda, &bytes_needed, &err) == ANYFLASH_OK, "%s",
          err.message);
    cuda.workspace_bytes = bytes_needed - 1;
    CHECK(attend() == ANYFLASH_E_NO_MEMORY, "%s", err.message);
    cuda.workspace = NULL;
    cuda.workspace_bytes = 0;
    CHECK(attend() == ANYFLASH_E_NO_MEMORY && count_launches() == 0, "%s", err.message);
}

static struct {
    char *memory; /* what allocate() returns */
    int calls;
    size_t size_bytes;
} asked;

static void *allocate(void *context, size_t size_bytes)
{
    CHECK(context == &asked, "another context");
    asked.calls++;
    asked.size_bytes = size_bytes;
    return asked.memory;
}

/* Asks once for the bytes that it needs, if it needs any, and starts nothing without them. */
static void allocate_by_the_caller(void)
{
    static float lse[16];
    char *const given = cuda.workspace;
    size_t bytes_needed;
    args.lse = lse; /* without it forward needs memory for it */
    args.lse_head_stride = 5;
    args.lse_batch_stride = 10;
    cuda.workspace = NULL;
    cuda.workspace_bytes = 0;
    cuda.allocate = allocate;
    cuda.allocate_context = &asked;
    asked.calls = 0;
    cuda.splits = 1;
    CHECK(attend() == ANYFLASH_OK && asked.calls == 0, "%d calls", asked.calls);
    cuda.splits = 3;
    CHECK(anyflash_cuda_workspace_bytes(&args, &cuda, &bytes_needed, &err) == ANYFLASH_OK &&
              asked.calls == 0,
          "%s", err.message);
    count_launches();
    asked.memory = NULL;
    CHECK(attend() == ANYFLASH_E_NO_MEMORY && asked.calls == 1, "%s", err.message);
    asked.memory = given + 8;
    CHECK(attend() == ANYFLASH_E_ARGUMENT && asked.calls == 2, "%s", err.message);
    CHECK(count_launches() == 0, "started");
    asked.memory = given;
    CHECK(attend() == ANYFLASH_OK && asked.calls == 3, "%s", err.message);
    CHECK(asked.size_bytes == bytes_needed && count_launches() == 2, "%zu of %zu bytes",
          asked.size_bytes, bytes_needed);
    cuda.workspace = given;
    cuda.workspace_bytes = bytes_needed;
    CHECK(attend() == ANYFLASH_OK && asked.calls == 3, "%s", err.message);
}

/* Backward with grouped heads starts FlashAttention's three kernels and two sums. */
static void run_backward(void)
{
    static float lse[16];
    struct anyflash_attend_backward_args gradients = {
        sizeof gradients, &args, args.o, args.q, args.k, args.v, {0}, NULL, NULL};
    args.kv_heads = 1;
    args.k_len = 64;
    args.lse = lse;
    args.lse_head_stride = 5;
    args.lse_batch_stride = 10;
    gradients.dout = args.o;
    CHECK(anyflash_cuda_attend_backward(&gradients, &cuda, &err) == ANYFLASH_OK, "%s",
          err.message);
    CHECK(count_launches() == 3 && fake.loads() == 4, "%d loads", fake.loads());
    err.message[0] = '\0';
    args.seqused_k = integers;
    CHECK(anyflash_cuda_attend_backward(&gradients, &cuda, &err) == ANYFLASH_E_UNSUPPORTED,
          "%s", err.message);
}

/* ---- what is refused: nothing is started ---- */

static void drop(void)
{
    args.dropout = 0.5f;
    cuda.rng_state = random_state;
}

static void set_splits(void)
{
    cuda.splits = 3;
}

static void set_pages(void)
{
    args.block_table = integers;
    args.block_table_stride = 2;
    args.page_size = 256;
}

static void set_batch_index(void)
{
    args.cache_batch_idx = integers;
    args.cache_batch = 2;
}

static void append(void)
{
    args.k_new = anyflash_bshd(memory, ANYFLASH_BF16, 2, 1, 64);
    args.v_new = args.k_new;
    args.new_len = 1;
    args.seqused_k = integers;
}

static void cap(void)
{
    args.softcap = 3;
}

static void lose_workspace(void)
{
    cuda.workspace = NULL;
}

static void shift_workspace(void)
{
    cuda.workspace = (char *)cuda.workspace + 4;
}

static void shift_q(void)
{
    args.q.data = memory + 2;
}

static void stretch_rows(void)
{
    args.k.row_stride = 513;
}

static void stretch_heads(void)
{
    args.o.head_stride = 65;
}

static void stretch_pages(void)
{
    set_pages();
    args.v.batch_stride = 7;
}

static void nothing(void)
{
}

static const struct {
    void (*one)(void), (*other)(void);
    const char *text;
} refused[] = {
    {drop, set_splits, "do not support dropout with splits"},
    {drop, set_pages, "do not support dropout with pages"},
    {drop, set_batch_index, "do not support dropout with cache_batch_idx"},
    {drop, append, "do not support dropout with k_new"},
    {drop, cap, "Softcapping does not support dropout for now"},
    {lose_workspace, nothing, "workspace is NULL"},
    {shift_workspace, nothing, "not at a multiple of 256 bytes"},
    {shift_q, nothing, "q is at "},
    {stretch_rows, nothing, "a stride of k is no multiple of 8 elements"},
    {stretch_heads, nothing, "a stride of o is no multiple of 8 elements"},
    {stretch_pages, nothing, "a stride of v is no multiple of 8 elements"},
    {set_pages, set_batch_index, "cache_batch_idx with pages"},
};

static void refuse(void)
{
    for (size_t i = 0; i < AF_COUNT(refused); i++) {
        reset();
        refused[i].one();
        refused[i].other();
        const enum anyflash_status status = attend();
        CHECK(status == ANYFLASH_E_ARGUMENT || status == ANYFLASH_E_UNSUPPORTED, "%zu: %d", i,
              status);
        CHECK(strstr(err.message, refused[i].text) != NULL, "%s", err.message);
        CHECK(count_launches() == 0 && fake.loads() == 0, "%zu: something was started", i);
    }
}

/* A member of a newer header is ignored only while it is off. */
static void refuse_a_newer_option(void)
{
    reset();
    struct {
        struct anyflash_attend_args args;
        uint64_t option;
    } newer = {args, 1};
    newer.args.struct_size = sizeof newer;
    CHECK(anyflash_cuda_attend(&newer.args, &cuda, &err) == ANYFLASH_E_ARGUMENT, "not refused");
    CHECK(strstr(err.message, "older than the header") != NULL, "%s", err.message);
    newer.option = 0;
    CHECK(anyflash_cuda_attend(&newer.args, &cuda, &err) == ANYFLASH_OK, "%s", err.message);
}

/* ---- the driver ---- */

static const char *const failing[] = {"cuDeviceGet:101",         "cuCtxGetCurrent:700",
                                      "cuDeviceGetAttribute:1",  "cuModuleLoadDataEx:218",
                                      "cuModuleGetFunction:500", "cuFuncSetAttribute:1",
                                      "cuLaunchKernel:2"};

static void survive_each_error(void)
{
    for (size_t i = 0; i < AF_COUNT(failing); i++) {
        reset();
        setenv("FAKE_CUDA_FAIL", failing[i], 1);
        const enum anyflash_status status = attend();
        CHECK(status != ANYFLASH_OK && strstr(err.message, "CUDA: ") != NULL, "%s: %s",
              failing[i], err.message);
        CHECK((status == ANYFLASH_E_NO_MEMORY) ==
                  (strstr(failing[i], ":2") != NULL && strstr(failing[i], ":218") == NULL),
              "%s: %d", failing[i], status);
    }
    unsetenv("FAKE_CUDA_FAIL");
    reset();
    CHECK(attend() == ANYFLASH_OK && count_launches() == 1, "%s", err.message);
}

static void say_that_there_is_no_gpu(void)
{
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    CHECK(attend() == ANYFLASH_E_NOT_FOUND, "%s", err.message);
    CHECK(strcmp(err.message, "CUDA: no CUDA-capable device is detected") == 0, "%s",
          err.message);
}

static void say_that_the_gpu_is_too_old(void)
{
    setenv("FAKE_CUDA_SM", "75", 1);
    CHECK(attend() == ANYFLASH_E_UNSUPPORTED, "%s", err.message);
    CHECK(strstr(err.message, "only supports Ampere GPUs or newer") != NULL, "%s", err.message);
}

static void say_that_the_driver_is_too_old(void)
{
    setenv("FAKE_CUDA_VERSION", "11070", 1);
    CHECK(attend() == ANYFLASH_E_UNSUPPORTED, "%s", err.message);
    CHECK(strstr(err.message, "supports CUDA up to 11.7, and these kernels need a driver for "
                              "CUDA 11.8") != NULL,
          "%s", err.message);
}

static void name_a_kernel_that_is_missing(void)
{
    args.q.dtype = args.k.dtype = args.v.dtype = args.o.dtype = ANYFLASH_F16;
    CHECK(attend() == ANYFLASH_E_UNSUPPORTED, "%s", err.message);
    CHECK(strstr(err.message, "has no kernel 'flash_fwd_kernel 64 128 128 4 0 0 fp16") != NULL,
          "%s", err.message);
}

static void load_nothing_in_a_capture(void)
{
    fake.capture(1);
    CHECK(attend() == ANYFLASH_E_UNSUPPORTED, "%s", err.message);
    CHECK(strstr(err.message, "anyflash_cuda_prepare(), before") != NULL, "%s", err.message);
    fake.capture(0);
    CHECK(anyflash_cuda_prepare(&args, &cuda, &err) == ANYFLASH_OK && count_launches() == 0,
          "%s", err.message);
    fake.capture(1);
    CHECK(attend() == ANYFLASH_OK && count_launches() == 1, "%s", err.message);
}

static void make_no_context(void)
{
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    cuda.device = 1;
    CHECK(attend() == ANYFLASH_E_NOT_FOUND && !fake.made(1), "%s", err.message);
    CHECK(strstr(err.message, "device 1 has no CUDA context") != NULL, "%s", err.message);
    fake.make(1);
    CHECK(attend() == ANYFLASH_OK && fake.retained(1) == 0, "%s", err.message);
    fake.forget_context(); /* a new thread: -1 is device 0, if that has a context */
    cuda.device = -1;
    CHECK(attend() == ANYFLASH_OK && fake.retained(0) == 0 && fake.loads() == 2, "%s",
          err.message);
}

static void *attend_in_a_thread(void *unused)
{
    struct anyflash_error mine = {ANYFLASH_OK, ""};
    (void)unused;
    return anyflash_cuda_attend(&args, &cuda, &mine) == ANYFLASH_OK ? &args : NULL;
}

static void load_once_in_eight_threads(void)
{
    pthread_t threads[THREADS];
    void *answer;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, attend_in_a_thread, NULL) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &answer);
        CHECK(answer != NULL, "thread %d failed", i);
    }
    CHECK(fake.loads() == 1 && count_launches() == THREADS, "%d loads", fake.loads());
}

static void refuse_after_a_fork(void)
{
    int status = 0;
    CHECK(attend() == ANYFLASH_OK, "%s", err.message);
    const pid_t child = fork();
    if (child == 0) {
        CHECK(attend() == ANYFLASH_E_IO, "%s", err.message);
        CHECK(strstr(err.message, "before this process was forked") != NULL, "%s", err.message);
        _exit(0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child failed");
}

/* ---- the pack ---- */

static void spoil_size(void)
{
    char *at = strstr(index_text, "struct\tforward\t");
    at[strlen("struct\tforward\t")] = '9';
}

static void spoil_member(void)
{
    char *at = strstr(index_text, "member\tq_ptr\t0\t8");
    at[strlen("member\tq_ptr\t0\t")] = '4';
}

static void spoil_order(void)
{
    char *at = strstr(index_text, "kernel\taf_fill");
    at[strlen("kernel\taf_f") - 1] = 'A';
}

static void spoil_pieces(void)
{
    char *at = strchr(strstr(index_text, "kernel\tflash_fwd_kernel"), ':') + 1;
    while (*at != '\n')
        *at++ = '9';
}

static void spoil_family(void)
{
    char *at = strstr(index_text, "family\t0\t0\t");
    at[strlen("family\t0\t0\t")] = '9';
}

static void refuse_a_foreign_pack(void)
{
    static void (*const changes[])(void) = {spoil_size, spoil_member, spoil_order,
                                            spoil_family};
    struct af_pack *pack;
    for (size_t i = 0; i < AF_COUNT(changes); i++) {
        write_pack(changes[i]);
        CHECK(af_pack_open(path, &pack, &err) == ANYFLASH_E_DATA, "%zu: %s", i, err.message);
        CHECK(strstr(err.message, "is not a usable pack of kernels: ") != NULL, "%s",
              err.message);
    }
    write_pack(spoil_pieces);
    CHECK(attend() != ANYFLASH_OK && count_launches() == 0, "%s", err.message);
    write_pack(NULL);
    chmod(path, 0666);
    CHECK(af_pack_open(path, &pack, &err) == ANYFLASH_E_IO, "%s", err.message);
    CHECK(strstr(err.message, "other users may write") != NULL, "%s", err.message);
    CHECK(af_pack_open("/nonexistent/x", &pack, &err) == ANYFLASH_E_NOT_FOUND, "%s",
          err.message);
}

/* A byte that is another one, or a file that ends early: an error or the same kernels. */
static void survive_damage(void)
{
    static char whole[PACK_BYTES], ptx_before[4096];
    struct af_pack *pack;
    char *ptx;
    FILE *file = fopen(path, "rb");
    const size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    CHECK(af_pack_open(path, &pack, &err) == ANYFLASH_OK, "%s", err.message);
    CHECK(af_pack_module(pack, kernels[6], &ptx, &err) == ANYFLASH_OK, "%s", err.message);
    snprintf(ptx_before, sizeof ptx_before, "%s", ptx);
    free(ptx);
    af_pack_close(pack);
    for (size_t at = 0; at < size; at += 1 + at / 512) {
        for (int cut = 0; cut < 2; cut++) {
            file = fopen(path, "wb");
            const char kept = whole[at];
            whole[at] = (char)(kept ^ (1 << at % 8));
            fwrite(whole, 1, cut ? at : size, file);
            whole[at] = kept;
            fclose(file);
            if (af_pack_open(path, &pack, &err) != ANYFLASH_OK)
                continue;
            if (af_pack_module(pack, kernels[6], &ptx, &err) == ANYFLASH_OK)
                free(ptx);
            af_pack_close(pack);
        }
    }
}

#define CASE(body)                                                                             \
    static void test_cuda__##body(void **unused)                                               \
    {                                                                                          \
        (void)unused;                                                                          \
        in_child(body);                                                                        \
    }
#define CASES(EACH)                                                                            \
    EACH(start_and_load_once)                                                                  \
    EACH(split_keys_and_merge)                                                                 \
    EACH(run_backward)                                                                         \
    EACH(refuse)                                                                               \
    EACH(refuse_a_newer_option)                                                                \
    EACH(survive_each_error)                                                                   \
    EACH(say_that_there_is_no_gpu)                                                             \
    EACH(say_that_the_gpu_is_too_old)                                                          \
    EACH(say_that_the_driver_is_too_old)                                                       \
    EACH(name_a_kernel_that_is_missing)                                                        \
    EACH(load_nothing_in_a_capture)                                                            \
    EACH(make_no_context)                                                                      \
    EACH(load_once_in_eight_threads)                                                           \
    EACH(allocate_by_the_caller)                                                               \
    EACH(refuse_after_a_fork)                                                                  \
    EACH(refuse_a_foreign_pack)                                                                \
    EACH(survive_damage)
CASES(CASE)

#define ROW(body) cmocka_unit_test(test_cuda__##body),

int main(void)
{
    static char place[64];
    snprintf(place, sizeof place, "/tmp/anyflash-test-%d.kernels", (int)getpid());
    path = place;
    const struct CMUnitTest tests[] = {CASES(ROW)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
