/*
 * curl.h: the functions and constants of libcurl that we use. libcurl is loaded at run time
 * and its headers need not be installed, so they are declared here. All of them have been in
 * libcurl's stable interface since 7.56 (libcurl.so.4). Where no libcurl can be loaded,
 * curl_program.c does the same by the program curl, version 7.54 or newer.
 *
 * Source: curl/curl.h; the numbers of options are kind * 10000 + number.
 */
#ifndef AF_KIT_SYSTEM_CURL_H
#define AF_KIT_SYSTEM_CURL_H

#include "engine/base/base.h"

enum af_curl_option {
    AF_CURL_LOW_SPEED_LIMIT = 19,
    AF_CURL_LOW_SPEED_TIME = 20,
    AF_CURL_NOPROGRESS = 43,
    AF_CURL_FOLLOWLOCATION = 52,
    AF_CURL_SSL_VERIFYPEER = 64,
    AF_CURL_SSL_VERIFYHOST = 81,
    AF_CURL_NOSIGNAL = 99,
    AF_CURL_CONNECTTIMEOUT_MS = 156,
    AF_CURL_PROTOCOLS = 181, /* bits: 1 http, 2 https */
    AF_CURL_TCP_KEEPALIVE = 213,
    AF_CURL_SUPPRESS_CONNECT_HEADERS = 265,
    AF_CURL_WRITEDATA = 10001,
    AF_CURL_URL = 10002,
    AF_CURL_RANGE = 10007,
    AF_CURL_ERRORBUFFER = 10010, /* AF_CURL_ERROR_BYTES */
    AF_CURL_USERAGENT = 10018,
    AF_CURL_HTTPHEADER = 10023,
    AF_CURL_HEADERDATA = 10029,
    AF_CURL_XFERINFODATA = 10057,
    AF_CURL_CAINFO = 10065,
    AF_CURL_CAPATH = 10097,
    AF_CURL_WRITEFUNCTION = 20011,
    AF_CURL_HEADERFUNCTION = 20079,
    AF_CURL_XFERINFOFUNCTION = 20219
};

enum af_curl_info {
    AF_CURL_INFO_RESPONSE_CODE = 0x200000 + 2, /* long */
    AF_CURL_INFO_REDIRECT_URL = 0x100000 + 31  /* text, absolute */
};

enum af_curl_code {
    AF_CURL_OK = 0,
    AF_CURL_NO_PROXY_HOST = 5,
    AF_CURL_NO_HOST = 6,
    AF_CURL_NO_CONNECTION = 7,
    AF_CURL_CUT = 18,
    AF_CURL_STOPPED = 23, /* one of our callbacks stopped the transfer */
    AF_CURL_NO_MEMORY = 27,
    AF_CURL_TIMEOUT = 28,
    AF_CURL_NO_TLS = 35,
    AF_CURL_INTERRUPTED = 42,
    AF_CURL_NOTHING = 52,
    AF_CURL_SEND = 55,
    AF_CURL_RECEIVE = 56,
    AF_CURL_CERTIFICATE = 60,
    AF_CURL_CERTIFICATES = 77, /* the file of trusted certificates cannot be read */
    AF_CURL_HTTP2_STREAM = 92
};

#define AF_CURL_ERROR_BYTES 256

typedef size_t af_curl_callback(char *bytes, size_t size, size_t count, void *context);
typedef int af_curl_progress(void *context, int64_t, int64_t, int64_t, int64_t);

struct af_curl_list; /* libcurl's struct curl_slist */

struct af_curl {
    int (*global_init)(long flags); /* called by af_curl_open() */
    void *(*easy_init)(void);
    int (*easy_setopt)(void *handle, unsigned option, ...);
    int (*easy_perform)(void *handle);
    int (*easy_getinfo)(void *handle, unsigned info, ...);
    void (*easy_cleanup)(void *handle);
    const char *(*easy_strerror)(int code);
    struct af_curl_list *(*slist_append)(struct af_curl_list *list, const char *text);
    void (*slist_free_all)(struct af_curl_list *list);
};

/*
 * Opens $ANYFLASH_LIBCURL, else the first of the usual names, else the program curl, which
 * $ANYFLASH_LIBCURL=curl chooses, too. It stays open for the life of the program. Fails with
 * UNSUPPORTED.
 */
enum anyflash_status af_curl_open(struct af_curl *curl_out, struct anyflash_error *err);

/* The same functions by the program curl; false if it cannot be started. For af_curl_open(). */
bool af_curl_program_open(struct af_curl *curl_out);

#endif
