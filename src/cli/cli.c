/*
 * cli.c: finds the command and runs it. Called by main.
 */
#include "cli/cli.h"

#include <stdio.h>

#include "anyflash/anyflash.h"

int af_cli_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("anyflash %s\n", anyflash_version_text());
    return AF_EXIT_YES;
}
