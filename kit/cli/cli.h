/*
 * cli.h: the command line, as a function that tests can call.
 */
#ifndef AF_KIT_CLI_CLI_H
#define AF_KIT_CLI_CLI_H

/* Exit codes of the program. */
enum af_exit {
    AF_EXIT_YES = 0,   /* yes, or done */
    AF_EXIT_NO = 1,    /* the answer is no */
    AF_EXIT_USAGE = 2, /* the command line is wrong */
    AF_EXIT_WORLD = 3, /* a file, the system or the network failed */
    AF_EXIT_BUG = 4,   /* our own bug */
    AF_EXIT_INTERRUPTED = 130
};

/*
 * Runs the program: reads argv and the environment, writes stdout and stderr,
 * and returns an exit code of enum af_exit. Does not exit and sets no signals.
 */
int af_cli_main(int argc, char **argv);

#endif
