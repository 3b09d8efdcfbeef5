/*
 * log.c: what the log of a build says of its first failure.
 *
 * ninja prints a block when a command ends: "[3/8] COMMAND", then, of one that
 * failed, "FAILED: OBJECT" and its words, then all that it said. A gate tells
 * there when its compiler is started again and when that ended well after all
 * (govern/gate.h): what the earlier attempts said is no cause of anything, nor
 * is what a command said that ended well.
 */
#include "kit/build/parts.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/build/governor/compiler_wrapper.h"
#include "kit/system/file.h"

#define LOG_BYTES_MAX (32u * 1024u * 1024u)
#define LINE_BYTES 400
#define GAVE_UP "anyflash: error: " /* the governor, of a file */
#define FAILED "FAILED: "
#define NO_RANK 9

/* Marks of lines that tell of an error; a lower rank says more: who called only repeats it. */
static const struct {
    const char *text;
    int rank;
} marks[] = {
    {"error:", 1},
    {"error :", 1},
    {"error   :", 1},
    {"fatal   :", 1}, /* nvcc's programs */
    {"No space left", 1},
    {"Disk quota exceeded", 1},
    {"undefined reference", 1},
    {FAILED, 2},
    {"Killed", 2}, /* ninja's line, with the exit code and the file */
    {"Error:", 3}, /* Python's */
};

struct search {
    struct af_span found; /* of the best rank so far */
    int rank;
    struct af_span failed; /* ninja's line of the first command that failed */
    bool over;             /* its block has ended */
};

static bool contains(struct af_span line, const char *text)
{
    return memmem(line.data, line.len, text, strlen(text)) != NULL;
}

static bool begins(struct af_span line, const char *text)
{
    return line.len >= strlen(text) && memcmp(line.data, text, strlen(text)) == 0;
}

/* "[3/8] ...", or ninja's last word. */
static bool ends_block(struct af_span line)
{
    return (line.len > 1 && line.data[0] == '[' && line.data[1] >= '0' &&
            line.data[1] <= '9') ||
           begins(line, "ninja: build stopped");
}

static void take(struct search *search, struct af_span line)
{
    for (size_t i = 0; i < AF_COUNT(marks); i++) {
        if (marks[i].rank < search->rank && contains(line, marks[i].text)) {
            search->rank = marks[i].rank;
            search->found = line;
        }
    }
}

/* Nothing is found but that the command failed, where it did. */
static void forget(struct search *search)
{
    search->rank = NO_RANK;
    search->found = (struct af_span){NULL, 0};
    if (search->failed.data != NULL)
        take(search, search->failed);
}

static void read_line(struct search *search, struct af_span line)
{
    bool fails = begins(line, FAILED);
    bool ends = ends_block(line);
    if (search->failed.data != NULL && (fails || ends)) {
        search->over = true;
        return;
    }
    if (fails)
        search->failed = line;
    if (fails || ends || contains(line, AF_WRAPPER_RESTARTED) ||
        contains(line, AF_WRAPPER_SUCCEEDED))
        forget(search);
    else if (!begins(line, GAVE_UP))
        take(search, line);
}

/* "flash_bwd_hdim64" of "FAILED: [code=1] /a/b/flash_bwd_hdim64.o". */
static struct af_span stem_of(struct af_span failed)
{
    struct af_span stem = {failed.data + strlen(FAILED), failed.len - strlen(FAILED)};
    const char *close =
        stem.len > 0 && stem.data[0] == '[' ? memchr(stem.data, ']', stem.len) : NULL;
    size_t skip = close == NULL ? 0 : (size_t)(close + 1 - stem.data);
    stem = af_text_trim((struct af_span){stem.data + skip, stem.len - skip});
    const char *space = memchr(stem.data, ' ', stem.len);
    stem.len = space == NULL ? stem.len : (size_t)(space - stem.data);
    const char *slash = memrchr(stem.data, '/', stem.len);
    skip = slash == NULL ? 0 : (size_t)(slash + 1 - stem.data);
    stem = (struct af_span){stem.data + skip, stem.len - skip};
    const char *dot = memchr(stem.data, '.', stem.len);
    stem.len = dot == NULL ? stem.len : (size_t)(dot - stem.data);
    return stem;
}

/* The governor's word on the file that failed (on any, where none did); empty without. */
static struct af_span gave_up(struct af_span rest, struct af_span failed)
{
    const size_t head = strlen(GAVE_UP);
    struct af_span stem = failed.data == NULL ? failed : stem_of(failed);
    struct af_span line;
    while (af_text_line(&rest, &line)) {
        if (begins(line, GAVE_UP) && line.len > head + stem.len &&
            (stem.len == 0 || (memcmp(line.data + head, stem.data, stem.len) == 0 &&
                               line.data[head + stem.len] == '.')))
            return line;
    }
    return (struct af_span){NULL, 0};
}

const char *af_build_first_error(struct af_arena *arena, const char *log)
{
    struct search search = {.rank = NO_RANK};
    struct af_span all;
    struct af_span line;
    if (af_file_read_start(arena, log, LOG_BYTES_MAX, &all, NULL) != ANYFLASH_OK)
        return NULL;
    struct af_span rest = all;
    while (!search.over && af_text_line(&rest, &line))
        read_line(&search, line);
    line = gave_up(all, search.failed);
    line = line.data == NULL ? search.found : line;
    if (line.data == NULL)
        return NULL;
    line.len = line.len < LINE_BYTES ? line.len : LINE_BYTES;
    return af_text_scrub(arena, af_arena_text_n(arena, line.data, line.len), LINE_BYTES);
}
