/*
 * proof_python.c: the check of what an extension and Python must agree on: the tags of its
 * wheel, the name of the file and of the module in it, the version that it was compiled for.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/tags.h"
#include "kit/formats/version.h"
#include "kit/proof/proof_draft.h"

/* The part of the file name that Python checks: ".so", ".abi3.so", ... */
static const char *suffix_of(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL ? dot : "";
}

static bool is_free_threaded(const struct af_machine *machine)
{
    return strchr(af_fact_text_or(&machine->python.abi_flags, ""), 't') != NULL;
}

/* Whether this Python looks for files with that ending; UNKNOWN without ext_suffix. */
static enum af_answer accepts_suffix(const struct af_machine *machine, const char *suffix)
{
    const char *own = af_fact_text_or(&machine->python.ext_suffix, NULL);
    if (strcmp(suffix, ".so") == 0)
        return AF_YES;
    if (strcmp(suffix, ".abi3.so") == 0)
        return is_free_threaded(machine) ? AF_NO : AF_YES;
    if (own == NULL)
        return AF_UNKNOWN;
    return strcmp(suffix, own) == 0 ? AF_YES : AF_NO;
}

/*
 * Whether pybind11 refuses to import the module because it was built for another minor version
 * of Python.
 */
static bool is_for_another_python(const struct af_proof_draft *draft)
{
    const char *built = draft->question->binary->pybind_python;
    const char *here = af_fact_text_or(&draft->question->machine->python.version, NULL);
    if (built == NULL || here == NULL)
        return false;
    size_t len = strlen(built);
    return strncmp(built, here, len) != 0 || (here[len] != '.' && here[len] != '\0');
}

/*
 * Whether installers accept the wheel for this Python; UNKNOWN when there is no wheel or its
 * tags are not known.
 */
static enum af_answer accepts_wheel(const struct af_proof_draft *draft)
{
    const struct af_python *python = &draft->question->machine->python;
    const struct af_wheel_name *wheel = draft->question->wheel;
    const char *text = af_fact_text_or(&python->version, NULL);
    struct af_version version;
    if (wheel == NULL || text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.release_count < 2 || af_fact_is(&python->implementation, "pypy"))
        return AF_UNKNOWN;
    const struct af_interpreter interpreter = {
        .major = (int)version.release[0],
        .minor = (int)version.release[1],
        .free_threaded = is_free_threaded(draft->question->machine),
        .debug = strchr(af_fact_text_or(&python->abi_flags, ""), 'd') != NULL,
    };
    return af_tags_python_accepted(&interpreter, wheel->python, wheel->abi) ? AF_YES : AF_NO;
}

void af_prove_python(struct af_proof_draft *draft)
{
    const struct af_binary *binary = draft->question->binary;
    const struct af_machine *machine = draft->question->machine;
    const char *suffix = suffix_of(binary->name);
    const char *own = af_fact_text_or(&machine->python.ext_suffix, "not known");
    size_t stem = (size_t)(suffix - binary->name);
    enum af_answer accepted = accepts_suffix(machine, suffix);
    bool is_called_by_module = binary->init_name != NULL && strlen(binary->init_name) == stem &&
                               strncmp(binary->init_name, binary->name, stem) == 0;
    if (accepts_wheel(draft) == AF_NO)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO, "the wheel is for %s-%s; this is Python %s",
                     draft->question->wheel->python, draft->question->wheel->abi,
                     machine->python.version.value.text);
    else if (binary->init_name == NULL)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_YES,
                     "not a Python module (it has no PyInit function): loaded as a library");
    else if (!is_called_by_module && !af_starts_with(binary->name, "lib"))
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO,
                     "is named '%.*s', but contains the module '%s'", (int)stem, binary->name,
                     binary->init_name);
    else if (accepted == AF_NO)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO, "ends in '%s'; this Python expects '%s'",
                     suffix, own);
    else if (is_for_another_python(draft))
        af_proof_set(draft, AF_CHECK_PYTHON, AF_NO, "compiled for Python %s; this is Python %s",
                     binary->pybind_python, machine->python.version.value.text);
    else if (accepted == AF_UNKNOWN)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_UNKNOWN,
                     "ends in '%s'; the ending that Python expects is not known", suffix);
    else if (!is_called_by_module)
        af_proof_set(draft, AF_CHECK_PYTHON, AF_YES,
                     "module '%s', which its package loads by the path of the file",
                     binary->init_name);
    else
        af_proof_set(draft, AF_CHECK_PYTHON, AF_YES, "module '%s', ending '%s'",
                     binary->init_name, suffix);
}
