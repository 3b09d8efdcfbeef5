/*
 * doctor_report.c: collects sections, scrubs them, and tells the user what the
 * report contains before it is sent anywhere.
 */
#include "kit/cli/doctor_report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/doctor/scrub.h"
#include "kit/machine/machine.h"
#include "kit/system/output.h"

#define FILE_DEFAULT "anyflash-report.md"
#define TITLE "# anyflash report"
#define HOST_BYTES 256

void af_cli_report_section(struct af_text *report, const char *title, const char *text)
{
    size_t len = strlen(text);
    if (len == 0)
        return;
    if (report->len == 0)
        af_text_format(report, TITLE "\n\nanyflash %s\n", anyflash_version_text());
    af_text_format(report, "\n## %s\n\n~~~~\n%s%s~~~~\n", title, text,
                   text[len - 1] == '\n' ? "" : "\n");
}

enum anyflash_status af_cli_report_machine(struct af_text *report, struct af_machine *machine,
                                           struct anyflash_error *err)
{
    struct af_text json = {0};
    enum anyflash_status status = af_machine_write(machine, &json, err);
    if (status == ANYFLASH_OK)
        af_cli_report_section(report, "Facts of the machine", af_text_get(&json));
    af_text_release(&json);
    return status;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        count++;
    return count;
}

/* "verdict, log, facts of the machine": the titles of the sections. */
static void add_titles(struct af_text *sentence, const char *text)
{
    const char *between = "";
    for (const char *at = text; (at = strstr(at, "\n## ")) != NULL;) {
        at += 4;
        af_text_format(sentence, "%s%.*s", between, (int)strcspn(at, "\n"), at);
        between = ", ";
    }
}

/* What the user is told about the file. */
static void add_contents(struct af_text *sentence, const char *path, const char *raw,
                         const char *scrubbed)
{
    static const char *const words[] = {"[credentials]", "[query]", "[token]", "[secret]",
                                        "[user]",        "[home]",  "[host]",  "[e-mail]",
                                        "[address]",     "[uuid]"};
    const char *before = "; replaced: ";
    af_text_format(sentence, "wrote '%s' (%zu KiB): ", path, (strlen(scrubbed) + 1023) / 1024);
    add_titles(sentence, scrubbed);
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        size_t count = count_of(scrubbed, words[i]) - count_of(raw, words[i]);
        if (count == 0 || count > strlen(scrubbed))
            continue;
        af_text_format(sentence, "%s%zu x %s", before, count, words[i]);
        before = ", ";
    }
    af_text_add(sentence, "; read it before you post it");
}

/* Writes the file and says what it contains, or, if memory runs out, does neither. */
static enum anyflash_status write_and_tell(struct af_cli *cli, const char *path,
                                           const char *raw, const char *scrubbed,
                                           struct anyflash_error *err)
{
    struct af_text sentence = {0};
    const char *shown = af_text_scrub(&cli->arena, path, 200);
    bool may_replace = af_file_may_replace(&cli->arena, path, TITLE);
    if (shown != NULL)
        add_contents(&sentence, shown, raw, scrubbed);
    enum anyflash_status status = ANYFLASH_OK;
    if (cli->arena.failed || sentence.failed) {
        status = af_fail_memory(err);
    } else if (!may_replace) {
        cli->hint = "name another file with --output";
        status =
            af_fail(err, ANYFLASH_E_IO, "'%s' exists and is not a report of anyflash", shown);
    }
    if (status == ANYFLASH_OK)
        status = af_file_write_text(&cli->arena, path, scrubbed, err);
    if (status == ANYFLASH_OK)
        af_cli_remark(cli, af_text_get(&sentence));
    af_text_release(&sentence);
    return status;
}

enum anyflash_status af_cli_report_write(struct af_cli *cli, const struct af_text *report,
                                         struct anyflash_error *err)
{
    char host[HOST_BYTES] = "";
    const char *given = cli->options.values[AF_OPTION_OUTPUT];
    const char *path = given != NULL ? given : FILE_DEFAULT;
    const char *user = getenv("USER");
    gethostname(host, sizeof host - 1);
    const struct af_scrub_names names = {
        .user = user != NULL ? user : getenv("LOGNAME"), .host = host, .home = getenv("HOME")};
    const char *raw = af_text_get(report);
    const char *text =
        report->failed ? NULL
                       : af_scrub_text(&cli->arena, (struct af_span){raw, strlen(raw)}, &names);
    return text == NULL ? af_fail_memory(err) : write_and_tell(cli, path, raw, text, err);
}
