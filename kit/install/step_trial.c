/*
 * step_trial.c: runs the step of a plan that imports what was installed, and says why it does
 * not load.
 */
#include "kit/install/step_trial.h"

#include "kit/base/text.h"
#include "kit/system/output.h"
#include "kit/system/process.h"
#include "kit/system/progress.h"

#define TRY_LIMIT_MS 300000

static bool go_on(void *context)
{
    (void)context;
    return !af_interrupted();
}

enum anyflash_status af_install_try_step(const struct af_run *run, const struct af_step *step,
                                         const char *what, const char **refusal_out,
                                         struct anyflash_error *err)
{
    /*
     * Verifies in an empty folder, so that no file of the user is imported, and writes no
     * caches.
     */
    static const char *const environment[] = {"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH",
                                              "PYTHONHOME", NULL};
    const char *words[40] = {NULL};
    struct af_program_result result;
    struct af_program program = {.argv = words,
                                 .environment = environment,
                                 .folder = "/",
                                 .limit_ms = TRY_LIMIT_MS,
                                 .go_on = go_on};
    struct af_span line = {0};
    char shown[240] = "";
    for (size_t i = 0; i < step->argc && i + 1 < AF_COUNT(words); i++)
        words[i] = step->argv[i];
    af_progress_message(&run->progress, "checking that it loads");
    enum anyflash_status status = af_program_run(&program, run->arena, &result, err);
    if (status == ANYFLASH_E_TIMEOUT)
        return af_fail(err, status, "%s",
                       af_interrupted() ? "interrupted"
                                        : "no answer came while checking that it loads");
    if (status != ANYFLASH_OK || result.exit_code == 0)
        return status;
    for (struct af_span rest = result.errors, one; af_text_line(&rest, &one);)
        if (af_text_trim(one).len > 0)
            line = af_text_trim(one);
    af_text_quote(shown, sizeof shown, line.data == NULL ? "" : line.data, line.len);
    *refusal_out = af_arena_format(run->arena, "%s does not load here: %s", what, shown);
    return af_fail(err, ANYFLASH_E_UNSUPPORTED, "%s does not load here: %s", what, shown);
}
