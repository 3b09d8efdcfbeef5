/*
 * stand_in_cuda.c: fakes the few CUDA runtime and driver calls by which
 * flash-attn's checks query the GPU: one GPU of compute capability 9.0 with 132
 * multiprocessors. It is preloaded, so that the checks of a real extension can
 * be reached on a machine without a GPU; nothing is computed. Numbers: enum
 * cudaDeviceAttr of CUDA 12 and 13.
 *
 *   cc -shared -fPIC -o libcuda.so.1 stand_in_cuda.c
 */
enum { SUCCESS = 0, MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };

int cudaGetDeviceCount(int *count)
{
    *count = 1;
    return SUCCESS;
}

int cudaGetDevice(int *device)
{
    *device = 0;
    return SUCCESS;
}

int cudaSetDevice(int device)
{
    (void)device;
    return SUCCESS;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == MAJOR             ? 9
             : attribute == MINOR           ? 0
             : attribute == MULTIPROCESSORS ? 132
                                            : 1;
    return SUCCESS;
}

int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return SUCCESS;
}

/* Called when a random number generator is created, also by backward without dropout. */
int cudaStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = 0; /* cudaStreamCaptureStatusNone */
    return SUCCESS;
}

/* The same for torch 2.15, which passes CUDA 13's arguments. */
int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, void *graph,
                             void *dependencies, void *edges, void *count)
{
    (void)graph;
    (void)dependencies;
    (void)edges;
    (void)count;
    if (id != 0)
        *id = 0;
    return cudaStreamIsCapturing(stream, status);
}

/* Called before a device is reset; from the driver's library, hence this file's name. */
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return SUCCESS;
}
