/*
 * curl.c: finds libcurl and its functions, else the program curl. Called by http.c.
 */
#include "kit/system/curl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"

#define GLOBAL_ALL 3L

static const char *const library_names[] = {"libcurl.so.4", "libcurl-gnutls.so.4",
                                            "libcurl-nss.so.4", "libcurl.4.dylib"};

static void *open_library(const char *given)
{
    if (given != NULL)
        return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < AF_COUNT(library_names); i++) {
        void *library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
        if (library != NULL)
            return library;
    }
    return NULL;
}

/*
 * ISO C does not convert object pointers to function pointers; POSIX guarantees that they have
 * the same representation.
 */
static bool find(void *library, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

#define FIND(member) find(library, "curl_" #member, &curl->member, sizeof curl->member)

static bool find_all(void *library, struct af_curl *curl)
{
    return FIND(global_init) && FIND(easy_init) && FIND(easy_setopt) && FIND(easy_perform) &&
           FIND(easy_getinfo) && FIND(easy_cleanup) && FIND(easy_strerror) &&
           FIND(slist_append) && FIND(slist_free_all);
}

enum anyflash_status af_curl_open(struct af_curl *curl_out, struct anyflash_error *err)
{
    char shown[300];
    struct af_curl curl;
    const char *given = getenv("ANYFLASH_LIBCURL");
    given = given != NULL && given[0] != '\0' ? given : NULL;
    if (given != NULL && strcmp(given, "curl") == 0 && af_curl_program_open(curl_out))
        return ANYFLASH_OK;
    void *library = open_library(given);
    if (library == NULL && given == NULL && af_curl_program_open(curl_out))
        return ANYFLASH_OK;
    if (library == NULL && given != NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "cannot open libcurl from $ANYFLASH_LIBCURL ('%s')",
                       af_text_quote(shown, sizeof shown, given, strlen(given)));
    if (library == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "anyflash needs libcurl or the program curl for downloads: install "
                       "libcurl.so.4, libcurl-gnutls.so.4 or curl");
    if (!find_all(library, &curl) || curl.global_init(GLOBAL_ALL) != AF_CURL_OK)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "the installed libcurl is unusable");
    *curl_out = curl;
    return ANYFLASH_OK;
}
