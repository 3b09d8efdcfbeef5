/*
 * grid.h: the best way for every torch and CUDA build, as a table: a row for each release
 * of torch, a column for each CUDA build. Everything but torch is as on the machines of
 * the request. Pure.
 */
#ifndef AF_KIT_ANSWER_GRID_H
#define AF_KIT_ANSWER_GRID_H

#include "kit/answer/plan_answer.h"

struct af_plan_grid_cell {
    const char *torch; /* "2.9.1" */
    const char *build; /* "cu128" */
    bool is_published; /* false: this torch has no such build, and nothing below is set */
    enum af_plan_way way;
    const char *version;  /* of the wheel, "2.8.3"; NULL: the way is no wheel */
    const char *label;    /* in one word: "2.8.3", "2.8.3?" (prove it first), "build" */
    const char *headline; /* of the plan */
};

/* Texts and cells are in the arena that was passed. Newest torch and newest CUDA first. */
struct af_plan_grid {
    struct af_plan_grid_cell *cells; /* row_count * column_count, row by row */
    size_t row_count;                /* 0: torch has no CUDA builds for the platform */
    size_t column_count;
};

/*
 * Which builds are published for the machine's platform; Linux on x86_64 if that is
 * unknown. The cells are not decided yet.
 */
void af_plan_grid_outline(const struct af_machine *machine, struct af_arena *arena,
                          struct af_plan_grid *grid);

/*
 * Decides for the machines of the request with the cell's torch in place of theirs, as
 * `plan --given torch=2.9.1+cu128` does, and sets way, version, label and headline. The
 * cell's torch and build may be any text. Fails as af_plan_answer_make() does.
 */
enum anyflash_status af_plan_grid_decide(const struct af_plan_request *request,
                                         struct af_arena *arena, struct af_plan_grid_cell *cell,
                                         struct anyflash_error *err);

/* New objects. A cell, and the legend of all. */
json_t *af_plan_grid_cell_json(const struct af_plan_grid_cell *cell);
json_t *af_plan_ways_json(void);

#endif
