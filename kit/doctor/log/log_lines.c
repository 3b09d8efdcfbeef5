/*
 * log_lines.c: splits, cleans and joins lines of a log in constant memory.
 */
#include "kit/doctor/log/log_lines.h"

#include <ctype.h>
#include <string.h>

#include "kit/doctor/log/pattern.h"

#define OVERLAP_BYTES 300u    /* of two pieces of one line */
#define JOINED_BYTES 900u     /* of wrapped lines that are joined, at most, on either side */
#define WRAP_COLUMNS 79u      /* the narrowest terminal that is expected */
#define WRAP_COLUMNS_MAX 260u /* the widest */
#define ALIKE_BYTES 8u        /* lines that begin with the same ones are two messages */
#define PREFIXES_MAX 8

static bool is_digit(char letter)
{
    return letter >= '0' && letter <= '9';
}

/* The length of the escape sequence at `at`, which is ESC; at most `len`. */
static size_t escape_length(const char *at, size_t len)
{
    size_t end = 2;
    if (len < 2)
        return len;
    if (at[1] == '[') { /* CSI: parameters, then one letter */
        while (end < len && (unsigned char)at[end] >= 0x20 && (unsigned char)at[end] < 0x40)
            end++;
        return end < len ? end + 1 : end;
    }
    if (at[1] == ']') { /* OSC: to BEL or ESC \ */
        while (end < len && at[end] != '\a' && at[end] != '\033')
            end++;
        if (end < len && at[end] == '\033')
            end++;
        return end < len ? end + 1 : end;
    }
    end = 1; /* other sequences: intermediate bytes, then a final one */
    while (end < len && (unsigned char)at[end] >= 0x20 && (unsigned char)at[end] < 0x30)
        end++;
    return end < len ? end + 1 : end;
}

/* The length of "[0;31m", a colour whose ESC was lost, or of "^[[0;31m"; else 0. */
static size_t lost_colour_length(const char *at, size_t len)
{
    size_t start = len > 3 && at[0] == '^' && at[1] == '[' && at[2] == '[' ? 3
                   : at[0] == '['                                          ? 1
                                                                           : 0;
    size_t end = start;
    while (end < len && end < start + 12 && (is_digit(at[end]) || at[end] == ';'))
        end++;
    if (start == 0 || end == len || (end == start && start == 1))
        return 0;
    return at[end] == 'm' || (start == 3 && at[end] == 'K') ? end + 1 : 0;
}

/* What a UTF-8 sequence becomes. */
struct replaced {
    size_t len;   /* bytes read; 0: they stay */
    char with;    /* 0: nothing */
    bool is_mark; /* uv and pip draw it where a message begins */
};

static struct replaced replace_wide(const char *bytes, size_t len)
{
    const unsigned char *at = (const unsigned char *)bytes;
    if (len >= 2 && at[0] == 0xC2 && at[1] == 0xA0)
        return (struct replaced){2, ' ', false};
    if (len >= 2 && at[0] == 0xC3 && at[1] == 0x97) /* multiplication sign */
        return (struct replaced){2, ' ', true};
    if (len < 3)
        return (struct replaced){0, 0, false};
    if (at[0] == 0xEF && at[1] == 0xBB && at[2] == 0xBF) /* byte order mark */
        return (struct replaced){3, 0, false};
    if (at[0] != 0xE2)
        return (struct replaced){0, 0, false};
    if (at[1] == 0x94 || at[1] == 0x95) /* box drawing */
        return (struct replaced){3, ' ', false};
    if (at[1] == 0x96 && at[2] == 0xB6) /* triangle */
        return (struct replaced){3, ' ', true};
    if (at[1] == 0x80 && at[2] >= 0x98 && at[2] <= 0x9F) /* typographic quotes */
        return (struct replaced){3, at[2] <= 0x9B ? '\'' : '"', false};
    if (at[1] == 0x80 && at[2] >= 0x8B && at[2] <= 0x8F) /* without width */
        return (struct replaced){3, 0, false};
    return (struct replaced){0, 0, false};
}

struct cleaned {
    char *text;
    size_t len;
    size_t width; /* columns, with the blanks */
    bool is_marked;
};

static void add_blank(struct cleaned *cleaned)
{
    if (cleaned->len > 0 && cleaned->text[cleaned->len - 1] != ' ')
        cleaned->text[cleaned->len++] = ' ';
    cleaned->width++;
}

static bool is_plain(char byte)
{
    return byte > ' ' && byte < 0x7F && byte != '[' && byte != '^' && byte != '*';
}

static void clean(const char *raw, size_t len, struct cleaned *cleaned)
{
    for (size_t at = 0; at < len;) {
        size_t end = at;
        while (end < len && is_plain(raw[end]))
            end++;
        memcpy(cleaned->text + cleaned->len, raw + at, end - at);
        cleaned->len += end - at;
        cleaned->width += end - at;
        at = end;
        if (at == len)
            break;
        unsigned char byte = (unsigned char)raw[at];
        size_t skipped = byte <= ' ' || byte == 0x7F ? 1 : 0; /* blanks, controls, DEL */
        if (byte == 0x1B)
            skipped = escape_length(raw + at, len - at);
        else if (byte == '*') /* Markdown's bold type */
            skipped = at + 1 < len && raw[at + 1] == '*' ? 2 : 0;
        else if (byte == '[' || byte == '^')
            skipped = lost_colour_length(raw + at, len - at);
        else if (byte >= 0x80) {
            struct replaced replaced = replace_wide(raw + at, len - at);
            skipped = replaced.len;
            cleaned->is_marked |= replaced.is_mark && cleaned->len == 0;
            if (replaced.with == ' ')
                add_blank(cleaned);
            else if (replaced.with != 0)
                cleaned->text[cleaned->len++] = replaced.with;
        } else if (byte == ' ' || byte == '\t')
            add_blank(cleaned);
        if (skipped == 0) {
            cleaned->text[cleaned->len++] = (char)byte;
            cleaned->width++;
        }
        at += skipped == 0 ? 1 : skipped;
    }
    while (cleaned->len > 0 && cleaned->text[cleaned->len - 1] == ' ')
        cleaned->len--;
}

static size_t digits_at(const char *text, size_t len, size_t at)
{
    size_t end = at;
    while (end < len && is_digit(text[end]))
        end++;
    return end - at;
}

/* "12:34:56" or "2026-01-31" at `at`: three groups of digits. */
static bool is_three_groups(const char *text, size_t len, size_t at, const char *between)
{
    for (int group = 0; group < 3; group++) {
        size_t count = digits_at(text, len, at);
        at += count;
        if (count < 1 || count > 4)
            return false;
        if (group < 2 && (at == len || strchr(between, text[at++]) == NULL))
            return false;
    }
    return true;
}

/* A date, a time or both, with fractions and zone, in brackets or not. */
static size_t timestamp_length(const char *text, size_t len)
{
    size_t at = text[0] == '[' ? 1 : 0;
    bool dated = is_three_groups(text, len, at, "-/");
    if (!dated && !is_three_groups(text, len, at, ":"))
        return 0;
    for (int part = 0; part < 2; part++) {
        while (at < len && (is_digit(text[at]) || strchr("-/:.,TZ+", text[at]) != NULL))
            at++;
        if (part == 1 || !dated || at + 1 >= len || !is_three_groups(text, len, at + 1, ":"))
            break;
        at++;
    }
    if (text[0] == '[') {
        const char *end = memchr(text + at, ']', len - at < 12 ? len - at : 12);
        return end == NULL ? 0 : (size_t)(end - text) + 1;
    }
    return at == len || text[at] == ' ' ? at : 0;
}

/* BuildKit: "#12 34.5 text", and "34.5 text" in its summary. */
static size_t buildkit_length(const char *text, size_t len)
{
    size_t at = 0;
    if (text[0] == '#') {
        size_t count = digits_at(text, len, 1);
        at = count + 1;
        if (count == 0 || at == len || text[at] != ' ')
            return 0;
        at++;
    }
    size_t whole = digits_at(text, len, at);
    size_t dot = at + whole;
    size_t fraction = dot < len && text[dot] == '.' ? digits_at(text, len, dot + 1) : 0;
    size_t end = dot + 1 + fraction;
    if (whole > 0 && fraction > 0 && fraction <= 3 && end < len && text[end] == ' ')
        return end;
    return at;
}

/* "##[error]", "[rank0]:", "(EngineCore pid=12)": the rank or program that printed it. */
static size_t bracket_length(const char *text, size_t len)
{
    static const char *const starts[] = {"##[",  "[rank", "(engine",   "(worker",
                                         "(ray", "(vllm", "(apiserver"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        size_t count = strlen(starts[i]);
        size_t same = 0;
        while (same < count && same < len &&
               tolower((unsigned char)text[same]) == starts[i][same])
            same++;
        char close = starts[i][0] == '(' ? ')' : ']';
        const char *end = same < count ? NULL : memchr(text, close, len < 80 ? len : 80);
        if (end != NULL && end + 1 < text + len)
            return (size_t)(end - text) + 1 + (end[1] == ':' ? 1 : 0);
    }
    return 0;
}

/* "| ", and compose's "service-1 | ". */
static size_t gutter_length(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len && at < 40 &&
           (isalnum((unsigned char)text[at]) || strchr("._-", text[at]) != NULL))
        at++;
    if (at > 0 && at < len && text[at] == ' ')
        at++;
    if (at == len || text[at] != '|' || (at + 1 < len && text[at + 1] != ' '))
        return 0;
    return at + 1;
}

static size_t prefix_length(const char *text, size_t len)
{
    size_t found = 0;
    if (len == 0)
        return 0;
    if (text[0] == ' ')
        return 1;
    if (text[0] == '>' && len > 1 && text[1] == ' ')
        return 2;
    if (is_digit(text[0]) || text[0] == '[')
        found = timestamp_length(text, len);
    if (found == 0 && (is_digit(text[0]) || text[0] == '#'))
        found = buildkit_length(text, len);
    if (found == 0 && (text[0] == '#' || text[0] == '[' || text[0] == '('))
        found = bracket_length(text, len);
    if (found == 0 && memchr(text, '|', len < 44 ? len : 44) != NULL)
        found = gutter_length(text, len);
    return found;
}

static void strip_prefixes(struct cleaned *cleaned)
{
    for (int i = 0; i < PREFIXES_MAX; i++) {
        size_t count = prefix_length(cleaned->text, cleaned->len);
        if (count == 0)
            return;
        cleaned->text += count;
        cleaned->len -= count;
    }
}

static void deliver(struct af_log_lines *lines, char *text, size_t len, uint64_t number,
                    bool begins, size_t joint)
{
    char *folded = lines->folded + (text - lines->text);
    af_pattern_fold_text(text, len, folded);
    struct af_log_line line = {text, folded, len, number, begins, joint};
    lines->take(lines->context, &line);
}

/* Whether the previous line was wrapped at a terminal's width and this one continues it. */
static bool is_wrapped(const struct af_log_lines *lines, const struct cleaned *now)
{
    size_t word = 0;
    if (lines->before_len == 0 || now->len == 0 || lines->before_width > WRAP_COLUMNS_MAX ||
        lines->before_width < WRAP_COLUMNS / 2)
        return false;
    if (lines->before_len >= ALIKE_BYTES && now->len >= ALIKE_BYTES &&
        memcmp(lines->before, now->text, ALIKE_BYTES) == 0)
        return false; /* two messages of one kind, such as ptxas prints them */
    while (word < now->len && now->text[word] != ' ')
        word++;
    bool fills = lines->before_width + 1 + word > WRAP_COLUMNS;
    return fills && !now->is_marked &&
           (lines->before_marked || lines->before_width >= WRAP_COLUMNS - 25);
}

/* Delivers the previous text and this line as one, to find a message that was wrapped. */
static void deliver_joined(struct af_log_lines *lines, const struct cleaned *now)
{
    size_t before = lines->before_len;
    size_t len = now->len < JOINED_BYTES ? now->len : JOINED_BYTES;
    char *text = lines->text + AF_LOG_LINE_BYTES; /* now->text is before that */
    memcpy(text, lines->before, before);
    text[before] = ' ';
    memcpy(text + before + 1, now->text, len);
    deliver(lines, text, before + 1 + len, lines->before_number, true, before + 1);
}

/* Saves the text that the next line may continue: this line, with those that it continues. */
static void keep_before(struct af_log_lines *lines, const struct cleaned *now, bool wrapped)
{
    size_t kept = wrapped ? lines->before_len : 0;
    if (kept == 0 || kept + 1 + now->len > JOINED_BYTES) {
        kept = 0;
        lines->before_number = lines->number + 1;
        lines->before_marked = now->is_marked;
    } else {
        lines->before[kept++] = ' ';
    }
    size_t skipped = now->len > JOINED_BYTES ? now->len - JOINED_BYTES : 0;
    memcpy(lines->before + kept, now->text + skipped, now->len - skipped);
    lines->before_len = kept + now->len - skipped;
    lines->before_width = now->width;
}

static void take_line(struct af_log_lines *lines, const char *raw, size_t len)
{
    struct cleaned now = {.text = lines->text};
    if (lines->take_raw != NULL && !lines->is_continued)
        lines->take_raw(lines->context, (struct af_span){raw, len}, lines->number + 1);
    clean(raw, len, &now);
    strip_prefixes(&now);
    if (now.len == 0) {
        lines->before_len = 0;
        return;
    }
    bool begins = !lines->is_continued;
    bool wrapped = begins && is_wrapped(lines, &now);
    deliver(lines, now.text, now.len, lines->number + 1, begins, 0);
    if (wrapped)
        deliver_joined(lines, &now);
    keep_before(lines, &now, wrapped);
}

/* Appends to the waiting bytes; a line that grows too long is delivered in pieces. */
static void wait_for_end(struct af_log_lines *lines, const char *bytes, size_t len)
{
    while (len > 0) {
        if (lines->raw_len == AF_LOG_LINE_BYTES) {
            take_line(lines, lines->raw, lines->raw_len);
            lines->is_continued = true;
            memmove(lines->raw, lines->raw + AF_LOG_LINE_BYTES - OVERLAP_BYTES, OVERLAP_BYTES);
            lines->raw_len = OVERLAP_BYTES;
        }
        size_t room = AF_LOG_LINE_BYTES - lines->raw_len;
        size_t taken = len < room ? len : room;
        memcpy(lines->raw + lines->raw_len, bytes, taken);
        lines->raw_len += taken;
        bytes += taken;
        len -= taken;
    }
}

static void end_line(struct af_log_lines *lines, const char *bytes, size_t len)
{
    if (lines->raw_len == 0 && len <= AF_LOG_LINE_BYTES) {
        take_line(lines, bytes, len);
    } else {
        wait_for_end(lines, bytes, len);
        take_line(lines, lines->raw, lines->raw_len);
    }
    lines->raw_len = 0;
    lines->is_continued = false;
}

/* Takes the text before each '\r' as a line and returns the rest. A '\r' at the end waits for
   the next byte. */
static struct af_span take_states(struct af_log_lines *lines, struct af_span bytes)
{
    const char *back;
    while (bytes.len > 0 && (back = memchr(bytes.data, '\r', bytes.len)) != NULL) {
        size_t taken = (size_t)(back - bytes.data);
        if (taken + 1 == bytes.len) {
            lines->has_return = true;
            bytes.len = taken;
            break;
        }
        end_line(lines, bytes.data, taken);
        lines->before_len = 0; /* the next state replaces this one instead of continuing it */
        bytes.data += taken + 1;
        bytes.len -= taken + 1;
    }
    return bytes;
}

void af_log_lines_feed(struct af_log_lines *lines, const char *bytes, size_t len)
{
    const char *newline;
    if (len > 0 && lines->has_return && bytes[0] != '\n') {
        end_line(lines, "", 0);
        lines->before_len = 0;
    }
    lines->has_return = lines->has_return && len == 0;
    while (len > 0 && (newline = memchr(bytes, '\n', len)) != NULL) {
        size_t taken = (size_t)(newline - bytes);
        struct af_span last = take_states(lines, (struct af_span){bytes, taken});
        end_line(lines, last.data, last.len);
        lines->has_return = false;
        lines->number++;
        bytes += taken + 1;
        len -= taken + 1;
    }
    struct af_span rest = take_states(lines, (struct af_span){bytes, len});
    wait_for_end(lines, rest.data, rest.len);
}

void af_log_lines_end(struct af_log_lines *lines)
{
    if (lines->raw_len > 0) {
        end_line(lines, "", 0);
        lines->number++;
    }
    lines->before_len = 0;
    lines->has_return = false;
}
