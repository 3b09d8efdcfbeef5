/*
 * cuda.c: the functions of anyflash_cuda.h.
 */
#include "anyflash/anyflash_cuda.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/base.h"
#include "engine/gpu/driver.h"

#define PACK_NAME "flash-attn-2.8.3.post2.kernels"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct af_pack *pack; /* once set, it stays for the life of the process */

enum anyflash_status anyflash_cuda_open(const char *path, struct anyflash_error *err)
{
    struct af_pack *opened = NULL;
    enum anyflash_status status = ANYFLASH_OK;
    if (path == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "path is NULL");
    pthread_mutex_lock(&lock);
    if (pack != NULL && strcmp(af_pack_path(pack), path) != 0)
        status = af_fail(err, ANYFLASH_E_ARGUMENT, "the kernels of '%s' are in use already",
                         af_pack_path(pack));
    else if (pack == NULL)
        status = af_pack_open(path, &opened, err);
    if (opened != NULL)
        pack = opened;
    pthread_mutex_unlock(&lock);
    return status;
}

/* The folder of this library, with a slash; "" if its path has none: never the current one. */
static void find_folder(char folder[AF_PACK_PATH_BYTES])
{
    af_pack_find_library(folder);
    size_t len = strlen(folder);
    while (len > 0 && folder[len - 1] != '/' && folder[len - 1] != '\\')
        len--;
    folder[len] = '\0';
}

/* Opens the pack that ANYFLASH_KERNELS names, or one beside the library. */
static enum anyflash_status need_pack(struct af_pack **pack_out, struct anyflash_error *err)
{
    static const char *const places[] = {"", "../share/anyflash/", "../../share/anyflash/"};
    char folder[AF_PACK_PATH_BYTES], path[AF_PACK_PATH_BYTES + 100];
    const char *named = getenv("ANYFLASH_KERNELS");
    enum anyflash_status status = ANYFLASH_E_NOT_FOUND;
    pthread_mutex_lock(&lock);
    if (pack == NULL && named != NULL && named[0] != '\0') {
        status = af_pack_open(named, &pack, err);
    } else if (pack == NULL) {
        find_folder(folder);
        for (size_t i = 0;
             folder[0] != '\0' && i < AF_COUNT(places) && status == ANYFLASH_E_NOT_FOUND; i++) {
            snprintf(path, sizeof path, "%s%s%s", folder, places[i], PACK_NAME);
            status = af_pack_open(path, &pack, err);
        }
        if (status == ANYFLASH_E_NOT_FOUND)
            af_fail(err, status,
                    "there are no kernels: neither does ANYFLASH_KERNELS name a file, nor is "
                    "%s in '%s'",
                    PACK_NAME, folder);
    } else {
        status = ANYFLASH_OK;
    }
    *pack_out = pack;
    pthread_mutex_unlock(&lock);
    return status;
}

/* What to do with a call. */
enum purpose { COUNT, PREPARE, RUN };

/* Has the caller allocate the workspace, and fills the list again with its addresses. */
static enum anyflash_status allocate(struct af_launch_call *call,
                                     const struct af_launch_device *device,
                                     struct af_launch_list *list, struct anyflash_error *err)
{
    struct anyflash_cuda_args *cuda = &call->cuda;
    if (cuda->allocate == NULL)
        return af_fail(err, ANYFLASH_E_NO_MEMORY, "the workspace has 0 of %zu bytes",
                       list->workspace_bytes);
    cuda->workspace_bytes = list->workspace_bytes;
    cuda->workspace = cuda->allocate(cuda->allocate_context, list->workspace_bytes);
    if (cuda->workspace == NULL)
        return af_fail(err, ANYFLASH_E_NO_MEMORY, "no memory for a workspace of %zu bytes",
                       list->workspace_bytes);
    enum anyflash_status status = af_launch_check_workspace(cuda, err);
    return status == ANYFLASH_OK ? af_launch_make(call, device, list, err) : status;
}

/* The checked call's launches on its device. */
static enum anyflash_status serve(struct af_launch_call *call, enum purpose purpose,
                                  size_t *needed_bytes_out, struct anyflash_error *err)
{
    struct af_nvidia_scope scope;
    struct af_launch_list list;
    struct af_pack *kernels = NULL;
    enum anyflash_status status = af_nvidia_enter(call->cuda.device, &scope, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_launch_make(call, &scope.device, &list, err);
    if (status == ANYFLASH_OK && purpose == RUN && list.workspace_bytes > 0 &&
        call->cuda.workspace == NULL)
        status = allocate(call, &scope.device, &list, err);
    if (needed_bytes_out != NULL)
        *needed_bytes_out = list.workspace_bytes;
    if (status == ANYFLASH_OK && purpose != COUNT)
        status = need_pack(&kernels, err);
    if (status == ANYFLASH_OK && purpose == PREPARE)
        status = af_nvidia_load(&scope, kernels, &list, call->cuda.stream, err);
    if (status == ANYFLASH_OK && purpose == RUN)
        status = af_nvidia_launch(&scope, kernels, &list, call->cuda.stream, err);
    af_nvidia_leave(&scope);
    return status;
}

static enum anyflash_status forward(const struct anyflash_attend_args *args,
                                    const struct anyflash_cuda_args *cuda, enum purpose purpose,
                                    size_t *needed_bytes_out, struct anyflash_error *err)
{
    struct af_launch_call call;
    enum anyflash_status status = af_launch_check_forward(&call, args, cuda, err);
    if (purpose != RUN)
        call.cuda.workspace = NULL;
    return status == ANYFLASH_OK ? serve(&call, purpose, needed_bytes_out, err) : status;
}

static enum anyflash_status backward(const struct anyflash_attend_backward_args *args,
                                     const struct anyflash_cuda_args *cuda,
                                     enum purpose purpose, size_t *needed_bytes_out,
                                     struct anyflash_error *err)
{
    struct af_launch_call call;
    enum anyflash_status status = af_launch_check_backward(&call, args, cuda, err);
    if (purpose != RUN)
        call.cuda.workspace = NULL;
    return status == ANYFLASH_OK ? serve(&call, purpose, needed_bytes_out, err) : status;
}

enum anyflash_status anyflash_cuda_attend(const struct anyflash_attend_args *args,
                                          const struct anyflash_cuda_args *cuda,
                                          struct anyflash_error *err)
{
    return forward(args, cuda, RUN, NULL, err);
}

enum anyflash_status anyflash_cuda_attend_backward(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    struct anyflash_error *err)
{
    return backward(args, cuda, RUN, NULL, err);
}

enum anyflash_status anyflash_cuda_prepare(const struct anyflash_attend_args *args,
                                           const struct anyflash_cuda_args *cuda,
                                           struct anyflash_error *err)
{
    return forward(args, cuda, PREPARE, NULL, err);
}

enum anyflash_status anyflash_cuda_prepare_backward(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    struct anyflash_error *err)
{
    return backward(args, cuda, PREPARE, NULL, err);
}

enum anyflash_status anyflash_cuda_workspace_bytes(const struct anyflash_attend_args *args,
                                                   const struct anyflash_cuda_args *cuda,
                                                   size_t *needed_bytes_out,
                                                   struct anyflash_error *err)
{
    return forward(args, cuda, COUNT, needed_bytes_out, err);
}

enum anyflash_status anyflash_cuda_backward_workspace_bytes(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    size_t *needed_bytes_out, struct anyflash_error *err)
{
    return backward(args, cuda, COUNT, needed_bytes_out, err);
}

/* ---- in words ---- */

/* Text of size_bytes, of which `used` are taken. */
struct words {
    char *text;
    size_t size_bytes, used;
};

static void add(struct words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct words *words, const char *format, ...)
{
    va_list values;
    if (words->used >= words->size_bytes)
        return;
    va_start(values, format);
    words->used += (size_t)vsnprintf(words->text + words->used, words->size_bytes - words->used,
                                     format, values);
    va_end(values);
}

static void add_launch(struct words *words, const struct af_nvidia_scope *scope,
                       struct af_pack *kernels, const struct af_launch *launch)
{
    char name[AF_LAUNCH_NAME_BYTES];
    af_launch_name(&launch->kernel, name);
    add(words, "%s: %ux%ux%u blocks of %u threads, %u bytes of shared memory, %s\n", name,
        launch->grid[0], launch->grid[1], launch->grid[2], launch->threads,
        launch->shared_bytes,
        !af_pack_has(kernels, name)                   ? "missing in the pack"
        : af_nvidia_is_loaded(scope, &launch->kernel) ? "loaded"
                                                      : "not loaded yet");
}

enum anyflash_status anyflash_cuda_explain(const struct anyflash_attend_args *args,
                                           const struct anyflash_cuda_args *cuda, char *text,
                                           size_t size_bytes, struct anyflash_error *err)
{
    struct words words = {text, size_bytes, 0};
    struct af_launch_call call;
    struct af_nvidia_scope scope;
    struct af_launch_list list;
    struct af_pack *kernels = NULL;
    if (size_bytes > 0)
        text[0] = '\0';
    enum anyflash_status status = af_launch_check_forward(&call, args, cuda, err);
    call.cuda.workspace = NULL;
    if (status == ANYFLASH_OK)
        status = need_pack(&kernels, err);
    if (status == ANYFLASH_OK)
        status = af_nvidia_enter(call.cuda.device, &scope, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_launch_make(&call, &scope.device, &list, err);
    for (int32_t i = 0; i < list.count && status == ANYFLASH_OK; i++)
        add_launch(&words, &scope, kernels, &list.items[i]);
    if (status == ANYFLASH_OK && list.params.forward.num_splits > 1)
        add(&words, "keys in %d parts\n", list.params.forward.num_splits);
    if (status == ANYFLASH_OK)
        add(&words, "workspace: %zu bytes\n", list.workspace_bytes);
    af_nvidia_leave(&scope);
    return status;
}

/* "64: bf16" for a kernel whose name begins with `function`. */
static bool read_name(const char *name, const char *function, char line[60])
{
    const size_t len = strlen(function);
    if (strncmp(name, function, len) != 0 || name[len] != ' ')
        return false;
    snprintf(line, 60, "%.*s: %s", (int)strcspn(name + len + 1, " "), name + len + 1,
             strstr(name, " bf16 ") != NULL ? "bf16" : "fp16");
    return true;
}

void anyflash_cuda_contents(char *text, size_t size_bytes)
{
    static const char *const functions[][2] = {
        {"forward", "flash_fwd_kernel"},
        {"forward with split keys", "flash_fwd_splitkv_kernel"},
        {"backward", "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"}};
    struct words words = {text, size_bytes, 0};
    struct anyflash_error err = {ANYFLASH_OK, ""};
    struct af_pack *kernels = NULL;
    char line[60], entry[100];
    if (size_bytes > 0)
        text[0] = '\0';
    if (need_pack(&kernels, &err) != ANYFLASH_OK) {
        add(&words, "%s\n", err.message);
        return;
    }
    add(&words, "flash-attn %s, %zu kernels: %s\n", af_pack_release(kernels),
        af_pack_count(kernels), af_pack_path(kernels));
    for (size_t f = 0; f < AF_COUNT(functions); f++)
        for (size_t i = 0; i < af_pack_count(kernels); i++) {
            if (!read_name(af_pack_name(kernels, i), functions[f][1], line))
                continue;
            snprintf(entry, sizeof entry, "%s: head size %s\n", functions[f][0], line);
            if (size_bytes > 0 && strstr(text, entry) == NULL)
                add(&words, "%s", entry);
        }
}
