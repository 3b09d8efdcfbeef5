/*
 * compiler.c: a compiler for tests: takes memory and time, as its source's name
 * says, and writes its object at the end.
 *
 *   compiler -c DIR/m120-s0.5-x.src -o OBJECT    120 MiB for half a second
 *
 * The work is done in a child in the same process group, as nvcc's is in cicc.
 * Each finished object is one more line in $COMPILER_LOG.
 */
#include <fcntl.h>
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

/* Half of the time asleep, so that many fit on few cores; memory is there from the start. */
static int work(size_t mib, double seconds)
{
    double end = seconds_now() + seconds;
    char *memory = malloc(mib << 20);
    if (memory == NULL)
        return 1;
    memset(memory, 1, mib << 20);
    while (seconds_now() < end) {
        const struct timespec rest = {0, 10000000};
        for (size_t i = 0; i < (mib << 20); i += 4096)
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

int main(int argc, char **argv)
{
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
    pid_t child = fork();
    if (child == 0)
        _exit(work(mib, seconds));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 1;
    const char *log = getenv("COMPILER_LOG");
    snprintf(line, sizeof line, "%s\n", object);
    if (strstr(name, "-fail") != NULL || write_all(object, O_TRUNC, "object\n") != 0)
        return 1;
    return log == NULL ? 0 : write_all(log, O_APPEND, line);
}
