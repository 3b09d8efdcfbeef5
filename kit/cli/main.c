/*
 * main.c: the program's entry: signals and standard streams; everything else
 * is in cli/.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "kit/cli/cli.h"

static void interrupted(int number)
{
    (void)number;
    _exit(AF_EXIT_INTERRUPTED);
}

/* A closed standard stream would be taken by the first file that is opened. */
static void fill_standard_streams(void)
{
    for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR)) {
        if (fd > STDERR_FILENO) {
            close(fd);
            break;
        }
    }
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    signal(SIGINT, interrupted);
    signal(SIGPIPE, SIG_DFL); /* a reader that left, as head(1), is no error */
    return af_cli_main(argc, argv);
}
