/*
 * import_findings.c: imports without which a module cannot be imported, and what replaces them
 * where that is enough: all calls in the file fit it.
 */
#include "kit/project/checker.h"

#include <string.h>

#include "kit/base/product.h"
#include "kit/base/text.h"
#include "kit/project/python_tokens.h"

/* The statement, and the name that it makes, go in. */
static const char sdpa_text[] =
    "try:\n"
    "    %s\n"
    "except ImportError:\n"
    "%s"
    "    def %s(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):\n"
    "        \"\"\"flash_attn_func() by torch alone; q, k, v are (batch, sequence, heads, head "
    "size).\"\"\"\n"
    "        q, k, v = (x.transpose(1, 2) for x in (q, k, v))\n"
    "        if k.shape[1] != q.shape[1]:  # several query heads for each key head\n"
    "            k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))\n"
    "        mask = None\n"
    "        if causal and q.shape[2] != k.shape[2]:  # flash-attn aligns the last rows\n"
    "            mask = torch.ones(\n"
    "                q.shape[2], k.shape[2], dtype=torch.bool, device=q.device\n"
    "            ).tril(k.shape[2] - q.shape[2])\n"
    "        out = torch.nn.functional.scaled_dot_product_attention(\n"
    "            q, k, v, attn_mask=mask, dropout_p=dropout_p,\n"
    "            is_causal=causal and mask is None, scale=softmax_scale)\n"
    "        if mask is not None:  # rows without keys are 0\n"
    "            out = out.masked_fill(~mask.any(-1, keepdim=True), 0)\n"
    "        return out.transpose(1, 2)";

/* The words of torch's function that serves in place of flash_attn_func(). */
static const char *const keywords[] = {"dropout_p", "softmax_scale", "causal"};
#define POSITIONS 6 /* q, k, v and these */

/* Whether the argument that starts at `at` is a keyword that the replacement lacks. */
static bool is_foreign(struct af_span text, size_t at)
{
    size_t end = at;
    while (end < text.len && af_project_token_is_letter(text.data[end]))
        end++;
    struct af_span name = {text.data + at, end - at};
    while (end < text.len && text.data[end] != '\0' &&
           strchr(" \t\r\n", text.data[end]) != NULL)
        end++;
    const bool is_keyword = name.len > 0 && end + 1 < text.len && text.data[end] == '=' &&
                            text.data[end + 1] != '=';
    for (size_t i = 0; is_keyword && i < AF_COUNT(keywords); i++)
        if (af_text_span_equal(name, keywords[i]))
            return false;
    return is_keyword || (at < text.len && text.data[at] == '*');
}

/* Whether the call whose bracket is at `at` passes no more than the replacement takes. */
static bool call_fits(struct af_span text, size_t at)
{
    size_t depth = 0, count = 0;
    bool is_start = false;
    const size_t end = at + AF_PROJECT_STATEMENT_BYTES_MAX;
    for (; at < text.len && at < end; at++) {
        const char letter = text.data[at];
        if (letter == '\0' || strchr(" \t\r\n", letter) != NULL)
            continue;
        if (strchr("#\\\"'", letter) != NULL) /* brackets in them do not count */
            return false;
        if (is_start && letter != ')') {
            count++;
            if (is_foreign(text, at))
                return false;
        }
        is_start = depth == 1 && letter == ',';
        if (strchr("([{", letter) != NULL)
            is_start = ++depth == 1;
        else if (strchr(")]}", letter) != NULL && --depth == 0)
            return count <= POSITIONS;
    }
    return false;
}

/* Whether the statement takes several results: "out, lse = f(...)". */
static bool takes_several(struct af_span text, size_t at)
{
    size_t start = at;
    while (start > 0 && text.data[start - 1] != '\n' &&
           at - start < AF_PROJECT_STATEMENT_BYTES_MAX)
        start--;
    struct af_span before = {text.data + start, at - start};
    const char *equal = before.len == 0 ? NULL : memchr(before.data, '=', before.len);
    return equal != NULL && memchr(before.data, ',', (size_t)(equal - before.data)) != NULL;
}

/* Whether another module takes the name from this one. */
static bool is_taken(const struct af_project_checker *checker,
                     const struct af_project_source *source, const char *name)
{
    for (size_t i = 0; i < checker->count; i++) {
        const struct af_import_statement *import = checker->asks.stated[i].python.imports;
        for (; import != NULL && &checker->sources[i] != source; import = import->next) {
            const size_t len = import->end - import->start;
            struct af_span text = {
                checker->sources[i].text.data + import->start,
                len < AF_PROJECT_STATEMENT_BYTES_MAX ? len : AF_PROJECT_STATEMENT_BYTES_MAX};
            if (!import->is_flash_attn && (af_project_token_find(text, 0, name) != NULL ||
                                           memchr(text.data, '*', text.len) != NULL))
                return true;
        }
    }
    return false;
}

/* Whether the name is used, and every use in the file is a call that the replacement serves. */
static bool calls_fit(struct af_span text, const struct af_import_statement *import,
                      const char *name)
{
    size_t at = 0, count = 0;
    for (const char *found; (found = af_project_token_find(text, at, name)) != NULL;) {
        const size_t start = (size_t)(found - text.data);
        at = start + strlen(name);
        if (start >= import->start && start < import->end)
            continue;
        if (at >= text.len || text.data[at] != '(' || takes_several(text, start) ||
            !call_fits(text, at))
            return false;
        count++;
    }
    return count > 0;
}

/* The name that the statement gives to flash_attn_func; NULL: it imports something else. */
static const char *function_name(struct af_project_checker *checker,
                                 const struct af_import_statement *import)
{
    static const char function[] = "flash_attn_func";
    const bool is_interface =
        af_text_span_equal(import->module, "flash_attn") ||
        af_text_span_equal(import->module, "flash_attn.flash_attn_interface");
    struct af_span names = af_text_trim(import->names);
    if (!is_interface || !import->is_alone || import->indent > 0 ||
        names.len < sizeof function - 1 ||
        memcmp(names.data, function, sizeof function - 1) != 0)
        return NULL;
    struct af_span rest = af_text_trim(
        (struct af_span){names.data + sizeof function - 1, names.len - (sizeof function - 1)});
    if (rest.len == 0)
        return function;
    if (rest.len < 4 || memcmp(rest.data, "as ", 3) != 0)
        return NULL;
    const char *name = af_project_text(
        checker->arena, af_text_trim((struct af_span){rest.data + 3, rest.len - 3}));
    for (const char *at = name; *at != '\0'; at++)
        if (!af_project_token_is_letter(*at))
            return NULL;
    return name;
}

/* The lines of the statement as they are in a block. */
static const char *indented(struct af_project_checker *checker, struct af_span statement)
{
    struct af_text made = {0};
    for (size_t i = 0; i < statement.len; i++) {
        af_text_add_n(&made, statement.data + i, 1);
        af_text_add(&made, statement.data[i] == '\n' ? "    " : "");
    }
    return af_text_take(&made, checker->arena);
}

/* A second try with anyflash's functions. */
static const char *anyflash_text(struct af_project_checker *checker, const char *statement,
                                 struct af_span names)
{
    const bool has_lines = memchr(names.data, '\n', names.len) != NULL;
    return af_arena_format(checker->arena,
                           "try:\n    %s\nexcept ImportError:\n    from anyflash.flash_attn "
                           "import %s%.*s%s",
                           statement, has_lines ? "(" : "", (int)names.len, names.data,
                           has_lines ? ")" : "");
}

/* Whether the file imports torch at its top under that name. */
static bool imports_torch(const struct af_import_facts *facts)
{
    const struct af_import_statement *import = facts->imports;
    while (import != NULL &&
           !(import->module.len == 0 && import->indent == 0 &&
             import->guard == AF_IMPORT_FATAL && af_text_span_equal(import->names, "torch")))
        import = import->next;
    return import != NULL;
}

/* Whether the lines of the statement contain a comment. */
static bool has_comment(const struct af_project_source *source,
                        const struct af_import_statement *import)
{
    struct af_span line = af_project_line(source->text, import->end);
    const char *end = line.data + line.len, *start = source->text.data + import->start;
    return memchr(start, '#', (size_t)(end - start)) != NULL;
}

/* The statement in a "try:", with what serves where it fails; NULL: nothing does. */
static const char *guarded_text(struct af_project_checker *checker,
                                const struct af_project_source *source,
                                const struct af_import_facts *facts,
                                const struct af_import_statement *import)
{
    const bool is_interface =
        af_text_span_equal(import->module, "flash_attn") ||
        af_text_span_equal(import->module, "flash_attn.flash_attn_interface");
    const char *name = function_name(checker, import);
    const char *statement =
        indented(checker, (struct af_span){source->text.data + import->start,
                                           import->end - import->start});
    if (has_comment(source, import))
        return NULL;
    if (checker->options->fallback == AF_FALLBACK_ANYFLASH)
        return is_interface && import->is_alone && import->indent == 0
                   ? anyflash_text(checker, statement, import->names)
                   : NULL;
    if (name == NULL || is_taken(checker, source, name) ||
        !calls_fit(source->text, import, name))
        return NULL;
    return af_arena_format(checker->arena, sdpa_text, statement,
                           imports_torch(facts) ? "" : "    import torch\n\n", name);
}

/*
 * Finds "ModuleNotFoundError" in the handler of the import: the next line with less indentation
 * must be that handler. NULL if it is not.
 */
static const char *own_handler(struct af_span text, const struct af_import_statement *import)
{
    static const char narrow[] = "ModuleNotFoundError";
    size_t at = import->end;
    while (at < text.len && at < import->end + AF_PROJECT_STATEMENT_BYTES_MAX) {
        struct af_span line = af_project_line(text, at);
        struct af_span bare = af_text_trim(line);
        const size_t indent = bare.len == 0 ? SIZE_MAX : (size_t)(bare.data - line.data);
        if (at > import->end && indent < import->indent)
            return bare.len > 7 && memcmp(bare.data, "except ", 7) == 0
                       ? af_project_token_find(bare, 0, narrow)
                       : NULL;
        at = (size_t)(line.data - text.data) + line.len;
    }
    return NULL;
}

static void add_narrow(struct af_project_checker *checker,
                       const struct af_project_source *source,
                       const struct af_import_statement *import)
{
    struct af_project_finding *finding =
        af_project_finding_add(checker, AF_PROJECT_FINDING_NARROW_GUARD, source, import->start);
    const char *found = own_handler(source->text, import);
    const size_t at = found == NULL ? 0 : (size_t)(found - source->text.data);
    if (found != NULL)
        af_project_finding_edit(checker, finding, at, at + strlen("ModuleNotFoundError"),
                                "ImportError");
}

void af_project_check_imports(struct af_project_checker *checker,
                              const struct af_project_source *source,
                              const struct af_import_facts *facts)
{
    struct af_project_finding *finding = NULL;
    size_t fatal = 0, repaired = 0;
    enum af_answer is_checked = AF_UNKNOWN;
    for (const struct af_import_statement *import = facts->imports; import != NULL;
         import = import->next) {
        if (!import->is_flash_attn || checker->is_flash_attn)
            continue;
        if (import->is_narrow && import->guard == AF_IMPORT_GUARDED &&
            !af_project_is_aside(source->path))
            add_narrow(checker, source, import);
        if (import->guard != AF_IMPORT_FATAL)
            continue;
        if (is_checked == AF_UNKNOWN)
            is_checked = af_project_module_is_used(checker, (size_t)(source - checker->sources))
                             ? AF_YES
                             : AF_NO;
        if (is_checked == AF_NO)
            continue;
        if (finding == NULL)
            finding = af_project_finding_add(checker, AF_PROJECT_FINDING_NO_FALLBACK, source,
                                             import->start);
        const bool has_place = finding->edit_count < AF_PROJECT_FINDING_EDITS_MAX;
        const char *text = has_place ? guarded_text(checker, source, facts, import) : NULL;
        fatal++;
        repaired += text != NULL;
        if (text != NULL)
            af_project_finding_edit(checker, finding, import->start, import->end, text);
    }
    if (finding == NULL)
        return;
    if (repaired < fatal) {
        finding->edit_count = 0; /* the file would not be importable yet */
        finding->advice = "Catch the ImportError, and compute without flash-attn where its "
                          "functions are called. Nothing replaces all that this file uses.";
    }
    if (fatal > 1)
        finding->detail =
            af_arena_format(checker->arena, "%zu imports at the top of the file", fatal);
}
