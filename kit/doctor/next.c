/*
 * next.c: the one next step. What keeps every CUDA program or every install
 * from working comes first, then the plan; a flash-attn that nothing speaks
 * against is left alone.
 */
#include "kit/doctor/doctor.h"

/* Installing is useless, or refused, until this is put right. */
static bool comes_first(enum af_reason_id cause)
{
    switch (cause) {
    case AF_REASON_SOURCE_TREE:
    case AF_REASON_DRIVER_MISSING:
    case AF_REASON_DRIVER_MISMATCH:
    case AF_REASON_DRIVER:
    case AF_REASON_GPU_HIDDEN:
    case AF_REASON_TORCH_OTHER_GPU:
    case AF_REASON_TWO_TORCH:
    case AF_REASON_MANAGED:
    case AF_REASON_READ_ONLY:
        return true;
    default:
        return false;
    }
}

/* The finding says that the installed flash-attn should not stay as it is. */
static bool speaks_against_installed(enum af_reason_id cause)
{
    return cause == AF_REASON_ORIGIN_UNKNOWN || cause == AF_REASON_PEER_WINDOW ||
           cause == AF_REASON_TWO_INSTALLS || af_reason_severity(cause) == AF_SEVERITY_BROKEN;
}

struct af_next af_doctor_next(const struct af_machine *machine,
                              const struct af_decision *decision,
                              const struct af_finding *findings, size_t count)
{
    bool is_installed =
        af_machine_flash_attn(machine) != NULL && machine->torch.version.state == AF_FACT_KNOWN;
    for (size_t i = 0; i < count; i++) {
        if (comes_first(findings[i].cause))
            return (struct af_next){AF_NEXT_FINDING, &findings[i]};
        is_installed = is_installed && !speaks_against_installed(findings[i].cause);
    }
    if (is_installed)
        return (struct af_next){AF_NEXT_NOTHING, NULL};
    return (struct af_next){decision->possible ? AF_NEXT_PLAN : AF_NEXT_NO_WAY, NULL};
}
