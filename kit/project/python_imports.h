/*
 * python_imports.h: what a Python source says about flash-attn: its imports, whether the module
 * can be imported without it, and what a setup program requires. The source is split into
 * tokens and lines; nothing is executed.
 *
 * Source: "Lexical analysis" and "Compound statements" of the Python language reference.
 */
#ifndef AF_KIT_PROJECT_PYTHON_IMPORTS_H
#define AF_KIT_PROJECT_PYTHON_IMPORTS_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/* What happens where the import fails. */
enum af_import_guard {
    AF_IMPORT_FATAL,   /* the import of the module fails, too */
    AF_IMPORT_LAZY,    /* it is in a function: only a call fails */
    AF_IMPORT_GUARDED, /* there is a handler or a condition for it */
};

/* One statement "import flash_attn..." or "from flash_attn... import ...". */
struct af_import_statement {
    size_t start; /* in bytes, of the statement */
    size_t end;
    size_t line; /* from 1 */
    size_t indent;
    bool is_alone;         /* nothing else is in its logical line */
    struct af_span module; /* of "from": "flash_attn.bert_padding"; else empty */
    struct af_span names;  /* "flash_attn_func as f, x", without brackets */
    enum af_import_guard guard;
    struct af_import_statement *next;
};

/* A string of install_requires = [...], without its quotes. */
struct af_import_string {
    struct af_span text;
    size_t line;
    struct af_import_string *next;
};

/* Spans point into the source; the lists are in the arena and in the order of the source. */
struct af_import_facts {
    struct af_import_statement *imports;
    struct af_import_string *install_requires;
    struct af_span python_requires; /* the string behind that name; else empty */
    bool mentions; /* a name or a string contains flash_attn or flash_attention */
};

/*
 * Reads any bytes; what is no Python gives fewer facts. Blocks nested deeper than 64 count as
 * guarded. Fails with NO_MEMORY.
 */
enum anyflash_status af_imports_of_python(struct af_arena *arena, struct af_span text,
                                          struct af_import_facts *facts_out,
                                          struct anyflash_error *err);

#endif
