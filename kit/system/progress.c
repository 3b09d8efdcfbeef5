/*
 * progress.c: formats the messages of long operations, and remembers that a signal asked the
 * program to stop.
 */
#include "kit/system/progress.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#define SENTENCE_BYTES 1024

void af_progress_message(const struct af_progress *progress, const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list args;
    if (progress == NULL || progress->message == NULL)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    progress->message(progress->context, sentence);
}

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
