/*
 * anyflash.h: the public C API of libanyflash, and its manual.
 *
 * Conventions. Fallible functions return enum anyflash_status and fill the
 * struct anyflash_error that comes last, when it is not NULL; on failure the
 * caller's objects are untouched. Enum numbers never change meaning. Every
 * function may be called from any thread.
 *
 * C11; clean as C99 and C++11.
 */
#ifndef ANYFLASH_ANYFLASH_H
#define ANYFLASH_ANYFLASH_H

#ifdef __cplusplus
extern "C" {
#endif

#define ANYFLASH_VERSION_MAJOR 0
#define ANYFLASH_VERSION_MINOR 1
#define ANYFLASH_VERSION_PATCH 0

#if defined(__GNUC__)
#define ANYFLASH_API __attribute__((visibility("default")))
#else
#define ANYFLASH_API
#endif

/* What became of a call. Zero is success; numbers are part of the ABI. */
enum anyflash_status {
    ANYFLASH_OK = 0,
    ANYFLASH_E_ARGUMENT = 1,    /* an argument is outside its documented range */
    ANYFLASH_E_NO_MEMORY = 2,   /* an allocation failed */
    ANYFLASH_E_IO = 3,          /* a file or a system call failed */
    ANYFLASH_E_DATA = 4,        /* bytes from outside are malformed */
    ANYFLASH_E_LIMIT = 5,       /* input is larger than this program accepts */
    ANYFLASH_E_TIMEOUT = 6,     /* a child or a device did not answer in time */
    ANYFLASH_E_NOT_FOUND = 7,   /* the thing asked for is not there */
    ANYFLASH_E_UNSUPPORTED = 8, /* understood, and not something we can do */
    ANYFLASH_E_INTERNAL = 9     /* our own bug */
};

/*
 * One sentence that names the thing and the place, lower case, without a full
 * stop, always NUL-terminated. Owned by the caller, who sets it to zero.
 */
struct anyflash_error {
    enum anyflash_status status;
    char message[400];
};

/* "0.1.0"; static storage. */
ANYFLASH_API const char *anyflash_version_text(void);

/* A short English name of `status`; static storage; never NULL. */
ANYFLASH_API const char *anyflash_status_text(enum anyflash_status status);

#ifdef __cplusplus
}
#endif

#endif
