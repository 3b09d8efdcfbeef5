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

struct scrubber {
    const char *start; /* of the whole text */
    const char *end;
    const struct af_scrub_names *names;
};

/* `replaced` bytes become `by`; 0 bytes: the rule does not apply. */
struct removal {
    size_t replaced;
    const char *by;
};

static const struct removal nothing = {0, ""};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Number of bytes from `at` on that are letters, digits or in `more`. */
static size_t run_len(const struct scrubber *scrubber, const char *at, const char *more)
{
    size_t len = 0;
    while (len < RUN_LENGTH_MAX && at + len < scrubber->end && at[len] != '\0' &&
           (isalnum((unsigned char)at[len]) || strchr(more, at[len]) != NULL))
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

/* Tokens that are recognised by how they begin. */
static struct removal token_by_form(const struct scrubber *scrubber, const char *at)
{
    static const char *const starts[] = {
        "hf_",   "ghp_", "gho_", "ghs_",  "ghu_",  "github_pat_", "glpat-", "sk-", "xoxb-",
        "xoxp-", "AKIA", "ASIA", "ya29.", "pypi-", "eyJ",         "nvapi-", "npm_"};
    if (!at_word(scrubber, at))
        return nothing;
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        size_t start = strlen(starts[i]);
        if ((size_t)(scrubber->end - at) < start || memcmp(at, starts[i], start) != 0)
            continue;
        size_t len = run_len(scrubber, at, "_-.");
        bool has_digit = false;
        for (size_t c = start; c < len; c++)
            has_digit = has_digit || isdigit((unsigned char)at[c]);
        if (len >= start + TOKEN_LENGTH_MIN && has_digit)
            return (struct removal){len, "[token]"};
    }
    return nothing;
}

/* Whether `at` is just after the name of a secret, such as HF_TOKEN= or "password": ". */
static bool behind_secret(const struct scrubber *scrubber, const char *at)
{
    static const char *const words[] = {"token",   "password", "passwd",  "secret",
                                        "api_key", "apikey",   "api-key", "access_key"};
    static const char *const schemes[] = {"bearer ", "basic "};
    const char *name_end = at;
    bool assigned = false;
    while (name_end > scrubber->start && at - name_end < SEPARATORS_MAX &&
           strchr("=: \"'\t", name_end[-1]) != NULL) {
        name_end--;
        assigned = assigned || *name_end == '=' || *name_end == ':';
    }
    for (size_t i = 0; assigned && i < AF_COUNT(words); i++) {
        size_t word = strlen(words[i]);
        if ((size_t)(name_end - scrubber->start) >= word &&
            begins(scrubber, name_end - word, words[i]))
            return true;
    }
    for (size_t i = 0; i < AF_COUNT(schemes); i++) {
        size_t word = strlen(schemes[i]);
        if ((size_t)(at - scrubber->start) >= word && begins(scrubber, at - word, schemes[i]) &&
            run_len(scrubber, at, "+/=_-.") >= TOKEN_LENGTH_MIN)
            return true;
    }
    return false;
}

/* The value after the name of a secret. */
static struct removal secret_by_name(const struct scrubber *scrubber, const char *at)
{
    size_t len = 0;
    if (at == scrubber->start || strchr("=: \"'\t", at[-1]) == NULL ||
        strchr("=: \"'\t\r\n", *at) != NULL || !behind_secret(scrubber, at))
        return nothing;
    while (at + len < scrubber->end && strchr(" \t\r\n\"',;&", at[len]) == NULL)
        len++;
    return (struct removal){len, "[secret]"};
}

/* The folder name after /home/, /Users/ or \Users\. */
static struct removal home_name(const struct scrubber *scrubber, const char *at)
{
    static const char *const places[] = {"/home/", "/Users/", "\\Users\\", "/u/home/"};
    for (size_t i = 0; i < AF_COUNT(places); i++) {
        size_t place = strlen(places[i]);
        if ((size_t)(at - scrubber->start) >= place &&
            strncasecmp(at - place, places[i], place) == 0) {
            size_t len = run_len(scrubber, at, "_-.@");
            return (struct removal){len, "[user]"};
        }
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
        size_t len = own[i].name == NULL ? 0 : strlen(own[i].name);
        bool is_common = false;
        for (size_t c = 0; c < AF_COUNT(common) && len > 0; c++)
            is_common = is_common || strcmp(own[i].name, common[c]) == 0;
        if (len < NAME_LENGTH_MIN || is_common || (size_t)(scrubber->end - at) < len ||
            memcmp(at, own[i].name, len) != 0 || (i > 0 && !at_word(scrubber, at)) ||
            (at + len < scrubber->end && is_word(at[len])))
            continue;
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

/* A host in an address ("://HOST", "HOST:PORT"): an IP address, or a private network's name. */
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
    bool is_number = len > 0;
    for (size_t i = 0; i < len; i++) {
        dots += at[i] == '.';
        is_number = is_number && (at[i] == '.' || isdigit((unsigned char)at[i]));
    }
    bool has_port =
        at + len + 1 < scrubber->end && at[len] == ':' && isdigit((unsigned char)at[len + 1]);
    if (is_number && dots == 3 && (behind_scheme || behind_at || has_port) &&
        strncmp(at, "127.", 4) != 0 && strncmp(at, "0.0.", 4) != 0)
        return (struct removal){len, "[address]"};
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

static rule_function *const rules[] = {credentials, token_by_form, secret_by_name, home_name,
                                       own_name,    at_sign,       host_name,      uuid};

const char *af_scrub_text(struct af_arena *arena, struct af_span text,
                          const struct af_scrub_names *names)
{
    static const struct af_scrub_names none;
    const struct scrubber scrubber = {text.data, text.data + text.len,
                                      names != NULL ? names : &none};
    struct af_text out = {0};
    for (const char *at = text.data; at < scrubber.end;) {
        struct removal removal = nothing;
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
