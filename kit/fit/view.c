/*
 * view.c: parses the facts of a machine for the rules. Platform, interpreter
 * and GPUs here; torch in view_torch.c.
 */
#include "kit/fit/view.h"

#include "kit/base/text.h"
#include "kit/fit/view_torch.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 1000000

bool af_dotted_parse(const char *text, struct af_dotted *dotted_out)
{
    struct af_dotted made = {.count = 0};
    while (text != NULL && *text >= '0' && *text <= '9' && made.count < 4) {
        int number = 0;
        for (; *text >= '0' && *text <= '9'; text++)
            number = number > NUMBER_MAX ? number : number * 10 + (*text - '0');
        made.part[made.count++] = number;
        text += *text == '.' ? 1 : 0;
    }
    if (made.count > 0)
        *dotted_out = made;
    return made.count > 0;
}

int af_dotted_compare(const struct af_dotted *a, const struct af_dotted *b)
{
    for (int i = 0; i < 4; i++) {
        int left = i < a->count ? a->part[i] : 0;
        int right = i < b->count ? b->part[i] : 0;
        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

int af_sm_parse(const char *text)
{
    struct af_dotted dotted;
    if (!af_dotted_parse(text, &dotted) || dotted.part[0] > 999)
        return -1;
    if (dotted.count == 1)
        return dotted.part[0] >= 30 ? dotted.part[0] : -1; /* "89" */
    return dotted.part[1] > 9 ? -1 : dotted.part[0] * 10 + dotted.part[1];
}

static const char *arch_name(const char *text)
{
    if (af_equal_fold(text, "amd64") || af_equal_fold(text, "x86_64"))
        return "x86_64";
    if (af_equal_fold(text, "arm64") || af_equal_fold(text, "aarch64"))
        return "aarch64";
    return text;
}

/* The platform as the torch tables spell it. */
static const char *platform_name(const struct af_view *view)
{
    if (af_equal(view->os, "linux") && af_equal(view->arch, "x86_64"))
        return "linux_x86_64";
    if (af_equal(view->os, "linux") && af_equal(view->arch, "aarch64"))
        return "linux_aarch64";
    if (af_equal(view->os, "windows") && af_equal(view->arch, "x86_64"))
        return "win_amd64";
    return NULL;
}

static void read_platform(const struct af_machine *machine, struct af_view *view)
{
    view->os = af_fact_text_or(&machine->platform.os, NULL);
    view->arch = arch_name(af_fact_text_or(&machine->platform.arch, NULL));
    view->platform = platform_name(view);
    view->musl = af_fact_is(&machine->platform.libc, "musl");
    if (!view->musl)
        af_dotted_parse(af_fact_text_or(&machine->platform.libc_version, NULL), &view->glibc);
}

static void read_python(const struct af_machine *machine, struct af_arena *arena,
                        struct af_view *view)
{
    const struct af_python *python = &machine->python;
    struct af_dotted version;
    view->cpython = python->implementation.state != AF_FACT_KNOWN ||
                    af_equal_fold(python->implementation.value.text, "cpython");
    if (!af_dotted_parse(af_fact_text_or(&python->version, NULL), &version) ||
        version.count < 2)
        return;
    const char *flags = af_fact_text_or(&python->abi_flags, "");
    const char *soabi = af_fact_text_or(&python->soabi, "");
    view->python_known = true;
    view->interpreter.major = version.part[0];
    view->interpreter.minor = version.part[1];
    view->interpreter.free_threaded = strchr(flags, 't') != NULL || strstr(soabi, "t-") != NULL;
    view->interpreter.debug = strchr(flags, 'd') != NULL;
    if (python->platform_tags.state == AF_FACT_KNOWN) {
        view->interpreter.platform_tags = python->platform_tags.value.list.items;
        view->interpreter.platform_count = python->platform_tags.value.list.count;
    }
    view->python_text =
        af_arena_format(arena, "%d.%d%s", view->interpreter.major, view->interpreter.minor,
                        view->interpreter.free_threaded ? "t" : "");
}

static void add_gpu(struct af_view *view, const struct af_gpu *gpu)
{
    if (view->gpu_count == AF_VIEW_GPUS_MAX)
        return;
    view->gpus[view->gpu_count++] =
        (struct af_view_gpu){.sm = af_sm_parse(af_fact_text_or(&gpu->sm, NULL)),
                             .name = af_fact_text_or(&gpu->name, "GPU"),
                             .integrated = af_fact_truth(&gpu->integrated) == AF_YES};
}

static void state_gpu(struct af_view *view, const char *arch)
{
    view->gpu = AF_FACT_KNOWN;
    view->stated = true;
    view->gpu_source = "--arch";
    view->gpus[view->gpu_count++] =
        (struct af_view_gpu){.sm = af_sm_parse(arch), .name = "the stated GPU"};
}

static void read_gpus(const struct af_machine *machine, struct af_view *view)
{
    size_t hidden = 0;
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const struct af_gpu *gpu = &machine->gpus.rows[i];
        const char *vendor = af_fact_text_or(&gpu->vendor, "nvidia");
        view->amd = view->amd || af_equal(vendor, "amd");
        if (!af_equal(vendor, "nvidia"))
            continue;
        if (af_fact_truth(&gpu->visible) == AF_NO && gpu->visible.state == AF_FACT_KNOWN)
            hidden++;
        else
            add_gpu(view, gpu);
    }
    view->amd = view->amd && view->gpu_count == 0 && hidden == 0;
    view->gpu_source = hidden > 0 ? "CUDA_VISIBLE_DEVICES hides them; unset it to use them"
                                  : machine->gpus.source;
    if (view->gpu_count > 0)
        view->gpu = AF_FACT_KNOWN;
    else
        view->gpu = machine->gpus.state == AF_FACT_UNKNOWN ? AF_FACT_UNKNOWN : AF_FACT_ABSENT;
}

static void read_driver(const struct af_machine *machine, struct af_view *view)
{
    view->driver_text = af_fact_text_or(&machine->driver.kernel_version, NULL);
    af_dotted_parse(view->driver_text, &view->driver);
    af_dotted_parse(af_fact_text_or(&machine->driver.cuda_api, NULL), &view->driver_cuda);
}

void af_view_make(const struct af_machine *machine, const struct af_tables *tables,
                  const char *arch, struct af_arena *arena, struct af_view *view)
{
    *view = (struct af_view){.machine = machine};
    read_platform(machine, view);
    read_python(machine, arena, view);
    af_view_read_torch(machine, tables, view);
    if (arch != NULL) {
        state_gpu(view, arch);
        return; /* the driver of another node is not this one's */
    }
    read_gpus(machine, view);
    read_driver(machine, view);
}

const struct af_package *af_view_package(const struct af_view *view, const char *name)
{
    return af_machine_package(view->machine, name);
}
