/*
 * fake_nvrtc.c: NVRTC for tests. It "compiles" a source to PTX without code: an entry for each
 * function `extern "C" __global__ void NAME(`, or for X.cu the file X.ptx of $FAKE_NVRTC_PTX.
 * A line with the name of each source goes to $FAKE_NVRTC_LOG. $FAKE_NVRTC_FAIL is a word in
 * sources that do not compile, and $FAKE_NVRTC_SLEEP the seconds that each takes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program {
    char *source, *name, *ptx;
    const char *log;
};

/* The PTX that a test has for this source; NULL: none. */
static char *recorded(const char *source)
{
    char path[4096];
    const char *folder = getenv("FAKE_NVRTC_PTX"), *name = strrchr(source, '/') + 1;
    snprintf(path, sizeof path, "%s/%.*s.ptx", folder == NULL ? "" : folder,
             (int)strcspn(name, "."), name);
    FILE *file = fopen(path, "rb");
    char *text = file == NULL ? NULL : calloc(1, 1 << 20);
    if (text != NULL)
        text[fread(text, 1, (1 << 20) - 1, file)] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return 0;
}

const char *nvrtcGetErrorString(int code)
{
    return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

int nvrtcCreateProgram(struct program **made, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names)
{
    (void)count, (void)headers, (void)names;
    *made = calloc(1, sizeof **made);
    (*made)->source = strdup(source);
    (*made)->name = strdup(name);
    (*made)->log = "";
    return 0;
}

static char *compiled(const char *source)
{
    static const char mark[] = "extern \"C\" __global__ void ";
    char *ptx = calloc(1, 1 << 20);
    size_t used = (size_t)sprintf(ptx, ".version 9.0\n.target sm_80\n.address_size 64\n\n");
    for (const char *at = source; (at = strstr(at, mark)) != NULL;) {
        at += sizeof mark - 1;
        int len = (int)strcspn(at, "(");
        used += (size_t)sprintf(ptx + used,
                                ".visible .entry %.*s(\n\t.param .align 8 .b8 "
                                "%.*s_param_0[464]\n)\n{\n\tret;\n}\n\n",
                                len, at, len, at);
    }
    return ptx;
}

int nvrtcCompileProgram(struct program *program, int count, const char *const *options)
{
    const char *fail = getenv("FAKE_NVRTC_FAIL"), *log = getenv("FAKE_NVRTC_LOG");
    const char *seconds = getenv("FAKE_NVRTC_SLEEP");
    FILE *file = log == NULL ? NULL : fopen(log, "a");
    if (file != NULL) {
        fprintf(file, "%s %d\n", strrchr(program->name, '/') + 1, count);
        fclose(file);
    }
    if (seconds != NULL)
        usleep((useconds_t)(atof(seconds) * 1e6));
    if (count < 5 || strncmp(options[0], "--gpu-architecture=compute_80", 29) != 0)
        return 5;
    if (fail != NULL && strstr(program->source, fail) != NULL) {
        program->log = "k.cu(7): error: it does not compile\n1 error detected\n";
        return 6;
    }
    program->ptx = recorded(program->name);
    if (program->ptx == NULL)
        program->ptx = compiled(program->source);
    return 0;
}

int nvrtcGetPTXSize(struct program *program, size_t *size)
{
    *size = strlen(program->ptx) + 1;
    return 0;
}

int nvrtcGetPTX(struct program *program, char *ptx)
{
    strcpy(ptx, program->ptx);
    return 0;
}

int nvrtcGetProgramLogSize(struct program *program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(struct program *program, char *log)
{
    strcpy(log, program->log);
    return 0;
}
