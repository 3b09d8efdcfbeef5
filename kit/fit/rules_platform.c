/*
 * rules_platform.c: rules about the file itself, about its tags (platform and
 * interpreter), about the libraries, driver and packages that it needs, and about GPUs.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/verdict.h"

/*
 * Rules about the file itself: whether it can be downloaded and installed at
 * all, whether it is for this kind of GPU, and what a reader should know about
 * it.
 */

void af_rule_file(struct af_fit_wheel_check *check)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    const struct af_view *view = check->view;
    if (!wheel->valid_name)
        af_fit_wheel_check_add_reason(check, AF_REASON_INVALID_NAME, "rename it first");
    if (wheel->url == NULL && wheel->path == NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_NO_ADDRESS, "%s",
                                      af_equal(wheel->source, "pytorch-wheel-index")
                                          ? "it is only on PyTorch's own package index"
                                          : wheel->source);
    if (check->fit->options->version == NULL && wheel->version[1] == '.' &&
        wheel->version[0] < '2')
        af_fit_wheel_check_add_reason(check, AF_REASON_FLASH_ATTN_OLD, "version %s",
                                      wheel->version);
    bool rocm_here = af_view_uses_rocm(view);
    if (wheel->rocm && !rocm_here)
        af_fit_wheel_check_add_reason(check, AF_REASON_MACHINE_ROCM,
                                      "the wheel is made for ROCm");
    if (!wheel->rocm && rocm_here && !af_fit_wheel_is_pure(wheel))
        af_fit_wheel_check_add_reason(
            check, AF_REASON_MACHINE_ROCM, "%s; the wheel is made for CUDA",
            view->torch.rocm ? view->torch.text : "the GPU here is AMD's");
}

static void note_installed(struct af_fit_wheel_check *check)
{
    const struct af_package *own = af_machine_package(check->view->machine, "flash-attn");
    const char *origin = own == NULL ? NULL : af_fact_text_or(&own->origin, NULL);
    if (check->wheel->url != NULL && origin != NULL && af_url_equal(origin, check->wheel->url))
        af_fit_wheel_check_add_reason(check, AF_REASON_ALREADY_INSTALLED, "%s",
                                      own->origin.source);
    if (strcmp(check->wheel->package, "flash_attn") == 0 &&
        af_machine_package(check->view->machine, "flash-attn-4") != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_NAMESPACE, "%s", "");
}

/* The note for a trap; AF_REASON_COUNT: another rule reports it. */
static enum af_reason_id note_of(const struct af_trap *trap)
{
    enum af_reason_id id;
    if (trap->effect != AF_TRAP_NOTE && trap->effect != AF_TRAP_ABI)
        return AF_REASON_COUNT;
    if (strcmp(trap->reason, "mislabelled-wheel") == 0)
        return AF_REASON_LABEL_UNTRUE;
    if (!af_reason_parse(trap->reason, &id) || af_reasons[id].effect != AF_REASON_NOTE)
        return AF_REASON_COUNT;
    return id;
}

void af_rule_traps(struct af_fit_wheel_check *check)
{
    note_installed(check);
    if (!check->wheel->listed)
        af_fit_wheel_check_add_reason(check, AF_REASON_DERIVED, "%s", check->wheel->source);
    if (check->arena == NULL)
        return; /* notes do not change the answer */
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        enum af_reason_id id = note_of(&af_tables.traps[i]);
        bool spoken = id == AF_REASON_METADATA || id == AF_REASON_LOCAL_ORDER; /* its message */
        if (id != AF_REASON_COUNT && af_trap_matches(&af_tables.traps[i], check->wheel))
            af_fit_wheel_check_add_reason(check, id, "%s",
                                          spoken ? "" : af_tables.traps[i].detail);
    }
}

/*
 * The tags of a wheel's name against platform and interpreter.
 *
 * If the interpreter's own list of platform tags is known, it decides, as it
 * does for installers; else the tag is parsed. No published wheel loads on
 * musl: they are all linked to glibc, although "linux_x86_64" does not say so.
 * Source: PEP 425, PEP 513, PEP 571, PEP 599, PEP 600.
 */

static const struct {
    const char *start;
    int glibc_minor;
} legacy[] = {{"manylinux1_", 5}, {"manylinux2010_", 12}, {"manylinux2014_", 17}};

/* The newest glibc 2.N that a manylinux tag allows the wheel to need; -1 for another tag. */
static int manylinux_glibc(const char *tag)
{
    struct af_dotted minor;
    for (size_t i = 0; i < AF_COUNT(legacy); i++) {
        if (af_starts_with(tag, legacy[i].start))
            return legacy[i].glibc_minor;
    }
    bool perennial = af_starts_with(tag, "manylinux_2_") &&
                     af_dotted_parse(tag + strlen("manylinux_2_"), &minor);
    return perennial ? minor.part[0] : -1;
}

static enum af_answer linux_tag(const struct af_view *view, const char *tag)
{
    int need = manylinux_glibc(tag);
    if (need < 0 && !af_starts_with(tag, "linux_"))
        return AF_NO;
    if (view->arch == NULL)
        return AF_UNKNOWN;
    if (!af_ends_with(tag, view->arch))
        return AF_NO;
    if (need < 0)
        return AF_YES;
    if (view->glibc.count == 0)
        return AF_YES; /* the glibc rule reports it */
    return af_dotted_compare(&view->glibc, &(struct af_dotted){{2, need}, 2}) >= 0 ? AF_YES
                                                                                   : AF_NO;
}

static enum af_answer tag_answer(const struct af_view *view, const char *tag)
{
    if (strcmp(tag, "any") == 0)
        return AF_YES;
    if (view->os == NULL)
        return AF_UNKNOWN;
    if (strcmp(view->os, "linux") == 0)
        return linux_tag(view, tag);
    if (strcmp(view->os, "windows") != 0 || !af_starts_with(tag, "win_"))
        return AF_NO;
    if (view->arch == NULL)
        return AF_UNKNOWN;
    return view->platform != NULL && strcmp(tag, view->platform) == 0 ? AF_YES : AF_NO;
}

/* The best answer of a compressed set "manylinux_2_24_x86_64.manylinux_2_28_x86_64". */
static enum af_answer set_answer(const struct af_view *view, const char *tags)
{
    enum af_answer best = AF_NO;
    const char *at = tags;
    while (*at != '\0' && best != AF_YES) {
        char tag[80];
        size_t len = strcspn(at, ".");
        snprintf(tag, sizeof tag, "%.*s", (int)(len < 79 ? len : 79), at);
        enum af_answer answer = tag_answer(view, tag);
        best = answer == AF_NO ? best : answer;
        at += len + (at[len] == '.' ? 1 : 0);
    }
    return best;
}

static enum af_answer platform_answer(const struct af_view *view, const char *tags)
{
    if (view->interpreter.platform_count > 0)
        return af_tags_platform_accepted(&view->interpreter, tags) ? AF_YES : AF_NO;
    return set_answer(view, tags);
}

void af_rule_platform(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    const char *tags = check->wheel->platform;
    if (check->platform != tags) {
        check->platform = tags;
        check->platform_answer = platform_answer(view, tags);
    }
    if (view->musl && !af_fit_wheel_is_pure(check->wheel))
        af_fit_wheel_check_add_reason(check, AF_REASON_PLATFORM_TAG,
                                      "the wheel needs glibc, but this system has musl");
    else if (check->platform_answer == AF_NO)
        af_fit_wheel_check_add_reason(check, AF_REASON_PLATFORM_TAG, "%s, but this is %s %s",
                                      tags, view->os == NULL ? "another platform" : view->os,
                                      view->arch == NULL ? "" : view->arch);
    else if (check->platform_answer == AF_UNKNOWN)
        af_fit_wheel_check_add_reason(check, af_view_unknown_platform(view),
                                      "the wheel is for %s", tags);
}

static bool python_accepted(const struct af_view *view, const struct af_catalog_wheel *wheel)
{
    if (wheel->python_minor >= 0 && wheel->python_minor != view->interpreter.minor &&
        !af_starts_with(wheel->abi, "abi3"))
        return false; /* a shortcut: the next line would give the same answer */
    return af_tags_python_accepted(&view->interpreter, wheel->python, wheel->abi);
}

/* What its metadata requires of Python, if that is more than its tags say and not met here. */
static const char *unmet_python(const struct af_fit_wheel_check *check)
{
    const struct af_catalog_fa4_release *fa4 = af_fit_fa4(check->wheel);
    const char *here = check->view->python_text;
    struct af_version version;
    if (fa4 == NULL || here == NULL || !af_version_parse(here, strlen(here), &version) ||
        af_specifier_contains(fa4->python_requires, &version) != AF_NO)
        return NULL;
    return fa4->python_requires;
}

void af_rule_python(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    const struct af_catalog_wheel *wheel = check->wheel;
    if (!view->cpython)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_PYTHON_NOT_CPYTHON, "this is %s",
            af_fact_text_or(&view->machine->python.implementation, "another"));
    else if (!view->python_known)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_PYTHON, "the wheel is for %s-%s",
                                      wheel->python, wheel->abi);
    else if (!python_accepted(view, wheel))
        af_fit_wheel_check_add_reason(check, AF_REASON_PYTHON_TAG,
                                      "%s-%s, but this is Python %s", wheel->python, wheel->abi,
                                      view->python_text);
    else if (unmet_python(check) != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_PYTHON_TAG,
                                      "it requires Python %s, but this is Python %s",
                                      unmet_python(check), view->python_text);
}

/*
 * What the wheel needs from its surroundings: glibc and libstdc++, a driver
 * that supports its CUDA, and packages that accept its version.
 */

/* The oldest libstdc++ that wheels built on Ubuntu 20.04 or newer were found to need. */
static const struct af_dotted glibcxx_seen = {{3, 4, 26}, 3};

/* Whether the installed torch itself needs at least this glibc, which proves that the system
   has it. */
static bool torch_needs_as_much(const struct af_view *view, const struct af_dotted *need)
{
    struct af_dotted own;
    const struct af_catalog_torch_variant *variant = view->torch.variant;
    return variant != NULL && af_dotted_parse(variant->glibc_min, &own) &&
           af_dotted_compare(&own, need) >= 0;
}

static void need_glibc(struct af_fit_wheel_check *check, const struct af_dotted *need)
{
    const struct af_view *view = check->view;
    const struct af_catalog_wheel *wheel = check->wheel;
    bool bound = af_equal(wheel->glibc_basis, "build_image_upper_bound");
    if (view->glibc.count == 0) {
        if (!torch_needs_as_much(view, need))
            af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GLIBC,
                                          "the wheel needs glibc %s%s", wheel->glibc_min,
                                          bound ? " or less" : "");
        return;
    }
    if (af_dotted_compare(&view->glibc, need) >= 0)
        return;
    af_fit_wheel_check_add_reason(check, bound ? AF_REASON_GLIBC_MAYBE : AF_REASON_GLIBC,
                                  "%sglibc %s, but this machine has %d.%d",
                                  bound ? "it was built with " : "", wheel->glibc_min,
                                  view->glibc.part[0], view->glibc.part[1]);
}

void af_rule_system(struct af_fit_wheel_check *check)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    struct af_dotted need;
    struct af_dotted glibcxx;
    const char *here = af_fact_text_or(&check->view->machine->platform.glibcxx, NULL);
    if (!af_dotted_parse(wheel->glibc_min, &need))
        return;
    need_glibc(check, &need);
    if (here != NULL && af_starts_with(here, "GLIBCXX_"))
        here += strlen("GLIBCXX_");
    if (af_dotted_parse(here, &glibcxx) && !af_equal(wheel->glibc_basis, "platform_tag") &&
        af_dotted_compare(&glibcxx, &glibcxx_seen) < 0)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_LIBSTDCXX,
            "this system has GLIBCXX_%s, but similar wheels need GLIBCXX_3.4.26", here);
}

void af_rule_driver(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    int major = af_fit_wheel_cuda_major(check->wheel);
    const char *need;
    if (af_catalog_is_torch_free(check->wheel)) {
        if (view->gpu == AF_FACT_KNOWN && af_driver_compiles(view, 7, 8, NULL, &need) == AF_NO)
            af_fit_wheel_check_add_reason(
                check, AF_REASON_DRIVER,
                "its PTX needs driver 520 or newer, but %s is installed",
                view->driver_text == NULL ? "an older one" : view->driver_text);
        return;
    }
    if (view->gpu == AF_FACT_KNOWN && af_driver_serves(view, major, &need) == AF_NO)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_DRIVER, "CUDA %d needs driver %s or newer, but %s is installed",
            major, need,
            view->driver_text == NULL ? "one for another CUDA" : view->driver_text);
}

/* Whether `version` is at the bound `fact` or on its allowed side; true if unknown. */
static bool within(const struct af_fact *fact, const struct af_version *version, int side)
{
    struct af_version bound;
    const char *text = af_fact_text_or(fact, NULL);
    if (text == NULL || !af_version_parse(text, strlen(text), &bound))
        return true;
    int order = af_version_compare_public(&bound, version);
    return order == 0 || order == side;
}

static void ask_peer(struct af_fit_wheel_check *check, const struct af_package *peer,
                     const struct af_version *version)
{
    const char *needs = af_fact_text_or(&peer->needs_flash_attn, "");
    const char *name = af_fact_text_or(&peer->name, "a package");
    const char *peer_version = af_fact_text_or(&peer->version, "");
    if (!within(&peer->flash_attn_min, version, -1) ||
        !within(&peer->flash_attn_max, version, 1))
        af_fit_wheel_check_add_reason(
            check, AF_REASON_PEER_WINDOW,
            "%s %s accepts flash-attn %s to %s, but the wheel is %s", name, peer_version,
            af_fact_text_or(&peer->flash_attn_min, "any"),
            af_fact_text_or(&peer->flash_attn_max, "any"), check->wheel->version);
    else if (needs[0] != '\0' && af_specifier_contains(needs, version) == AF_NO)
        af_fit_wheel_check_add_reason(check, AF_REASON_PEER_WINDOW,
                                      "%s %s needs flash-attn %s, but the wheel is %s", name,
                                      peer_version, needs, check->wheel->version);
}

void af_rule_peers(struct af_fit_wheel_check *check)
{
    const struct af_machine *machine = check->view->machine;
    struct af_version version;
    if (strcmp(check->wheel->package, "flash_attn") != 0 ||
        !af_version_parse(check->wheel->version, strlen(check->wheel->version), &version))
        return;
    for (size_t i = 0; i < machine->packages.count; i++)
        ask_peer(check, &machine->packages.rows[i], &version);
}

/*
 * Whether the wheel can compute on the visible GPUs: which GPUs its own code accepts, and which
 * GPU code it contains. Wheels of flash-attn 2 contain no PTX, so a GPU needs a cubin that runs
 * on it. With several GPUs it is enough that one works; the others are named.
 */

/* Whether a wheel works on one GPU, or why not. */
enum served { SERVED, REFUSED, NO_CODE, UNSETTLED, UNKNOWN_CODE, UNKNOWN_SM };

static enum served code_for(const char *list, int gpu)
{
    enum served best = NO_CODE;
    if (list == NULL)
        return UNKNOWN_CODE;
    for (const char *at = list; *at != '\0' && best != SERVED;) {
        enum af_answer runs = af_sm_runs(af_sm_parse(at), gpu);
        best = runs == AF_YES ? SERVED : runs == AF_UNKNOWN ? UNSETTLED : best;
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return best;
}

/* The highest SM that the wheel's own check accepts; a large number: any. */
static int sm_max(const struct af_fit_wheel_check *check)
{
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        const struct af_trap *trap = &af_tables.traps[i];
        if (trap->effect == AF_TRAP_SM_MAX && af_trap_matches(trap, check->wheel))
            return af_sm_parse(trap->value);
    }
    return 9999;
}

static bool has_major(struct af_words majors, int sm)
{
    char text[16];
    snprintf(text, sizeof text, "%d", sm / 10);
    return af_words_have(majors, text);
}

static void say_fa4_limits(struct af_fit_wheel_check *check, const struct af_view_gpu *gpu)
{
    const struct af_catalog_fa4_release *release = af_fit_fa4(check->wheel);
    if (release == NULL)
        return;
    if (!has_major(release->backward, gpu->sm))
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_FORWARD, "%s", gpu->text);
    else if (!has_major(release->paged, gpu->sm))
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_NO_PAGES, "%s", gpu->text);
}

static enum served serve(const struct af_fit_wheel_check *check, int gpu)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    if (gpu < 0)
        return UNKNOWN_SM;
    const struct af_catalog_fa4_release *fa4 = af_fit_fa4(wheel);
    if (fa4 != NULL)
        return has_major(fa4->forward, gpu) ? SERVED : REFUSED;
    if (af_starts_with(wheel->package, "flash_attn_3"))
        return gpu / 10 == 8 || gpu == 90
                   ? code_for(wheel->sm == NULL ? "8.0 9.0" : wheel->sm, gpu)
                   : REFUSED;
    bool first = af_starts_with(wheel->version, "0.") || af_starts_with(wheel->version, "1.");
    if (gpu < (first ? 75 : 80))
        return REFUSED;
    if (af_catalog_is_torch_free(wheel))
        return SERVED;
    enum served code = code_for(wheel->sm, gpu);
    return gpu > 90 && gpu > sm_max(check) ? REFUSED : code;
}

static enum af_reason_id refusal(const struct af_catalog_wheel *wheel)
{
    if (af_starts_with(wheel->package, "flash_attn_3"))
        return AF_REASON_FA3_HOPPER;
    if (af_fit_wheel_is_fa4(wheel))
        return AF_REASON_FA4_ARCH;
    return AF_REASON_SM_UNSUPPORTED;
}

static void say_open(struct af_fit_wheel_check *check, enum served served,
                     const struct af_view_gpu *gpu)
{
    const char *code = check->wheel->sm;
    if (served == UNSETTLED)
        af_fit_wheel_check_add_reason(check, AF_REASON_SM_NOT_SETTLED,
                                      "its code is for sm %s, but %s is sm %d.%d", code,
                                      gpu->name, gpu->sm / 10, gpu->sm % 10);
    else if (served == UNKNOWN_CODE)
        af_fit_wheel_check_add_reason(check, AF_REASON_WHEEL_SM_UNKNOWN, "%s", gpu->text);
    else if (served == UNKNOWN_SM)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GPU, "compute capability of %s",
                                      gpu->name);
}

static void say_blocked(struct af_fit_wheel_check *check, enum served served,
                        const struct af_view_gpu *gpu)
{
    enum af_reason_id id =
        served == REFUSED ? refusal(check->wheel) : AF_REASON_SM_NOT_IN_WHEEL;
    bool codes = served != REFUSED && check->wheel->sm != NULL;
    if (codes)
        af_fit_wheel_check_add_reason(check, id, "%s, its code is for sm %s", gpu->text,
                                      check->wheel->sm);
    else
        af_fit_wheel_check_add_reason(check, id, "%s", gpu->text);
}

static void serve_all(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    enum served served[AF_VIEW_GPUS_MAX];
    bool blocked[AF_VIEW_GPUS_MAX];
    size_t blocked_count = 0;
    for (size_t i = 0; i < view->gpu_count; i++) {
        served[i] = serve(check, view->gpus[i].sm);
        blocked[i] = served[i] == REFUSED || served[i] == NO_CODE;
        blocked_count += blocked[i];
    }
    bool partly = blocked_count > 0 && blocked_count < view->gpu_count;
    if (partly)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_GPU_PARTLY, "%s",
            check->arena == NULL ? "" : af_view_gpus_text(view, blocked, check->arena));
    for (size_t i = 0; i < view->gpu_count; i++) {
        if (!blocked[i])
            say_open(check, served[i], &view->gpus[i]);
        else if (!partly)
            say_blocked(check, served[i], &view->gpus[i]);
        if (served[i] == SERVED)
            say_fa4_limits(check, &view->gpus[i]);
    }
}

/* ---- AMD ---- */

/* Whether the list has the target; "gfx90a:sramecc+:xnack-" is gfx90a. */
static bool has_target(const char *list, const char *gfx)
{
    const size_t len = strcspn(gfx, ":");
    for (const char *at = list; *at != '\0'; at += strspn(at, " ")) {
        size_t own = strcspn(at, " ");
        if (own == len && strncmp(at, gfx, len) == 0)
            return true;
        at += own;
    }
    return false;
}

/*
 * Code for an AMD GPU runs on its own target only: gfx1030 cannot run that of gfx1100. With
 * several GPUs it is enough that one works.
 */
static void serve_amd(struct af_fit_wheel_check *check)
{
    const struct af_gpu_rows *gpus = &check->view->machine->gpus;
    const char *list = check->wheel->sm, *lacking = NULL;
    for (size_t i = 0; i < gpus->count; i++) {
        const char *gfx = af_fact_text_or(&gpus->rows[i].sm, NULL);
        if (!af_fact_is(&gpus->rows[i].vendor, "amd") ||
            af_fact_truth(&gpus->rows[i].visible) == AF_NO)
            continue;
        if (gfx == NULL || list == NULL) {
            af_fit_wheel_check_add_reason(
                check, gfx == NULL ? AF_REASON_UNKNOWN_GPU : AF_REASON_WHEEL_SM_UNKNOWN, "%s",
                gfx == NULL ? af_fact_text_or(&gpus->rows[i].name, "the AMD GPU") : gfx);
            return;
        }
        if (has_target(list, gfx))
            return;
        lacking = gfx;
    }
    if (lacking != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_SM_NOT_IN_WHEEL,
                                      "%s, its code is for %s", lacking, list);
}

/* The first two numbers behind "rocm", or of a version of HIP; false: there are none. */
static bool read_rocm(const char *text, int numbers[2])
{
    const char *at = text == NULL ? NULL : strstr(text, "rocm");
    return text != NULL &&
           sscanf(at == NULL ? text : at + 4, "%d.%d", &numbers[0], &numbers[1]) == 2;
}

/* A wheel works with the ROCm that torch brings or was built for. */
static void check_rocm(struct af_fit_wheel_check *check)
{
    const struct af_torch *torch = &check->view->machine->torch;
    const char *version = af_fact_text_or(&torch->version, "");
    int own[2], here[2];
    if (!read_rocm(check->wheel->local, own))
        return;
    if (!read_rocm(strstr(version, "+rocm"), here) &&
        !read_rocm(af_fact_text_or(&torch->hip, NULL), here))
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_ROCM, "the wheel is for %d.%d",
                                      own[0], own[1]);
    else if (own[0] != here[0] || own[1] != here[1])
        af_fit_wheel_check_add_reason(check, AF_REASON_ROCM_VERSION,
                                      "ROCm %d.%d, torch has ROCm %d.%d", own[0], own[1],
                                      here[0], here[1]);
}

void af_rule_gpu(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    bool is_told = (check->bits & AF_REASON_BIT(AF_REASON_MACHINE_ROCM)) != 0;
    if (view->gpu == AF_FACT_ABSENT && !check->wheel->rocm && !is_told)
        af_fit_wheel_check_add_reason(check, view->gpu_lack, "%s", view->gpu_source);
    else if (view->gpu == AF_FACT_UNKNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GPU, "%s", view->gpu_source);
    else if (!check->wheel->rocm)
        serve_all(check);
    else
        serve_amd(check);
    if (check->wheel->rocm && !is_told)
        check_rocm(check);
}
