/*
 * toolkit.c: the choice of toolkit.h.
 */
#include "kit/build/offer/toolkit.h"

#include <string.h>

/* The one that torch takes; where that is not known, the first with a compiler. */
static const struct af_toolkit *system_toolkit(const struct af_machine *machine)
{
    const struct af_toolkit *first = NULL;
    for (size_t i = 0; i < machine->toolkits.count; i++) {
        const struct af_toolkit *toolkit = &machine->toolkits.rows[i];
        if (af_fact_truth(&toolkit->torch_takes_it) == AF_YES)
            return toolkit;
        if (first == NULL ||
            (first->nvcc.state != AF_FACT_KNOWN && toolkit->nvcc.state == AF_FACT_KNOWN))
            first = toolkit;
    }
    return first;
}

/* Why the system's toolkit does not do, as the answer; YES: it does. */
static void check_system(const struct af_view *view, struct af_toolkit_choice *choice)
{
    const struct af_toolkit *toolkit = choice->here;
    if (toolkit == NULL) {
        bool unknown = view->machine->toolkits.state == AF_FACT_UNKNOWN;
        choice->answer = unknown ? AF_UNKNOWN : AF_NO;
        choice->id = unknown ? AF_REASON_UNKNOWN_TOOLKIT : AF_REASON_NVCC_MISSING;
        return;
    }
    bool known = af_dotted_parse(af_fact_text_or(&toolkit->version, NULL), &choice->version);
    bool bare = toolkit->headers.state == AF_FACT_KNOWN && !toolkit->headers.value.truth;
    choice->answer = AF_NO;
    if (toolkit->nvcc.state == AF_FACT_ABSENT) {
        choice->id = AF_REASON_NVCC_MISSING;
    } else if (!known) {
        choice->answer = AF_UNKNOWN;
        choice->id = AF_REASON_UNKNOWN_TOOLKIT;
    } else if (choice->version.part[0] != view->torch.cuda_major) {
        choice->id = AF_REASON_NVCC_CUDA;
    } else if (bare) {
        choice->id = AF_REASON_CUDA_HEADERS;
    } else {
        choice->answer = AF_YES;
    }
}

static bool index_has_one(const struct af_view *view)
{
    bool platform = view->os != NULL && strcmp(view->os, "linux") == 0 && !view->musl &&
                    view->arch != NULL &&
                    (strcmp(view->arch, "x86_64") == 0 || strcmp(view->arch, "aarch64") == 0);
    return platform && view->torch.cuda_major >= AF_TOOLKIT_INDEX_CUDA_MIN;
}

struct af_toolkit_choice af_toolkit_choose(const struct af_view *view,
                                           enum af_fit_toolkit_from from)
{
    struct af_toolkit_choice choice = {.here = system_toolkit(view->machine)};
    check_system(view, &choice);
    if ((choice.answer == AF_YES && from != AF_FIT_TOOLKIT_INDEX) ||
        from == AF_FIT_TOOLKIT_SYSTEM)
        return choice;
    if (!index_has_one(view)) {
        if (choice.answer == AF_YES) { /* there, but only the index's was asked for */
            choice.answer = AF_NO;
            choice.id = AF_REASON_NO_INDEX_TOOLKIT;
        }
        return choice;
    }
    choice.answer = AF_YES;
    choice.from_index = true;
    choice.version = (struct af_dotted){{view->torch.cuda_major, view->torch.cuda_minor},
                                        view->torch.cuda_minor >= 0 ? 2 : 1};
    return choice;
}
