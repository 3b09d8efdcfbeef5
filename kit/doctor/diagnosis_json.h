/*
 * diagnosis_json.h: a diagnosis as JSON, schema anyflash-diagnosis/1.
 */
#ifndef AF_KIT_DOCTOR_DIAGNOSIS_JSON_H
#define AF_KIT_DOCTOR_DIAGNOSIS_JSON_H

#include "kit/base/json.h"
#include "kit/doctor/diagnosis.h"

/* A new object; NULL when memory runs out. `facts` says whose facts were used. */
json_t *af_diagnosis_json(const struct af_diagnosis *diagnosis,
                          const struct af_log_evidence *evidence, const char *facts);

/* The page of a cause as a new object; NULL when memory runs out. */
json_t *af_diagnosis_cause_json(const struct af_cause *cause);

#endif
