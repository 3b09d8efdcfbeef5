/*
 * log_evidence.h: reads a log once and keeps what a diagnosis needs: which
 * signatures occur where, and what the log says about the machine. The memory
 * does not depend on the length of the log.
 */
#ifndef AF_KIT_DOCTOR_LOG_LOG_EVIDENCE_H
#define AF_KIT_DOCTOR_LOG_LOG_EVIDENCE_H

#include "kit/doctor/log/keyword.h"
#include "kit/doctor/log/log_cache.h"
#include "kit/doctor/log/log_end.h"
#include "kit/doctor/log/log_lines.h"
#include "kit/doctor/log/log_owner.h"
#include "kit/doctor/log/signature.h"
#include "kit/formats/wheel_name.h"
#include "kit/machine/pasted.h"

#define AF_LOG_TEXT_BYTES 640u
#define AF_LOG_HITS_MAX 8u /* kept per signature: its first hits and its last ones */
#define AF_LOG_FILES_MAX 64u
#define AF_LOG_ASKED_BYTES 32u
#define AF_LOG_RAW_BYTES 512u
#define AF_LOG_REPEATS_MAX 64u /* a machine may have that many equal GPUs, a line each */

/* A line that a signature matched. Lines are counted through all files from 1. */
struct af_log_hit {
    uint64_t line;
    bool is_said;                 /* it is a person's sentence */
    char text[AF_LOG_TEXT_BYTES]; /* the line, or its part around the match; not scrubbed */
    struct af_capture captures[AF_PATTERN_CAPTURES_MAX]; /* within `text` */
    size_t capture_count;
};

struct af_log_hits {
    struct af_log_hit *rows; /* AF_LOG_HITS_MAX of them; NULL: none yet */
    size_t count;            /* number of used rows */
    uint64_t total;
};

/* Lines on which something occurs, as ranges; if there is no room, the last one grows. */
#define AF_LOG_RANGES_MAX 16u
struct af_log_ranges {
    size_t count;
    struct {
        uint64_t first;
        uint64_t last;
    } rows[AF_LOG_RANGES_MAX];
};

struct af_log_file {
    const char *name;
    uint64_t before; /* lines of the files before it */
};

/* Everything that a log is searched for. Immutable once built, so it serves any number of
   logs. */
struct af_log_matcher {
    const struct af_signature_table *table;
    struct af_pattern *patterns; /* of the table, and four more */
    size_t count;
    size_t *rows;     /* [pattern]: its signature */
    size_t owner_row; /* the signature AF_SIGNATURE_OWNER; ROW_NONE: none */
    struct af_keyword_table keywords;
    struct af_sentence_words words;
    uint64_t flash; /* the concept of flash-attn */
};

struct af_log_evidence {
    struct af_arena *arena;
    const struct af_signature_table *table;
    struct af_log_hits *hits;         /* by signature */
    struct af_log_ranges *signatures; /* by signature */
    struct af_log_ranges *patterns;   /* by pattern of the table */
    struct af_wheel_name wheel;       /* of flash-attn, the first that was named */
    uint64_t wheel_line;              /* 0: none */
    bool wheel_is_guess;              /* the name that flash-attn's setup.py made up */
    struct af_pattern_match harmless; /* of a harmless message in the current line */
    uint64_t said;                    /* the concepts of all sentences (sentence.h) */
    char asked[AF_LOG_ASKED_BYTES]; /* the version of flash-attn that was asked for; "": none */
    uint64_t asked_line;
    uint64_t needle_line;        /* where `needle` occurred first; 0: nowhere */
    struct af_machine machine;   /* what reports that are pasted into the log say */
    struct af_log_owners owners; /* whom its lines are about */
    struct af_log_file files[AF_LOG_FILES_MAX];
    size_t file_count;
    uint64_t line_count;
    struct af_log_end end;
    /* private: see log_evidence.c */
    const struct af_log_matcher *matcher;
    uint64_t *stamps;
    uint64_t stamp;
    struct af_log_candidates *candidates; /* of the current line */
    struct af_log_cache cache;
    const struct af_log_line *line;
    struct af_log_lines lines;
    struct af_pasted_reader pasted;
    char raw[AF_LOG_RAW_BYTES]; /* the last line that the reader got, if it is that short */
    size_t raw_len;
    size_t raw_repeats; /* how often it followed itself */
};

/*
 * Prepares to search logs for the table's signatures. `needle` is a text that only a
 * log of this machine contains, such as the path of its Python environment; NULL:
 * none. Everything is allocated in `arena`; `table` must outlive the matcher. Fails
 * with INTERNAL if a table of the program is wrong.
 */
enum anyflash_status af_log_matcher_build(const struct af_signature_table *table,
                                          const char *needle, struct af_arena *arena,
                                          struct af_log_matcher *out,
                                          struct anyflash_error *err);

/*
 * Starts to read a log. Everything, the evidence included, is allocated in `arena`;
 * `matcher` must outlive it.
 */
struct af_log_evidence *af_log_evidence_new(const struct af_log_matcher *matcher,
                                            struct af_arena *arena);

/*
 * Begins the next file. `name` must be scrubbed and outlive the evidence. Files
 * beyond AF_LOG_FILES_MAX count as parts of the last one.
 */
void af_log_evidence_begin(struct af_log_evidence *evidence, const char *name);
void af_log_evidence_feed(struct af_log_evidence *evidence, const char *bytes, size_t len);

/* Ends the file. */
void af_log_evidence_end(struct af_log_evidence *evidence);

/* Releases the machine, the only part that is not in the arena. */
void af_log_evidence_release(struct af_log_evidence *evidence);

/* The file that contains the line; *line_out is the line number within that file. */
const struct af_log_file *af_log_evidence_file(const struct af_log_evidence *evidence,
                                               uint64_t line, uint64_t *line_out);

/* "line 12 of build.log", in the arena. */
const char *af_log_evidence_place(const struct af_log_evidence *evidence, uint64_t line,
                                  struct af_arena *arena);

/* The hits of the signature with that id; NULL: the table has no such row. */
const struct af_log_hits *af_log_evidence_hits(const struct af_log_evidence *evidence,
                                               const char *id);

/* Whether one of the ranges is within AF_SIGNATURE_NEAR_LINES of the line. */
bool af_log_ranges_near(const struct af_log_ranges *ranges, uint64_t line);

/*
 * Writes what the log says about its machine into `machine`, with lines of the log as
 * sources. The log overrides what the record already has, because it describes the
 * machine at the moment of the failure; but a known value that is more exact stays ("3.11.4"
 * where the log says "3.11"). The texts belong to the evidence. Can be called again for another
 * machine. (log_machine.c)
 */
void af_log_evidence_apply(struct af_log_evidence *evidence, struct af_machine *machine);

#endif
