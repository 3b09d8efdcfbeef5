/*
 * requirement_parts.h: what the readers of requirement lines (requirements.c) and of
 * pyproject.toml (pyproject_needs.c) share. Private to this room.
 */
#ifndef AF_KIT_PROJECT_REQUIREMENT_PARTS_H
#define AF_KIT_PROJECT_REQUIREMENT_PARTS_H

#include "kit/project/requirements.h"

/* A file that was read, or is being read. */
struct af_project_file {
    const char *path;
    bool constraint;
    bool open; /* being read: a file that includes it is circular */
    struct af_project_file *next;
};

/* Where the reader is. */
struct af_project_at {
    struct af_project_place place;
    bool constraint;
    unsigned depth;
};

/* Notes that only a program can tell what `place` needs. `place` is borrowed. */
void af_project_note_unread(struct af_project *project, const char *place);

/* Counts a requirement, an option or a table; fails with LIMIT if there are too many. */
enum anyflash_status af_project_count_item(struct af_project *project,
                                           const struct af_project_at *at,
                                           struct anyflash_error *err);

/*
 * Notes that the file is being read; the caller ends that with file->open. *file_out is NULL if
 * it was read before with the same meaning. Fails with DATA if it is still being read, and with
 * LIMIT. `path` is borrowed.
 */
enum anyflash_status af_project_open_file(struct af_project *project, const char *path,
                                          const struct af_project_at *at,
                                          struct af_project_file **file_out,
                                          struct anyflash_error *err);

/* -r or -c: the path is relative to the folder of the file that names it. */
enum anyflash_status af_project_include_file(struct af_project *project, const char *path,
                                             bool constraint, struct af_project_at at,
                                             struct anyflash_error *err);

/* Adds the requirement `text`; `hashes` are those of its --hash options. */
enum anyflash_status af_project_add_requirement(struct af_project *project, struct af_span text,
                                                const char *hashes, bool editable,
                                                struct af_project_at at,
                                                struct anyflash_error *err);

/* The same as af_project_add_folder() for a folder that is named `at` this place. */
enum anyflash_status af_project_add_local(struct af_project *project, const char *folder,
                                          const char *extras, struct af_project_at at,
                                          struct anyflash_error *err);

/*
 * Takes name, extras, specifier, URL and marker from the text of a requirement, or the URL or
 * path of one that is only a place, as all that are editable. Sets none of them for a text that
 * is neither (requirement_text.c).
 */
void af_project_requirement_parse(struct af_project *project, struct af_span text,
                                  struct af_project_requirement *made);

/* Whether the path is that of a wheel or of packed sources. */
bool af_project_is_archive(const char *path);

#endif
