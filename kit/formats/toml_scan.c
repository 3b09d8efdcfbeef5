/*
 * toml_scan.c: the tokens of TOML. The structure of a document is read in toml.c.
 */
#include "kit/formats/toml.h"

#include <ctype.h>
#include <string.h>

bool af_toml_scan_fail(struct af_toml_scan *scan, const char *what)
{
    size_t line = 1;
    size_t column = 1;
    if (scan->status != ANYFLASH_OK)
        return false;
    for (size_t i = 0; i < scan->at && i < scan->len; i++) {
        bool is_end = scan->data[i] == '\n';
        bool is_inner = ((unsigned char)scan->data[i] & 0xC0) == 0x80;
        line += is_end ? 1 : 0;
        column = is_end ? 1 : is_inner ? column : column + 1;
    }
    scan->status = af_fail(scan->err, ANYFLASH_E_DATA, "%s, line %zu, column %zu: %s",
                           scan->name, line, column, what);
    return false;
}

char af_toml_peek(const struct af_toml_scan *scan)
{
    return scan->at < scan->len ? scan->data[scan->at] : '\0';
}

static char peek_at(const struct af_toml_scan *scan, size_t ahead)
{
    return ahead < scan->len - scan->at ? scan->data[scan->at + ahead] : '\0';
}

bool af_toml_take(struct af_toml_scan *scan, char byte)
{
    if (scan->at >= scan->len || scan->data[scan->at] != byte)
        return false;
    scan->at++;
    return true;
}

void af_toml_space(struct af_toml_scan *scan)
{
    while (af_toml_peek(scan) == ' ' || af_toml_peek(scan) == '\t')
        scan->at++;
}

/* Control characters are not allowed anywhere, except tab. */
static bool is_control(char byte)
{
    return ((unsigned char)byte < 0x20 && byte != '\t') || byte == 0x7F;
}

/* "\n" or "\r\n". */
static bool take_newline(struct af_toml_scan *scan)
{
    if (peek_at(scan, 0) == '\r' && peek_at(scan, 1) == '\n')
        scan->at++;
    return af_toml_take(scan, '\n');
}

static bool take_comment(struct af_toml_scan *scan)
{
    if (!af_toml_take(scan, '#'))
        return true;
    while (scan->at < scan->len && !is_control(scan->data[scan->at]))
        scan->at++;
    return true;
}

bool af_toml_blank(struct af_toml_scan *scan)
{
    size_t before;
    do {
        before = scan->at;
        af_toml_space(scan);
        take_comment(scan);
        take_newline(scan);
    } while (scan->at != before);
    return true;
}

bool af_toml_line_end(struct af_toml_scan *scan)
{
    af_toml_space(scan);
    take_comment(scan);
    if (scan->at == scan->len || take_newline(scan))
        return true;
    return af_toml_scan_fail(scan, "expected the end of the line");
}

/* Appends a code point as UTF-8 to *to. */
static void put_code(char **to, uint32_t code)
{
    char *at = *to;
    if (code < 0x80) {
        *at++ = (char)code;
    } else if (code < 0x800) {
        *at++ = (char)(0xC0 | code >> 6);
        *at++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *at++ = (char)(0xE0 | code >> 12);
        *at++ = (char)(0x80 | (code >> 6 & 0x3F));
        *at++ = (char)(0x80 | (code & 0x3F));
    } else {
        *at++ = (char)(0xF0 | code >> 18);
        *at++ = (char)(0x80 | (code >> 12 & 0x3F));
        *at++ = (char)(0x80 | (code >> 6 & 0x3F));
        *at++ = (char)(0x80 | (code & 0x3F));
    }
    *to = at;
}

/* Reads `digits` hexadecimal digits of \xHH, \uHHHH or \UHHHHHHHH. */
static bool take_hex(struct af_toml_scan *scan, int digits, char **to)
{
    uint32_t code = 0;
    for (int i = 0; i < digits; i++, scan->at++) {
        int byte = (unsigned char)af_toml_peek(scan);
        if (!isxdigit(byte))
            return af_toml_scan_fail(scan, "a hexadecimal digit is missing");
        code = code << 4 | (uint32_t)(isdigit(byte) ? byte - '0' : tolower(byte) - 'a' + 10);
    }
    if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return af_toml_scan_fail(scan, "this escape is not an allowed character");
    put_code(to, code);
    return true;
}

/* A backslash at the end of a line removes the blanks up to the next text. */
static bool take_line_join(struct af_toml_scan *scan)
{
    af_toml_space(scan);
    if (!take_newline(scan))
        return af_toml_scan_fail(scan, "unknown escape sequence");
    do
        af_toml_space(scan);
    while (take_newline(scan));
    return true;
}

/* Reads the part of an escape after the backslash. */
static bool take_escape(struct af_toml_scan *scan, bool is_long, char **to)
{
    static const char letters[] = "btnfre\"\\";
    static const char meanings[] = "\b\t\n\f\r\033\"\\";
    char letter = af_toml_peek(scan);
    const char *known = letter == '\0' ? NULL : strchr(letters, letter);
    if (known != NULL) {
        *(*to)++ = meanings[known - letters];
        scan->at++;
        return true;
    }
    if (is_long && (letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n'))
        return take_line_join(scan);
    int digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0)
        return af_toml_scan_fail(scan, "unknown escape sequence");
    scan->at++;
    return take_hex(scan, digits, to);
}

/* Whether three quotes end a multi-line string here; up to two more quotes belong to it. */
static bool ends_long(struct af_toml_scan *scan, char quote, char **to)
{
    size_t run = 0;
    while (run < 5 && peek_at(scan, run) == quote)
        run++;
    for (size_t i = 3; i < run; i++)
        *(*to)++ = quote;
    if (run < 3)
        return false;
    scan->at += run;
    return true;
}

static bool take_long(struct af_toml_scan *scan, char quote, char **to)
{
    scan->at += 3;
    take_newline(scan);
    while (scan->at < scan->len) {
        char byte = scan->data[scan->at];
        if (byte == quote && ends_long(scan, quote, to))
            return true;
        bool is_newline = byte == '\n' || (byte == '\r' && peek_at(scan, 1) == '\n');
        if (is_control(byte) && !is_newline)
            return af_toml_scan_fail(scan, "a control character in a string");
        scan->at++;
        if (byte == '\\' && quote == '"') {
            if (!take_escape(scan, true, to))
                return false;
        } else {
            *(*to)++ = byte;
        }
    }
    return af_toml_scan_fail(scan, "unterminated string");
}

static bool take_short(struct af_toml_scan *scan, char quote, char **to)
{
    scan->at++;
    while (scan->at < scan->len) {
        char byte = scan->data[scan->at];
        if (is_control(byte))
            return af_toml_scan_fail(scan, "the string must end on its line");
        scan->at++;
        if (byte == quote)
            return true;
        if (byte == '\\' && quote == '"') {
            if (!take_escape(scan, false, to))
                return false;
        } else {
            *(*to)++ = byte;
        }
    }
    return af_toml_scan_fail(scan, "unterminated string");
}

/* Upper bound on the bytes of the string here, including quotes and escapes. */
static size_t string_capacity(const struct af_toml_scan *scan, char quote, bool is_long)
{
    size_t quotes = is_long ? 3 : 1;
    size_t run = 0;
    size_t at = scan->at + quotes;
    for (; at < scan->len && run < quotes; at++) {
        char byte = scan->data[at];
        if (byte == '\n' && !is_long)
            break;
        run = byte == quote ? run + 1 : 0;
        if (byte == '\\' && quote == '"')
            at++;
    }
    return at - scan->at + 4; /* a multi-line string may end in two more quotes */
}

bool af_toml_string(struct af_toml_scan *scan, const char **text_out)
{
    char quote = af_toml_peek(scan);
    bool is_long = peek_at(scan, 1) == quote && peek_at(scan, 2) == quote;
    /* Decoded text is never longer than its source. */
    char *text = af_arena_alloc(scan->arena, string_capacity(scan, quote, is_long));
    char *to = text;
    bool good = is_long ? take_long(scan, quote, &to) : take_short(scan, quote, &to);
    *to = '\0';
    *text_out = text;
    return good;
}

static bool is_bare(char byte)
{
    return isalnum((unsigned char)byte) != 0 || byte == '_' || byte == '-';
}

static bool take_key_part(struct af_toml_scan *scan, const char **part_out)
{
    char first = af_toml_peek(scan);
    if (first == '"' || first == '\'') {
        if (peek_at(scan, 1) == first && peek_at(scan, 2) == first)
            return af_toml_scan_fail(scan, "a key cannot be a multi-line string");
        return af_toml_string(scan, part_out);
    }
    size_t start = scan->at;
    while (is_bare(af_toml_peek(scan)))
        scan->at++;
    if (scan->at == start)
        return af_toml_scan_fail(scan, "a key is missing");
    *part_out = af_arena_text_n(scan->arena, scan->data + start, scan->at - start);
    return true;
}

bool af_toml_key(struct af_toml_scan *scan, const char **parts, size_t *count_out)
{
    size_t count = 0;
    do {
        af_toml_space(scan);
        if (count == AF_TOML_PARTS_MAX)
            return af_toml_scan_fail(scan, "the key has too many parts");
        if (!take_key_part(scan, &parts[count]))
            return false;
        count++;
        af_toml_space(scan);
    } while (af_toml_take(scan, '.'));
    *count_out = count;
    return true;
}

/*
 * Length of the digits of `base` at `text`, with single underscores between
 * them; 0: none.
 */
static size_t digits(const char *text, size_t len, int base)
{
    size_t at = 0;
    for (; at < len; at++) {
        int byte = tolower((unsigned char)text[at]);
        int value = isdigit(byte) ? byte - '0' : isalpha(byte) ? byte - 'a' + 10 : 99;
        bool is_joint = byte == '_' && at > 0 && at + 1 < len && text[at - 1] != '_' &&
                        isxdigit((unsigned char)text[at + 1]);
        if (value >= base && !is_joint)
            break;
    }
    return at;
}

static bool is_float(const char *text, size_t len, size_t whole)
{
    size_t at = whole;
    if (at < len && text[at] == '.') {
        size_t fraction = digits(text + at + 1, len - at - 1, 10);
        if (fraction == 0)
            return false;
        at += 1 + fraction;
    }
    if (at < len && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < len && (text[at] == '+' || text[at] == '-'))
            at++;
        size_t power = digits(text + at, len - at, 10);
        if (power == 0)
            return false;
        at += power;
    }
    return at == len;
}

/* Whether the token, without its sign, is a number; *is_float_out says which kind. */
static bool is_number(const char *text, size_t len, bool is_signed, bool *is_float_out)
{
    *is_float_out = true;
    if (len == 3 && (memcmp(text, "inf", 3) == 0 || memcmp(text, "nan", 3) == 0))
        return true;
    *is_float_out = false;
    int base = len < 3 || text[0] != '0' ? 10
               : text[1] == 'x'          ? 16
               : text[1] == 'o'          ? 8
               : text[1] == 'b'          ? 2
                                         : 10;
    if (base != 10)
        return !is_signed && digits(text + 2, len - 2, base) == len - 2;
    size_t whole = digits(text, len, 10);
    if (whole == 0 || (whole > 1 && text[0] == '0'))
        return false;
    *is_float_out = whole < len;
    return whole == len || is_float(text, len, whole);
}

/* Whether `text` has the shape: 'd' stands for a digit, other characters for themselves. */
static bool has_shape(const char *text, size_t len, const char *shape)
{
    size_t size = strlen(shape);
    for (size_t i = 0; i < size; i++) {
        if (i >= len || (shape[i] == 'd' ? isdigit((unsigned char)text[i]) == 0
                                         : toupper((unsigned char)text[i]) != shape[i]))
            return false;
    }
    return true;
}

/* "07:32", "07:32:00", "07:32:00.5", with an offset if a date precedes it. */
static bool is_clock(const char *text, size_t len, bool with_offset)
{
    if (!has_shape(text, len, "dd:dd"))
        return false;
    size_t at = 5;
    if (has_shape(text + at, len - at, ":dd")) {
        at += 3;
        if (at < len && text[at] == '.') {
            size_t start = ++at;
            while (at < len && isdigit((unsigned char)text[at]))
                at++;
            if (at == start)
                return false;
        }
    }
    if (with_offset && len - at == 1 && toupper((unsigned char)text[at]) == 'Z')
        return true;
    if (with_offset && len - at == 6 &&
        (has_shape(text + at, 6, "+dd:dd") || has_shape(text + at, 6, "-dd:dd")))
        return true;
    return at == len;
}

static bool is_time(const char *text, size_t len)
{
    if (is_clock(text, len, false))
        return true;
    if (!has_shape(text, len, "dddd-dd-dd"))
        return false;
    return len == 10 || ((toupper((unsigned char)text[10]) == 'T' || text[10] == ' ') &&
                         is_clock(text + 11, len - 11, true));
}

bool af_toml_scalar(struct af_toml_scan *scan, enum af_toml_kind *kind_out)
{
    const char *text = scan->data + scan->at;
    size_t len = 0;
    bool is_floating = false;
    while (is_bare(peek_at(scan, len)) || strchr("+.:", peek_at(scan, len)) != NULL) {
        if (peek_at(scan, len) == '\0')
            break;
        len++;
        if (len == 10 && peek_at(scan, 10) == ' ' && isdigit((unsigned char)peek_at(scan, 11)))
            len++; /* the blank allowed between date and time */
    }
    bool is_signed = len > 0 && (text[0] == '+' || text[0] == '-');
    size_t sign = is_signed ? 1 : 0;
    if ((len == 4 && memcmp(text, "true", 4) == 0) ||
        (len == 5 && memcmp(text, "false", 5) == 0))
        *kind_out = AF_TOML_BOOL;
    else if (is_time(text, len))
        *kind_out = AF_TOML_TIME;
    else if (len > sign && is_number(text + sign, len - sign, is_signed, &is_floating))
        *kind_out = is_floating ? AF_TOML_FLOAT : AF_TOML_INTEGER;
    else
        return af_toml_scan_fail(scan, len == 0 ? "a value is missing" : "not a valid value");
    scan->at += len;
    return true;
}
