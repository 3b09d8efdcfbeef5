/*
 * published.h: whether the authors of flash-attn published a wheel for the facts
 * of a machine. Coarser than kit/fit, which needs more facts than a log has.
 */
#ifndef AF_KIT_DOCTOR_LOG_PUBLISHED_H
#define AF_KIT_DOCTOR_LOG_PUBLISHED_H

#include "kit/catalog/catalog.h"
#include "kit/machine/machine.h"

/* What a wheel must agree with. */
enum af_published_for {
    AF_PUBLISHED_TORCH = 1,    /* major and minor version */
    AF_PUBLISHED_PYTHON = 2,   /* minor version */
    AF_PUBLISHED_PLATFORM = 4, /* operating system, and processor if it is known */
    AF_PUBLISHED_CUDA = 8,     /* major version of torch's CUDA */
    AF_PUBLISHED_VERSION = 16  /* of flash-attn, as the machine has it */
};

/* Whether a published wheel agrees with all of them; UNKNOWN if one of the facts is
   unknown. */
enum af_answer af_published_find(const struct af_catalog *catalog,
                                 const struct af_machine *machine, unsigned what);

#endif
