/*
 * torch_try.c: a real torch for Windows computes attention, alone and by the engine.
 *
 *     torch_try.exe FOLDER     FOLDER: torch's lib/, with the C++ runtime's DLLs
 *
 * No Python: torch_cpu.dll is loaded and called through its C shim, as the Python package
 * does it. Checks registration, a call that the engine takes, one that it passes on, an error
 * that crosses torch's C++ frames, the number of threads, that disabling works, and the
 * registration of anyflash's own operators.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "anyflash/anyflash_torch.h"

#define SDPA "aten::_scaled_dot_product_flash_attention_for_cpu"

enum { B = 2, H = 3, S = 65, D = 64, NUMBERS = B * H * S * D };

typedef void *tensor;

static struct {
    int32_t (*empty)(int64_t dim, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                     int32_t device, int32_t index, tensor *out);
    int32_t (*data)(tensor tensor, void **data_out);
    int32_t (*delete)(tensor tensor);
    int32_t (*call)(const char *name, const char *overload, uint64_t *stack);
    int32_t (*cpu)(void);
    int32_t (*f32)(void);
    void (*set_threads)(int threads);
} torch;

static int wrong;

static void check(int is_true, const char *sentence)
{
    printf("%s: %s\n", is_true ? "ok" : "WRONG", sentence);
    fflush(stdout);
    wrong += !is_true;
}

static void find(HMODULE library, const char *name, void *function_out)
{
    FARPROC function = GetProcAddress(library, name);
    if (function == NULL) {
        printf("WRONG: torch_cpu.dll does not export %s\n", name);
        exit(1);
    }
    memcpy(function_out, &function, sizeof function);
}

static HMODULE load_torch(const char *folder)
{
    char path[MAX_PATH];
    SetDllDirectoryA(folder);
    snprintf(path, sizeof path, "%s\\torch_cpu.dll", folder);
    HMODULE library = LoadLibraryA(path);
    if (library == NULL) {
        printf("WRONG: '%s' cannot be loaded: error %lu\n", path, GetLastError());
        exit(1);
    }
    find(library, "aoti_torch_empty_strided", &torch.empty);
    find(library, "aoti_torch_get_data_ptr", &torch.data);
    find(library, "aoti_torch_delete_tensor_object", &torch.delete);
    find(library, "aoti_torch_call_dispatcher", &torch.call);
    find(library, "aoti_torch_device_type_cpu", &torch.cpu);
    find(library, "aoti_torch_dtype_float32", &torch.f32);
    find(library, "?set_num_threads@at@@YAXH@Z", &torch.set_threads);
    return library;
}

static tensor new_tensor(uint32_t seed)
{
    const int64_t sizes[4] = {B, H, S, D}, strides[4] = {H * S * D, S * D, D, 1};
    tensor made = NULL;
    void *data = NULL;
    torch.empty(4, sizes, strides, torch.f32(), torch.cpu(), 0, &made);
    torch.data(made, &data);
    for (int i = 0; i < NUMBERS; i++) {
        seed = seed * 1664525u + 1013904223u;
        ((float *)data)[i] = (float)(int32_t)seed / 2147483648.0f;
    }
    return made;
}

static uint64_t slot_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* Calls the operator with new tensors; its output's numbers in `out`, torch's status back. */
static int32_t attend(double dropout, float *out)
{
    uint64_t stack[7] = {
        slot_of(new_tensor(1)), slot_of(new_tensor(2)), slot_of(new_tensor(3)), 0, 1, 0, 0};
    void *data = NULL;
    memcpy(&stack[3], &dropout, sizeof dropout);
    int32_t status = torch.call(SDPA, "", stack);
    if (status != 0)
        return status;
    tensor results[2] = {(tensor)(uintptr_t)stack[0], (tensor)(uintptr_t)stack[1]};
    torch.data(results[0], &data);
    memcpy(out, data, NUMBERS * sizeof *out);
    torch.delete(results[0]);
    torch.delete(results[1]);
    return 0;
}

static double distance(const float *a, const float *b)
{
    double most = 0;
    for (int i = 0; i < NUMBERS; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

int main(int count, char **words)
{
    static float theirs[NUMBERS], ours[NUMBERS], again[NUMBERS];
    struct anyflash_error err = {ANYFLASH_OK, ""};
    uint64_t calls = 0, passed_on = 0;
    if (count != 2) {
        fprintf(stderr, "usage: torch_try.exe FOLDER\n");
        return 2;
    }
    HMODULE library = load_torch(words[1]);
    check(attend(0.0, theirs) == 0, "torch's own kernel runs");

    enum anyflash_status status = anyflash_torch_enable(library, &err);
    printf("enable: %s %s\n", anyflash_status_text(status), err.message);
    check(status == ANYFLASH_OK, "the engine is registered");
    check(attend(0.0, ours) == 0, "a call succeeds");
    anyflash_torch_counts(&calls, &passed_on);
    check(calls == 1 && passed_on == 0, "the engine took it");
    printf("largest difference: %g\n", distance(theirs, ours));
    check(distance(theirs, ours) < 1e-5, "its numbers are torch's");
    torch.set_threads(1);
    check(attend(0.0, again) == 0 && memcmp(ours, again, sizeof ours) == 0,
          "one thread gives the same bits");

    check(attend(0.5, again) != 0, "torch's error for dropout comes back as a status");
    anyflash_torch_counts(&calls, &passed_on);
    check(calls == 3 && passed_on == 1, "that call was passed on");

    anyflash_torch_disable();
    check(attend(0.0, again) == 0 && memcmp(theirs, again, sizeof ours) == 0,
          "disabled: torch's own bits");

    status = anyflash_torch_operators(library, &err);
    printf("operators: %s %s\n", anyflash_status_text(status), err.message);
    check(status == ANYFLASH_OK, "the kernels of anyflash's own operators are registered");
    return wrong != 0;
}
