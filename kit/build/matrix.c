/*
 * matrix.c: reads the axes, combines them, checks each combination against the
 * tables and writes the three commands of a job. matrix_text.c prints the jobs.
 */
#include "kit/build/matrix.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"

#define PLATFORM "linux_x86_64"
#define WORD_BYTES 32
#define BUILD_WORDS_MAX 24

enum axis { TORCH, PYTHON, CUDA, ARCH, AXIS_COUNT };
static const char *const axis_names[AXIS_COUNT] = {"torch", "python", "cuda", "arch"};

/* Values of one axis, as typed. */
struct values {
    char words[AF_MATRIX_VALUES_MAX][WORD_BYTES];
    size_t count;
};

struct maker {
    const struct af_matrix_question *question;
    const struct af_tables *tables;
    struct af_arena *arena;
    struct values axes[AXIS_COUNT];
    struct af_matrix_job *jobs;
    size_t job_count;
    struct af_matrix_job *left_out;
    size_t left_out_count;
    const char *options; /* of the slim selection, words separated by blanks */
};

static enum anyflash_status fail_word(const char *what, const char *word, size_t len,
                                      struct anyflash_error *err)
{
    char shown[80];
    return af_fail(err, ANYFLASH_E_ARGUMENT, "--matrix: '%s' is %s",
                   af_text_quote(shown, sizeof shown, word, len), what);
}

static enum anyflash_status read_values(const char *list, struct values *values,
                                        struct anyflash_error *err)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        if (len == 0 || len >= WORD_BYTES)
            return fail_word("not a value", list, len, err);
        if (values->count == AF_MATRIX_VALUES_MAX)
            return af_fail(err, ANYFLASH_E_LIMIT, "--matrix: more than %u values for one key",
                           AF_MATRIX_VALUES_MAX);
        memcpy(values->words[values->count], list, len);
        values->words[values->count++][len] = '\0';
        if (list[len] == '\0')
            return ANYFLASH_OK;
        list += len + 1;
    }
}

static enum anyflash_status read_axis(struct maker *maker, const char *word,
                                      struct anyflash_error *err)
{
    size_t len = strcspn(word, "=");
    for (size_t i = 0; i < AXIS_COUNT && word[len] == '='; i++) {
        if (strlen(axis_names[i]) != len || strncmp(word, axis_names[i], len) != 0)
            continue;
        if (maker->axes[i].count > 0)
            return fail_word("given twice: separate values by commas", word, len, err);
        return read_values(word + len + 1, &maker->axes[i], err);
    }
    return fail_word("not a known key: use torch=2.9,2.10 python=3.12 arch=80,90 and cuda=12.8",
                     word, strlen(word), err);
}

/* "2.9" becomes its newest patch release "2.9.1"; false if it is not a public version. */
static bool read_torch(const struct maker *maker, const char *word,
                       const struct af_catalog_torch_release **release_out,
                       const char **torch_out)
{
    struct af_version version;
    char text[WORD_BYTES];
    if (!af_version_parse(word, strlen(word), &version) || version.release_count < 2 ||
        version.release_count > 3 || version.epoch > 0 || version.local[0] != '\0' ||
        af_version_is_prerelease(&version) || version.post >= 0 || version.release[0] > 999 ||
        version.release[1] > 999)
        return false;
    *release_out =
        af_tables_torch(maker->tables, (int)version.release[0], (int)version.release[1]);
    *torch_out = version.release_count == 2 && *release_out != NULL
                     ? (*release_out)->latest
                     : af_arena_text(maker->arena,
                                     af_version_format(&version, false, text, sizeof text));
    return true;
}

/* "3.12" or, free-threaded, "3.13t". */
static bool is_python(const char *word)
{
    size_t digits = strspn(word + (strncmp(word, "3.", 2) == 0 ? 2 : 0), "0123456789");
    return strncmp(word, "3.", 2) == 0 && digits > 0 && digits < 3 &&
           (word[2 + digits] == '\0' || strcmp(word + 2 + digits, "t") == 0);
}

/* "cu128" of "12.8", "128" or "cu128"; NULL if it is not a CUDA version or memory ran out. */
static const char *read_cuda(struct maker *maker, const char *word)
{
    const char *at = strncmp(word, "cu", 2) == 0 ? word + 2 : word;
    int64_t number;
    char digits[WORD_BYTES];
    size_t count = 0;
    for (const char *c = at; *c != '\0'; c++) {
        if (*c != '.' || c != at + 2)
            digits[count++] = *c;
    }
    digits[count] = '\0';
    if (!af_parse_i64(digits, 100, 999, &number))
        return NULL;
    return af_arena_format(maker->arena, "cu%d", (int)number);
}

/* The target of af_slim_add_arch() for "80", "8.9", "sm_90": 80, 86, 90; 0: none. */
static int read_arch(const char *word)
{
    struct af_slim slim = {0};
    const char *at = strncmp(word, "sm_", 3) == 0 ? word + 3 : word;
    const char *dot = strchr(at, '.');
    char digits[WORD_BYTES];
    int64_t sm;
    snprintf(digits, sizeof digits, "%.*s%s", (int)strcspn(at, "."), at,
             dot != NULL ? dot + 1 : "");
    if (!af_parse_i64(digits, 10, 999, &sm) || !af_slim_add_arch(&slim, (int)sm))
        return 0;
    return slim.archs[0];
}

/* Checks every value before any is combined. */
static enum anyflash_status check_values(struct maker *maker, struct anyflash_error *err)
{
    static const char *const wrong[AXIS_COUNT] = {
        "not a release of torch, such as 2.9 or 2.9.1 (CUDA is another axis: cuda=12.8)",
        "not a Python, such as 3.12 or (free-threaded) 3.13t",
        "not a CUDA version, such as 12.8",
        "not supported by flash-attn 2, which needs compute capability 8.0 or newer"};
    for (size_t axis = 0; axis < AXIS_COUNT; axis++) {
        const struct values *values = &maker->axes[axis];
        if (values->count == 0 && axis != CUDA)
            return af_fail(
                err, ANYFLASH_E_ARGUMENT,
                "--matrix needs %s=, for example torch=2.9,2.10 python=3.12 arch=80,90",
                axis_names[axis]);
        for (size_t i = 0; i < values->count; i++) {
            const struct af_catalog_torch_release *release;
            const char *torch;
            const char *word = values->words[i];
            bool good = axis == TORCH    ? read_torch(maker, word, &release, &torch)
                        : axis == PYTHON ? is_python(word)
                        : axis == CUDA   ? read_cuda(maker, word) != NULL
                                         : read_arch(word) != 0;
            if (maker->arena->failed)
                return af_fail_memory(err);
            if (!good)
                return fail_word(wrong[axis], word, strlen(word), err);
        }
    }
    return ANYFLASH_OK;
}

static bool has_python(const struct af_catalog_torch_release *release, const char *python)
{
    char plain[WORD_BYTES];
    size_t len = strlen(python);
    bool free_threaded = python[len - 1] == 't';
    snprintf(plain, sizeof plain, "%.*s", (int)(len - (free_threaded ? 1 : 0)), python);
    return af_words_have(free_threaded ? release->pythons_free_threaded : release->pythons,
                         plain);
}

static bool takes_python(const struct maker *maker, const char *python)
{
    const struct af_catalog_flash_release *flash =
        af_tables_flash(maker->tables, maker->question->version);
    struct af_version version;
    return flash == NULL || flash->python_requires == NULL ||
           !af_version_parse(python, strcspn(python, "t"), &version) ||
           af_specifier_contains(flash->python_requires, &version) != AF_NO;
}

/* Why this combination is impossible; NULL if it is possible or memory ran out. */
static const char *fit(struct maker *maker, const struct af_catalog_torch_release *release,
                       struct af_matrix_job *job)
{
    char target[WORD_BYTES];
    snprintf(target, sizeof target, "%d.%d", job->sm / 10, job->sm % 10);
    if (release == NULL)
        return af_arena_format(maker->arena, "unknown torch release %s", job->torch);
    if (!has_python(release, job->python))
        return af_arena_format(maker->arena, "there is no torch %s for Python %s", job->torch,
                               job->python);
    if (!takes_python(maker, job->python))
        return af_arena_format(maker->arena, "flash-attn %s does not support Python %s",
                               maker->question->version, job->python);
    const struct af_catalog_torch_variant *variant =
        job->cuda != NULL ? af_tables_variant(release, PLATFORM, job->cuda)
                          : af_tables_default(release, PLATFORM);
    if (variant == NULL || variant->cuda_major < 0)
        return af_arena_format(maker->arena, "there is no torch %s with %s", job->torch,
                               job->cuda != NULL ? job->cuda : "CUDA in the package index");
    job->cuda = variant->cuda;
    const struct af_cuda_toolkit *toolkit =
        af_tables_cuda(maker->tables, variant->cuda_major, variant->cuda_minor);
    if (toolkit != NULL && toolkit->sm_targets.count > 0 &&
        !af_words_have(toolkit->sm_targets, target))
        return af_arena_format(
            maker->arena,
            "CUDA %s, with which torch %s is built, does not support compute capability %s",
            toolkit->version, job->torch, target);
    return NULL;
}

static void add_word(const char **words, size_t *count, const char *word)
{
    if (*count < BUILD_WORDS_MAX)
        words[(*count)++] = word;
}

static void add_option(const char **words, size_t *count, const char *option, const char *value)
{
    if (value == NULL)
        return;
    add_word(words, count, option);
    add_word(words, count, value);
}

/* The options of the selection; none contains a blank. */
static void add_selection(struct maker *maker, const char **words, size_t *count)
{
    for (const char *at = maker->options; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, " ");
        add_word(words, count, af_arena_text_n(maker->arena, at, len));
        at += len + (at[len] == ' ');
    }
}

static void set_step(struct maker *maker, struct af_matrix_job *job, size_t index,
                     enum af_step_kind kind, const char **words, size_t count)
{
    static const char *const titles[AF_MATRIX_STEPS] = {"make an environment", "install torch",
                                                        "build the wheel"};
    job->steps[index] =
        (struct af_step){.kind = kind, .title = titles[index], .argv = words, .argc = count};
    job->commands[index] = maker->arena->failed ? NULL
                                                : af_step_command(&job->steps[index],
                                                                  AF_SHELL_POSIX, maker->arena);
}

/* `with_cuda`: an axis names it; else uv installs the build of the package index. */
static void write_steps(struct maker *maker, struct af_matrix_job *job, bool with_cuda)
{
    const struct af_matrix_question *question = maker->question;
    const char **words = af_arena_array(maker->arena, 3 * BUILD_WORDS_MAX, sizeof *words);
    if (words == NULL)
        return;
    size_t count = 0;
    static const char *const venv[] = {"uv", "venv", "--allow-existing", "--python"};
    for (size_t i = 0; i < AF_COUNT(venv); i++)
        add_word(words, &count, venv[i]);
    add_word(words, &count, job->python);
    add_word(words, &count, job->environment);
    set_step(maker, job, 0, AF_STEP_ENVIRONMENT, words, count);

    words += BUILD_WORDS_MAX;
    count = 0;
    static const char *const install[] = {"uv", "pip", "install", "--python"};
    for (size_t i = 0; i < AF_COUNT(install); i++)
        add_word(words, &count, install[i]);
    add_word(words, &count, job->environment);
    add_option(words, &count, "--torch-backend", with_cuda ? job->cuda : NULL);
    add_word(words, &count, af_arena_format(maker->arena, "torch==%s", job->torch));
    set_step(maker, job, 1, AF_STEP_TORCH, words, count);

    words += BUILD_WORDS_MAX;
    count = 0;
    add_word(words, &count, "anyflash");
    add_word(words, &count, "build");
    add_option(words, &count, "--python", job->environment);
    add_selection(maker, words, &count);
    add_option(words, &count, "--arch", af_arena_format(maker->arena, "%d", job->sm));
    add_option(words, &count, "--memory", question->memory);
    add_option(words, &count, "--jobs", question->slots);
    add_option(words, &count, "--toolkit", question->toolkit);
    add_option(words, &count, "--output", question->output);
    set_step(maker, job, 2, AF_STEP_BUILD, words, count);
}

/* "cp312", "cp313t". */
static const char *python_tag(struct maker *maker, const char *python)
{
    return af_arena_format(maker->arena, "cp3%s", python + 2);
}

static bool is_known(const struct af_matrix_job *jobs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (af_equal(jobs[i].name, name))
            return true;
    }
    return false;
}

static void add_job(struct maker *maker, const size_t at[AXIS_COUNT])
{
    const struct af_catalog_torch_release *release = NULL;
    bool with_cuda = maker->axes[CUDA].count > 0;
    struct af_matrix_job job = {
        .python = af_arena_text(maker->arena, maker->axes[PYTHON].words[at[PYTHON]]),
        .cuda = with_cuda ? read_cuda(maker, maker->axes[CUDA].words[at[CUDA]]) : NULL,
        .sm = read_arch(maker->axes[ARCH].words[at[ARCH]])};
    read_torch(maker, maker->axes[TORCH].words[at[TORCH]], &release, &job.torch);
    if (maker->arena->failed)
        return;
    job.reason = fit(maker, release, &job);
    job.name = af_arena_format(maker->arena, "torch%s-%s-%s-sm%d", job.torch,
                               job.cuda != NULL ? job.cuda : "cuda",
                               python_tag(maker, job.python), job.sm);
    job.environment = af_arena_format(maker->arena, "anyflash-env/%s", job.name);
    if (maker->arena->failed)
        return;
    struct af_matrix_job *list = job.reason != NULL ? maker->left_out : maker->jobs;
    size_t *count = job.reason != NULL ? &maker->left_out_count : &maker->job_count;
    if (is_known(list, *count, job.name))
        return;
    if (job.reason == NULL)
        write_steps(maker, &job, with_cuda);
    list[(*count)++] = job;
}

static enum anyflash_status combine(struct maker *maker, struct anyflash_error *err)
{
    size_t at[AXIS_COUNT];
    size_t total = 1;
    for (size_t i = 0; i < AXIS_COUNT; i++)
        total *= maker->axes[i].count > 0 ? maker->axes[i].count : 1;
    if (total > AF_MATRIX_JOBS_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "--matrix: %zu jobs, but at most %u are allowed",
                       total, AF_MATRIX_JOBS_MAX);
    maker->jobs = af_arena_array(maker->arena, total, sizeof *maker->jobs);
    maker->left_out = af_arena_array(maker->arena, total, sizeof *maker->left_out);
    for (size_t n = 0; n < total && !maker->arena->failed; n++) {
        size_t rest = n;
        for (size_t i = AXIS_COUNT; i-- > 0;) {
            size_t count = maker->axes[i].count > 0 ? maker->axes[i].count : 1;
            at[i] = rest % count;
            rest /= count;
        }
        add_job(maker, at);
    }
    return maker->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

enum anyflash_status af_matrix_make(const struct af_matrix_question *question,
                                    const struct af_tables *tables, struct af_arena *arena,
                                    struct af_matrix *matrix_out, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    struct af_slim slim = *question->slim;
    struct maker *maker = af_arena_alloc(arena, sizeof *maker);
    if (maker == NULL)
        return af_fail_memory(err);
    slim.arch_count = 0;
    maker->question = question;
    maker->tables = tables;
    maker->arena = arena;
    maker->options = af_slim_is_full(&slim) ? "--full" : af_slim_options(&slim, arena);
    if (maker->options == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < question->axis_count && status == ANYFLASH_OK; i++)
        status = read_axis(maker, question->axes[i], err);
    if (status == ANYFLASH_OK)
        status = check_values(maker, err);
    if (status == ANYFLASH_OK)
        status = combine(maker, err);
    if (status != ANYFLASH_OK)
        return status;
    *matrix_out = (struct af_matrix){maker->jobs, maker->job_count, maker->left_out,
                                     maker->left_out_count};
    return ANYFLASH_OK;
}
