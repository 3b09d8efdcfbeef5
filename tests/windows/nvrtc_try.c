/*
 * nvrtc_try.c: compiles one source with NVRTC for Windows, as packaging/kernels/nvrtc.py does:
 *
 *     nvrtc_try.exe NVRTC.DLL SOURCE RESULT OPTION ...
 *
 * Exits 1 with the compiler's log if that fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

typedef int nvrtc_create(void **, const char *, const char *, int, const char *const *,
                         const char *const *);
typedef int nvrtc_compile(void *, int, const char *const *);
typedef int nvrtc_size(void *, size_t *);
typedef int nvrtc_text(void *, char *);

static HMODULE library;

static void *find(const char *name)
{
    void *function = (void *)GetProcAddress(library, name);
    if (function == NULL) {
        fprintf(stderr, "NVRTC has no %s\n", name);
        exit(1);
    }
    return function;
}

/* The file, with a NUL behind it. */
static char *read_source(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (file == NULL || text == NULL || fread(text, 1, (1 << 20) - 1, file) == 0) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

static const char *get_text(void *program, const char *size_name, const char *text_name)
{
    size_t size = 0;
    ((nvrtc_size *)find(size_name))(program, &size);
    char *text = calloc(1, size + 1);
    if (text != NULL)
        ((nvrtc_text *)find(text_name))(program, text);
    return text == NULL ? "" : text;
}

/* NVRTC looks for its DLL nvrtc-builtins on PATH. */
static void add_folder(const char *path)
{
    static char text[32768];
    const char *end = strrchr(path, '\\');
    const size_t len = end == NULL ? 0 : (size_t)(end - path);
    if (len + 1 >= sizeof text)
        return;
    memcpy(text, path, len);
    text[len] = ';';
    GetEnvironmentVariableA("PATH", text + len + 1, (DWORD)(sizeof text - len - 1));
    SetEnvironmentVariableA("PATH", text);
}

int main(int argc, char **argv)
{
    void *program = NULL;
    if (argc < 4)
        return 2;
    add_folder(argv[1]);
    library = LoadLibraryExA(argv[1], NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (library == NULL) {
        fprintf(stderr, "%s cannot be loaded: error %lu\n", argv[1], GetLastError());
        return 1;
    }
    int code = ((nvrtc_create *)find("nvrtcCreateProgram"))(&program, read_source(argv[2]),
                                                            "kernels.cu", 0, NULL, NULL);
    if (code == 0)
        code = ((nvrtc_compile *)find("nvrtcCompileProgram"))(program, argc - 4,
                                                              (const char *const *)argv + 4);
    if (code != 0) {
        fprintf(stderr, "%s\nerror %d\n",
                get_text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"), code);
        return 1;
    }
    FILE *result = fopen(argv[3], "wb");
    if (result == NULL)
        return 1;
    fputs(get_text(program, "nvrtcGetPTXSize", "nvrtcGetPTX"), result);
    return fclose(result) == 0 ? 0 : 1;
}
