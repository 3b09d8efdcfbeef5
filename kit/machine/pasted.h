/*
 * pasted.h: reads a machine from text that people paste: the output of programs
 * that describe a system, as it appears in a bug report.
 *
 * It understands `python -m torch.utils.collect_env` and the reports of vLLM,
 * transformers, diffusers, accelerate, DeepSpeed and xformers; pip, uv and conda
 * lists (columns, JSON, freeze, show); nvidia-smi (table, -L, -q, --query-gpu),
 * rocm-smi, rocminfo; nvcc, gcc, clang, ldd, uname, python, free, lscpu,
 * /etc/os-release and /proc/meminfo; print(torch.__version__) with its answer; names and
 * tags of container images.
 * One text may contain any number of them, in any order, with prompts, Markdown
 * fences, quoting and terminal colours. UTF-16, which PowerShell's `>` writes, is
 * read, too, as far as the text is ASCII.
 *
 * Each fact's source is "line 12 of NAME". A fact that the text does not state
 * stays unknown. If two lines disagree, the first one counts, but lines of these forms
 * before prose, and the machine's `notes` say so. Facts that follow from others (GPU
 * name to compute capability, driver to CUDA, glibc to platform tags) come from the
 * functions that --given uses.
 */
#ifndef AF_KIT_MACHINE_PASTED_H
#define AF_KIT_MACHINE_PASTED_H

#include "kit/machine/machine.h"

#define AF_PASTED_BYTES_MAX (64u * 1024u * 1024u)
#define AF_PASTED_GPUS_MAX 64
#define AF_PASTED_PACKAGES_MAX 10
#define AF_PASTED_ASKED_MAX 4

/* The values that can be read, in the order in which they are applied to a machine. */
enum af_pasted_fact {
    AF_PASTED_OS = 0,      /* with its release: "Ubuntu 22.04.4 LTS" */
    AF_PASTED_SYSTEM,      /* linux, windows or macos */
    AF_PASTED_TRACE,       /* the same, from what only that system prints */
    AF_PASTED_SYSTEM_WORD, /* the same, from words that may be about another machine */
    AF_PASTED_WSL,
    AF_PASTED_KERNEL,
    AF_PASTED_ARCH,
    AF_PASTED_LIBC,
    AF_PASTED_PYTHON,
    AF_PASTED_EXECUTABLE, /* Python's: "D:\ComfyUI\python_embeded\python.exe" */
    AF_PASTED_TORCH,
    AF_PASTED_TORCH_CUDA,
    AF_PASTED_TORCH_RUNTIME, /* of the package nvidia-cuda-runtime */
    AF_PASTED_TORCH_HIP,
    AF_PASTED_CUDA_NAMED,  /* "CUDA 12.4": of torch, of the toolkit, or of the driver */
    AF_PASTED_TORCH_CONDA, /* of conda-forge's package libtorch */
    AF_PASTED_DRIVER,
    AF_PASTED_CUDA_API,
    AF_PASTED_ROCM,
    AF_PASTED_ROCM_OF_HIP, /* the version of HIP, of which the start becomes AF_PASTED_ROCM */
    AF_PASTED_GPUS_NONE,
    AF_PASTED_VISIBLE,
    AF_PASTED_TOOLKIT,
    AF_PASTED_GCC,
    AF_PASTED_CLANG,
    AF_PASTED_INSTALLER, /* the program that printed the log: pip or uv */
    AF_PASTED_CORES,
    AF_PASTED_MEMORY,
    AF_PASTED_MEMORY_AVAILABLE,
    AF_PASTED_FACT_COUNT
};

/* A value; `text` is NULL until a line states it. One of a stronger origin replaces it. */
struct af_pasted_value {
    const char *text;
    const char *source;
    struct af_origin origin;
};

struct af_pasted_gpu {
    struct af_pasted_value name;
    struct af_pasted_value sm;
    struct af_pasted_value memory_mib;
    const char *const *row; /* its product in af_embedded_gpu_names, if prose names it */
};

/* The table that the reader is in. */
enum af_pasted_table {
    AF_PASTED_TABLE_NONE = 0,
    AF_PASTED_TABLE_COLUMNS, /* pip list, conda list: name, version, ... */
    AF_PASTED_TABLE_FREEZE,  /* name==version */
    AF_PASTED_TABLE_JSON     /* pip list --format=json */
};

/*
 * Reads line by line. All members except `machine` and `line_count` are private
 * to kit/machine/pasted*.c.
 */
struct af_pasted_reader {
    struct af_machine machine; /* a copy; its arena is in use until the end */
    struct af_machine *target;
    size_t line_count; /* lines that stated a fact */
    const char *name;  /* of the text, for sources */
    bool is_log;       /* a line of a log was read */
    size_t read_count; /* lines that were read */
    size_t number;     /* of the current line */
    struct af_pasted_value values[AF_PASTED_FACT_COUNT];
    struct af_pasted_value packages[AF_PASTED_PACKAGES_MAX];
    struct af_pasted_gpu gpus[AF_PASTED_GPUS_MAX];
    size_t gpu_count;
    size_t gpu_current;             /* the row that following lines describe */
    bool gpus_loose;                /* prose names them; a line of a known form replaces all */
    struct af_pasted_gpu gpu_named; /* by prose beside a line of a known form */
    enum af_origin_kind kind;       /* of values of this line: PROSE or LINE */
    size_t gpu_line;                /* of the last GPU in prose */
    size_t prose_bytes;             /* read so far */
    size_t csv_next;
    size_t query_next;                        /* next GPU of nvidia-smi -q or rocminfo */
    bool in_query;                            /* nvidia-smi -q */
    bool frame_buffer;                        /* the next "Total" is memory of the GPU */
    bool agent_is_gpu;                        /* rocminfo */
    bool musl;                                /* the next "Version" is musl's */
    unsigned char asked[AF_PASTED_ASKED_MAX]; /* what the next line answers, in order */
    size_t asked_count;
    enum af_pasted_table table;
    char json_name[64]; /* pip show, JSON: the package whose version follows */
    char last_name[64]; /* of the table */
    size_t row_count;   /* of the table */
    bool list_complete; /* some list of packages was complete */
    bool list_cut;
    char free_unit; /* k, m, g or b, of `free`; NUL: not known */
    struct af_text notes;
};

/*
 * Starts reading a text called `name`, which must outlive the reader. The machine
 * must not be used until af_pasted_end(). After the first line that only logs have, lines that
 * could be requirements instead of installed packages, such as a bare "torch==2.4.0", are
 * passed over, and so are versions in sentences; and of a log only the first 100,000 lines are
 * read.
 */
void af_pasted_begin(struct af_pasted_reader *reader, struct af_machine *machine,
                     const char *name);

/*
 * Reads one line without its newline. Of a line longer than 4096 bytes only the start is read,
 * unless it is JSON.
 */
void af_pasted_line(struct af_pasted_reader *reader, struct af_span line, size_t number);

/*
 * Writes the facts into the machine and releases the reader. Facts that the text
 * does not state are unchanged.
 */
void af_pasted_end(struct af_pasted_reader *reader);

/*
 * Whether `text` is pasted output: it is not JSON that begins with '{', and at
 * least one line states a fact.
 */
bool af_pasted_recognise(struct af_span text);

/*
 * Reads a whole text into `machine`, which should be fresh. Fails with DATA if
 * no line states a fact, and with LIMIT if it has over AF_PASTED_BYTES_MAX bytes. On failure
 * `machine` is unchanged.
 */
enum anyflash_status af_pasted_read(struct af_machine *machine, struct af_span text,
                                    const char *name, struct anyflash_error *err);

/* Reads either: a record with af_machine_parse(), or pasted output. */
enum anyflash_status af_machine_read(struct af_machine *machine, struct af_span bytes,
                                     const char *name, struct anyflash_error *err);

#endif
