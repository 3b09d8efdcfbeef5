/*
 * view_torch.h: the torch part of a view. Private to view.c and view_torch.c.
 */
#ifndef AF_KIT_FIT_VIEW_TORCH_H
#define AF_KIT_FIT_VIEW_TORCH_H

#include "kit/fit/view.h"

/* Reads the machine's torch; view->platform must be set. */
void af_view_read_torch(const struct af_machine *machine, const struct af_tables *tables,
                        struct af_view *view);

#endif
