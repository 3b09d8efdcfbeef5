/*
 * view.c: parses the facts of a machine for the rules: torch, platform, interpreter
 * and GPUs.
 */
#include "kit/fit/view.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"
#include "kit/formats/tags.h"

/*
 * What is certain about the torch of a machine.
 *
 * Facts come first. What they leave open is taken from the release tables, but
 * only if all builds that this torch could be agree: 2.7 has the new C++ ABI in
 * every build; 2.6.0 without "+cu124" or "+cu126" could have either.
 */

#define TORCH_NUMBER_MAX 9999

static const char *local_of(const char *version)
{
    const char *plus = version == NULL ? NULL : strchr(version, '+');
    return plus == NULL ? "" : plus + 1;
}

/* A build from PyTorch's own indexes: it has no local version, or cuXYZ or cpu. */
static bool is_public_local(const char *local)
{
    size_t len = strlen(local);
    if (len == 0 || strcmp(local, "cpu") == 0 || af_starts_with(local, "rocm"))
        return true;
    return len >= 4 && len <= 5 && af_starts_with(local, "cu") &&
           strspn(local + 2, "0123456789") == len - 2;
}

static enum af_fit_torch_build build_of(const struct af_torch *torch,
                                        const struct af_version *version)
{
    const char *build = af_fact_text_or(&torch->build, NULL);
    if (af_equal(build, "vendor"))
        return AF_FIT_TORCH_VENDOR;
    if (af_equal(build, "prerelease"))
        return AF_FIT_TORCH_PRERELEASE;
    if (af_version_is_prerelease(version))
        return version->pre_kind == 'a' && version->local[0] != '\0' ? AF_FIT_TORCH_VENDOR
                                                                     : AF_FIT_TORCH_PRERELEASE;
    if (af_equal(build, "release"))
        return AF_FIT_TORCH_RELEASE;
    if (build != NULL)
        return AF_FIT_TORCH_OTHER;
    return is_public_local(version->local) ? AF_FIT_TORCH_RELEASE : AF_FIT_TORCH_OTHER;
}

static void read_version(const struct af_torch *torch, struct af_view_torch *view)
{
    struct af_version version;
    if (torch->version.state != AF_FACT_KNOWN) {
        view->state = torch->version.state;
        return;
    }
    view->text = torch->version.value.text;
    if (!af_version_parse(view->text, strlen(view->text), &version) ||
        version.release_count < 2 || version.release[0] > TORCH_NUMBER_MAX ||
        version.release[1] > TORCH_NUMBER_MAX || version.release[2] > TORCH_NUMBER_MAX)
        return;
    view->state = AF_FACT_KNOWN;
    view->major = (int)version.release[0];
    view->minor = (int)version.release[1];
    view->patch = version.release_count > 2 ? (int)version.release[2] : -1;
    view->build = build_of(torch, &version);
}

/* "cu128" is 12.8 and "cu118" 11.8: the last digit is the minor. */
static void read_cuda_of_local(const char *local, struct af_view_torch *view)
{
    size_t digits = strlen(local) - 2;
    view->cuda = AF_FACT_KNOWN;
    view->cuda_major = 0;
    for (size_t i = 0; i + 1 < digits; i++)
        view->cuda_major = view->cuda_major * 10 + (local[2 + i] - '0');
    view->cuda_minor = local[1 + digits] - '0';
}

static void read_cuda(const struct af_torch *torch, struct af_view_torch *view)
{
    struct af_dotted cuda;
    const char *local = local_of(view->text);
    view->rocm = torch->hip.state == AF_FACT_KNOWN || af_starts_with(local, "rocm");
    if (af_dotted_parse(af_fact_text_or(&torch->cuda, NULL), &cuda)) {
        view->cuda = AF_FACT_KNOWN;
        view->cuda_major = cuda.part[0];
        view->cuda_minor = cuda.count > 1 ? cuda.part[1] : -1;
    } else if (torch->cuda.state == AF_FACT_ABSENT || view->rocm || strcmp(local, "cpu") == 0) {
        view->cuda = AF_FACT_ABSENT;
    } else if (view->build == AF_FIT_TORCH_RELEASE && af_starts_with(local, "cu") &&
               is_public_local(local)) {
        read_cuda_of_local(local, view);
    }
    const char *soname = af_fact_text_or(&torch->cudart_soname, "");
    if (af_starts_with(soname, "libcudart.so.") && af_dotted_parse(soname + 13, &cuda)) {
        view->cuda = AF_FACT_KNOWN;
        view->cuda_minor = cuda.part[0] == view->cuda_major ? view->cuda_minor : -1;
        view->cuda_major = cuda.part[0];
    }
}

static const struct af_catalog_torch_variant *variant_of(const struct af_view_torch *torch,
                                                         const char *platform)
{
    if (torch->release == NULL || platform == NULL || torch->build != AF_FIT_TORCH_RELEASE)
        return NULL;
    for (size_t i = 0; i < torch->release->variants_count; i++) {
        const struct af_catalog_torch_variant *variant = &torch->release->variants[i];
        bool cuda = torch->cuda == AF_FACT_KNOWN && variant->cuda_major == torch->cuda_major &&
                    variant->cuda_minor == torch->cuda_minor;
        bool cpu = torch->cuda == AF_FACT_ABSENT && !torch->rocm && variant->cuda_major < 0;
        if (strcmp(variant->platform, platform) == 0 && (cuda || cpu))
            return variant;
    }
    return NULL;
}

/* The ABI that all builds of the release have on this platform; else UNKNOWN. */
static enum af_answer abi_of_release(const struct af_catalog_torch_release *release,
                                     const char *platform)
{
    enum af_answer abi = AF_UNKNOWN;
    bool first = true;
    for (size_t i = 0; i < release->variants_count; i++) {
        const struct af_catalog_torch_variant *variant = &release->variants[i];
        if (platform == NULL || strcmp(variant->platform, platform) != 0)
            continue;
        if (!first && variant->cxx11abi != abi)
            return AF_UNKNOWN;
        abi = variant->cxx11abi;
        first = false;
    }
    return abi;
}

static void read_abi(const struct af_torch *facts, const char *platform,
                     struct af_view_torch *torch)
{
    torch->abi =
        facts->cxx11abi.state == AF_FACT_KNOWN ? af_fact_truth(&facts->cxx11abi) : AF_UNKNOWN;
    torch->abi_source = facts->cxx11abi.source;
    if (torch->abi != AF_UNKNOWN || torch->build != AF_FIT_TORCH_RELEASE)
        return;
    if (torch->variant != NULL)
        torch->abi = torch->variant->cxx11abi;
    else if (torch->release != NULL)
        torch->abi = abi_of_release(torch->release, platform);
    torch->abi_source = "PyTorch's release table";
}

static void read_torch(const struct af_machine *machine, struct af_view *view)
{
    struct af_view_torch *torch = &view->torch;
    *torch = (struct af_view_torch){.major = -1,
                                    .minor = -1,
                                    .patch = -1,
                                    .cuda_major = -1,
                                    .cuda_minor = -1,
                                    .own_sonames = AF_UNKNOWN,
                                    .abi = AF_UNKNOWN};
    read_version(&machine->torch, torch);
    if (torch->state != AF_FACT_KNOWN)
        return;
    if (machine->torch.c10_soname.state == AF_FACT_KNOWN)
        torch->own_sonames =
            af_fact_is(&machine->torch.c10_soname, "libc10.so") ? AF_YES : AF_NO;
    torch->release = af_tables_torch(torch->major, torch->minor);
    read_cuda(&machine->torch, torch);
    torch->variant = variant_of(torch, view->platform);
    read_abi(&machine->torch, view->platform, torch);
}

void af_view_change_torch(struct af_view *view, const struct af_catalog_torch_release *release,
                          const struct af_catalog_torch_variant *variant,
                          struct af_arena *arena)
{
    struct af_dotted latest = {.count = 0};
    af_dotted_parse(release->latest, &latest);
    view->torch = (struct af_view_torch){
        .state = AF_FACT_KNOWN,
        .text = af_arena_format(arena, "%s+%s", release->latest, variant->cuda),
        .major = release->torch_major,
        .minor = release->torch_minor,
        .patch = latest.count > 2 ? latest.part[2] : 0,
        .build = AF_FIT_TORCH_RELEASE,
        .own_sonames = AF_YES,
        .cuda = variant->cuda_major < 0 ? AF_FACT_ABSENT : AF_FACT_KNOWN,
        .cuda_major = variant->cuda_major,
        .cuda_minor = variant->cuda_minor,
        .abi = variant->cxx11abi,
        .abi_source = "PyTorch's release table",
        .release = release,
        .variant = variant};
    for (size_t i = 0; i < view->gpu_count; i++)
        view->gpus[i].in_torch =
            view->gpus[i].sm < 0 ? AF_UNKNOWN : af_sm_in_torch(variant, view->gpus[i].sm);
}

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

enum af_reason_id af_view_unknown_platform(const struct af_view *view)
{
    if ((view->os == NULL) == (view->arch == NULL))
        return AF_REASON_UNKNOWN_PLATFORM;
    return view->os == NULL ? AF_REASON_UNKNOWN_OS : AF_REASON_UNKNOWN_ARCH;
}

static void read_platform(const struct af_machine *machine, struct af_view *view)
{
    view->os = af_fact_text_or(&machine->platform.os, NULL);
    view->arch = af_fact_text_or(&machine->platform.arch, NULL);
    af_platform_arch_at(view->arch, &view->arch);
    view->platform = af_tables_platform(view->os, view->arch);
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

static void add_gpu(struct af_view *view, int sm, const char *name, struct af_arena *arena)
{
    if (view->gpu_count == AF_VIEW_GPUS_MAX)
        return;
    const char *text =
        sm < 0 ? name : af_arena_format(arena, "%s (sm %d.%d)", name, sm / 10, sm % 10);
    view->gpus[view->gpu_count++] =
        (struct af_view_gpu){.sm = sm,
                             .name = name,
                             .text = text != NULL ? text : "",
                             .in_torch = sm < 0 ? AF_UNKNOWN : af_sm_in_view_torch(view, sm)};
}

static bool is_too_old(const struct af_view_gpu *gpu)
{
    return gpu->sm >= 0 && gpu->sm < AF_SM_FLASH_MIN;
}

bool af_view_gpus_are_too_old(const struct af_view *view)
{
    for (size_t i = 0; i < view->gpu_count; i++)
        if (!is_too_old(&view->gpus[i]))
            return false;
    return view->gpu_count > 0;
}

const struct af_view_gpu *af_view_torch_lacks_all(const struct af_view *view)
{
    const struct af_view_gpu *lacking = NULL;
    const bool all = af_view_gpus_are_too_old(view);
    for (size_t i = 0; i < view->gpu_count; i++) {
        const struct af_view_gpu *gpu = &view->gpus[i];
        if (!all && is_too_old(gpu))
            continue;
        if (gpu->in_torch != AF_NO)
            return NULL;
        lacking = lacking == NULL ? gpu : lacking;
    }
    return lacking;
}

bool af_view_torch_leaves_out(const struct af_view *view, const struct af_view_gpu *gpu)
{
    return gpu->in_torch == AF_NO && af_view_torch_lacks_all(view) == NULL;
}

static void read_gpus(const struct af_machine *machine, struct af_arena *arena,
                      struct af_view *view)
{
    size_t hidden = 0;
    const char *foreign = NULL; /* the first GPU of another vendor */
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const struct af_gpu *gpu = &machine->gpus.rows[i];
        const char *vendor = af_fact_text_or(&gpu->vendor, "nvidia");
        if (foreign == NULL && !af_equal(vendor, "nvidia"))
            foreign = af_fact_text_or(&gpu->name, vendor);
        view->amd = view->amd || af_equal(vendor, "amd");
        if (af_equal(vendor, "intel") || af_equal(vendor, "apple"))
            view->other = gpu;
        if (!af_equal(vendor, "nvidia"))
            continue;
        if (af_fact_truth(&gpu->visible) == AF_NO && gpu->visible.state == AF_FACT_KNOWN)
            hidden++;
        else
            add_gpu(view, af_sm_parse(af_fact_text_or(&gpu->sm, NULL)),
                    af_fact_text_or(&gpu->name, "GPU"), arena);
    }
    view->amd = view->amd && view->gpu_count == 0 && hidden == 0;
    if (view->amd || view->gpu_count > 0 || hidden > 0)
        view->other = NULL;
    view->gpu_source = hidden > 0 ? "CUDA_VISIBLE_DEVICES hides them; unset it to use them"
                       : foreign != NULL              ? foreign
                       : machine->gpus.source != NULL ? machine->gpus.source
                                                      : "";
    view->gpu_lack = hidden == 0 && foreign != NULL ? AF_REASON_GPU_VENDOR : AF_REASON_NO_GPU;
    if (view->gpu_count > 0)
        view->gpu = AF_FACT_KNOWN;
    else
        view->gpu = machine->gpus.state == AF_FACT_UNKNOWN ? AF_FACT_UNKNOWN : AF_FACT_ABSENT;
}

bool af_view_uses_rocm(const struct af_view *view)
{
    return view->amd || (view->torch.rocm && view->gpu_count == 0 && view->other == NULL);
}

/* Whether an earlier GPU that is marked has the same text. */
static bool is_named_before(const struct af_view *view, const bool *marked, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (marked[i] && af_equal(view->gpus[i].text, view->gpus[at].text))
            return true;
    return false;
}

const char *af_view_gpus_text(const struct af_view *view, const bool marked[AF_VIEW_GPUS_MAX],
                              struct af_arena *arena)
{
    struct af_text text = {0};
    for (size_t i = 0; i < view->gpu_count; i++) {
        if (!marked[i] || is_named_before(view, marked, i))
            continue;
        const struct af_view_gpu *gpu = &view->gpus[i];
        const bool left_out = af_view_torch_leaves_out(view, gpu);
        const size_t len = strlen(gpu->text) - left_out; /* without its bracket */
        af_text_format(&text, "%s%.*s", text.len > 0 ? ", " : "", (int)len, gpu->text);
        if (left_out)
            af_text_format(&text, "; not in torch %s)", view->torch.text);
    }
    return af_text_take(&text, arena);
}

static void read_driver(const struct af_machine *machine, struct af_view *view)
{
    view->driver_text = af_fact_text_or(&machine->driver.kernel_version, NULL);
    af_dotted_parse(view->driver_text, &view->driver);
    af_dotted_parse(af_fact_text_or(&machine->driver.cuda_api, NULL), &view->driver_cuda);
}

void af_view_make(const struct af_machine *machine, const char *arch, struct af_arena *arena,
                  struct af_view *view)
{
    *view = (struct af_view){.machine = machine};
    read_platform(machine, view);
    read_python(machine, arena, view);
    read_torch(machine, view);
    if (arch != NULL) {
        view->gpu = AF_FACT_KNOWN;
        view->gpu_source = "--arch";
        add_gpu(view, af_sm_parse(arch), "the stated GPU", arena);
        return; /* another node's driver says nothing about this one */
    }
    read_gpus(machine, arena, view);
    read_driver(machine, view);
}
