/*
 * main.c: the program's entry: sets up signals and standard streams; the rest is
 * in cli.c.
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

/* Files are read where they are mapped, and another process may shorten one meanwhile. */
static void file_shortened(int number)
{
    static const char message[] = "error: a file became shorter while it was read\n";
    (void)number;
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(AF_EXIT_WORLD);
}

/* If a standard stream is closed, the first file to be opened would get its number. */
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
    /* A shell script's background commands (`anyflash build &`) ignore Ctrl-C. */
    if (signal(SIGINT, SIG_IGN) != SIG_IGN)
        signal(SIGINT, interrupted);
    signal(SIGBUS, file_shortened);
    signal(SIGPIPE, SIG_DFL); /* a closed pipe, as by head(1), is not an error */
    return af_cli_main(argc, argv);
}
