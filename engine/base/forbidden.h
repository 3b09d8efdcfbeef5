/*
 * forbidden.h: included before everything else by the build. These functions
 * write without a bound, hide errors, keep hidden state or start a shell.
 */
#if defined(__GNUC__) && !defined(__cplusplus)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof system popen gets tmpnam
#endif
