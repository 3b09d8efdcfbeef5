/*
 * fact_lookup.h: facts by name, for conditions and texts: those of a machine's
 * record ("torch.version"), those derived from it ("gpu.sm"), whether wheels are
 * published for it ("catalog.torch"), and those of the log: the wheel that it
 * names ("wheel.python") and the symbol that was not found ("symbol.in_torch").
 * The names are listed in fact_lookup.c.
 */
#ifndef AF_KIT_DOCTOR_LOG_FACT_LOOKUP_H
#define AF_KIT_DOCTOR_LOG_FACT_LOOKUP_H

#include "kit/catalog/catalog.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/formats/wheel_name.h"
#include "kit/machine/machine.h"

/* Where facts are looked up. Members may be NULL: their facts are unknown. */
struct af_lookup {
    const struct af_machine *machine; /* never NULL */
    const struct af_catalog *catalog;
    const struct af_wheel_name *wheel; /* of flash-attn, named in the log */
    const char *wheel_source;          /* "line 12 of build.log" */
    const char *asked; /* the version of flash-attn that was asked for; or NULL */
    const char *asked_source;
    const struct af_catalog_torch_symbols *symbols;
    const char *symbol; /* mangled name that was not found */
    const char *symbol_source;
    bool torch_cxx11abi; /* of torch's published build, if the source is set */
    const char *torch_cxx11abi_source;
    const char *torch_lacks; /* a GPU that this torch has no code for; NULL: none is known */
    bool without_prose;      /* facts from people's sentences count as unknown */
    struct af_arena *arena;  /* for computed values */
};

/* A fact as text: numbers in decimal, "true", "false", "8.0 9.0" for a list. */
struct af_lookup_value {
    enum af_fact_state state;
    const char *text; /* NULL unless KNOWN */
    const char *source;
};

/* The fact; unknown if the name is not known. */
struct af_lookup_value af_lookup_find(const struct af_lookup *lookup, const char *name);

bool af_lookup_is_name(const char *name);

/* A command that shows the fact, or NULL. */
const char *af_lookup_command(const char *name);

#endif
