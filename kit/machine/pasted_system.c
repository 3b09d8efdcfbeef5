/*
 * pasted_system.c: a system by its traces (paths, compilers, prompts) and by the words that
 * people use of it, and container images with what their tags state.
 */
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What only one system prints, as it is written; and words, in lower case, that people may also
   use of other machines. */
static const struct {
    const char *os;
    const char *prints;
    const char *words;
} traces[] = {
    {"wsl", "microsoft-standard|:/mnt/c/|WSL", ""},
    {"windows",
     "[MSC v.|WDDM|win_amd64|win32|vc14_runtime|vs2015_runtime|python.exe|.dll|:\\|"
     "DLL load failed|win-amd64|lib.win-|temp.win-|WinError ",
     "windows|win10|win11|win 10|win 11|powershell"},
    {"linux",
     "[GCC |manylinux|linux_x86_64|linux-gnu|/usr/lib|/home/|:~|nvidia-cuda-runtime-cu|"
     "cannot open shared object|.so: undefined symbol|/lib.linux-|/temp.linux-",
     "ubuntu|debian|fedora|centos|rocky|colab|kaggle|jetpack|linux|pop os|docker"},
    {"macos", /* "C:/Users/" and "/c/Users/" are Windows */
     "Darwin|macosx|-apple-darwin|/Applications/|/private/var/|/opt/homebrew/|\"/Users/| "
     "/Users/"
     "|'/Users/|(/Users/|[/Users/|=/Users/|`/Users/|///Users/",
     "macos|macbook"},
};

/* "Ubuntu-22.04", "JetPack 6": a Linux system with its release. */
static void take_release(struct af_pasted_reader *reader, const char *word, size_t len)
{
    char text[32];
    const char *digits = af_pasted_skip_between(word + len);
    size_t digits_len = strspn(digits, "0123456789.");
    bool other = digits_len > 8 || digits[digits_len] == '-' || /* a package's version */
                 isalnum((unsigned char)digits[digits_len]);
    snprintf(text, sizeof text, "%.*s %.*s", (int)len, word, other ? 0 : (int)digits_len,
             digits);
    af_pasted_take(reader, AF_PASTED_OS, text, strlen(text));
}

void af_pasted_take_traces(struct af_pasted_reader *reader, const char *line, const char *lower)
{
    const char *wheel =
        strstr(lower, "flash_attn-"); /* made for a system, which may be another */
    bool names_wheel = wheel != NULL && strstr(wheel, ".whl") != NULL;
    for (size_t i = 0; i < AF_COUNT(traces); i++) {
        size_t len;
        const char *os = i == 0 ? "linux" : traces[i].os;
        const char *word = af_pasted_find_word(lower, traces[i].words, &len);
        bool printed =
            !names_wheel && (af_pasted_has_word(line, traces[i].prints) ||
                             (i == 3 && strncmp(line, "/Users/", strlen("/Users/")) == 0));
        bool host = i == 1 && reader->values[AF_PASTED_WSL].text != NULL; /* WSL's Windows */
        if ((!printed && word == NULL) || host)
            continue;
        af_pasted_take(reader, printed ? AF_PASTED_TRACE : AF_PASTED_SYSTEM_WORD, os,
                       strlen(os));
        if (i == 0)
            af_pasted_take(reader, AF_PASTED_WSL, "true", 4);
        else if (i == 2 && word != NULL && !af_pasted_has_word(word, "linux|pop os|docker"))
            take_release(reader, word, len);
    }
}

/* Container images, and what the version at the start of their tags belongs to. */
static const struct {
    const char *repository;
    enum af_pasted_fact bare;
} images[] = {
    {"pytorch/pytorch:", AF_PASTED_TORCH},
    {"rocm/pytorch:", AF_PASTED_TORCH},
    {"nvidia/cuda:", AF_PASTED_TOOLKIT},
    {"nvcr.io/nvidia/pytorch:", AF_PASTED_FACT_COUNT},
};

static const struct {
    const char *start;
    enum af_pasted_fact fact;
} tag_parts[] = {{"cuda", AF_PASTED_TORCH_CUDA}, {"rocm", AF_PASTED_TORCH_HIP},
                 {"py", AF_PASTED_PYTHON},       {"ubuntu", AF_PASTED_OS},
                 {"rockylinux", AF_PASTED_OS},   {"", AF_PASTED_FACT_COUNT}};

/* One part of a tag: "2.6.0", "cuda12.4", "ubuntu22.04"; `devel` images have the toolkit. */
static void take_part(struct af_pasted_reader *reader, const char *part, size_t len,
                      enum af_pasted_fact bare, bool devel)
{
    char os[48];
    size_t i = 0;
    while (!af_starts_with(part, tag_parts[i].start))
        i++;
    const char *version = part + strlen(tag_parts[i].start);
    size_t version_bytes = (size_t)(part + len - version);
    enum af_pasted_fact fact = tag_parts[i].start[0] == '\0' ? bare : tag_parts[i].fact;
    if (strspn(version, "0123456789.") < version_bytes ||
        (fact != AF_PASTED_OS && memchr(version, '.', version_bytes) == NULL))
        return;
    if (fact == AF_PASTED_OS) {
        snprintf(os, sizeof os, "docker %.*s", (int)len, part);
        af_pasted_take(reader, fact, os, strlen(os));
    } else if (fact != AF_PASTED_FACT_COUNT && (fact != AF_PASTED_TOOLKIT || devel)) {
        af_pasted_take(reader, fact, version, version_bytes);
    }
    if (fact == AF_PASTED_TORCH_CUDA && devel)
        af_pasted_take(reader, AF_PASTED_TOOLKIT, version, version_bytes);
}

/* "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel", "nvidia/cuda:12.4.1-devel-ubuntu22.04" */
bool af_pasted_take_image(struct af_pasted_reader *reader, const char *lower)
{
    bool any = false;
    for (size_t i = 0; i < AF_COUNT(images); i++) {
        const char *tag = strstr(lower, images[i].repository);
        if (tag == NULL)
            continue;
        any = true;
        tag += strlen(images[i].repository);
        size_t len = strcspn(tag, " '\",)");
        char text[96];
        snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : 0), tag);
        for (const char *part = text; *part != '\0'; part += len + (part[len] != '\0')) {
            len = strcspn(part, "-_");
            take_part(reader, part, len, images[i].bare, strstr(text, "devel") != NULL);
        }
    }
    if (any)
        af_pasted_take(reader, AF_PASTED_OS, "docker", 6);
    return any;
}
