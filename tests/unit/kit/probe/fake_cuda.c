/*
 * fake_cuda.c: a replacement for NVIDIA's driver library. The variable
 * FAKE_CUDA selects its behaviour: two, none, hidden, hang, crash, or the
 * number that cuInit returns. With CUDA_VISIBLE_DEVICES set it shows no device:
 * the probe must have removed that variable.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int index);
int cuDeviceGetName(char *name, int size_bytes, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceGetUuid_v2(unsigned char *uuid, int device);

static const char *mode(void)
{
    const char *text = getenv("FAKE_CUDA");
    return text == NULL ? "none" : text;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuInit(unsigned flags)
{
    (void)flags;
    if (strcmp(mode(), "hang") == 0)
        sleep(60);
    if (strcmp(mode(), "crash") == 0)
        raise(SIGKILL);
    return (int)strtol(mode(), NULL, 10);
}

int cuDeviceGetCount(int *count)
{
    *count = strcmp(mode(), "two") == 0 && getenv("CUDA_VISIBLE_DEVICES") == NULL ? 2 : 0;
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return 0;
}

int cuDeviceGetName(char *name, int size_bytes, int device)
{
    strncpy(name, device == 0 ? "NVIDIA H100\t80GB" : "NVIDIA T4", (size_t)size_bytes);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    switch (attribute) {
    case 75:
        *value = device == 0 ? 9 : 7;
        return 0;
    case 76:
        *value = device == 0 ? 0 : 5;
        return 0;
    case 33:
        *value = 0x41 + device;
        return 0;
    default:
        *value = 0;
        return 0;
    }
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = device == 0 ? (size_t)80 << 30 : (size_t)16 << 30;
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    memset(uuid, device + 0xa, 16);
    return 0;
}
