/*
 * doctor_torch.c: rules about builds of torch that no published wheel belongs to.
 */
#include "kit/doctor/rules.h"

static bool has_nvidia_gpu(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->gpus.count; i++)
        if (af_fact_is(&machine->gpus.rows[i].vendor, "nvidia"))
            return true;
    return false;
}

/* conda's torch has the usual library names; Debian's has a version in them. */
static void check_distribution(struct af_examination *examination, const struct af_torch *torch)
{
    const struct af_python *python = &examination->machine->python;
    bool is_conda = af_fact_is(&python->kind, "conda") || af_fact_is(&python->kind, "pixi");
    if (!af_fact_is(&torch->build, "distribution"))
        return;
    af_examination_add(examination,
                       is_conda ? AF_REASON_TORCH_CONDA : AF_REASON_TORCH_DISTRIBUTION,
                       "torch %s (%s)", torch->version.value.text, torch->version.source);
}

void af_examine_torch(struct af_examination *examination)
{
    static const struct {
        const char *build;
        enum af_reason_id cause;
    } builds[] = {
        {"prerelease", AF_REASON_TORCH_NIGHTLY},
        {"source", AF_REASON_TORCH_OWN_BUILD},
        {"vendor", AF_REASON_NGC_PRERELEASE},
    };
    const struct af_torch *torch = &examination->machine->torch;
    if (torch->version.state == AF_FACT_ABSENT)
        af_examination_add(examination, AF_REASON_TORCH_MISSING, "%s", torch->version.source);
    if (torch->version.state != AF_FACT_KNOWN)
        return;
    for (size_t i = 0; i < AF_COUNT(builds); i++)
        if (af_fact_is(&torch->build, builds[i].build))
            af_examination_add(examination, builds[i].cause, "torch %s (%s)",
                               torch->version.value.text, torch->version.source);
    check_distribution(examination, torch);
    if (torch->hip.state == AF_FACT_KNOWN)
        af_examination_add(examination, AF_REASON_MACHINE_ROCM, "torch %s, ROCm %s",
                           torch->version.value.text, torch->hip.value.text);
    else if (torch->cuda.state == AF_FACT_ABSENT && has_nvidia_gpu(examination->machine))
        af_examination_add(examination, AF_REASON_TORCH_CPU, "torch %s (%s)",
                           torch->version.value.text, torch->cuda.source);
}
