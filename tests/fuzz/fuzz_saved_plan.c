/*
 * fuzz_saved_plan.c: any JSON as a saved plan: first unchanged, then with the
 * facts of the machine, so that its steps are read as well. An accepted plan may
 * only install files from URLs and packages by name, and never pass an option.
 */
#include "kit/answer/saved.h"
#include "kit/base/url.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void check(const struct af_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct af_step *step = &plan->steps[i];
        demand(step->kind == AF_STEP_WHEEL || step->kind == AF_STEP_PACKAGES ||
               step->kind == AF_STEP_TORCH || step->kind == AF_STEP_NEEDS ||
               step->kind == AF_STEP_OWN || step->kind == AF_STEP_TRY);
        demand(step->kind != AF_STEP_WHEEL || af_url_is_http(step->wheel->url));
        demand(step->wheel == NULL || strchr(step->wheel->filename, '/') == NULL);
        for (size_t j = 0; j < step->requirement_count; j++)
            demand(isalnum((unsigned char)step->requirements[j][0]));
    }
}

static void read(const json_t *json, const struct af_machine *machine)
{
    struct af_arena arena;
    struct af_plan plan;
    const char *changed;
    af_arena_init(&arena);
    if (af_plan_read(json, "fuzz", machine, &arena, &plan, &changed, NULL) == ANYFLASH_OK &&
        changed == NULL) {
        check(&plan);
        af_plan_release(&plan);
    }
    af_arena_release(&arena);
}

static void make_machine(struct af_machine *machine)
{
    static const char *const words[] = {"os=linux",    "arch=x86_64", "glibc=2.35",
                                        "python=3.12", "sm=8.9",      "torch=2.8.0+cu128"};
    const char *remark;
    af_machine_init(machine, "fuzz", "not said");
    for (size_t i = 0; i < AF_COUNT(words); i++)
        demand(af_machine_given(machine, words[i], &remark, NULL) == ANYFLASH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct af_machine machine;
    static bool started;
    json_t *json;
    if (!started) {
        af_json_start();
        make_machine(&machine);
        started = true;
    }
    if (af_json_parse((struct af_span){(const char *)data, size}, AF_PLAN_BYTES_MAX, "fuzz",
                      &json, NULL) != ANYFLASH_OK)
        return 0;
    read(json, &machine);
    if (json_is_object(json) &&
        json_object_set_new(json, "facts", af_plan_facts_json(&machine)) == 0)
        read(json, &machine);
    json_decref(json);
    return 0;
}
