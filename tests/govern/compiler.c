/*
 * compiler.c: a compiler for tests: uses as much memory and time as its
 * source's name says, and writes its object at the end.
 *
 *   compiler -c DIR/m120-s0.5-x.src -o OBJECT    120 MiB for half a second
 *
 * The work is done in a child in the same process group, as nvcc's is in cicc.
 * Each finished object adds a line to $COMPILER_LOG, and one with its real
 * seconds to $COMPILER_LOG.times. Parts of the name make it misbehave: -fail,
 * -hang (sleeps forever), -crash (signal 11), both also with "once", -detach
 * (leaves a process in another session), -hidden (exits with 1 when its child was
 * killed, as g++ does), -grow (allocates its memory slowly).
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/*
 * Mostly sleeps, so that many can run on few cores. Memory is allocated at the
 * start, or with -grow over four fifths of the time; the time is counted in
 * steps, so that a pause makes it longer.
 */
static int work(size_t mib, double seconds, bool grows)
{
    double end = seconds_now() + seconds;
    size_t bytes = mib << 20;
    size_t steps = (size_t)(seconds * 80) + 1;
    char *memory = malloc(bytes);
    if (memory == NULL)
        return 1;
    if (!grows)
        memset(memory, 1, bytes);
    for (size_t step = 0; grows ? step < steps * 5 / 4 : seconds_now() < end; step++) {
        const struct timespec rest = {0, 10000000};
        if (grows && step < steps)
            memset(memory + bytes / steps * step, 1, bytes / steps);
        for (size_t i = 0; i < bytes && !grows; i += 65536)
            memory[i]++;
        nanosleep(&rest, NULL);
    }
    free(memory);
    return 0;
}

static int write_all(const char *path, int flags, const char *text)
{
    int fd = open(path, flags | O_WRONLY | O_CREAT, 0600);
    if (fd < 0)
        return 1;
    bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good ? 0 : 1;
}

/* Whether the name contains the word; if "once" follows, only in the first call. */
static bool does(const char *name, const char *word, const char *object)
{
    char mark[4200];
    const char *found = strstr(name, word);
    if (found == NULL)
        return false;
    if (strncmp(found + strlen(word), "once", 4) != 0)
        return true;
    snprintf(mark, sizeof mark, "%s.once", object);
    int fd = open(mark, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* A process in its own session whose parent has ended. */
static void detach(void)
{
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0) {
            sleep(100);
        }
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

static int write_times(const char *log, const char *object, double seconds)
{
    char path[4200];
    char line[4200];
    snprintf(path, sizeof path, "%s.times", log);
    snprintf(line, sizeof line, "%s %.3f\n", object, seconds);
    return write_all(path, O_APPEND, line);
}

int main(int argc, char **argv)
{
    double start = seconds_now();
    const char *source = NULL;
    const char *object = NULL;
    unsigned long mib = 0;
    double seconds = 0;
    char line[4200];
    int status = 0;
    for (int i = 1; i + 1 < argc; i++) {
        source = strcmp(argv[i], "-c") == 0 ? argv[i + 1] : source;
        object = strcmp(argv[i], "-o") == 0 ? argv[i + 1] : object;
    }
    const char *name = source == NULL ? NULL : strrchr(source, '/');
    if (name == NULL || object == NULL || sscanf(name, "/m%lu-s%lf", &mib, &seconds) != 2)
        return 2;
    if (does(name, "-detach", object))
        detach();
    if (does(name, "-hang", object))
        pause();
    pid_t child = fork();
    if (child == 0)
        _exit(work(mib, seconds, strstr(name, "-grow") != NULL));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return strstr(name, "-hidden") == NULL && WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                                                      : 1;
    if (does(name, "-crash", object))
        raise(SIGSEGV);
    const char *log = getenv("COMPILER_LOG");
    snprintf(line, sizeof line, "%s\n", object);
    if (strstr(name, "-fail") != NULL || write_all(object, O_TRUNC, "object\n") != 0)
        return 1;
    if (log == NULL)
        return 0;
    return write_times(log, object, seconds_now() - start) + write_all(log, O_APPEND, line);
}
