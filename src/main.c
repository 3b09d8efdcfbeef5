/*
 * main.c: the program's entry; everything else is in cli/.
 */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return af_cli_main(argc, argv);
}
