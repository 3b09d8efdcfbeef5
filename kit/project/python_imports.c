/*
 * python_imports.c: the blocks of a Python source by indentation, and the imports in them;
 * python_tokens.c reads its tokens.
 */
#include "kit/project/project_asks.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/project/python_tokens.h"

#define BLOCKS_MAX 64

enum block_kind { TRY, EXCEPT, CONDITION, FUNCTION, OTHER };

/* The block below a line "try:", "if x:", ... */
struct block {
    enum block_kind kind;
    size_t indent; /* of that line */
    /* TRY and EXCEPT: the imports below "try:" are those after `before`, up to `last` */
    struct af_import_statement *before;
    struct af_import_statement *last;
    bool catches;   /* EXCEPT: ImportError, or an error that it is a kind of, */
    bool is_narrow; /* or ModuleNotFoundError alone */
    bool raises;    /* EXCEPT: leaves the handler by an error again */
};

struct reader {
    struct af_arena *arena;
    struct af_project_tokens tokens;
    struct block blocks[BLOCKS_MAX];
    size_t block_count;
    struct af_import_statement head; /* before the first */
    struct af_import_statement *last_import;
    struct af_import_string **next_string;
    struct af_span name;   /* the last name, for "install_requires = [", */
    struct af_span owner;  /* and the one before its '.', for "requirements.append(" */
    bool is_assigned;      /* '=' came after it */
    size_t requires_depth; /* of the brackets of such a list; 0: outside */
    struct af_import_facts *facts;
};

static bool is_mark(const struct reader *reader, char mark)
{
    return reader->tokens.token.kind == AF_PROJECT_TOKEN_MARK &&
           reader->tokens.token.text.data[0] == mark;
}

static bool is_word(const struct reader *reader, const char *word)
{
    return reader->tokens.token.kind == AF_PROJECT_TOKEN_NAME &&
           af_text_span_equal(reader->tokens.token.text, word);
}

static void add_string(struct reader *reader)
{
    struct af_import_string *string = af_arena_alloc(reader->arena, sizeof *string);
    *string = (struct af_import_string){reader->tokens.token.text, NULL};
    *reader->next_string = string;
    reader->next_string = &string->next;
}

/* Whether the name is that of a list of what every installation needs. */
static bool is_requires(struct af_span name)
{
    static const char *const names[] = {
        "install_requires", "requirements", "requires", "required", "dependencies",
        "install_reqs",     "reqs",         "req",      "deps"};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (name.len == strlen(names[i]) && af_text_span_has_fold(name, names[i]))
            return true;
    return false;
}

/* "install_requires = [", "REQUIREMENTS += [" or "requirements.append(" ends with the token. */
static bool starts_requires(const struct reader *reader)
{
    if (reader->requires_depth > 0)
        return false;
    bool adds = af_text_span_equal(reader->name, "append") ||
                af_text_span_equal(reader->name, "extend");
    return (is_mark(reader, '[') && reader->is_assigned && is_requires(reader->name)) ||
           (is_mark(reader, '(') && adds && is_requires(reader->owner));
}

/* Facts that one token states, wherever it is. */
static void note_token(struct reader *reader)
{
    const struct af_project_token *token = &reader->tokens.token;
    if (token->kind == AF_PROJECT_TOKEN_NAME || token->kind == AF_PROJECT_TOKEN_STRING)
        reader->facts->mentions |=
            token->text.len >= 10 && (af_text_span_has_fold(token->text, "flash_attn") ||
                                      af_text_span_has_fold(token->text, "flash_attention"));
    if (reader->tokens.depth < reader->requires_depth)
        reader->requires_depth = 0;
    if (token->kind == AF_PROJECT_TOKEN_STRING && reader->requires_depth > 0)
        add_string(reader);
    if (starts_requires(reader))
        reader->requires_depth = reader->tokens.depth;
    if (token->kind == AF_PROJECT_TOKEN_STRING && reader->is_assigned &&
        af_text_span_equal(reader->name, "python_requires"))
        reader->facts->python_requires = token->text;
    reader->is_assigned = is_mark(reader, '=');
    if (token->kind == AF_PROJECT_TOKEN_NAME) {
        reader->name = token->text;
    } else if (is_mark(reader, '.')) {
        reader->owner = reader->name;
    } else if (!reader->is_assigned && !is_mark(reader, '+')) {
        reader->name = reader->owner = (struct af_span){0};
    }
}

static void next(struct reader *reader)
{
    af_project_tokens_next(&reader->tokens);
    note_token(reader);
}

static bool at_end(const struct reader *reader)
{
    return reader->tokens.token.kind == AF_PROJECT_TOKEN_END ||
           reader->tokens.token.kind == AF_PROJECT_TOKEN_LINE_END ||
           (is_mark(reader, ';') && reader->tokens.depth == 0);
}

/* The handler is complete: if it goes on without the import, its imports are guarded. */
static void close_block(struct block *block)
{
    /* A later handler of ImportError, whatever it does, means that its author thought of it. */
    if (block->kind == EXCEPT && block->catches && !block->is_narrow)
        for (struct af_import_statement *import = block->before->next;
             import != NULL && block->before != block->last;
             import = import == block->last ? NULL : import->next)
            import->is_narrow = false;
    if (block->kind != EXCEPT || !block->catches || block->raises ||
        block->before == block->last)
        return;
    for (struct af_import_statement *import = block->before->next; import != NULL;
         import = import == block->last ? NULL : import->next) {
        import->guard = AF_IMPORT_GUARDED;
        import->is_handled = true;
        import->is_narrow = block->is_narrow;
    }
}

static void close_blocks(struct reader *reader, size_t indent)
{
    while (reader->block_count > 0 && reader->blocks[reader->block_count - 1].indent >= indent)
        close_block(&reader->blocks[--reader->block_count]);
}

static void open_block(struct reader *reader, struct block block)
{
    if (reader->block_count < BLOCKS_MAX)
        reader->blocks[reader->block_count++] = block;
}

/* What the handler "except ...:" that is being read catches. */
static void read_catching(struct reader *reader, struct block *block)
{
    bool is_bare = true, is_wide = false, is_narrow = false;
    for (; !at_end(reader) && !(is_mark(reader, ':') && reader->tokens.depth == 0);
         next(reader)) {
        is_bare = false;
        is_narrow |= is_word(reader, "ModuleNotFoundError");
        is_wide |= is_word(reader, "ImportError") || is_word(reader, "Exception") ||
                   is_word(reader, "BaseException");
    }
    block->catches = is_bare || is_wide || is_narrow;
    block->is_narrow = block->catches && !is_bare && !is_wide;
}

/* "except", "finally" and "else" belong to the block of the same indentation before them. */
static struct block block_after(struct reader *reader, const char *word)
{
    struct block block = {.kind = OTHER, .indent = reader->tokens.indent};
    struct block *top =
        reader->block_count == 0 ? NULL : &reader->blocks[reader->block_count - 1];
    if (top == NULL || top->indent != reader->tokens.indent)
        return block;
    bool is_try = top->kind == TRY || top->kind == EXCEPT;
    if (strcmp(word, "except") == 0 && is_try) {
        block = (struct block){
            .kind = EXCEPT, .indent = reader->tokens.indent, .before = top->before};
        block.last = top->kind == TRY ? reader->last_import : top->last;
        if (top->kind == EXCEPT && top->catches && !top->is_narrow)
            block.before = block.last; /* the handler above gets what they raise */
        read_catching(reader, &block);
    } else if (strcmp(word, "finally") != 0 && (is_try || top->kind == CONDITION)) {
        block.kind = CONDITION;
    }
    return block;
}

/* Whether the line's header mentions suppress(ImportError). */
static enum block_kind with_kind(struct reader *reader)
{
    bool suppresses = false, catches = false;
    for (; !at_end(reader) && !(is_mark(reader, ':') && reader->tokens.depth == 0);
         next(reader)) {
        suppresses |= is_word(reader, "suppress");
        catches |= is_word(reader, "ImportError") || is_word(reader, "Exception") ||
                   is_word(reader, "ModuleNotFoundError");
    }
    return suppresses && catches ? CONDITION : OTHER;
}

static const struct {
    const char *word;
    enum block_kind kind;
} headers[] = {{"try", TRY},       {"if", CONDITION},  {"elif", CONDITION}, {"def", FUNCTION},
               {"class", OTHER},   {"for", OTHER},     {"while", OTHER},    {"with", OTHER},
               {"except", EXCEPT}, {"finally", OTHER}, {"else", OTHER}};

/* If the line is the header of a block, opens it and returns true: a statement may follow. */
static bool read_header(struct reader *reader)
{
    if (is_word(reader, "async"))
        next(reader);
    size_t row = 0;
    while (row < AF_COUNT(headers) && !is_word(reader, headers[row].word))
        row++;
    if (row == AF_COUNT(headers))
        return false;
    const char *word = headers[row].word;
    struct block block = {.kind = headers[row].kind, .indent = reader->tokens.indent};
    next(reader);
    if (strcmp(word, "with") == 0)
        block.kind = with_kind(reader);
    if (strcmp(word, "except") == 0 || strcmp(word, "finally") == 0 ||
        strcmp(word, "else") == 0)
        block = block_after(reader, word);
    if (block.kind == TRY)
        block.before = block.last = reader->last_import;
    while (!at_end(reader) && !(is_mark(reader, ':') && reader->tokens.depth == 0))
        next(reader);
    close_blocks(reader, reader->tokens.indent);
    open_block(reader, block);
    return is_mark(reader, ':');
}

static enum af_import_guard guard_of(const struct reader *reader)
{
    enum af_import_guard guard =
        reader->block_count == BLOCKS_MAX ? AF_IMPORT_GUARDED : AF_IMPORT_FATAL;
    for (size_t i = 0; i < reader->block_count; i++) {
        if (reader->blocks[i].kind == FUNCTION)
            return AF_IMPORT_LAZY;
        if (reader->blocks[i].kind == CONDITION)
            guard = AF_IMPORT_GUARDED;
    }
    return guard;
}

static bool is_flash_attn(struct af_span module)
{
    static const char name[] = "flash_attn";
    return module.len >= sizeof name - 1 && memcmp(module.data, name, sizeof name - 1) == 0 &&
           (module.len == sizeof name - 1 || module.data[sizeof name - 1] == '.');
}

/* A dotted name. */
static struct af_span read_module(struct reader *reader)
{
    size_t start = reader->tokens.token.start, end = start;
    while (reader->tokens.token.kind == AF_PROJECT_TOKEN_NAME || is_mark(reader, '.')) {
        if (is_word(reader, "import") || is_word(reader, "as"))
            break;
        end = reader->tokens.token.end;
        next(reader);
    }
    return (struct af_span){reader->tokens.text.data + start, end - start};
}

static void add_import(struct reader *reader, struct af_import_statement made)
{
    struct af_import_statement *import = af_arena_alloc(reader->arena, sizeof *import);
    made.guard = guard_of(reader);
    made.indent = reader->tokens.indent;
    *import = made;
    reader->last_import->next = import;
    reader->last_import = import;
}

/* "import ..." and "from ... import ...", whose first word is the token. */
static void read_import(struct reader *reader)
{
    bool is_from = is_word(reader, "from");
    struct af_import_statement import = {.start = reader->tokens.token.start,
                                         .end = reader->tokens.token.end,
                                         .line = reader->tokens.token.line,
                                         .is_alone = reader->tokens.token_count == 1};
    next(reader);
    if (is_from) {
        import.module = read_module(reader);
        if (!is_word(reader, "import"))
            return; /* "yield from", or "raise ... from" */
        import.is_flash_attn = is_flash_attn(import.module);
        next(reader);
        if (is_mark(reader, '('))
            next(reader);
    }
    size_t start = reader->tokens.token.start, end = start;
    while (!at_end(reader)) {
        struct af_span module = read_module(reader);
        import.is_flash_attn |= !is_from && is_flash_attn(module);
        if (module.len > 0)
            end = (size_t)(module.data - reader->tokens.text.data) + module.len;
        import.end = end > import.end ? end : import.end;
        if (at_end(reader))
            break;
        import.end = reader->tokens.token.end;
        next(reader);
    }
    import.names = (struct af_span){reader->tokens.text.data + start, end - start};
    import.is_alone = import.is_alone && !is_mark(reader, ';');
    add_import(reader, import);
}

/* A statement "raise" or "sys.exit()" in a handler means that there is no fallback. */
static bool leaves(const struct reader *reader)
{
    static const char *const words[] = {"raise",    "exit",     "quit",
                                        "sys.exit", "os._exit", "os.abort"};
    const char *at = reader->tokens.text.data + reader->tokens.token.start;
    const size_t len = reader->tokens.text.len - reader->tokens.token.start;
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        const size_t end = strlen(words[i]);
        if (len >= end && memcmp(at, words[i], end) == 0 &&
            (len == end || !af_project_token_is_letter(at[end])))
            return true;
    }
    return false;
}

static void note_leaving(struct reader *reader)
{
    struct block *top =
        reader->block_count == 0 ? NULL : &reader->blocks[reader->block_count - 1];
    if (top != NULL && top->kind == EXCEPT && leaves(reader))
        top->raises = true;
}

static void read_statement(struct reader *reader)
{
    note_leaving(reader);
    if (is_word(reader, "import") || is_word(reader, "from"))
        read_import(reader);
    while (!at_end(reader))
        next(reader);
}

/* One logical line, whose first token was read. */
static void read_line(struct reader *reader)
{
    bool continues = is_word(reader, "except") || is_word(reader, "finally") ||
                     is_word(reader, "else") || is_word(reader, "elif");
    close_blocks(reader, reader->tokens.indent + continues);
    if (read_header(reader))
        next(reader);
    while (reader->tokens.token.kind != AF_PROJECT_TOKEN_LINE_END &&
           reader->tokens.token.kind != AF_PROJECT_TOKEN_END) {
        read_statement(reader);
        if (is_mark(reader, ';'))
            next(reader);
    }
}

void af_imports_of_python(struct af_arena *arena, struct af_span text,
                          struct af_import_facts *facts_out)
{
    struct reader reader = {.arena = arena,
                            .tokens = {.text = text, .line = 1, .is_fresh = true},
                            .facts = facts_out,
                            .next_string = &facts_out->install_requires};
    *facts_out = (struct af_import_facts){0};
    reader.last_import = &reader.head;
    next(&reader);
    while (reader.tokens.token.kind != AF_PROJECT_TOKEN_END) {
        read_line(&reader);
        if (reader.tokens.token.kind != AF_PROJECT_TOKEN_END)
            next(&reader);
    }
    close_blocks(&reader, 0);
    facts_out->imports = reader.head.next;
}
