/*
 * toolkit.h: which CUDA toolkit a source build takes: the system's where torch
 * takes it, else the compilers of the Python package index.
 *
 * torch's extension builder refuses a toolkit of another CUDA major than its
 * own and only warns of another minor. The package index has whole compilers
 * from CUDA 13 on, for glibc on x86_64 and aarch64: its packages for CUDA 12
 * hold no nvcc. No toolkit on the system is normal.
 */
#ifndef AF_KIT_BUILD_OFFER_TOOLKIT_H
#define AF_KIT_BUILD_OFFER_TOOLKIT_H

#include "kit/fit/fit.h"
#include "kit/fit/view.h"

#define AF_TOOLKIT_INDEX_CUDA_MIN 13

struct af_toolkit_choice {
    enum af_answer answer;
    enum af_reason_id id;          /* of an answer that is not YES */
    const struct af_toolkit *here; /* the system's that torch would take, NULL: none */
    bool from_index;               /* of YES: the index's is taken, not `here` */
    struct af_dotted version;      /* of what is taken; count 0: not known */
};

/* Chooses for the torch of the view, whose CUDA is known. Borrows from the machine. */
struct af_toolkit_choice af_toolkit_choose(const struct af_view *view,
                                           enum af_fit_toolkit_from from);

#endif
