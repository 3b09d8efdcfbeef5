/*
 * bench_main.c: main() of anyflash-bench; everything else is in bench_program.c.
 */
#include "bench/bench_program.h"

int main(int argc, char **argv)
{
    return af_bench_program(argc, argv);
}
