/*
 * game.h: a schedule played through to its end with what is predicted. Pure.
 * Private to this module.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_GAME_H
#define AF_KIT_BUILD_GOVERNOR_GAME_H

#include "kit/build/governor/admission.h"

enum af_game_order { AF_GAME_BY_SECONDS, AF_GAME_BY_BYTES };

/* What starts beside those that run. */
enum af_game_peaks {
    AF_GAME_FIT,    /* only those whose peaks fit together */
    AF_GAME_MISS,   /* also one whose peak comes when there is room for it */
    AF_GAME_IN_TURN /* also the last in line if all can end in turn, with pauses (bank.h) */
};

struct af_game_plan {
    enum af_game_order order; /* of those that wait: the largest first */
    bool holds;               /* room for the first in line that does not fit */
    enum af_game_peaks peaks;
};

struct af_game_end {
    double seconds; /* until all have ended */
    size_t start;   /* the first that the plan starts now; SIZE_MAX: none */
    bool waited;    /* one had to wait for memory although a slot was free */
};

struct af_game_end af_game_play(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_room *room,
                                const struct af_game_plan *plan);

#endif
