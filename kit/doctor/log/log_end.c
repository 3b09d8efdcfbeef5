/*
 * log_end.c: how a log ends.
 */
#include "kit/doctor/log/log_end.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/text.h"

static void keep(char out[AF_LOG_END_BYTES], struct af_span text)
{
    size_t len = text.len < AF_LOG_END_BYTES ? text.len : AF_LOG_END_BYTES - 1;
    memcpy(out, text.data, len);
    out[len] = '\0';
}

static struct af_span from(struct af_span line, const char *start)
{
    return (struct af_span){start, line.len - (size_t)(start - line.data)};
}

/* Whether an exception's text begins at `text`: not "c10::Error::Error", nor raising code. */
static bool is_exception_text(struct af_span line, const char *start, const char *text)
{
    static const char raise[] = "raise ";
    const size_t len = sizeof raise - 1;
    if (text == line.data + line.len || *text == ':')
        return false;
    return text[-1] == ':' ||
           ((*text == '"' || *text == '\'') &&
            ((size_t)(start - line.data) < len || memcmp(start - len, raise, len) != 0));
}

/* The message of a crash, of a report, or of an import, which no exception's name begins. */
static struct af_span message_in(struct af_span line)
{
    static const char fatals[] = "Fatal Python error: ", messages[] = "Exception Message:",
                      missing[] = "No module named '";
    const char *fatal = memmem(line.data, line.len, fatals, sizeof fatals - 1);
    if (fatal != NULL)
        return from(line, fatal);
    const char *message = memmem(line.data, line.len, messages, sizeof messages - 1);
    if (message != NULL) {
        struct af_span text = from(line, message + sizeof messages - 1);
        while (text.len > 0 && strchr("* ", text.data[0]) != NULL)
            text = (struct af_span){text.data + 1, text.len - 1};
        return text;
    }
    /* within a sentence, or after "not available: ", it may be a notice */
    const size_t len = sizeof missing - 1;
    bool is_missing = line.len > len && memcmp(line.data, missing, len) == 0 &&
                      memchr(line.data + len, '\'', line.len - len) == line.data + line.len - 1;
    return (struct af_span){line.data, is_missing ? line.len : 0};
}

/*
 * Where an exception is printed: "torch.OutOfMemoryError: CUDA out of memory", a name that ends
 * so, and its text; TypeError("...") as in a list of them; or its text alone. 0 bytes: nowhere.
 */
static struct af_span exception_in(struct af_span line)
{
    static const char *const ends[] = {"Error:", "Exception:", "Error(", "Exception("};
    for (size_t i = 0; i < AF_COUNT(ends); i++) {
        const char *found = memmem(line.data, line.len, ends[i], strlen(ends[i]));
        const char *start = found;
        while (found != NULL && start > line.data &&
               (isalnum((unsigned char)start[-1]) || start[-1] == '_' || start[-1] == '.'))
            start--;
        if (found != NULL && start < found && isalpha((unsigned char)*start) &&
            is_exception_text(line, start, found + strlen(ends[i])))
            return from(line, start);
    }
    return message_in(line);
}

/* Whether setup.py, pip or transformers only passes on that something failed. */
static bool is_passed_on(struct af_span text)
{
    static const char *const starts[] = {"subprocess-exited",
                                         "Failed",
                                         "RuntimeError: Error compiling objects",
                                         "RuntimeError: Failed to import",
                                         "subprocess.CalledProcessError",
                                         "command '",
                                         "pip's dependency resolver does not",
                                         "not a git repository"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        const size_t len = strlen(starts[i]);
        if (text.len >= len && memcmp(text.data, starts[i], len) == 0)
            return true;
    }
    return false;
}

/* Skips "error: ", as often as it is there; whether it was. */
static bool skip_error(struct af_span *line)
{
    bool is_one = false;
    static const char *const starts[] = {"error: ", "ERROR: ", "fatal error: ", "fatal: "};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        const size_t len = strlen(starts[i]);
        if (line->len <= len || memcmp(line->data, starts[i], len) != 0)
            continue;
        *line = (struct af_span){line->data + len, line->len - len};
        is_one = true;
        i = SIZE_MAX; /* begins again */
    }
    return is_one;
}

void af_log_end_note(struct af_log_end *end, const struct af_log_line *line, uint64_t number)
{
    struct af_span text = {line->text, line->len};
    end->is_below_frame = af_starts_with(end->text, "File \"");
    end->line = number;
    keep(end->text, text);
    struct af_span exception = exception_in(text), error = text;
    const bool is_exception = exception.len > 0 && !is_passed_on(exception);
    if (!is_exception && (end->is_exception || !skip_error(&error) || is_passed_on(error)))
        return;
    end->is_exception = is_exception;
    end->error_line = number;
    keep(end->error, is_exception ? exception : text);
}

bool af_log_end_is_cut(const struct af_log_end *end)
{
    static const char *const ends[] = {"File \"",     "Traceback (most", "running b",
                                       "creating ",   "copying ",        "building '",
                                       "Building wh", "[end of output",  "[1/"};
    if (af_starts_with(end->error, "Fatal Python error")) /* its frames stand below it */
        return false;
    for (size_t i = 0; i < AF_COUNT(ends); i++)
        if (af_starts_with(end->text, ends[i]))
            return true;
    return af_ends_with(end->text, "...") ||
           (end->is_below_frame && end->error_line != end->line);
}
