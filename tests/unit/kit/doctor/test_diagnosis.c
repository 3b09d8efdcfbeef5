/*
 * test_diagnosis.c: rows of signatures are read and checked; causes are ranked by
 * conditions on facts, by the order of events and by the kind of message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/doctor/diagnosis.h"
#include "kit/doctor/rows/signature_rows.h"

#define CAUSE(name)                                                                            \
    {                                                                                          \
        .id = name, .phases = 1u << AF_CAUSE_BUILD, .title = "it is {what} " name,             \
        .why = "{torch.version}", .next = "n", .fix = "f"                                      \
    }
#define ROW(id, kind, any, rest)                                                               \
    "{\"id\":\"" id "\",\"any\":[" any "],\"phase\":\"build\",\"kind\":\"" kind                \
    "\",\"source\":\"test\"" rest "}\n"
#define CAUSES(list) ",\"causes\":[" list "]"
#define ONE(cause, score, rest) "{\"cause\":\"" cause "\",\"score\":" score rest "}"

static const struct af_cause cause_rows[] = {CAUSE("alpha"), CAUSE("beta"), CAUSE("gamma")};
static const struct af_cause_table causes = {cause_rows, AF_COUNT(cause_rows)};

static const char rows_text[] = ROW(
    "first", "fault", "\"first fault {what}\"",
    CAUSES(ONE("alpha", "70",
               ""))) ROW("second", "fault", "\"second fault\"",
                         CAUSES(ONE("beta", "75",
                                    ""))) ROW("strong", "fault", "\"strong fault\"",
                                              CAUSES(
                                                  ONE("gamma", "95",
                                                      ",\"proof\":\"nothing else prints it\"")))
    ROW("clear", "fault", "\"clear fault\"", CAUSES(ONE("beta", "100", ""))) ROW(
        "half", "fault", "\"half a proof\"",
        CAUSES(ONE(
            "alpha", "90",
            ",\"if\":[\"torch.version < 2.4\"],\"proof\":\"p\""))) ROW("strings", "fault",
                                                                       "\"strings "
                                                                       "differ\"",
                                                                       CAUSES(ONE(
                                                                           "alpha", "60",
                                                                           ",\"proves\":["
                                                                           "\"torch."
                                                                           "cxx11abi is "
                                                                           "false\"]")))
        ROW("after", "symptom", "\"it stopped\"", CAUSES(ONE("gamma", "99", ""))) ROW(
            "owner-of-message",
            "context",
            "\"{package}.so: undefined\",\"while importing "
            "{package}:\"",
            "") ROW("place", "context", "\"in the workshop\"", "")
            ROW("near", "fault", "\"near fault\"",
                CAUSES(ONE("alpha", "60",
                           "")) ",\"near\":["
                                "\"@place\"]")
                ROW("far", "fault", "\"near fault\"",
                    CAUSES(ONE("beta", "60", "")) ",\"not_near\":[\"in the work*shop\"]")
                    ROW("twins", "fault", "\"twin fault {v:version}\"",
                        CAUSES(ONE(
                            "alpha", "80",
                            ",\"if\":[\"torch.version < {v}\"],"
                            "\"proves\":[\"torch.version < {v}\"]") "," ONE("beta", "78",
                                                                            ",\"if\":[\"torch."
                                                                            "version >= {v}\"],"
                                                                            "\"proves\":["
                                                                            "\"torch."
                                                                            "version >= "
                                                                            "{v}\"]")))
                        ROW("around", "fault", "\"round fault\"",
                            CAUSES(ONE("alpha", "60", ",\"near\":[\"@place\"]") "," ONE(
                                "beta", "60",
                                ",\"kind\":\"symptom\",\"not_near\":[\"@place\"]")))
                            ROW("calm", "harmless", "\"calm warning\"",
                                ",\"why\":\"all is well\"") "{\"id\":\"early\",\"any\":[\"the "
                                                            "start "
                                                            "failed\"],\"phase\":\"resolve\","
                                                            "\"kind\":\"failed\",\"source\":"
                                                            "\"test\"}\n";

struct bench {
    struct af_arena arena;
    struct af_signature_table table;
    struct af_log_matcher matcher;
    struct af_machine machine;
    struct af_diagnosis diagnosis;
};

static struct bench bench;

static struct af_span span(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

static enum anyflash_status diagnose(const char *log, const char *torch,
                                     struct anyflash_error *err)
{
    struct af_log_evidence *evidence;
    const char *remark;
    af_arena_init(&bench.arena);
    af_machine_init(&bench.machine, "test", "not given");
    enum anyflash_status status = af_jsonl_read_signatures(span(rows_text), "rows", &causes,
                                                           &bench.arena, &bench.table, err);
    if (status == ANYFLASH_OK && torch != NULL)
        status = af_machine_given(&bench.machine, torch, &remark, err);
    if (status == ANYFLASH_OK)
        status = af_log_matcher_build(&bench.table, NULL, &bench.arena, &bench.matcher, err);
    if (status != ANYFLASH_OK)
        return status;
    evidence = af_log_evidence_new(&bench.matcher, &bench.arena);
    af_log_evidence_begin(evidence, "test.log");
    af_log_evidence_feed(evidence, log, strlen(log));
    af_log_evidence_end(evidence);
    af_log_evidence_apply(evidence, &bench.machine);
    status =
        af_diagnosis_make(evidence, &bench.machine, NULL, &bench.arena, &bench.diagnosis, err);
    af_log_evidence_release(evidence);
    return status;
}

static void release(void)
{
    af_machine_release(&bench.machine);
    af_arena_release(&bench.arena);
}

/* "alpha proved, beta possible" */
static void assert_causes(const char *log, const char *torch, const char *expected)
{
    struct anyflash_error err = {0};
    struct af_text got = {0};
    if (diagnose(log, torch, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < bench.diagnosis.count; i++)
        af_text_format(&got, "%s%s %s", i == 0 ? "" : ", ", bench.diagnosis.causes[i].cause->id,
                       af_diagnosis_confidence_text(bench.diagnosis.causes[i].confidence));
    if (strcmp(af_text_get(&got), expected) != 0)
        fail_msg("%s: got '%s', expected '%s'", log, af_text_get(&got), expected);
    af_text_release(&got);
    release();
}

static void a_log_without_a_signature_has_no_cause(void **state)
{
    (void)state;
    assert_causes("", NULL, "");
    assert_causes("nothing\nhere\n", NULL, "");
}

static void the_first_fault_counts_more(void **state)
{
    (void)state;
    assert_causes("first fault x\nsecond fault\n", NULL, "alpha likely, beta possible");
    assert_causes("second fault\nfirst fault x\n", NULL, "beta likely, alpha possible");
}

static void a_much_stronger_later_fault_wins(void **state)
{
    (void)state;
    assert_causes("first fault x\nstrong fault\n", NULL, "gamma proved, alpha possible");
}

static void a_message_with_a_proof_proves_its_cause(void **state)
{
    (void)state;
    assert_causes("strong fault\n", NULL, "gamma proved");
    assert_causes("half a proof\n", NULL, "alpha possible");
    assert_causes("half a proof\n", "torch=2.3.1", "alpha proved");
    assert_causes("half a proof\n", "torch=2.4.0", "");
}

static void a_proved_cause_stands_before_possible_ones(void **state)
{
    (void)state;
    assert_causes("second fault\nstrong fault\n", NULL, "gamma proved, beta possible");
    assert_causes("clear fault\nstrong fault\n", NULL, "beta likely, gamma proved");
}

static void a_published_torch_has_a_known_abi(void **state)
{
    (void)state;
    const char *lines = "strings differ\nbuild/lib.linux-x86_64-cpython-311/x.so\n";
    char log[200];
    assert_causes(lines, NULL, "alpha likely");
    assert_causes(lines, "torch=2.6.0+cu124", "alpha proved");
    assert_causes(lines, "torch=2.6.0+cu126", "alpha likely");
    assert_causes(lines, "torch=2.6.0", "alpha likely");
    assert_causes("strings differ\n", "torch=2.6.0+cu124", "alpha likely");
    snprintf(log, sizeof log, "%storch.__version__ = 2.5.1+cu121\n", lines);
    assert_causes(log, NULL, "alpha proved");
}

static void a_symptom_counts_only_without_a_fault(void **state)
{
    (void)state;
    assert_causes("it stopped\n", NULL, "gamma likely");
    assert_causes("it stopped\nfirst fault x\n", NULL, "alpha likely");
}

static void neighbours_decide(void **state)
{
    (void)state;
    assert_causes("in the workshop\nnear fault\n", NULL, "alpha likely");
    assert_causes("near fault\nin the workshop\n", NULL, "alpha likely");
    assert_causes("near fault\n", NULL, "beta likely");
}

static void neighbours_of_a_cause_decide(void **state)
{
    (void)state;
    assert_causes("in the workshop\nround fault\n", NULL, "alpha likely");
    assert_causes("round fault\n", NULL, "beta likely");
    assert_causes("round fault\nfirst fault x\n", NULL, "alpha likely");
}

static void a_symptom_of_a_phase_that_was_not_reached_has_no_cause(void **state)
{
    (void)state;
    assert_causes("the start failed\nit stopped\n", NULL, "");
    assert_causes("the start failed\nfirst fault x\n", NULL, "alpha likely");
}

static void a_message_about_another_extension_has_no_cause(void **state)
{
    (void)state;
    assert_causes("/x/scan_cuda.so: undefined symbol: first fault x\n", NULL, "");
    assert_causes("/x/flash_attn_2_cuda.so: undefined symbol: first fault x\n", NULL,
                  "alpha likely");
    assert_causes("DLL load failed while importing scan_cuda: first fault x\n", NULL, "");
}

static void a_harmless_message_is_the_answer_without_a_cause(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    assert_int_equal(diagnose("x\ncalm warning\n", NULL, &err), ANYFLASH_OK);
    assert_string_equal(bench.diagnosis.harmless.why, "all is well");
    assert_int_equal(bench.diagnosis.harmless.seen.line, 2);
    release();
    assert_int_equal(diagnose("calm warning\nfirst fault x\n", NULL, &err), ANYFLASH_OK);
    assert_int_equal(bench.diagnosis.count, 1);
    assert_null(bench.diagnosis.harmless.why);
    release();
}

static void a_neighbour_is_within_200_lines(void **state)
{
    (void)state;
    struct af_text log = {0};
    af_text_add(&log, "in the workshop\n");
    for (int i = 0; i < 250; i++)
        af_text_add(&log, "line\n");
    af_text_add(&log, "near fault\n");
    assert_causes(af_text_get(&log), NULL, "beta likely");
    af_text_release(&log);
}

static void facts_prove_and_refute(void **state)
{
    (void)state;
    assert_causes("twin fault 2.4\n", "torch=2.3.1", "alpha proved");
    assert_causes("twin fault 2.4\n", "torch=2.4.0+cu121", "beta proved");
}

static void the_log_states_facts_itself(void **state)
{
    (void)state;
    assert_causes("torch.__version__  = 2.1.0+cu121\ntwin fault 2.4\n", NULL, "alpha proved");
    assert_causes("twin fault 2.4\nPyTorch version: 2.6.0\n", NULL, "beta proved");
}

static void unknown_facts_leave_both_possible_and_are_asked_for(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    assert_int_equal(diagnose("twin fault 2.4\n", NULL, &err), ANYFLASH_OK);
    assert_int_equal(bench.diagnosis.count, 2);
    assert_int_equal(bench.diagnosis.causes[0].confidence, AF_DIAGNOSIS_POSSIBLE);
    assert_int_equal(bench.diagnosis.question_count, 1);
    assert_string_equal(bench.diagnosis.questions[0].fact, "torch.version");
    assert_non_null(strstr(bench.diagnosis.questions[0].command, "torch.__version__"));
    release();
}

static void evidence_names_lines_and_facts(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    assert_int_equal(diagnose("x\n\033[1mtwin fault 2.4\033[0m\n", "torch=2.3.1", &err),
                     ANYFLASH_OK);
    const struct af_diagnosed *found = &bench.diagnosis.causes[0];
    assert_int_equal(found->evidence_count, 2);
    assert_int_equal(found->evidence[0].line, 2);
    assert_string_equal(found->evidence[0].text, "twin fault 2.4");
    assert_string_equal(found->evidence[0].file, "test.log");
    assert_string_equal(found->evidence[1].fact, "torch.version");
    assert_string_equal(found->evidence[1].text, "2.3.1");
    assert_string_equal(found->evidence[1].source, "--given torch=2.3.1");
    release();
}

static void texts_are_filled_in(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    assert_int_equal(diagnose("first fault Blue\n", NULL, &err), ANYFLASH_OK);
    assert_string_equal(bench.diagnosis.causes[0].title, "it is Blue alpha");
    assert_string_equal(bench.diagnosis.causes[0].why, "TORCH_VERSION");
    release();
}

static void endless_repetition_is_bounded(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    struct af_text log = {0};
    for (int i = 0; i < 20000; i++)
        af_text_format(&log, "twin fault %d\nline\nsecond fault\n", i);
    assert_int_equal(diagnose(af_text_get(&log), NULL, &err), ANYFLASH_OK);
    assert_in_range(bench.diagnosis.count, 1, 3);
    release();
    af_text_release(&log);
}

static void assert_row_refused(const char *rows, const char *why)
{
    struct anyflash_error err = {0};
    struct af_arena arena;
    struct af_signature_table table;
    af_arena_init(&arena);
    assert_int_equal(
        af_jsonl_read_signatures(span(rows), "rows.jsonl", &causes, &arena, &table, &err),
        ANYFLASH_E_DATA);
    if (strncmp(err.message, "rows.jsonl:2: ", 14) != 0 || strstr(err.message, why) == NULL)
        fail_msg("got '%s', expected '%s'", err.message, why);
    af_arena_release(&arena);
}

#define GOOD ROW("good", "context", "\"good line\"", "")

static void bad_rows_are_refused_with_their_line(void **state)
{
    (void)state;
    assert_row_refused(GOOD "{\"id\":", "column");
    assert_row_refused(GOOD "[1]", "not a JSON object");
    assert_row_refused(GOOD ROW("a", "context", "\"text\"", ",\"nera\":[]"), "unknown key");
    assert_row_refused(GOOD ROW("good", "context", "\"text\"", ""), "occurs twice");
    assert_row_refused(GOOD ROW("a", "error", "\"text\"", ""), "'kind' must be");
    assert_row_refused(GOOD ROW("a", "context", "\"abc\"", ""), "at least 4");
    assert_row_refused(GOOD ROW("a", "context", "1", ""), "'any'");
    assert_row_refused(GOOD ROW("a", "fault", "\"text\"", ""), "'causes'");
    assert_row_refused(GOOD ROW("a", "harmless", "\"text\"", ""), "'why'");
    assert_row_refused(GOOD ROW("a", "fault", "\"text\"", CAUSES(ONE("delta", "5", ""))),
                       "unknown cause");
    assert_row_refused(GOOD ROW("a", "fault", "\"text\"", CAUSES(ONE("alpha", "101", ""))),
                       "'score'");
    assert_row_refused(GOOD ROW("a", "context", "\"text\"", ",\"near\":[\"@b\"]"),
                       "names no signature");
    assert_row_refused(GOOD ROW("a", "fault", "\"text\"",
                                CAUSES(ONE("alpha", "5", ",\"if\":[\"torch.versoin < 2\"]"))),
                       "known fact");
    assert_row_refused(GOOD ROW("a", "fault", "\"text\"",
                                CAUSES(ONE("alpha", "5", ",\"if\":[\"torch.version < {v}\"]"))),
                       "captures {v}");
    assert_row_refused(
        GOOD ROW("a", "fault", "\"text\"", CAUSES(ONE("alpha", "5", ",\"proof\":true"))),
        "'proof'");
    assert_row_refused(
        GOOD ROW("a", "fault", "\"text\"",
                 CAUSES(ONE("alpha", "5", ",\"if\":[\"torch.version is odd\"]"))),
        "the condition");
}

static int start(void **state)
{
    (void)state;
    af_json_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_without_a_signature_has_no_cause),
        cmocka_unit_test(the_first_fault_counts_more),
        cmocka_unit_test(a_much_stronger_later_fault_wins),
        cmocka_unit_test(a_message_with_a_proof_proves_its_cause),
        cmocka_unit_test(a_proved_cause_stands_before_possible_ones),
        cmocka_unit_test(a_published_torch_has_a_known_abi),
        cmocka_unit_test(a_symptom_counts_only_without_a_fault),
        cmocka_unit_test(neighbours_decide),
        cmocka_unit_test(neighbours_of_a_cause_decide),
        cmocka_unit_test(a_symptom_of_a_phase_that_was_not_reached_has_no_cause),
        cmocka_unit_test(a_message_about_another_extension_has_no_cause),
        cmocka_unit_test(a_harmless_message_is_the_answer_without_a_cause),
        cmocka_unit_test(a_neighbour_is_within_200_lines),
        cmocka_unit_test(facts_prove_and_refute),
        cmocka_unit_test(the_log_states_facts_itself),
        cmocka_unit_test(unknown_facts_leave_both_possible_and_are_asked_for),
        cmocka_unit_test(evidence_names_lines_and_facts),
        cmocka_unit_test(texts_are_filled_in),
        cmocka_unit_test(endless_repetition_is_bounded),
        cmocka_unit_test(bad_rows_are_refused_with_their_line),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
