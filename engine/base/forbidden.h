/*
 * forbidden.h: included before everything else by the build. These functions
 * write without a bound, hide errors, keep hidden state or start a shell. Not checked
 * on Windows and macOS, whose own headers use some of them.
 */
#if defined(__GNUC__) && !defined(__cplusplus) && !defined(_WIN32) && !defined(__APPLE__)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof system popen gets tmpnam
#endif
