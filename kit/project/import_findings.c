/*
 * import_findings.c: imports without which a module cannot be imported, and what replaces them.
 */
#include "kit/project/findings.h"

#include <ctype.h>
#include <string.h>

#include "kit/base/product.h"
#include "kit/base/text.h"

/* The statement, and the name that it makes, go in. */
static const char sdpa_text[] =
    "try:\n"
    "    %s\n"
    "except ImportError:\n"
    "    import torch\n"
    "\n"
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

static const char *const functions[] = {
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
};

/* How an import can be replaced. */
struct replacement {
    bool by_none;         /* it imports functions of flash-attn, which can be None */
    bool by_sdpa;         /* it imports flash_attn_func alone */
    const char *local;    /* the last name that it makes */
    struct af_text unset; /* "a = b = None" */
};

static bool is_identifier(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && *at != '_' && (unsigned char)*at < 0x80)
            return false;
    return text[0] != '\0' && !isdigit((unsigned char)text[0]);
}

/* "flash_attn_func as f": the name, and the name that it gets. */
static void note_name(struct af_project_checker *checker, struct af_span item,
                      struct replacement *what)
{
    size_t len = 0;
    while (len < item.len && item.data[len] != ' ' && item.data[len] != '\t')
        len++;
    struct af_span name = {item.data, len};
    struct af_span rest = af_text_trim((struct af_span){item.data + len, item.len - len});
    bool is_known = false;
    for (size_t i = 0; i < AF_COUNT(functions); i++)
        is_known |= af_text_span_equal(name, functions[i]);
    what->by_sdpa &= what->local == NULL && af_text_span_equal(name, functions[0]);
    bool is_renamed = rest.len > 3 && memcmp(rest.data, "as ", 3) == 0;
    what->local = af_project_text(
        checker->arena,
        is_renamed ? af_text_trim((struct af_span){rest.data + 3, rest.len - 3}) : name);
    what->by_none &= is_known && is_identifier(what->local);
    what->by_sdpa &= what->by_none;
    af_text_format(&what->unset, "%s = ", what->local);
}

static struct replacement replacement_of(struct af_project_checker *checker,
                                         const struct af_import_statement *import)
{
    bool is_interface = af_text_span_equal(import->module, "flash_attn") ||
                        af_text_span_equal(import->module, "flash_attn.flash_attn_interface");
    struct replacement what = {.by_none = is_interface, .by_sdpa = is_interface};
    struct af_span rest = import->names;
    while (is_interface && rest.len > 0) {
        const char *comma = memchr(rest.data, ',', rest.len);
        size_t len = comma == NULL ? rest.len : (size_t)(comma - rest.data);
        struct af_span item = af_text_trim((struct af_span){rest.data, len});
        len += comma != NULL;
        rest = (struct af_span){rest.data + len, rest.len - len};
        if (item.len > 0)
            note_name(checker, item, &what);
    }
    af_text_add(&what.unset, "None");
    return what;
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

/* A second try with anyflash's functions, which may be missing, too. */
static const char *anyflash_text(struct af_project_checker *checker, const char *statement,
                                 struct af_span names, const char *unset)
{
    bool has_lines = memchr(names.data, '\n', names.len) != NULL;
    return af_arena_format(checker->arena,
                           "try:\n    %s\nexcept ImportError:\n    try:\n        from "
                           "anyflash.flash_attn import %s%.*s%s\n    except ImportError:\n"
                           "        %s",
                           statement, has_lines ? "(" : "", (int)names.len, names.data,
                           has_lines ? ")" : "", unset);
}

/* The statement in a "try:", with what serves where it fails; NULL: nothing does. */
static const char *guarded_text(struct af_project_checker *checker,
                                const struct af_project_source *source,
                                const struct af_import_statement *import)
{
    struct replacement what = replacement_of(checker, import);
    const char *unset = af_text_take(&what.unset, checker->arena);
    if (!import->is_alone || import->indent > 0 || !what.by_none || what.local == NULL ||
        memchr(import->names.data, '#', import->names.len) != NULL)
        return NULL;
    const char *statement =
        indented(checker, (struct af_span){source->text.data + import->start,
                                           import->end - import->start});
    if (what.by_sdpa && checker->fallback == AF_FALLBACK_SDPA)
        return af_arena_format(checker->arena, sdpa_text, statement, what.local);
    if (af_product_is_published())
        return anyflash_text(checker, statement, import->names, unset);
    return af_arena_format(checker->arena, "try:\n    %s\nexcept ImportError:\n    %s",
                           statement, unset);
}

/* Tests are not installed, as pytest names them. */
static bool is_test(const char *path)
{
    const char *name = af_path_name(path);
    return af_starts_with(name, "test_") || af_ends_with(name, "_test.py") ||
           strcmp(name, "conftest.py") == 0 || af_starts_with(path, "tests/") ||
           strstr(path, "/tests/") != NULL;
}

void af_project_check_imports(struct af_project_checker *checker,
                              const struct af_project_source *source,
                              const struct af_import_facts *facts)
{
    struct af_project_finding *finding = NULL;
    size_t fatal = 0, repaired = 0, unset = 0;
    if (is_test(source->path) || checker->is_flash_attn)
        return;
    for (const struct af_import_statement *import = facts->imports; import != NULL;
         import = import->next) {
        if (import->guard != AF_IMPORT_FATAL)
            continue;
        if (finding == NULL)
            finding = af_project_finding_add(checker, AF_PROJECT_FINDING_NO_FALLBACK, source,
                                             import->start);
        bool has_place = finding->edit_count < AF_PROJECT_FINDING_EDITS_MAX;
        const char *text = has_place ? guarded_text(checker, source, import) : NULL;
        fatal++;
        repaired += text != NULL;
        unset += text != NULL && af_ends_with(text, "None");
        if (text != NULL)
            af_project_finding_edit(checker, finding, import->start, import->end, text);
    }
    if (finding == NULL)
        return;
    if (repaired < fatal)
        finding->advice =
            "Catch the ImportError. flash-attn's other modules have no replacement "
            "elsewhere: do without them, or with code of your own.";
    else if (unset > 0)
        finding->advice = "Catch the ImportError. The change sets the functions to None: where "
                          "one is called, test for None and compute without flash-attn.";
    if (fatal > 1)
        finding->detail =
            af_arena_format(checker->arena, "%zu imports at the top of the file", fatal);
}
