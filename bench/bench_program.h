/*
 * bench_program.h: the program anyflash-bench as a function, so that tests can
 * call it.
 */
#ifndef AF_BENCH_BENCH_PROGRAM_H
#define AF_BENCH_BENCH_PROGRAM_H

/*
 * Parses argv, runs the benchmark, writes to stdout and stderr. Returns an exit
 * code: 0 success, 2 invalid command line, 3 a file, the system or memory
 * failed, 4 a bug.
 */
int af_bench_program(int argc, char **argv);

#endif
