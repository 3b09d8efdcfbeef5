/*
 * project_source.h: the files of a project that say how it is installed, as text: which they
 * are, their words and the lines with commands, and changes of them, with the difference as
 * `git apply` and `patch` read it.
 */
#ifndef AF_KIT_PROJECT_PROJECT_SOURCE_H
#define AF_KIT_PROJECT_PROJECT_SOURCE_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"

enum af_project_kind {
    AF_PROJECT_OTHER,
    AF_PROJECT_REQUIREMENTS, /* requirements*.txt, or any .txt below a folder requirements/ */
    AF_PROJECT_PYPROJECT,
    AF_PROJECT_PIXI,      /* pixi.toml */
    AF_PROJECT_CONDA,     /* environment.yml and the like */
    AF_PROJECT_SETUP_CFG, /* setup.cfg */
    AF_PROJECT_SETUP,     /* setup.py */
    AF_PROJECT_PYTHON,
    AF_PROJECT_DOCKERFILE,
    AF_PROJECT_SCRIPT,   /* .sh, Makefiles, workflows of GitHub */
    AF_PROJECT_NOTEBOOK, /* .ipynb: each line of a cell is a string of JSON */
    AF_PROJECT_README    /* README*, INSTALL*, and other .md and .rst at the top */
};

struct af_project_source {
    const char *path; /* relative to the project, with '/' */
    struct af_span text;
    enum af_project_kind kind;
};

/* The kind of the file at this relative path. */
enum af_project_kind af_project_kind_of(const char *path);

/* A copy in the arena. */
const char *af_project_text(struct af_arena *arena, struct af_span span);

/* The line that has byte `at`, with its newline. */
struct af_span af_project_line(struct af_span text, size_t at);

/* How many lines end from byte `start` to byte `end`. */
size_t af_project_lines_between(struct af_span text, size_t start, size_t end);

/*
 * Takes the next word of a command or an option line from *rest, without quotes and
 * backslashes, as shlex.split() does; lines that end in a backslash are joined. NULL at the end
 * of the text, and at a letter of `ends`, which also end words ('#' only starts none).
 */
const char *af_project_next_word(struct af_arena *arena, struct af_span *rest,
                                 const char *ends);

/* What an option of pip or uv means for what is read, or for where packages are installed. */
enum af_project_meaning {
    AF_PROJECT_MEANS_NOTHING, /* its value is skipped; also a word that is not known */
    AF_PROJECT_MEANS_FILE,
    AF_PROJECT_MEANS_CONSTRAINT,
    AF_PROJECT_MEANS_EDITABLE,
    AF_PROJECT_MEANS_HASH,
    AF_PROJECT_MEANS_INDEX,     /* where packages come from; kept as an option of the project */
    AF_PROJECT_MEANS_NO_BINARY, /* kept, too */
    AF_PROJECT_MEANS_GROUP,
    AF_PROJECT_MEANS_PYTHON,
    AF_PROJECT_MEANS_ELSEWHERE /* installs outside this environment */
};

/* A word of a command or a line that may be an option: "--requirement=r.txt", "-rr.txt". */
struct af_project_option_word {
    struct af_span name; /* as written; empty: no option */
    enum af_project_meaning meaning;
    const char *value; /* in this word, or NULL */
};

/*
 * Reads the word. True if the option's value is the next word, which the caller then sets.
 * Options that are not known take no value. Of several short ones, as in "-qr", it reads the
 * last: those before it take none.
 */
bool af_project_option_parse(const char *word, struct af_project_option_word *option_out);

/* Whether pip would take it for the start of an option that matters: "--targ" for --target. */
bool af_project_option_is_cut(struct af_span name);

/* Whether `list`, words with a blank on either side, has the word. */
bool af_project_words_have(const char *list, struct af_span word);

/* A command that installs: "pip install -U torch flash-attn --no-build-isolation". */
struct af_project_shell_command {
    size_t words_at; /* the byte after "install" */
    const char *const
        *words;       /* after "install", until the next command; with NULL at the end */
    bool is_isolated; /* without --no-build-isolation */
};

#define AF_PROJECT_COMMAND_WORDS_MAX 256

/* Reads the commands of a script, a Dockerfile or a page, one after the other. */
struct af_project_shell {
    const struct af_project_source *source;
    size_t at;
    size_t line_end;       /* of the line with byte `at`, joined with those that continue it */
    bool after_fence;      /* in a page: the line before starts a block, or ends one */
    bool in_session;       /* the block shows commands behind prompts, and what they print */
    struct af_arena arena; /* of the words */
    const char *words[AF_PROJECT_COMMAND_WORDS_MAX + 1];
};

/* Starts at the first byte. Release it in the end. */
void af_project_shell_init(struct af_project_shell *shell,
                           const struct af_project_source *source);
void af_project_shell_release(struct af_project_shell *shell);

/*
 * The next command "pip install" or "uv pip install"; in a Python source, the next call of
 * pip_install(), as modal has it. A command of more than 256 words is several. False if there
 * is none.
 */
bool af_project_shell_next(struct af_project_shell *shell,
                           struct af_project_shell_command *command_out);

/* The bytes from `start` to `end` become `text`. */
struct af_project_edit {
    size_t start;
    size_t end;
    const char *text;
};

/*
 * Sorts the edits by their place; of edits that overlap only the first stays, and of insertions
 * at the same place all. Returns how many are left. The other functions take such lists.
 */
size_t af_project_edits_order(struct af_project_edit *edits, size_t count);

/* Appends `old` with the edits to `out`. */
void af_project_apply(struct af_span old, const struct af_project_edit *edits, size_t count,
                      struct af_text *out);

/* Appends the edits of the file `path` as a unified diff with up to two lines around each. */
void af_project_diff(const char *path, struct af_span old, const struct af_project_edit *edits,
                     size_t count, struct af_text *out);

#endif
