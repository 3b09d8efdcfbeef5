/*
 * test_reference.c: docs/reference/machine.md is generated from fields.inc and
 * the table of --given keys. With WRITE_REFERENCE set this program writes the
 * page; without, it fails if the committed page differs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/machine/machine.h"
#include "kit/system/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE AF_TEST_DATA "/../docs/reference/machine.md"

static const char introduction[] =
    "# Machine records\n"
    "\n"
    "This page is written from `kit/machine/fields.inc` and the table in\n"
    "`kit/machine/given.c` by `WRITE_REFERENCE=1 build/debug/tests/test_reference`.\n"
    "Do not edit it.\n"
    "\n"
    "`anyflash machine` writes what it found as one JSON object; `--machine FILE` reads it\n"
    "back (`-` is standard input). A record may be partial: what it does not say is unknown.\n"
    "\n"
    "```json\n"
    "{\n"
    "  \"schema\": \"" AF_MACHINE_SCHEMA "\",\n"
    "  \"remark\": \"a colleague's workstation\",\n"
    "  \"platform\": {\n"
    "    \"os\": \"linux\",\n"
    "    \"arch\": {\"value\": \"x86_64\", \"source\": \"uname(2)\"},\n"
    "    \"libc_version\": {\"unknown\": \"forgot to ask\"},\n"
    "    \"container\": null\n"
    "  },\n"
    "  \"gpus\": [{\"name\": \"NVIDIA GeForce RTX 4090\", \"sm\": \"8.9\"}],\n"
    "  \"torch\": null\n"
    "}\n"
    "```\n"
    "\n"
    "A fact is\n"
    "\n"
    "- a value, or `{\"value\": V, \"source\": WHERE}`: known;\n"
    "- `null`, or `{\"value\": null, \"source\": WHERE}`: known to be absent;\n"
    "- `{\"unknown\": WHY}`, or left out: not known.\n"
    "\n"
    "A list is an array of objects, `{\"value\": [...], \"source\": WHERE}`, or\n"
    "`{\"unknown\": WHY}`; an array is taken as complete. A whole record may be `null` (none "
    "of\n"
    "its facts exists) or `{\"unknown\": WHY}`. `schema` may be left out; another version "
    "is\n"
    "refused, and so are unknown keys, wrong types, negative numbers and repeated keys, with\n"
    "the file and the place: `'m.json' gpus[2].sm: expected text, found a number`. Limits:\n"
    "4 MiB a file, 4096 rows a list. Several records and `--given` words can be combined: a "
    "later\n"
    "record replaces the groups that it names.\n";

static const char pasted[] =
    "\n"
    "## Pasted output\n"
    "\n"
    "`--machine` also reads what people paste into bug reports, as it is: with prompts,\n"
    "Markdown fences, `>` quoting and terminal colours, with several kinds of output and any\n"
    "other text in one file, and in the UTF-16 that PowerShell writes. At most 64 MiB.\n"
    "\n"
    "| output of | gives |\n"
    "|---|---|\n"
    "| `python -m torch.utils.collect_env`, vLLM's `collect_env` | system, Python, torch with "
    "CUDA or ROCm, GPUs, driver, toolkit, compiler, cores, some packages |\n"
    "| `transformers env`, `diffusers-cli env`, `accelerate env`, `ds_report`, "
    "`python -m xformers.info` | system, Python, torch, one GPU |\n"
    "| `pip list` (columns, JSON), `pip freeze`, `pip show`, `uv pip list`, `conda list` | "
    "torch and its CUDA, flash-attn and packages that use it, Python |\n"
    "| `nvidia-smi` (table, `-L`, `-q`, `--query-gpu`), `rocm-smi`, `rocminfo` | GPUs, driver, "
    "highest CUDA |\n"
    "| `nvcc --version`, `gcc --version`, `clang --version`, `ldd --version`, "
    "`python --version`, `python -VV` | toolkit, compiler, C library, Python |\n"
    "| `uname -a`, `lscpu`, `free`, `/etc/os-release`, `/proc/meminfo`, `lsb_release -a` | "
    "system, cores, memory |\n"
    "| pip's `Requirement already satisfied: torch ... (2.4.0)`, uv's `+ torch==2.4.0` | the "
    "installed version |\n"
    "| lines such as `- PyTorch: 2.3.1+cu121`, `CUDA_VISIBLE_DEVICES=1`; "
    "`print(torch.__version__)` and its answer | that fact |\n"
    "\n"
    "The source of each fact is its line, `line 12 of report.txt`. Facts that follow from\n"
    "others, such as the compute capability from a GPU's name, come from the same tables as\n"
    "with `--given`. What the text does not say is unknown: a report without torch does not\n"
    "say that torch is missing, but a whole `pip list` without it does. If two lines\n"
    "disagree, the first one counts, and a note on stderr names both. `free` without the\n"
    "command line in front of it is read only if its numbers have units.\n"
    "\n"
    "`anyflash machine --machine report.txt` shows what was understood, as a record.\n";

static const char *type_name(enum af_fact_type type)
{
    static const char *const names[] = {"text", "whole number", "true or false",
                                        "list of texts"};
    return names[type];
}

static void add_group(struct af_text *page, const struct af_group *group)
{
    af_text_format(page, "\n## %s\n\n%s%s.\n\n| fact | type | meaning |\n|---|---|---|\n",
                   group->name, group->is_list ? "List of rows: " : "", group->doc);
    for (size_t f = 0; f < group->field_count; f++)
        af_text_format(page, "| %s | %s | %s |\n", group->fields[f].name,
                       type_name(group->fields[f].type), group->fields[f].doc);
}

static void add_given(struct af_text *page)
{
    const char *doc;
    const char *key;
    af_text_add(
        page,
        "\n## Facts by hand\n\n`--given KEY=VALUE` (repeatable) states one fact on "
        "the command line. A value that\ncannot be read is an error; a product "
        "that is not known is unknown, with a note. `none` means that\nthere is none. A second "
        "`gpu` adds its GPUs; of every other key but `env` the last value counts.\n"
        "`record.fact=VALUE` names any fact of a record above.\n\n"
        "A GPU and a torch are enough: of a machine that only `--given` or pasted text "
        "describes, "
        "linux, x86_64,\nPython 3.12 and the CUDA build of torch that `pip install torch` "
        "gets are assumed where\nnothing else is stated, and the answer says so.\n\n| key | "
        "values |\n|---|---|\n");
    for (size_t i = 0; (key = af_machine_given_key(i, &doc)) != NULL; i++)
        af_text_format(page, "| %s | %s |\n", key, doc);
}

static void make_page(struct af_text *page)
{
    size_t count;
    const struct af_group *groups = af_machine_groups(&count);
    af_text_add(page, introduction);
    af_text_add(page, pasted);
    for (size_t g = 0; g < count; g++)
        add_group(page, &groups[g]);
    add_given(page);
}

static void test_reference__committed_page_is_the_generated_one(void **state)
{
    (void)state;
    struct af_text page = {0};
    struct af_arena arena;
    struct af_span committed;
    struct anyflash_error err;
    make_page(&page);
    if (getenv("WRITE_REFERENCE") != NULL) {
        FILE *file = fopen(PAGE, "w");
        assert_non_null(file);
        fputs(page.data, file);
        fclose(file);
    }
    af_arena_init(&arena);
    if (af_file_read(&arena, PAGE, 1u << 20, &committed, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    if (strcmp(committed.data, page.data) != 0)
        fail_msg("docs/reference/machine.md is old; write it with WRITE_REFERENCE=1");
    af_arena_release(&arena);
    af_text_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference__committed_page_is_the_generated_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
