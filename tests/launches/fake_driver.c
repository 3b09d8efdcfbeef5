/*
 * fake_driver.c: a stand-in for NVIDIA's driver, libcuda.so.1. It computes nothing but our own
 * small kernels, on memory of the CPU, and keeps what it was asked for test_*.py to read:
 * fake_take_launch() returns the launches one after the other. The environment chooses a GPU:
 *
 *   FAKE_CUDA_SM=90            compute capability
 *   FAKE_CUDA_DEVICES=2        how many there are
 *   FAKE_CUDA_VERSION=12040    what cuDriverGetVersion() says
 *   FAKE_CUDA_FAIL=NAME:CODE   the function NAME returns CODE
 *   FAKE_CUDA_FORGET=1         launches are not kept, for timing the caller
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gpu/params.h"

#ifdef _WIN32 /* nvcuda.dll, whose test has one thread */
#define EXPORT __declspec(dllexport)
#else
#include <pthread.h>
#define EXPORT __attribute__((visibility("default")))
#endif
#define LAUNCHES_MAX 64
#define DEVICES_MAX 8

struct kernel {
    char name[160];
    int shared_bytes; /* allowed by cuFuncSetAttribute() */
};

struct launch {
    char text[240]; /* the name, grid, block, shared memory, and a second parameter */
    struct af_launch_backward params; /* they begin with those of forward */
    size_t params_bytes;
};

static struct launch launches[LAUNCHES_MAX];
static int launch_count, launch_taken;
static int loads, retained[DEVICES_MAX], made[DEVICES_MAX] = {1};
static int capturing;
static bool forgets;
static _Thread_local int stack[8] = {0};
static _Thread_local int depth = 1; /* the first thread's context is that of device 0 */

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : atoi(text);
}

static int fails(const char *name)
{
    const char *text = getenv("FAKE_CUDA_FAIL");
    const size_t len = strlen(name);
    return text != NULL && strncmp(text, name, len) == 0 && text[len] == ':'
               ? atoi(text + len + 1)
               : 0;
}

#define CHECKED(name)                                                                          \
    do {                                                                                       \
        const int code_ = fails(name);                                                         \
        if (code_ != 0)                                                                        \
            return code_;                                                                      \
    } while (0)

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    CHECKED("cuInit");
    forgets = number("FAKE_CUDA_FORGET", 0) != 0;
    return number("FAKE_CUDA_DEVICES", 1) == 0 ? 100 : 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = number("FAKE_CUDA_VERSION", 13000);
    return 0;
}

EXPORT int cuGetErrorString(int code, const char **text)
{
    static const struct {
        int code;
        const char *text;
    } texts[] = {{2, "out of memory"},
                 {100, "no CUDA-capable device is detected"},
                 {101, "invalid device ordinal"},
                 {218, "a PTX JIT compilation failed"},
                 {700, "an illegal memory access was encountered"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].code == code) {
            *text = texts[i].text;
            return 0;
        }
    return 1;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    CHECKED("cuDeviceGet");
    *device = ordinal;
    return ordinal >= 0 && ordinal < number("FAKE_CUDA_DEVICES", 1) ? 0 : 101;
}

/* Shared memory as in NVIDIA's table of compute capabilities, in KiB. */
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int sm = number("FAKE_CUDA_SM", 90);
    const bool small = sm == 86 || sm == 89 || sm / 10 == 12;
    (void)device;
    CHECKED("cuDeviceGetAttribute");
    *value = attribute == 75   ? sm / 10
             : attribute == 76 ? sm % 10
             : attribute == 16 ? (sm / 10 == 9 ? 132
                                  : sm == 80   ? 108
                                               : 84)
             : attribute == 97 ? (small      ? 99
                                  : sm == 80 ? 163
                                             : 227) *
                                     1024
             : attribute == 81 ? (small      ? 100
                                  : sm == 80 ? 164
                                             : 228) *
                                     1024
                               : 0;
    return 0;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = made[device];
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    retained[device]++;
    made[device] = 1;
    *context = (void *)(intptr_t)(device + 1);
    return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    retained[device]--;
    return 0;
}

EXPORT int cuCtxGetCurrent(void **context)
{
    CHECKED("cuCtxGetCurrent");
    *context = depth == 0 ? NULL : (void *)(intptr_t)(stack[depth - 1] + 1);
    return 0;
}

EXPORT int cuCtxGetDevice(int *device)
{
    if (depth == 0)
        return 201;
    *device = stack[depth - 1];
    return 0;
}

EXPORT int cuCtxGetId(void *context, unsigned long long *id)
{
    *id = (unsigned long long)(uintptr_t)context;
    return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
    stack[depth++] = (int)(intptr_t)context - 1;
    return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
    *context = (void *)(intptr_t)(stack[--depth] + 1);
    return 0;
}

/* A module says the name of its kernel in a line "// NAME". */
EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                              void **values)
{
    const char *ptx = image, *line = strstr(ptx, "// ");
    CHECKED("cuModuleLoadDataEx");
    if (line == NULL || strstr(ptx, ".entry kernel(") == NULL || capturing) {
        for (unsigned i = 0; i < count; i++)
            if (options[i] == 5)
                memcpy(values[i], "ptxas fatal: not this PTX\n", 27);
        return capturing ? 900 : 218;
    }
    struct kernel *kernel = calloc(1, sizeof *kernel);
    snprintf(kernel->name, sizeof kernel->name, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    *module = kernel;
    loads++;
    return 0;
}

EXPORT int cuModuleUnload(void *module)
{
    free(module);
    return 0;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
    CHECKED("cuModuleGetFunction");
    *function = module;
    return strcmp(name, "kernel") == 0 ? 0 : 500;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value)
{
    struct kernel *kernel = function;
    int most;
    CHECKED("cuFuncSetAttribute");
    cuDeviceGetAttribute(&most, 97, 0);
    if (attribute == 8)
        kernel->shared_bytes = value;
    return attribute == 8 && value <= most ? 0 : 1;
}

EXPORT int cuMemsetD8Async(uintptr_t data, unsigned char value, size_t bytes, void *stream)
{
    (void)stream;
    CHECKED("cuMemsetD8Async");
    memset((void *)data, value, bytes);
    return 0;
}

EXPORT int cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = capturing;
    return 0;
}

/* Not every compiler of these tests knows half precision. */
static float widen(uint16_t bits, bool is_bf16)
{
    float value;
    const uint32_t word = (uint32_t)bits << 16;
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (is_bf16) {
        memcpy(&value, &word, sizeof value);
        return value;
    }
    if (exponent == 31)
        value = fraction != 0 ? NAN : INFINITY;
    else
        value = ldexpf((float)(exponent == 0 ? fraction : fraction + 1024),
                       exponent == 0 ? -24 : exponent - 25);
    return (bits & 0x8000) != 0 ? -value : value;
}

static uint16_t narrow(float value, bool is_bf16)
{
    uint32_t word;
    int exponent;
    const float size = fabsf(value);
    memcpy(&word, &value, sizeof word);
    if (is_bf16)
        return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
    const uint16_t sign = (uint16_t)(word >> 16 & 0x8000);
    if (isnan(value) || size >= 65520.0f)
        return sign | (isnan(value) ? 0x7e00 : 0x7c00);
    if (size < 0x1p-14f)
        return sign | (uint16_t)nearbyintf(size * 0x1p24f);
    const float part = frexpf(size, &exponent); /* at least a half, below 1 */
    const int fraction = (int)nearbyintf(ldexpf(part, 11));
    return (uint16_t)(sign | (((exponent + 14) << 10) + fraction - 1024));
}

/* Element i of a tensor whose strides, rows, heads and dim are in words. */
static uint16_t *element(uint16_t *data, const int64_t *strides, const int64_t *sizes,
                         int64_t i)
{
    const int64_t d = i % sizes[2], h = i / sizes[2] % sizes[1];
    const int64_t row = i / (sizes[2] * sizes[1]);
    return data + row / sizes[0] * strides[0] + row % sizes[0] * strides[1] + h * strides[2] +
           d;
}

static void run_small(const char *name, void **params)
{
    int64_t words[10];
    const int count = strcmp(name, "af_fill") == 0 ? 3 : strcmp(name, "af_clear") == 0 ? 8 : 10;
    for (int i = 0; i < count; i++)
        memcpy(&words[i], params[i], i == 2 && count == 3 ? 4 : 8);
    void *data = (void *)(intptr_t)words[0];
    if (count == 3) {
        for (int64_t i = 0; i < words[1]; i++)
            memcpy((float *)data + i, &words[2], sizeof(float));
    } else if (count == 8) {
        for (int64_t i = 0; i < words[1]; i++)
            *element(data, &words[2], &words[5], i) = 0;
    } else {
        const bool is_bf16 = strstr(name, "bf16") != NULL;
        const uint16_t *from = (const uint16_t *)(intptr_t)words[1];
        const int64_t dim = words[8], group = words[9];
        for (int64_t i = 0; i < words[2]; i++) {
            float sum = 0;
            for (int64_t member = 0; member < group; member++)
                sum += widen(from[i / dim * group * dim + i % dim + member * dim], is_bf16);
            *element(data, &words[3], &words[6], i) = narrow(sum, is_bf16);
        }
    }
}

static struct launch *next_launch(void)
{
#ifdef _WIN32
    return &launches[launch_count++];
#else
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    struct launch *launch = &launches[launch_count++];
    pthread_mutex_unlock(&lock);
    return launch;
#endif
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **params, void **extra)
{
    const struct kernel *kernel = function;
    (void)stream, (void)extra;
    if (forgets)
        return 0;
    CHECKED("cuLaunchKernel");
    if (shared_bytes >= 48 << 10 && shared_bytes > (unsigned)kernel->shared_bytes)
        return 1;
    if (strncmp(kernel->name, "af_", 3) == 0) {
        run_small(kernel->name, params);
        return 0;
    }
    if (launch_count == LAUNCHES_MAX)
        return 701;
    struct launch *launch = next_launch();
    snprintf(launch->text, sizeof launch->text, "%s %ux%ux%u %ux%ux%u %u", kernel->name, grid_x,
             grid_y, grid_z, block_x, block_y, block_z, shared_bytes);
    if (strstr(kernel->name, "convert_dq") != NULL)
        snprintf(launch->text + strlen(launch->text), 20, " %d", *(int *)params[1]);
    launch->params_bytes = strncmp(kernel->name, "flash_bwd", 9) == 0
                               ? sizeof launch->params
                               : sizeof launch->params.forward;
    memcpy(&launch->params, params[0], launch->params_bytes);
    return 0;
}

/* ---- for tests ---- */

EXPORT size_t take_launch(const char **name_out, const unsigned char **bytes_out)
{
    if (launch_taken == launch_count) {
        launch_taken = launch_count = 0;
        return 0;
    }
    *name_out = launches[launch_taken].text;
    *bytes_out = (const unsigned char *)&launches[launch_taken].params;
    return launches[launch_taken++].params_bytes;
}

EXPORT int fake_loads(void)
{
    return loads;
}

EXPORT int fake_retained(int device)
{
    return retained[device];
}

EXPORT int fake_made(int device)
{
    return made[device];
}

EXPORT void fake_make(int device)
{
    made[device] = 1;
}

EXPORT void fake_forget_context(void)
{
    depth = 0;
}

EXPORT void fake_capture(int on)
{
    capturing = on;
}
