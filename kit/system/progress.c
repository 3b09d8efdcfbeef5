/* progress.c: formats the messages of long operations. */
#include "kit/system/progress.h"

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
