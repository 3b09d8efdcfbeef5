/*
 * test_pasted.c: pasted output. tests/machine/pasted/NAME.txt are texts in the
 * form in which people paste them, NAME.json the facts that must come out:
 *
 *   {"torch.version": "2.4.0",          a known value
 *    "torch.cuda": null,                known to be absent
 *    "torch.git": {"unknown": true},
 *    "torch.version@": "line 2 of ...", the source of the fact
 *    "gpus": 2, "gpus[1].sm": "8.9",    rows of a list, and one of them
 *    "notes": null}                     or a part of the notes
 *
 * tests/machine/said.jsonl has shorter texts, one in each line with its facts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/machine/pasted.h"
#include "kit/system/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER AF_TEST_DATA "/machine/pasted/"
#define TEXTS_MIN 25

static struct anyflash_error problem;
static size_t wrong_count; /* facts and notes that are not as expected */

static struct af_span text_of(struct af_arena *arena, const char *name)
{
    struct af_span bytes;
    const char *path = af_arena_format(arena, FOLDER "%s", name);
    if (af_file_read(arena, path, AF_PASTED_BYTES_MAX, &bytes, &problem) != ANYFLASH_OK)
        fail_msg("%s", problem.message);
    return bytes;
}

static enum anyflash_status paste(struct af_machine *machine, const char *text)
{
    af_machine_init(machine, "test", "not said");
    return af_pasted_read(machine, (struct af_span){text, strlen(text)}, "t.txt", &problem);
}

/* The member "gpus[1].sm" or "torch.version" of a record; NULL if there is none. */
static json_t *find(json_t *record, const char *path)
{
    char group[64];
    size_t index = 0;
    size_t len = strcspn(path, "[.");
    snprintf(group, sizeof group, "%.*s", (int)len, path);
    json_t *found = json_object_get(record, group);
    if (path[len] == '[') {
        char *end;
        index = strtoul(path + len + 1, &end, 10);
        found = json_array_get(found, index);
        len = (size_t)(end - path) + 1;
    }
    return path[len] == '.' ? json_object_get(found, path + len + 1) : found;
}

static void check_notes(const char *file, const char *notes, const json_t *expected)
{
    const char *part = json_string_value(expected);
    bool right = part == NULL ? notes == NULL : notes != NULL && strstr(notes, part) != NULL;
    if (!right)
        print_error("%s: the notes are %s\n", file, notes == NULL ? "missing" : notes);
    wrong_count += !right;
}

static void check_fact(const char *file, const char *key, json_t *record, json_t *expected)
{
    char path[80];
    snprintf(path, sizeof path, "%s", key);
    bool source = af_ends_with(path, "@");
    if (source)
        path[strlen(path) - 1] = '\0';
    json_t *fact = find(record, path);
    bool list = strpbrk(path, ".[") == NULL;
    bool unknown = json_object_get(fact, "unknown") != NULL;
    json_t *value = json_object_get(fact, source ? "source" : "value");
    bool right = json_is_object(expected) ? unknown
                 : list && json_is_integer(expected)
                     ? !unknown && json_array_size(json_is_array(fact) ? fact : value) ==
                                       (size_t)json_integer_value(expected)
                     : !unknown && value != NULL && json_equal(value, expected);
    if (!right) {
        char *shown = json_dumps(fact, JSON_ENCODE_ANY);
        print_error("%s: %s is %s\n", file, key, shown == NULL ? "missing" : shown);
        free(shown);
        wrong_count++;
    }
}

/* The record as JSON, which must also be read back to the same text. */
static json_t *record_of(struct af_machine *machine)
{
    struct af_text first = {0};
    struct af_text second = {0};
    struct af_machine again;
    json_t *json;
    af_machine_init(&again, "again", "not said");
    af_machine_write(machine, &first);
    struct af_span bytes = {first.data, first.len};
    assert_int_equal(af_machine_parse(&again, bytes, "again", &problem), ANYFLASH_OK);
    af_machine_write(&again, &second);
    assert_string_equal(first.data, second.data);
    assert_int_equal(af_json_parse(bytes, first.len, "record", &json, &problem), ANYFLASH_OK);
    af_machine_release(&again);
    af_text_release(&first);
    af_text_release(&second);
    return json;
}

static void check_text(const char *name, struct af_span text, json_t *expected)
{
    struct af_machine machine;
    const char *key;
    json_t *value;
    if (text.data[0] != '{' && !af_pasted_recognise(text))
        fail_msg("%s is not recognised", name);
    af_machine_init(&machine, "test", "not said");
    if (af_machine_read(&machine, text, name, &problem) != ANYFLASH_OK)
        fail_msg("%s: %s", name, problem.message);
    json_t *record = record_of(&machine);
    json_object_foreach(expected, key, value)
    {
        if (strcmp(key, "notes") == 0)
            check_notes(name, machine.notes, value);
        else
            check_fact(name, key, record, value);
    }
    json_decref(record);
    af_machine_release(&machine);
}

static void check_file(struct af_arena *arena, const char *name)
{
    json_t *expected;
    struct af_span text = text_of(arena, name);
    const char *facts = af_arena_format(arena, "%.*s.json", (int)strlen(name) - 4, name);
    struct af_span json = text_of(arena, facts);
    assert_int_equal(af_json_parse(json, json.len, facts, &expected, &problem), ANYFLASH_OK);
    check_text(name, text, expected);
    json_decref(expected);
}

/* Each line of said.jsonl has a text and its facts. */
static void test_pasted__reads_what_people_write(void **state)
{
    struct af_arena arena;
    struct af_span line;
    size_t count = 0;
    (void)state;
    af_arena_init(&arena);
    wrong_count = 0;
    struct af_span rest = text_of(&arena, "../said.jsonl");
    for (; af_text_line(&rest, &line); count++) {
        json_t *row;
        assert_int_equal(af_json_parse(line, line.len, "said", &row, &problem), ANYFLASH_OK);
        const json_t *text = json_object_get(row, "text");
        check_text(json_string_value(json_object_get(row, "name")),
                   (struct af_span){json_string_value(text), json_string_length(text)},
                   json_object_get(row, "facts"));
        json_decref(row);
    }
    assert_true(count >= TEXTS_MIN);
    assert_int_equal(wrong_count, 0);
    af_arena_release(&arena);
}

static void test_pasted__reads_what_people_paste(void **state)
{
    (void)state;
    struct af_arena arena;
    struct dirent *entry;
    size_t count = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    af_arena_init(&arena);
    while ((entry = readdir(folder)) != NULL) {
        if (!af_ends_with(entry->d_name, ".txt"))
            continue;
        check_file(&arena, entry->d_name);
        count++;
    }
    closedir(folder);
    assert_true(count >= TEXTS_MIN);
    assert_int_equal(wrong_count, 0);
    af_arena_release(&arena);
}

static void test_pasted__is_not_a_record_and_not_any_text(void **state)
{
    (void)state;
    static const char *const others[] = {"",
                                         "{",
                                         " \n {\"torch\": {\"version\": \"2.4.0\"}}",
                                         "\xEF\xBB\xBF{\"gpus\": null}",
                                         "[1, 2]",
                                         "hello\nworld",
                                         "Traceback (most recent call last):",
                                         "a: b",
                                         "torch",
                                         "torch>=2.0",
                                         "Requires Python 3.9+, CUDA 12.0 or higher",
                                         "- PyTorch 2.2 and above",
                                         "pip install torch==2.6.0+cu126 # RTX 3060",
                                         "GPUs (e.g., A100, RTX 3090, H100) are supported",
                                         "Python 3.10, 3.11 or 3.12",
                                         "torch \xE2\x89\xA5 2.4",
                                         "Python 3.10\xE4\xBB\xA5\xE4\xB8\x8A",
                                         "We recommend the image nvidia/cuda:12.4.1-devel",
                                         "File \"torch/x.py\", line 3090, in f",
                                         "Tried to allocate 4090 MB of GPU memory",
                                         "vLLM 0.6.3 serves Llama 3.1 8B"};
    for (size_t i = 0; i < AF_COUNT(others); i++) {
        if (af_pasted_recognise((struct af_span){others[i], strlen(others[i])}))
            fail_msg("'%s' is taken for pasted output", others[i]);
    }
    struct af_machine machine;
    assert_int_equal(paste(&machine, "hello\n"), ANYFLASH_E_DATA);
    assert_non_null(strstr(problem.message, "'t.txt'"));
    af_machine_release(&machine);
}

static void test_pasted__keeps_the_line_and_the_kind_of_each_fact(void **state)
{
    (void)state;
    struct af_machine machine;
    assert_int_equal(paste(&machine, "An RTX 4090\nPython 3.11.7\n"), ANYFLASH_OK);
    const struct af_fact *name = &machine.gpus.rows[0].name;
    assert_int_equal(name->origin.kind, AF_ORIGIN_PROSE);
    assert_int_equal(name->origin.line, 1);
    assert_int_equal(machine.python.version.origin.kind, AF_ORIGIN_LINE);
    assert_int_equal(machine.python.version.origin.line, 2);
    assert_int_equal(machine.torch.version.origin.kind, AF_ORIGIN_NONE);
    af_machine_release(&machine);
}

static void test_pasted__reads_records_too(void **state)
{
    (void)state;
    struct af_machine machine;
    static const char record[] = "{\"torch\": {\"version\": \"2.4.0\"}}";
    struct af_span bytes = {record, sizeof record - 1};
    af_machine_init(&machine, "test", "not said");
    assert_int_equal(af_machine_read(&machine, bytes, "m.json", &problem), ANYFLASH_OK);
    assert_true(af_fact_is(&machine.torch.version, "2.4.0"));
    assert_int_equal(af_machine_read(&machine, (struct af_span){"nothing", 7}, "m", &problem),
                     ANYFLASH_E_DATA);
    af_machine_release(&machine);
}

static void test_pasted__lets_given_words_override(void **state)
{
    (void)state;
    struct af_machine machine;
    const char *remark;
    assert_int_equal(paste(&machine, "GPU 0: NVIDIA A100-SXM4-80GB\ntorch==2.4.0+cu121\n"),
                     ANYFLASH_OK);
    assert_int_equal(af_machine_given(&machine, "gpu=T4", &remark, &problem), ANYFLASH_OK);
    assert_int_equal(af_machine_given(&machine, "torch=2.6.0", &remark, &problem), ANYFLASH_OK);
    assert_int_equal(machine.gpus.count, 1);
    assert_true(af_fact_is(&machine.gpus.rows[0].sm, "7.5"));
    assert_true(af_fact_is(&machine.torch.version, "2.6.0"));
    af_machine_release(&machine);
}

static void test_pasted__reads_utf_16_from_powershell(void **state)
{
    (void)state;
    static const char text[] =
        "PyTorch version: 2.6.0+cu124\r\nOS: Microsoft Windows 11 Pro\r\n";
    char wide[2 + 2 * sizeof text] = {'\xFF', '\xFE'};
    struct af_machine machine;
    for (size_t i = 0; i < sizeof text - 1; i++)
        wide[2 + 2 * i] = text[i];
    struct af_span bytes = {wide, 2 * sizeof text};
    af_machine_init(&machine, "test", "not said");
    assert_int_equal(af_machine_read(&machine, bytes, "env.txt", &problem), ANYFLASH_OK);
    assert_true(af_fact_is(&machine.torch.version, "2.6.0+cu124"));
    assert_true(af_fact_is(&machine.platform.os, "windows"));
    af_machine_release(&machine);
}

/* Reads lines as those of a log. */
static void read_log(struct af_machine *machine, const char *text)
{
    struct af_pasted_reader reader;
    struct af_span rest = {text, strlen(text)};
    struct af_span line;
    af_machine_init(machine, "log", "not in the log");
    af_pasted_begin(&reader, machine, "build.log");
    for (size_t i = 1; af_text_line(&rest, &line); i++)
        af_pasted_line(&reader, line, i);
    af_pasted_end(&reader);
}

static void test_log__takes_what_is_installed_and_not_what_is_required(void **state)
{
    (void)state;
    struct af_machine machine;
    read_log(&machine, "Collecting torch==2.1.0\n"
                       "torch==2.2.0\n"
                       "flash-attn 2.0.0\n"
                       "Successfully built torch (2.3.0)\n");
    assert_int_equal(machine.torch.version.state, AF_FACT_UNKNOWN);
    assert_int_equal(machine.packages.count, 0);
    af_machine_release(&machine);
    read_log(&machine, "Requirement already satisfied: torch>=2.0 in "
                       "/venv/lib/python3.10/site-packages (from flash-attn) (2.0.1+cu117)\n"
                       " + einops==0.8.0\n");
    assert_true(af_fact_is(&machine.torch.version, "2.0.1+cu117"));
    assert_true(af_fact_is(&machine.torch.cuda, "11.7"));
    assert_true(af_fact_is(&machine.python.version, "3.10"));
    assert_int_equal(machine.packages.count, 1);
    af_machine_release(&machine);
    read_log(&machine, "$ uv pip freeze\nnumpy==2.0.0\ntorch==2.2.0\n\ntorch==2.3.0\n"
                       "      torch.__version__  = 2.4.1+cu121\n");
    assert_true(af_fact_is(&machine.torch.version, "2.4.1+cu121")); /* it ran */
    assert_non_null(strstr(machine.notes, "2.4.1+cu121 on line 6"));
    af_machine_release(&machine);
}

static void test_log__reads_what_is_written_below_a_long_one(void **state)
{
    (void)state;
    struct af_machine machine;
    char text[10240];
    size_t len = 0;
    while (len < 8192)
        len += (size_t)snprintf(text + len, sizeof text - len, "copying flash_attn/a.py\n");
    snprintf(text + len, sizeof text - len, "My GPU is a Tesla V100\n");
    read_log(&machine, text);
    assert_int_equal(machine.gpus.count, 1);
    assert_true(af_fact_is(&machine.gpus.rows[0].sm, "7.0"));
    af_machine_release(&machine);
}

/* Reads every start of a text, each in a buffer of exactly its size. */
static void test_pasted__survives_a_cut_at_every_byte(void **state)
{
    (void)state;
    static const char *const names[] = {"pip_list_everything.txt",
                                        "collect_env_two_torches.txt", "pip_list_json.txt",
                                        "rocm_smi_rocminfo.txt", "notebook_alpine.txt"};
    struct af_arena arena;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        struct af_span text = text_of(&arena, names[i]);
        for (size_t len = 0; len < text.len; len++) {
            struct af_machine machine;
            char *exact = malloc(len + 1);
            assert_non_null(exact);
            memcpy(exact, text.data, len);
            char *start = realloc(exact, len == 0 ? 1 : len);
            af_machine_init(&machine, "cut", "not said");
            enum anyflash_status status =
                af_pasted_read(&machine, (struct af_span){start, len}, "cut", &problem);
            if (status != ANYFLASH_OK && status != ANYFLASH_E_DATA)
                fail_msg("%s cut at %zu: status %d", names[i], len, (int)status);
            af_machine_release(&machine);
            free(start);
        }
    }
    af_arena_release(&arena);
}

static void test_pasted__is_bounded(void **state)
{
    (void)state;
    struct af_machine machine;
    struct af_text text = {0};
    for (int i = 0; i < 300; i++)
        af_text_format(&text, "GPU %d: NVIDIA A100-SXM4-80GB\n[pip3] torch==2.%d\n", i, i);
    af_text_add(&text, "OS: ");
    for (int i = 0; i < 20000; i++)
        af_text_add(&text, "x");
    assert_int_equal(paste(&machine, af_text_get(&text)), ANYFLASH_OK);
    assert_int_equal(machine.gpus.count, AF_PASTED_GPUS_MAX);
    assert_true(strlen(machine.notes) < 4096);
    af_machine_release(&machine);
    af_text_release(&text);
    af_machine_init(&machine, "test", "not said");
    struct af_span large = {"GPU 0: T4\n", (size_t)AF_PASTED_BYTES_MAX + 1};
    assert_int_equal(af_pasted_read(&machine, large, "large.txt", &problem), ANYFLASH_E_LIMIT);
    af_machine_release(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pasted__reads_what_people_paste),
        cmocka_unit_test(test_pasted__reads_what_people_write),
        cmocka_unit_test(test_pasted__is_not_a_record_and_not_any_text),
        cmocka_unit_test(test_pasted__keeps_the_line_and_the_kind_of_each_fact),
        cmocka_unit_test(test_pasted__reads_records_too),
        cmocka_unit_test(test_pasted__lets_given_words_override),
        cmocka_unit_test(test_pasted__reads_utf_16_from_powershell),
        cmocka_unit_test(test_log__takes_what_is_installed_and_not_what_is_required),
        cmocka_unit_test(test_log__reads_what_is_written_below_a_long_one),
        cmocka_unit_test(test_pasted__survives_a_cut_at_every_byte),
        cmocka_unit_test(test_pasted__is_bounded),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
