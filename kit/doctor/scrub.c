/*
 * scrub.c: walks through the text once; at each position the first rule that
 * applies says how many bytes are replaced, and with what.
 */
#include "kit/doctor/scrub.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define TOKEN_LENGTH_MIN 16
#define NAME_LENGTH_MIN 3
#define RUN_LENGTH_MAX 512 /* so that hostile text is read in linear time */
#define SEPARATORS_MAX 8
#define SEPARATORS "=: \"'\t"

struct scrubber {
    const char *start; /* of the whole text */
    const char *end;
    const struct af_scrub_names *names;
    bool in_address; /* the walk is within a word that has "://" */
};

/* `replaced` bytes become `by`; 0 bytes: the rule does not apply. */
struct removal {
    size_t replaced;
    const char *by;
};

static const struct removal nothing = {0, ""};

/* Bytes of names in UTF-8 beyond ASCII count as letters. */
static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || (unsigned char)c >= 0x80;
}

static bool is_name(char c)
{
    return is_letter(c) || isdigit((unsigned char)c);
}

static bool is_word(char c)
{
    return is_name(c) || c == '_' || c == '-';
}

/* Number of bytes from `at` on that are letters, digits or in `more`. */
static size_t run_len(const struct scrubber *scrubber, const char *at, const char *more)
{
    size_t len = 0;
    while (len < RUN_LENGTH_MAX && at + len < scrubber->end && at[len] != '\0' &&
           (is_name(at[len]) || strchr(more, at[len]) != NULL))
        len++;
    return len;
}

static bool begins(const struct scrubber *scrubber, const char *at, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(scrubber->end - at) >= len && strncasecmp(at, word, len) == 0;
}

/* Whether a word can start at `at`. */
static bool at_word(const struct scrubber *scrubber, const char *at)
{
    return at == scrubber->start || !is_word(at[-1]);
}

/* user:password before the @ of an address; `at` is just after "://". */
static struct removal credentials(const struct scrubber *scrubber, const char *at)
{
    if (at - scrubber->start < 3 || memcmp(at - 3, "://", 3) != 0)
        return nothing;
    for (size_t i = 0; at + i < scrubber->end && strchr("/ \t\r\n\"'<>", at[i]) == NULL; i++)
        if (at[i] == '@')
            return (struct removal){i, "[credentials]"};
    return nothing;
}

/* The query of an address, where signatures and tokens are; `at` is just after its "?". */
static struct removal query(const struct scrubber *scrubber, const char *at)
{
    size_t len = 0;
    if (at == scrubber->start || at[-1] != '?' || !scrubber->in_address)
        return nothing;
    while (at + len < scrubber->end && strchr("# \t\r\n\"'<>", at[len]) == NULL)
        len++;
    return (struct removal){len, "[query]"};
}

/* A private key in PEM form (RFC 7468); one whose end is missing, up to the next quote. */
static struct removal private_key(const struct scrubber *scrubber, const char *at)
{
    static const char start[] = "-----BEGIN ";
    static const char stop[] = "-----END ";
    size_t left = (size_t)(scrubber->end - at);
    if (!begins(scrubber, at, start) ||
        memmem(at, left < 60 ? left : 60, "PRIVATE KEY", strlen("PRIVATE KEY")) == NULL)
        return nothing;
    const char *end = memmem(at, left, stop, strlen(stop));
    if (end != NULL)
        end += strlen(stop);
    const char *behind =
        end == NULL ? NULL : memmem(end, (size_t)(scrubber->end - end), "-----", 5);
    if (behind != NULL)
        return (struct removal){(size_t)(behind + 5 - at), "[secret]"};
    const char *quote = memchr(at, '"', left);
    return (struct removal){quote == NULL ? left : (size_t)(quote - at), "[secret]"};
}

/*
 * Tokens that are recognised by how they begin. Names of modules may begin like one, but they
 * have separators and no digits.
 */
static struct removal token_by_form(const struct scrubber *scrubber, const char *at)
{
    static const char *const starts[] = {
        "hf_",    "ghp_",  "gho_",   "ghs_", "ghu_",     "ghr_",     "github_pat_",
        "glpat-", "sk-",   "sk_",    "rk_",  "xoxa-",    "xoxb-",    "xoxp-",
        "xoxr-",  "xoxs-", "xapp-",  "AKIA", "ASIA",     "AIza",     "ya29.",
        "pypi-",  "eyJ",   "nvapi-", "npm_", "sk_live_", "sk_test_", "rk_live_"};
    if (!at_word(scrubber, at))
        return nothing;
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        size_t start = strlen(starts[i]);
        if ((size_t)(scrubber->end - at) < start || memcmp(at, starts[i], start) != 0)
            continue;
        size_t len = run_len(scrubber, at, "_-.");
        size_t plain_len = run_len(scrubber, at + start, "");
        bool has_digit = false;
        for (size_t c = start; c < len; c++)
            has_digit = has_digit || isdigit((unsigned char)at[c]);
        if (len >= start + TOKEN_LENGTH_MIN && (has_digit || plain_len >= TOKEN_LENGTH_MIN))
            return (struct removal){len, "[token]"};
    }
    return nothing;
}

/* How a value is joined to its name: HF_TOKEN=x, "password": "x", --token x. */
struct assignment {
    const char *name;
    size_t len;     /* of the name */
    bool has_equal; /* '=' rather than ':' or only a blank */
    bool has_sign;  /* '=' or ':' */
    char quote;     /* of the value, or '\0' */
};

/* Reads backwards from the value at `at`; false if nothing is assigned there. */
static bool assignment_before(const struct scrubber *scrubber, const char *at,
                              struct assignment *out)
{
    const char *end = at;
    *out = (struct assignment){0};
    if (at == scrubber->start || strchr(SEPARATORS, at[-1]) == NULL)
        return false;
    out->quote = at[-1] == '"' || at[-1] == '\'' ? at[-1] : '\0';
    for (; end > scrubber->start && at - end < SEPARATORS_MAX &&
           strchr(SEPARATORS, end[-1]) != NULL;
         end--) {
        out->has_equal = out->has_equal || end[-1] == '=';
        out->has_sign = out->has_sign || end[-1] == '=' || end[-1] == ':';
    }
    const char *name = end;
    while (name > scrubber->start && end - name < RUN_LENGTH_MAX && is_word(name[-1]))
        name--;
    out->name = name;
    out->len = (size_t)(end - name);
    return out->len > 0;
}

/*
 * Whether the name ends in `word`, as HF_TOKEN, --api-key and accountKey do. *part_out: as a
 * part of its own; *whole_out: it is the whole name.
 */
static bool ends_in(const struct assignment *assignment, const char *word, bool *part_out,
                    bool *whole_out)
{
    size_t len = strlen(word);
    if (assignment->len < len)
        return false;
    const char *at = assignment->name + assignment->len - len;
    *whole_out = assignment->name + strspn(assignment->name, "-") >= at;
    *part_out = *whole_out || at[-1] == '_' || at[-1] == '-' ||
                (islower((unsigned char)at[-1]) && isupper((unsigned char)at[0]));
    return strncasecmp(at, word, len) == 0;
}

/* What the end of a name says about its value. */
struct word {
    const char *text;
    enum { ALWAYS, IN_LONGER_NAME, AFTER_EQUAL, WHOLE_LINE, USER_NAME } when;
};

static const struct word words[] = {
    {"token", ALWAYS},        {"password", ALWAYS},          {"passwd", ALWAYS},
    {"pwd", AFTER_EQUAL},     {"passphrase", ALWAYS},        {"secret", ALWAYS},
    {"apikey", ALWAYS},       {"key", IN_LONGER_NAME},       {"pass", IN_LONGER_NAME},
    {"auth", IN_LONGER_NAME}, {"credential", ALWAYS},        {"credentials", ALWAYS},
    {"sig", AFTER_EQUAL},     {"signature", AFTER_EQUAL},    {"cookie", WHOLE_LINE},
    {"user", USER_NAME},      {"authorization", WHOLE_LINE}, {"username", USER_NAME},
    {"logname", USER_NAME}};

static bool counts(const struct word *word, const struct assignment *assignment)
{
    bool part = false;
    bool whole = false;
    if (!ends_in(assignment, word->text, &part, &whole))
        return false;
    switch (word->when) {
    case IN_LONGER_NAME:
        return part && !whole;
    case AFTER_EQUAL:
    case USER_NAME:
        return part && assignment->has_equal;
    default:
        return true;
    }
}

/* The word that makes the value private, or NULL. */
static const struct word *word_before(const struct assignment *assignment)
{
    for (size_t i = 0; i < AF_COUNT(words); i++)
        if (counts(&words[i], assignment))
            return &words[i];
    return NULL;
}

/* Bytes of the value at `at`: to its quote, to the end of the line, or one word. */
static size_t value_len(const struct scrubber *scrubber, const char *at, char quote,
                        bool whole_line)
{
    const char *stops = whole_line ? "\r\n\"'" : " \t\r\n\"',&";
    size_t len = 0;
    for (; at + len < scrubber->end && at[len] != '\n'; len++) {
        if (quote != '\0' && at[len] == '\\' && at + len + 1 < scrubber->end)
            len++;
        else if (quote != '\0' ? at[len] == quote : strchr(stops, at[len]) != NULL)
            break;
    }
    return at + len > scrubber->end ? (size_t)(scrubber->end - at) : len;
}

/* A line of .netrc ends in "password VALUE". */
static bool ends_line(const struct scrubber *scrubber, const char *at, size_t len)
{
    return at + len == scrubber->end || at[len] == '\n' || at[len] == '\r';
}

/* The value after the name of a secret. */
static struct removal secret_by_name(const struct scrubber *scrubber, const char *at)
{
    struct assignment assignment;
    if (strchr(SEPARATORS "\r\n", *at) != NULL || !assignment_before(scrubber, at, &assignment))
        return nothing;
    const struct word *word = word_before(&assignment);
    if (word == NULL)
        return nothing;
    size_t len = value_len(scrubber, at, assignment.quote, word->when == WHOLE_LINE);
    bool is_option = assignment.len > 2 && memcmp(assignment.name, "--", 2) == 0;
    bool is_netrc = word->when == ALWAYS && af_starts_with(word->text, "passw") &&
                    ends_line(scrubber, at, len);
    if (!assignment.has_sign && !is_option && !is_netrc)
        return nothing;
    return (struct removal){len, word->when == USER_NAME ? "[user]" : "[secret]"};
}

/* "Bearer VALUE" without the name of a header. */
static struct removal secret_by_scheme(const struct scrubber *scrubber, const char *at)
{
    static const char *const schemes[] = {"bearer ", "basic "};
    for (size_t i = 0; i < AF_COUNT(schemes); i++) {
        size_t len = strlen(schemes[i]);
        if ((size_t)(at - scrubber->start) >= len && begins(scrubber, at - len, schemes[i]) &&
            run_len(scrubber, at, "+/=_-.") >= TOKEN_LENGTH_MIN)
            return (struct removal){run_len(scrubber, at, "+/=_-."), "[secret]"};
    }
    return nothing;
}

/* The folder name after /home/, /scratch/, \Users\ and the like. */
static struct removal home_name(const struct scrubber *scrubber, const char *at)
{
    static const char *const folders[] = {"home", "homes", "users", "scratch", "people"};
    const char *end = at;
    while (end > scrubber->start && at - end < 2 && (end[-1] == '/' || end[-1] == '\\'))
        end--;
    for (size_t i = 0; end < at && i < AF_COUNT(folders); i++) {
        size_t len = strlen(folders[i]);
        char separator = at[-1];
        if ((size_t)(end - scrubber->start) <= len || end[-1 - (ptrdiff_t)len] != separator ||
            strncasecmp(end - len, folders[i], len) != 0)
            continue;
        size_t name = run_len(scrubber, at, separator == '\\' ? "_-.@ " : "_-.@");
        bool in_folder = at + name < scrubber->end && at[name] == separator;
        /* Only between two separators a blank belongs to the name. */
        return (struct removal){in_folder ? name : run_len(scrubber, at, "_-.@"), "[user]"};
    }
    return nothing;
}

static struct removal own_name(const struct scrubber *scrubber, const char *at)
{
    static const char *const common[] = {"root", "user", "ubuntu", "localhost", "runner"};
    const struct af_scrub_names *names = scrubber->names;
    const struct {
        const char *name;
        const char *by;
    } own[] = {{names->home, "[home]"}, {names->user, "[user]"}, {names->host, "[host]"}};
    for (size_t i = 0; i < AF_COUNT(own); i++) {
        bool is_host = own[i].name == names->host;
        size_t len = own[i].name == NULL ? 0 : strcspn(own[i].name, is_host ? "." : "");
        bool is_common = false;
        for (size_t c = 0; c < AF_COUNT(common) && len > 0; c++)
            is_common = is_common ||
                        (strncmp(own[i].name, common[c], len) == 0 && common[c][len] == '\0');
        if (len < NAME_LENGTH_MIN || is_common || (size_t)(scrubber->end - at) < len ||
            memcmp(at, own[i].name, len) != 0 || (i > 0 && !at_word(scrubber, at)) ||
            (at + len < scrubber->end && is_word(at[len])))
            continue;
        if (is_host) /* with its domain */
            while (at + len + 1 < scrubber->end && at[len] == '.' && is_name(at[len + 1]))
                len += 1 + run_len(scrubber, at + len + 1, "-");
        if (i > 0 || len > strlen("/root"))
            return (struct removal){len, own[i].by};
    }
    return nothing;
}

/* ana@node17 of a prompt, and e-mail addresses; not name@version or git@github.com. */
static struct removal at_sign(const struct scrubber *scrubber, const char *at)
{
    if (!at_word(scrubber, at) || begins(scrubber, at, "git@"))
        return nothing;
    size_t user = run_len(scrubber, at, "_-.+");
    if (user == 0 || at + user + 1 >= scrubber->end || at[user] != '@' ||
        !isalpha((unsigned char)at[user + 1]))
        return nothing;
    const char *host = at + user + 1;
    size_t len = run_len(scrubber, host, "-.");
    while (len > 0 && host[len - 1] == '.')
        len--;
    const char *behind = host + len;
    const char *dot = memrchr(host, '.', len);
    bool is_prompt = behind + 1 < scrubber->end && behind[0] == ':' &&
                     (behind[1] == '~' || behind[1] == '/' || behind[1] == ' ');
    if (is_prompt)
        return (struct removal){user + 1 + len, "[user]@[host]"};
    bool has_top = dot != NULL && behind - dot > 2;
    for (const char *c = dot; has_top && c + 1 < behind; c++)
        has_top = isalpha((unsigned char)c[1]);
    return has_top ? (struct removal){user + 1 + len, "[e-mail]"} : nothing;
}

/* A 4-part number is a version behind "==" or the name of NVIDIA's packages. */
static bool is_version(const struct scrubber *scrubber, const char *at)
{
    const char *end = at;
    while (end > scrubber->start && at - end < RUN_LENGTH_MAX && strchr(" \t\":('", end[-1]))
        end--;
    const char *word = end;
    while (word > scrubber->start && end - word < RUN_LENGTH_MAX && is_word(word[-1]))
        word--;
    bool compared = end - scrubber->start >= 2 && end[-1] == '=' && strchr("=<>~!", end[-2]);
    return compared || strncasecmp(word, "nvidia", 6) == 0 ||
           (end - word >= 7 && strncasecmp(end - 7, "version", 7) == 0);
}

/* An IPv4 address of another machine. */
static struct removal ipv4(const struct scrubber *scrubber, const char *at)
{
    if (!at_word(scrubber, at) || (at > scrubber->start && at[-1] == '.'))
        return nothing;
    size_t len = 0;
    for (int part = 0; part < 4; part++) {
        int value = 0;
        size_t digits = 0;
        for (; at + len < scrubber->end && isdigit((unsigned char)at[len]) && digits < 4; len++)
            digits++, value = value * 10 + (at[len] - '0');
        bool dot = at + len < scrubber->end && at[len] == '.';
        if (digits == 0 || digits > 3 || value > 255 || (part < 3 && !dot))
            return nothing;
        len += part < 3;
    }
    bool ends = at + len == scrubber->end || !is_word(at[len]);
    bool goes_on = at + len + 1 < scrubber->end && at[len] == '.' && is_name(at[len + 1]);
    return ends && !goes_on && strncmp(at, "127.", 4) != 0 && strncmp(at, "0.0.", 4) != 0 &&
                   !is_version(scrubber, at)
               ? (struct removal){len, "[address]"}
               : nothing;
}

/* IPv6 addresses (RFC 4291) and MAC addresses: groups of hexadecimal digits. */
static struct removal hexadecimal(const struct scrubber *scrubber, const char *at)
{
    size_t len = 0;
    size_t colons = 0;
    size_t group = 0;
    size_t group_max = 0;
    bool gap = false;
    bool digit = false;
    if (!at_word(scrubber, at) || (at > scrubber->start && at[-1] == ':'))
        return nothing;
    for (; at + len < scrubber->end && len < 40; len++) {
        if (at[len] == ':') {
            gap = gap || (len > 0 && at[len - 1] == ':');
            colons++;
            group = 0;
        } else if (isxdigit((unsigned char)at[len])) {
            digit = digit || isdigit((unsigned char)at[len]);
            group_max = ++group > group_max ? group : group_max;
        } else {
            break;
        }
    }
    bool ends = at + len == scrubber->end || !is_word(at[len]);
    bool mac = colons == 5 && group_max == 2 && len == 17 && !gap;
    bool ip = group_max <= 4 && len > 3 && digit && (colons == 7 || (gap && colons >= 2));
    return ends && (mac || ip) ? (struct removal){len, "[address]"} : nothing;
}

/* A host in an address ("://HOST", "HOST:PORT"): the name of one in a private network. */
static struct removal host_name(const struct scrubber *scrubber, const char *at)
{
    static const char *const local[] = {".local", ".internal", ".lan",    ".corp",
                                        ".intra", ".home",     ".private"};
    bool behind_scheme = at - scrubber->start >= 3 && memcmp(at - 3, "://", 3) == 0;
    bool behind_at = at > scrubber->start && at[-1] == '@';
    if (!at_word(scrubber, at) || (at > scrubber->start && at[-1] == '.'))
        return nothing;
    size_t len = run_len(scrubber, at, "-.");
    while (len > 0 && at[len - 1] == '.')
        len--;
    size_t dots = 0;
    for (size_t i = 0; i < len; i++)
        dots += at[i] == '.';
    bool has_port =
        at + len + 1 < scrubber->end && at[len] == ':' && isdigit((unsigned char)at[len + 1]);
    for (size_t i = 0; i < AF_COUNT(local); i++) {
        size_t end = strlen(local[i]);
        if (len > end && (behind_scheme || behind_at || dots > 1 || has_port) &&
            strncasecmp(at + len - end, local[i], end) == 0)
            return (struct removal){len, "[host]"};
    }
    bool is_plain = dots == 0 && len >= NAME_LENGTH_MIN && !begins(scrubber, at, "localhost");
    return behind_scheme && is_plain && at + len < scrubber->end &&
                   strchr(":/ \r\n", at[len]) != NULL
               ? (struct removal){len, "[host]"}
               : nothing;
}

/* 8-4-4-4-12 hexadecimal digits, as of GPUs, disks and machines. */
static struct removal uuid(const struct scrubber *scrubber, const char *at)
{
    static const int groups[] = {8, 4, 4, 4, 12};
    const char *c = at;
    if (at > scrubber->start && isalnum((unsigned char)at[-1]))
        return nothing;
    for (size_t i = 0; i < AF_COUNT(groups); i++) {
        for (int digit = 0; digit < groups[i]; digit++, c++)
            if (c >= scrubber->end || !isxdigit((unsigned char)*c))
                return nothing;
        if (i + 1 < AF_COUNT(groups) && (c >= scrubber->end || *c++ != '-'))
            return nothing;
    }
    return (struct removal){(size_t)(c - at), "[uuid]"};
}

typedef struct removal rule_function(const struct scrubber *scrubber, const char *at);

static rule_function *const rules[] = {
    credentials, query,    private_key, secret_by_name, token_by_form, secret_by_scheme,
    home_name,   own_name, at_sign,     ipv4,           uuid,          hexadecimal,
    host_name};

const char *af_scrub_text(struct af_arena *arena, struct af_span text,
                          const struct af_scrub_names *names)
{
    static const struct af_scrub_names none;
    struct scrubber scrubber = {text.data, text.data + text.len, names != NULL ? names : &none,
                                false};
    struct af_text out = {0};
    for (const char *at = text.data; at < scrubber.end;) {
        struct removal removal = nothing;
        if (strchr(" \t\r\n\"'<>", *at) != NULL)
            scrubber.in_address = false;
        else if (begins(&scrubber, at, "://"))
            scrubber.in_address = true;
        for (size_t i = 0; i < AF_COUNT(rules) && removal.replaced == 0; i++)
            removal = rules[i](&scrubber, at);
        if (removal.replaced > 0)
            af_text_add(&out, removal.by);
        else
            af_text_add_n(&out, at, 1);
        at += removal.replaced > 0 ? removal.replaced : 1;
    }
    const char *copy = out.failed ? NULL : af_arena_text(arena, af_text_get(&out));
    af_text_release(&out);
    return copy;
}
