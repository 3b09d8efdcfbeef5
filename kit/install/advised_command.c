/*
 * advised_command.c: the command lines that hints name, with the options of the run.
 */
#include "kit/install/install.h"

#include <string.h>

#include "kit/base/shell.h"

/* `inspect` takes the environment as --against, and no version of Python for it. */
const char *af_run_command(const struct af_run *run, const char *command, const char *word)
{
    const char *words[7] = {"anyflash", command};
    size_t count = 2;
    bool inspects = strcmp(command, "inspect") == 0;
    if (word != NULL)
        words[count++] = word;
    if (run->python != NULL) {
        words[count++] = inspects ? "--against" : "--python";
        words[count++] =
            inspects ? af_fact_text_or(&run->machine->python.prefix, run->python) : run->python;
    }
    if (run->arch != NULL && strcmp(command, "undo") != 0) {
        words[count++] = "--arch";
        words[count++] = run->arch;
    }
    return af_shell_command(AF_SHELL_POSIX, NULL, 0, words, count, run->arena);
}
