/*
 * pasted_prose.c: facts that stand anywhere in a line, whoever wrote it: a version beside the
 * name of its product ("torch 2.6", "pytorch:2.6.0-cuda12.6"), a GPU by its product name. They
 * count only where the readers of known forms found nothing. pasted_system.c has the traces of
 * systems and the names of container images.
 */
#include "kit/formats/version.h"
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MAX (1u << 20) /* people do not write more */
#define LOG_BYTES_MAX 32768u /* of a log: what people write above it, without versions */
#define GPUS_MAX 8

/* A word of the line; `lower` is the whole line in lower case. */
struct place {
    const char *line;
    const char *lower;
    size_t at;
};

/* The first of the words, separated by '|', that begins in `text`, not in the middle of a word;
   or NULL. */
const char *af_pasted_find_word(const char *text, const char *words, size_t *len_out)
{
    for (const char *word = words; *word != '\0';) {
        size_t len = strcspn(word, "|");
        for (const char *at = strchr(text, *word); at != NULL; at = strchr(at + 1, *word)) {
            bool inside =
                isalpha((unsigned char)*word) && at > text &&
                (isalpha((unsigned char)at[-1]) ||
                 (at[-1] == '.' && at > text + 1 && isalpha((unsigned char)at[-2]))); /* host */
            if (!inside && strncmp(at, word, len) == 0) {
                *len_out = len;
                return at;
            }
        }
        word += len + (word[len] == '|');
    }
    return NULL;
}

bool af_pasted_has_word(const char *text, const char *words)
{
    size_t unused;
    return af_pasted_find_word(text, words, &unused) != NULL;
}

/* The word before offset `at`, without the blank or dash between; its length. */
static size_t word_before(const char *lower, size_t at, const char **word_out)
{
    size_t end = at;
    while (end > 0 && (lower[end - 1] == ' ' || lower[end - 1] == '-' || lower[end - 1] == '*'))
        end--;
    size_t begin = end;
    while (begin > 0 && isalnum((unsigned char)lower[begin - 1]))
        begin--;
    *word_out = lower + begin;
    return end - begin;
}

static bool follows(const char *lower, size_t at, const char *words)
{
    const char *word;
    size_t len = word_before(lower, at, &word);
    return len > 0 && af_given_is_word(word, len, words);
}

/* Commands, names of files, requirements and recommendations state nothing about a machine. */
static bool is_general(const char *lower)
{
    static const char commands[] =
        "pip install|pip3 install|conda install|uv add|.whl|>=|~=|::";
    static const char advice[] =
        "require|at least|minimum|newer|or later|higher|above|recommend|tested|benchmark|"
        "support|compatib|e.g.|for example|\xE4\xBB\xA5\xE4\xB8\x8A"; /* "and above" */
    return af_pasted_has_word(lower, commands) ||
           (strchr(lower, '?') == NULL && af_pasted_has_word(lower, advice));
}

static const struct product {
    const char *name;
    const char *majors; /* first characters of its versions */
    enum af_pasted_fact fact;
} products[] = {
    {"pytorch", "12", AF_PASTED_TORCH},
    {"torch", "12", AF_PASTED_TORCH},
    {"python", "3", AF_PASTED_PYTHON},
    {"py", "3", AF_PASTED_PYTHON},
    {"cp", "3", AF_PASTED_PYTHON},
    {"driver", "3456", AF_PASTED_DRIVER},
    {"sys.version", "3", AF_PASTED_PYTHON},
    {"cuda", "1", AF_PASTED_CUDA_NAMED},
    {"rocm", "567", AF_PASTED_ROCM},
    {"treiber", "3456", AF_PASTED_DRIVER},
    {"\xE9\xA9\xB1\xE5\x8A\xA8", "3456", AF_PASTED_DRIVER}, /* driver, in Chinese */
};

/* Ends a clause: ". ", "? ", and U+3001, U+3002, U+FF0C, U+FF1B, U+FF1F. */
static size_t clause_mark_len(const char *at)
{
    static const char *const wide[] = {"\xE3\x80\x81", "\xE3\x80\x82", "\xEF\xBC\x8C",
                                       "\xEF\xBC\x9B", "\xEF\xBC\x9F"};
    for (size_t i = 0; i < AF_COUNT(wide); i++)
        if (af_starts_with(at, wide[i]))
            return strlen(wide[i]);
    return (*at == '.' || *at == '?' || *at == '!') && at[1] == ' ' ? 1 : 0;
}

/* What may stand between a product and its version, also in other scripts. */
const char *af_pasted_skip_between(const char *at)
{
    static const char words[] = "version|ver|is|build|was|i|am|have|use|using|in|der|ist";
    static const char blanks[] = " :='\"(*_-\\";
    for (size_t len = 1; len > 0; at += len) {
        at += strspn(at, blanks);
        while ((unsigned char)*at >= 0xE3 && clause_mark_len(at) == 0) /* not U+2265, >= */
            at += strnlen(at, 3) + strspn(at + strnlen(at, 3), blanks);
        len = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789");
        if (!af_given_is_word(at, len, words))
            len = 0;
    }
    return at + (*at == 'v' && isdigit((unsigned char)at[1]));
}

/* Bytes of the version; also of "2.10.0.dev20251119+cu130", "3.13t". 0: none is there. */
static size_t version_len(const struct product *product, const char *at)
{
    struct af_version parsed;
    size_t len = strspn(at, "0123456789.");
    while (len > 0 && at[len - 1] == '.')
        len--;
    if (len < 3 || strchr(product->majors, *at) == NULL)
        return 0;
    if (product->fact == AF_PASTED_DRIVER)
        return strspn(at, "0123456789") == 3 ? len : 0;
    if (memchr(at, '.', len) == NULL || (product->fact != AF_PASTED_CUDA_NAMED && at[1] != '.'))
        return 0;
    if (product->fact == AF_PASTED_PYTHON)
        return len + (at[len] == 't' && !isalnum((unsigned char)at[len + 1]));
    size_t full = af_pasted_version_len(at);
    full = strcspn(at, "-_") < full ? strcspn(at, "-_") : full;
    const char *local = memchr(at, '+', full);
    if (local != NULL && !isdigit((unsigned char)local[strspn(local, "+curomxp")]) &&
        !af_starts_with(local, "+cpu"))
        full = (size_t)(local - at);
    while (full > 0 && at[full - 1] == '.')
        full--;
    return product->fact == AF_PASTED_TORCH && af_version_parse(at, full, &parsed) ? full : len;
}

/* Whether more versions follow: "3.10+", "3.10 - 3.12", "2.5 or 2.6", "3.x". */
static bool is_range(const char *version, size_t len)
{
    const char *at = version + len;
    const char *after = at + strspn(at, " ,/&-+>");
    if ((*at == '+' && !isalpha((unsigned char)at[1])) || isalpha((unsigned char)*at))
        return true;
    size_t len_of_join = strspn(after, "andorto");
    if (af_given_is_word(after, len_of_join, "and|or|to"))
        after += len_of_join + (after[len_of_join] == ' ');
    return after != at && *after == *version && after[1] == '.' &&
           isdigit((unsigned char)after[2]);
}

/* "cu128" anywhere; "cuda12.6" right after the version of torch. */
static bool take_build(struct af_pasted_reader *reader, const char *at, bool after_torch)
{
    bool short_form = af_starts_with(at, "cu1") && strspn(at + 2, "0123456789") == 3 &&
                      !isalnum((unsigned char)at[5]);
    return (short_form || (after_torch && af_starts_with(at, "cuda1"))) &&
           af_pasted_read_fact(reader, AF_PASTED_TORCH_CUDA, at);
}

bool af_pasted_take_tag(struct af_pasted_reader *reader, const char *digits)
{
    char text[16];
    size_t len = strspn(digits, "0123456789");
    if (digits[0] != '3' || len < 2 || len > 3 || isalnum((unsigned char)digits[len]))
        return false;
    snprintf(text, sizeof text, "3.%.*s", (int)len - 1, digits + 1);
    af_pasted_take(reader, AF_PASTED_PYTHON, text, strlen(text));
    return true;
}

static bool take_version(struct af_pasted_reader *reader, const struct place *place)
{
    static const char not_mine[] = "not|of|from|without|than|no|before|until|bin|lib";
    const char *word = place->lower + place->at;
    for (size_t i = 0; i < AF_COUNT(products); i++) {
        const struct product *product = &products[i];
        size_t len = strlen(product->name);
        if (!af_starts_with(word, product->name) || isalpha((unsigned char)word[len]))
            continue;
        if (len == 2 && word[len + strspn(word + len, "0123456789")] != '.' &&
            af_pasted_take_tag(reader, word + len))
            return true;
        const char *version = af_pasted_skip_between(word + len);
        size_t version_bytes = version_len(product, version);
        if (version_bytes == 0 || is_range(version, version_bytes) ||
            follows(place->lower, place->at, not_mine) ||
            (place->at > 1 && place->lower[place->at - 1] == '/' && product->majors[0] == '3'))
            return false;
        af_pasted_take(reader, product->fact, place->line + (version - place->lower),
                       version_bytes);
        const char *rest = version + version_bytes;
        if (product->fact == AF_PASTED_TORCH) {
            take_build(reader, rest + strspn(rest, " -+(,/"), true);
            if (af_starts_with(rest, " with rocm "))
                af_pasted_read_fact(reader, AF_PASTED_TORCH_HIP, rest + strlen(" with rocm "));
        }
        return true;
    }
    return take_build(reader, word, false);
}

/* Words that show that a short name such as "L4" means a GPU. */
static bool is_about_machine(const char *lower)
{
    return af_pasted_has_word(lower,
                              "nvidia|gpu|tesla|cuda|torch|pytorch|vram|driver|gb|colab|jetson|"
                              "python|windows|linux|ubuntu|flash");
}

/* "4090" is an RTX 4090 after a word such as "my", or before "Ti", but not before a unit. */
static size_t bare_number(const struct place *place, const char *const **row_out)
{
    char name[12];
    const char *digits = place->lower + place->at;
    if (strspn(digits, "0123456789") != 4)
        return 0;
    const char *rest = digits + 4 + strspn(digits + 4, " ");
    if (af_starts_with(rest, "mb") || af_starts_with(rest, "mib") || af_starts_with(rest, "px"))
        return 0;
    bool named = place->at == 0 || af_starts_with(rest, "ti") ||
                 af_starts_with(rest, "super") ||
                 follows(place->lower, place->at,
                         "a|an|my|the|one|single|dual|two|and|with|on|have|has|got|own|gpu|"
                         "card|2x|3x|4x|8x");
    snprintf(name, sizeof name, "rtx %.4s", digits);
    return named && af_machine_gpu_name_at(name, row_out) > 0 ? 4 : 0;
}

/* Bytes of the name of a GPU at the place; 0: there is none. */
static size_t gpu_len(const struct place *place, const char *const **row_out)
{
    const char *at = place->lower + place->at;
    size_t len = isdigit((unsigned char)*at) ? bare_number(place, row_out)
                                             : af_machine_gpu_name_at(at, row_out);
    size_t tail = strspn(at + len, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (len == 0 || (tail > 0 && !af_given_is_word(at + len, tail, "ti|s|d|m|xt|xtx|super")))
        return 0;
    if (strchr((*row_out)[1], ' ') == NULL && !is_about_machine(place->lower))
        return 0;
    if (len < 4 && !isupper((unsigned char)place->line[place->at]))
        return 0;
    return len + (tail == 1 && at[len] == 's' ? 0 : tail);
}

/* Adds the vendor before the name and what follows it: "NVIDIA RTX 4060" "Ti Laptop GPU". */
static struct af_span whole_name(const struct place *place, size_t len)
{
    static const char vendors[] = "nvidia|geforce|tesla|quadro|amd|radeon|intel|apple|instinct";
    static const char suffixes[] =
        "ti|super|laptop|gpu|mobile|max|pcie|sxm4|sxm5|hbm3|pro|xt|xtx";
    size_t begin = place->at;
    size_t end = place->at + len;
    const char *word;
    while (follows(place->lower, begin, vendors))
        begin -=
            (size_t)(place->lower + begin - (word_before(place->lower, begin, &word), word));
    while (place->lower[end] == ' ' || place->lower[end] == '-') {
        const char *next = place->lower + end + 1;
        size_t word_len = strcspn(next, " ,;:()'\"/-");
        size_t digits = strspn(next, "0123456789");
        bool memory =
            digits > 0 && word_len == digits + 2 && af_starts_with(next + digits, "gb");
        if (!memory && !af_given_is_word(next, word_len, suffixes))
            break;
        end += 1 + word_len;
    }
    return (struct af_span){place->line + begin, end - begin};
}

/* How many: "8x A100", "dual 3090". */
static size_t count_before(const char *lower, size_t at)
{
    size_t end = at;
    while (end > 0 && strchr(" x*-", lower[end - 1]) != NULL)
        end--;
    bool times = memchr(lower + end, 'x', at - end) != NULL ||
                 memchr(lower + end, '*', at - end) != NULL;
    bool one = end > 0 && lower[end - 1] > '0' && lower[end - 1] <= '9' &&
               (end == 1 || !isalnum((unsigned char)lower[end - 2]));
    if (times && one)
        return (size_t)(lower[end - 1] - '0');
    return follows(lower, at, "dual|two") ? 2 : 1;
}

/* How many, after the name: "T4 x2". */
static size_t count_after(const char *at)
{
    at += strspn(at, " ");
    bool times = (*at == 'x' || *at == '*') && isdigit((unsigned char)at[1]) &&
                 !isalnum((unsigned char)at[2]) && at[1] > '0';
    return times ? (size_t)(at[1] - '0') : 1;
}

/* Adds one GPU, unless it was named before. Several are on one line, or have an index. */
static void add_gpu(struct af_pasted_reader *reader, const char *const *row,
                    struct af_span name, long index)
{
    struct af_pasted_gpu *gpus = reader->gpus;
    size_t count = reader->gpu_count;
    bool more = index >= (long)count || reader->gpu_line == reader->number;
    for (size_t i = 0; i < count; i++) {
        if (gpus[i].row == row && index < (long)count) {
            af_pasted_keep(reader, &gpus[i].name, NULL, name.data, name.len);
            return;
        }
    }
    if (count > 0 && !af_equal(gpus[0].row[0], row[0])) {
        if (!af_equal(row[0], "nvidia"))
            return;
        count = 0; /* the other is the processor's */
    } else if (count > 0 && !more) {
        af_pasted_keep(reader, &gpus[0].name, "GPU", name.data, name.len);
        return;
    }
    if (count == GPUS_MAX)
        return;
    gpus[count] = (struct af_pasted_gpu){.row = row};
    af_pasted_keep(reader, &gpus[count].name, NULL, name.data, name.len);
    reader->gpu_count = count + 1;
    reader->gpus_loose = true;
    reader->gpu_line = reader->number;
}

/* Bytes of the name of a GPU that the place has; 0: none. */
static size_t take_gpu(struct af_pasted_reader *reader, const struct place *place)
{
    const char *const *row;
    size_t len = gpu_len(place, &row);
    if (len == 0)
        return 0;
    struct af_span name = whole_name(place, len);
    if (reader->gpu_count > 0 && !reader->gpus_loose) {
        bool same_line = reader->gpus[reader->gpu_current].name.origin.line == reader->number;
        if (reader->gpu_named.row == NULL && !same_line) {
            reader->gpu_named.row = row;
            af_pasted_keep(reader, &reader->gpu_named.name, NULL, name.data, name.len);
        }
        return len;
    }
    const char *device = strstr(place->lower, "cuda:");
    long index = device != NULL && isdigit((unsigned char)device[5]) ? device[5] - '0' : -1;
    size_t many = count_before(place->lower, (size_t)(name.data - place->line));
    many = many > 1 ? many : count_after(place->lower + (name.data - place->line) + name.len);
    add_gpu(reader, row, name, index);
    for (size_t i = 1; i < many; i++)
        add_gpu(reader, row, name, (long)reader->gpu_count);
    return len;
}

/* Reads the place's clause, which ends at `end`. */
static bool take_clause(struct af_pasted_reader *reader, struct place *place, size_t end)
{
    const char *line = place->line;
    bool any = af_pasted_take_image(reader, place->lower + place->at);
    for (; place->at < end; place->at++) {
        size_t at = place->at;
        bool wide = (unsigned char)line[at] >= 0xC0;
        bool word =
            at == 0 || !isalnum((unsigned char)line[at - 1]) ||
            (place->lower[at - 1] == 'x' && at > 1 && isdigit((unsigned char)line[at - 2]));
        if (!wide && (!word || !isalnum((unsigned char)line[at])))
            continue;
        size_t gpu_bytes = wide ? 0 : take_gpu(reader, place);
        any |= gpu_bytes > 0 || (!reader->is_log && take_version(reader, place));
        place->at += gpu_bytes > 0 ? gpu_bytes - 1 : 0;
    }
    return any;
}

bool af_pasted_prose_line(struct af_pasted_reader *reader, const char *line, bool is_package)
{
    char lower[AF_PASTED_LINE_BYTES];
    struct place place = {line, lower, 0};
    bool any = false;
    size_t len = strlen(line);
    if (reader->prose_bytes + len > (reader->is_log ? LOG_BYTES_MAX : BYTES_MAX))
        return false;
    reader->prose_bytes += len;
    for (size_t i = 0; i <= len; i++)
        lower[i] = (char)tolower((unsigned char)line[i]);
    bool traces_only = is_package || line[0] == '|';
    for (size_t begin = 0, end = 0; begin < len && !traces_only; begin = end) {
        while (end < len && clause_mark_len(lower + end) == 0)
            end++;
        end += end < len ? clause_mark_len(lower + end) : 0;
        char after = lower[end];
        lower[end] = '\0';
        if (!is_general(lower + begin)) {
            place.at = begin;
            any |= take_clause(reader, &place, end);
        }
        lower[end] = after;
    }
    af_pasted_take_traces(reader, line, lower);
    return any;
}
