/*
 * progress.c: sentences to whoever asked for the run, and the wish to stop.
 */
#include "kit/system/progress.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#define SENTENCE_BYTES 1024

/* Set by the signal handler and by nothing else: signals have no context. */
static volatile sig_atomic_t interrupted;

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

static void take_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void af_interrupt_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < AF_COUNT(numbers); i++) {
        struct sigaction before;
        /* No SA_RESTART: waiting calls return. The second one kills. */
        struct sigaction action = {.sa_handler = take_signal, .sa_flags = (int)SA_RESETHAND};
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL); /* nohup's wish is kept */
    }
}

bool af_interrupted(void)
{
    return interrupted != 0;
}
