/* signature.c: finds rows of the tables by their ids. */
#include "kit/doctor/log/signature.h"

#include <string.h>

const struct af_cause *af_cause_find(const struct af_cause_table *table, const char *id)
{
    for (size_t i = 0; i < table->rows_count; i++) {
        if (strcmp(table->rows[i].id, id) == 0)
            return &table->rows[i];
    }
    return NULL;
}

const struct af_signature *af_signature_find(const struct af_signature_table *table,
                                             const char *id)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->rows[i].id, id) == 0)
            return &table->rows[i];
    }
    return NULL;
}
