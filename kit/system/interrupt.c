/*
 * interrupt.c: remembers that a signal asked the program to stop.
 */
#include "kit/system/interrupt.h"

#include <signal.h>

/* Only the signal handler sets it. It is global because signal handlers get no context. */
static volatile sig_atomic_t interrupted;

static void note_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void af_interrupt_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < AF_COUNT(numbers); i++) {
        struct sigaction before;
        /*
         * Without SA_RESTART, waiting system calls return. SA_RESETHAND: a second signal kills.
         * Signals that are ignored, as under nohup, are still ignored.
         */
        struct sigaction action = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

bool af_interrupted(void)
{
    return interrupted != 0;
}
