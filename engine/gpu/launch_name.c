/*
 * launch_name.c: the list of a call's launches, and the names of kernels.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/base.h"
#include "engine/gpu/launch.h"

static const char *const functions[] = {
    [AF_LAUNCH_FORWARD] = "flash_fwd_kernel",
    [AF_LAUNCH_SPLIT] = "flash_fwd_splitkv_kernel",
    [AF_LAUNCH_COMBINE] = "flash_fwd_splitkv_combine_kernel",
    [AF_LAUNCH_DOT] = "flash_bwd_dot_do_o_kernel",
    [AF_LAUNCH_BACKWARD] = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
    [AF_LAUNCH_CONVERT] = "flash_bwd_convert_dq_kernel",
    [AF_LAUNCH_FILL] = "af_fill",
    [AF_LAUNCH_CLEAR] = "af_clear",
    [AF_LAUNCH_SUM] = "af_sum_groups",
};

struct text {
    char *bytes;
    size_t used;
};

static void add_text(struct text *text, const char *word)
{
    text->used += (size_t)snprintf(text->bytes + text->used, AF_LAUNCH_NAME_BYTES - text->used,
                                   text->used == 0 ? "%s" : " %s", word);
}

static void add_number(struct text *text, int number)
{
    text->used += (size_t)snprintf(text->bytes + text->used, AF_LAUNCH_NAME_BYTES - text->used,
                                   " %d", number);
}

static void add_more(struct text *text, const struct af_launch_kernel *kernel)
{
    for (int i = 0; i < kernel->more_count; i++)
        add_number(text, kernel->more[i]);
}

/* The arguments of the kernel's traits: sizes of a tile, layout, type. */
static void add_traits(struct text *text, const struct af_launch_kernel *kernel)
{
    const bool backward =
        kernel->function >= AF_LAUNCH_DOT && kernel->function <= AF_LAUNCH_CONVERT;
    add_number(text, kernel->dim * 8);
    add_number(text, kernel->rows * 8);
    add_number(text, kernel->keys * 8);
    add_number(text, kernel->warps);
    for (int i = 0; backward && i < 3; i++)
        add_number(text, kernel->atoms[i]);
    /* forward: neither are queries in registers, nor do they share memory with keys */
    add_number(text, kernel->v_in_regs);
    add_number(text, kernel->no_double);
    add_text(text, kernel->is_bf16 ? "bf16" : "fp16");
}

void af_launch_name(const struct af_launch_kernel *kernel, char name[AF_LAUNCH_NAME_BYTES])
{
    struct text text = {name, 0};
    add_text(&text, functions[kernel->function]);
    if (kernel->function == AF_LAUNCH_SUM)
        text.used += (size_t)snprintf(name + text.used, AF_LAUNCH_NAME_BYTES - text.used, "_%s",
                                      kernel->is_bf16 ? "bf16" : "fp16");
    if (kernel->function >= AF_LAUNCH_FILL)
        return;
    if (kernel->function == AF_LAUNCH_DOT) { /* its own argument comes first */
        add_more(&text, kernel);
        add_traits(&text, kernel);
        return;
    }
    add_traits(&text, kernel);
    add_more(&text, kernel);
}

enum anyflash_status af_launch_make(const struct af_launch_call *call,
                                    const struct af_launch_device *device,
                                    struct af_launch_list *list, struct anyflash_error *err)
{
    struct af_launch_workspace workspace = {call->cuda.workspace, 0};
    memset(list, 0, sizeof *list);
    list->backward = call->backward;
    enum anyflash_status status =
        (call->backward ? af_launch_make_backward
                        : af_launch_make_forward)(call, device, &workspace, list, err);
    list->workspace_bytes = workspace.used_bytes;
    if (status == ANYFLASH_OK && call->cuda.workspace != NULL &&
        workspace.used_bytes > call->cuda.workspace_bytes)
        return af_fail(err, ANYFLASH_E_NO_MEMORY, "the workspace has %zu of %zu bytes",
                       call->cuda.workspace_bytes, workspace.used_bytes);
    return status;
}
