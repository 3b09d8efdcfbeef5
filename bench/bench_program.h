/*
 * bench_program.h: the program anyflash-bench as a function that tests can call.
 */
#ifndef AF_BENCH_BENCH_PROGRAM_H
#define AF_BENCH_BENCH_PROGRAM_H

/*
 * Reads argv, times, writes to stdout and stderr. Returns an exit code: 0 done, 2 the
 * command line is wrong, 3 a file, the system or memory failed, 4 our own bug.
 */
int af_bench_program(int argc, char **argv);

#endif
