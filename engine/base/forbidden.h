/*
 * forbidden.h: included before everything else by the build. These functions
 * write without a bound, hide errors, keep hidden state or start a shell. The system
 * headers of Windows and macOS use some of them themselves.
 */
#if defined(__GNUC__) && !defined(__cplusplus) && !defined(_WIN32) && !defined(__APPLE__)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof system popen gets tmpnam
#endif
