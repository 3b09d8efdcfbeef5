/*
 * driver.c: calls of libcuda.so.1 or nvcuda.dll, by the names of its documented interface.
 */
#include "engine/gpu/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#include <unistd.h>
#endif

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define LOG_BYTES 1024
#define SHARED_WITHOUT_ASKING (48u << 10)
#define DEVICES_MAX 64
#define SLOTS_FIRST 64

/* Of cuda.h. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_STREAM_CAPTURE_STATUS_NONE = 0
};
#ifdef _WIN32
#define CUDA_CALL __stdcall
#else
#define CUDA_CALL
#endif

/* The functions that are used, and their arguments. */
#define FUNCTIONS(EACH)                                                                        \
    EACH(cuInit, (unsigned))                                                                   \
    EACH(cuDriverGetVersion, (int *))                                                          \
    EACH(cuGetErrorString, (int, const char **))                                               \
    EACH(cuDeviceGet, (int *, int))                                                            \
    EACH(cuDeviceGetAttribute, (int *, int, int))                                              \
    EACH(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                                 \
    EACH(cuDevicePrimaryCtxRetain, (void **, int))                                             \
    EACH(cuDevicePrimaryCtxRelease_v2, (int))                                                  \
    EACH(cuCtxGetCurrent, (void **))                                                           \
    EACH(cuCtxGetDevice, (int *))                                                              \
    EACH(cuCtxPushCurrent_v2, (void *))                                                        \
    EACH(cuCtxPopCurrent_v2, (void **))                                                        \
    EACH(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                \
    EACH(cuModuleUnload, (void *))                                                             \
    EACH(cuModuleGetFunction, (void **, void *, const char *))                                 \
    EACH(cuFuncSetAttribute, (void *, int, int))                                               \
    EACH(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
                          unsigned, void *, void **, void **))                                 \
    EACH(cuMemsetD8Async, (uintptr_t, unsigned char, size_t, void *))                          \
    EACH(cuStreamIsCapturing, (void *, int *))

#define MEMBER(name, arguments) int(CUDA_CALL * name) arguments;
static struct {
    FUNCTIONS(MEMBER)
    int(CUDA_CALL *cuCtxGetId)(void *, unsigned long long *); /* NULL before CUDA 12 */
    int version;                                              /* as 1000 * major + 10 * minor */
    char problem[200];                                        /* why it cannot be used, or "" */
} cuda;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_forked; /* since the driver was opened */

/* Under the lock: what is known of each device, and the kernels that are loaded. */
static struct af_launch_device devices[DEVICES_MAX]; /* multiprocessors 0: not known */
static struct slot {
    uint64_t context;
    struct af_launch_kernel kernel;
    void *function; /* NULL: free */
} * slots;
static size_t slot_count, slots_used;

static enum anyflash_status failed(int code, struct anyflash_error *err)
{
    const char *text = NULL;
    if (cuda.cuGetErrorString(code, &text) != CUDA_SUCCESS || text == NULL)
        text = "an unknown error";
    return af_fail(err,
                   code == CUDA_ERROR_NO_DEVICE || code == CUDA_ERROR_INVALID_DEVICE
                       ? ANYFLASH_E_NOT_FOUND
                   : code == CUDA_ERROR_OUT_OF_MEMORY ? ANYFLASH_E_NO_MEMORY
                                                      : ANYFLASH_E_IO,
                   "CUDA: %s", text);
}

#ifdef _WIN32
#define DRIVER "nvcuda.dll"
static void *open_driver(void)
{
    return (void *)LoadLibraryExA(DRIVER, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
}

static void *find_function(void *driver, const char *name)
{
    return (void *)GetProcAddress((HMODULE)driver, name);
}
#else
#define DRIVER "libcuda.so.1"
static void *open_driver(void)
{
    return dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
}

static void *find_function(void *driver, const char *name)
{
    return dlsym(driver, name);
}
#endif

#ifndef _WIN32
static void notice_fork(void)
{
    is_forked = true;
}
#endif

static void open_once(void)
{
    void *driver = open_driver();
    if (driver == NULL) {
        snprintf(cuda.problem, sizeof cuda.problem,
                 "there is no NVIDIA driver: %s was not found", DRIVER);
        return;
    }
#define FIND(name, arguments)                                                                  \
    {                                                                                          \
        void *found = find_function(driver, #name);                                            \
        memcpy(&cuda.name, &found, sizeof found);                                              \
        if (found == NULL && cuda.problem[0] == '\0')                                          \
            snprintf(cuda.problem, sizeof cuda.problem,                                        \
                     "the NVIDIA driver is too old: it has no " #name);                        \
    }
    FUNCTIONS(FIND)
    void *found = find_function(driver, "cuCtxGetId");
    memcpy(&cuda.cuCtxGetId, &found, sizeof found);
    if (cuda.problem[0] != '\0')
        return;
    const int code = cuda.cuInit(0);
    struct anyflash_error why = {ANYFLASH_OK, ""};
    if (code != CUDA_SUCCESS) {
        failed(code, &why);
        snprintf(cuda.problem, sizeof cuda.problem, "%.190s", why.message);
        return;
    }
    cuda.cuDriverGetVersion(&cuda.version);
#ifndef _WIN32
    pthread_atfork(NULL, NULL, notice_fork);
#endif
}

static enum anyflash_status check_driver(struct anyflash_error *err)
{
    pthread_once(&once, open_once);
    if (cuda.problem[0] != '\0')
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "%s", cuda.problem);
    if (is_forked)
        return af_fail(err, ANYFLASH_E_IO,
                       "CUDA was used before this process was forked, and does not work in it: "
                       "start processes by spawn");
    return ANYFLASH_OK;
}

/* The device's properties, which do not change. */
static enum anyflash_status find_device(int number, struct af_launch_device *device,
                                        struct anyflash_error *err)
{
    struct af_launch_device found = {.number = number};
    const struct {
        int attribute;
        int32_t *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &found.major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &found.minor},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &found.shared_per_block},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
         &found.shared_per_multiprocessor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &found.multiprocessors},
    };
    int code = CUDA_SUCCESS, handle = 0;
    const bool is_kept = number >= 0 && number < DEVICES_MAX;
    pthread_mutex_lock(&lock);
    if (is_kept && devices[number].multiprocessors > 0) {
        found = devices[number];
    } else {
        code = cuda.cuDeviceGet(&handle, number);
        for (size_t i = 0; i < AF_COUNT(wanted) && code == CUDA_SUCCESS; i++)
            code = cuda.cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, handle);
        if (code == CUDA_SUCCESS && is_kept)
            devices[number] = found;
    }
    pthread_mutex_unlock(&lock);
    if (code != CUDA_SUCCESS)
        return failed(code, err);
    *device = found;
    return found.major >= 8 ? ANYFLASH_OK
                            : af_fail(err, ANYFLASH_E_UNSUPPORTED,
                                      "FlashAttention only supports Ampere GPUs or newer.");
}

/* The primary context of a device, if the process has one, becomes current. */
static enum anyflash_status push_primary(int number, struct af_nvidia_scope *scope,
                                         struct anyflash_error *err)
{
    unsigned flags = 0;
    int active = 0, handle = 0, code = cuda.cuDeviceGet(&handle, number);
    void *context = NULL;
    if (code == CUDA_SUCCESS)
        code = cuda.cuDevicePrimaryCtxGetState(handle, &flags, &active);
    if (code == CUDA_SUCCESS && !active)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "device %d has no CUDA context, so no memory of this process", number);
    if (code == CUDA_SUCCESS)
        code = cuda.cuDevicePrimaryCtxRetain(&context, handle);
    if (code == CUDA_SUCCESS) {
        code = cuda.cuCtxPushCurrent_v2(context);
        scope->pushed = code == CUDA_SUCCESS;
        if (!scope->pushed)
            cuda.cuDevicePrimaryCtxRelease_v2(handle);
    }
    return code == CUDA_SUCCESS ? ANYFLASH_OK : failed(code, err);
}

static uint64_t identify(void *context)
{
    unsigned long long id = 0;
    if (cuda.cuCtxGetId != NULL && cuda.cuCtxGetId(context, &id) == CUDA_SUCCESS)
        return id;
    return (uint64_t)(uintptr_t)context;
}

enum anyflash_status af_nvidia_enter(int32_t device, struct af_nvidia_scope *scope,
                                     struct anyflash_error *err)
{
    void *context = NULL;
    int current = -1;
    enum anyflash_status status = check_driver(err);
    memset(scope, 0, sizeof *scope);
    if (status != ANYFLASH_OK)
        return status;
    int code = cuda.cuCtxGetCurrent(&context);
    if (code == CUDA_SUCCESS && context != NULL)
        code = cuda.cuCtxGetDevice(&current);
    if (code != CUDA_SUCCESS)
        return failed(code, err);
    if (device < 0)
        device = current < 0 ? 0 : current;
    status = find_device(device, &scope->device, err);
    if (status == ANYFLASH_OK && device != current)
        status = push_primary(device, scope, err);
    if (status == ANYFLASH_OK && scope->pushed)
        cuda.cuCtxGetCurrent(&context);
    if (status == ANYFLASH_OK)
        scope->context = identify(context);
    return status;
}

void af_nvidia_leave(struct af_nvidia_scope *scope)
{
    void *context;
    if (!scope->pushed)
        return;
    cuda.cuCtxPopCurrent_v2(&context);
    cuda.cuDevicePrimaryCtxRelease_v2(scope->device.number);
    scope->pushed = false;
}

/* ---- loaded kernels; all under the lock ---- */

static size_t hash(uint64_t context, const struct af_launch_kernel *kernel)
{
    const unsigned char *bytes = (const unsigned char *)kernel;
    uint64_t h = context * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < sizeof *kernel; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 29);
}

/* Where the kernel is, or could be. There is always a free slot. */
static struct slot *find_slot(uint64_t context, const struct af_launch_kernel *kernel)
{
    size_t at = hash(context, kernel);
    for (;; at++) {
        struct slot *slot = &slots[at & (slot_count - 1)];
        if (slot->function == NULL ||
            (slot->context == context && memcmp(&slot->kernel, kernel, sizeof *kernel) == 0))
            return slot;
    }
}

/* Half of the slots stay free. */
static bool make_room(void)
{
    const size_t old_count = slot_count;
    struct slot *old = slots, *new;
    if (slots_used < slot_count / 2)
        return true;
    const size_t count = old_count == 0 ? SLOTS_FIRST : 2 * old_count;
    new = af_mem_alloc(count * sizeof *new);
    if (new == NULL)
        return false;
    memset(new, 0, count * sizeof *new);
    slots = new;
    slot_count = count;
    for (size_t i = 0; i < old_count; i++)
        if (old[i].function != NULL)
            *find_slot(old[i].context, &old[i].kernel) = old[i];
    af_mem_free(old);
    return true;
}

/* Lets the driver compile a module. */
static enum anyflash_status load_module(struct af_pack *pack, const char *name, const char *ptx,
                                        uint32_t shared_bytes, void **function_out,
                                        struct anyflash_error *err)
{
    char log[LOG_BYTES] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    void *module = NULL;
    if (cuda.version < af_pack_cuda_version(pack))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "the NVIDIA driver supports CUDA up to %d.%d, and these kernels need a "
                       "driver for CUDA %d.%d (520 or newer for 11.8)",
                       cuda.version / 1000, cuda.version % 1000 / 10,
                       af_pack_cuda_version(pack) / 1000,
                       af_pack_cuda_version(pack) % 1000 / 10);
    int code = cuda.cuModuleLoadDataEx(&module, ptx, AF_COUNT(options), options, values);
    if (code != CUDA_SUCCESS) {
        struct anyflash_error why = {ANYFLASH_OK, ""};
        const enum anyflash_status status = failed(code, &why);
        log[strcspn(log, "\r\n")] = '\0';
        return af_fail(err, status, "%s, when the driver compiled '%s'%s%.120s", why.message,
                       name, log[0] == '\0' ? "" : ": ", log);
    }
    code = cuda.cuModuleGetFunction(function_out, module, "kernel");
    if (code == CUDA_SUCCESS && shared_bytes >= SHARED_WITHOUT_ASKING)
        code = cuda.cuFuncSetAttribute(
            *function_out, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
    if (code == CUDA_SUCCESS)
        return ANYFLASH_OK;
    cuda.cuModuleUnload(module);
    return failed(code, err);
}

static enum anyflash_status load_kernel(const struct af_nvidia_scope *scope,
                                        struct af_pack *pack, const struct af_launch *launch,
                                        void *stream, void **function_out,
                                        struct anyflash_error *err)
{
    char name[AF_LAUNCH_NAME_BYTES], *ptx = NULL;
    int capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!make_room())
        return af_fail_memory(err);
    struct slot *slot = find_slot(scope->context, &launch->kernel);
    if (slot->function != NULL) {
        *function_out = slot->function;
        return ANYFLASH_OK;
    }
    af_launch_name(&launch->kernel, name);
    cuda.cuStreamIsCapturing(stream, &capturing);
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "'%s' is not loaded yet, and cannot be while a CUDA graph is captured: "
                       "make such a call, or anyflash_cuda_prepare(), before",
                       name);
    enum anyflash_status status = af_pack_module(pack, name, &ptx, err);
    if (status == ANYFLASH_OK)
        status = load_module(pack, name, ptx, launch->shared_bytes, function_out, err);
    af_mem_free(ptx);
    if (status != ANYFLASH_OK)
        return status;
    *slot = (struct slot){scope->context, launch->kernel, *function_out};
    slots_used++;
    return ANYFLASH_OK;
}

static enum anyflash_status load_all(const struct af_nvidia_scope *scope, struct af_pack *pack,
                                     const struct af_launch_list *list, void *stream,
                                     void *functions[AF_LAUNCHES_MAX],
                                     struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    pthread_mutex_lock(&lock);
    for (int32_t i = 0; i < list->count && status == ANYFLASH_OK; i++)
        status = load_kernel(scope, pack, &list->items[i], stream, &functions[i], err);
    pthread_mutex_unlock(&lock);
    return status;
}

enum anyflash_status af_nvidia_load(const struct af_nvidia_scope *scope, struct af_pack *pack,
                                    const struct af_launch_list *list, void *stream,
                                    struct anyflash_error *err)
{
    void *functions[AF_LAUNCHES_MAX];
    return load_all(scope, pack, list, stream, functions, err);
}

bool af_nvidia_is_loaded(const struct af_nvidia_scope *scope,
                         const struct af_launch_kernel *kernel)
{
    pthread_mutex_lock(&lock);
    const bool loaded = slot_count > 0 && find_slot(scope->context, kernel)->function != NULL;
    pthread_mutex_unlock(&lock);
    return loaded;
}

static int start(struct af_launch_list *list, struct af_launch *launch, void *function,
                 void *stream)
{
    void *params[AF_LAUNCH_WORDS_MAX] = {&list->params, &launch->splits};
    for (int32_t i = 0; i < launch->word_count; i++)
        params[i] = &launch->words[i];
    return cuda.cuLaunchKernel(function, launch->grid[0], launch->grid[1], launch->grid[2],
                               launch->threads, 1, 1, launch->shared_bytes, stream, params,
                               NULL);
}

enum anyflash_status af_nvidia_launch(const struct af_nvidia_scope *scope, struct af_pack *pack,
                                      struct af_launch_list *list, void *stream,
                                      struct anyflash_error *err)
{
    void *functions[AF_LAUNCHES_MAX];
    enum anyflash_status status = load_all(scope, pack, list, stream, functions, err);
    int code = CUDA_SUCCESS;
    if (status != ANYFLASH_OK)
        return status;
    if (list->clear != NULL)
        code = cuda.cuMemsetD8Async((uintptr_t)list->clear, 0, list->clear_bytes, stream);
    for (int32_t i = 0; i < list->count && code == CUDA_SUCCESS; i++)
        code = start(list, &list->items[i], functions[i], stream);
    return code == CUDA_SUCCESS ? ANYFLASH_OK : failed(code, err);
}
