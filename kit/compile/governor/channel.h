/*
 * channel.h: the messages between compiler wrappers and the governor.
 *
 * A sequenced-packet Unix socket of the abstract namespace (unix(7)): no file
 * remains, and no path has to be short. Its name has 128 random bits and is passed
 * on in the environment; the governor also refuses peers of other users. Each side
 * sees the other's death as the end of the stream.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_CHANNEL_H
#define AF_KIT_COMPILE_GOVERNOR_CHANNEL_H

#include <stdint.h>
#include <sys/types.h>

#include "engine/base/base.h"

#define AF_WRAPPER_VARIABLE "ANYFLASH_GOVERNOR"
#define AF_CHANNEL_NAME_BYTES 64
#define AF_CHANNEL_TEXT_BYTES 32768

enum af_message_kind {
    AF_MESSAGE_REQUEST = 1, /* wrapper: may I start? text: working folder, then argv */
    AF_MESSAGE_START,       /* governor: start now; after ENDED: start again */
    AF_MESSAGE_STARTED,     /* wrapper: the compiler runs in `group` */
    AF_MESSAGE_ENDED,       /* wrapper: how it ended, and what it used */
    AF_MESSAGE_EXIT         /* governor: exit with the code `status` */
};

struct af_message {
    uint32_t kind;
    int32_t group;  /* STARTED: the compiler's process group */
    int32_t status; /* ENDED: as wait4() returns it; EXIT: exit code */
    uint32_t text_len;
    uint64_t peak_bytes; /* ENDED: of the largest process */
    double cpu_seconds;  /* ENDED: user and system */
    char text[AF_CHANNEL_TEXT_BYTES];
};

/* A listening socket and its name. Fails with IO. */
enum anyflash_status af_channel_open(int *fd_out, char name_out[AF_CHANNEL_NAME_BYTES],
                                     struct anyflash_error *err);

/* The next connection from a process of our user, and its pid; -1 if there is none. */
int af_channel_accept(int listening, pid_t *pid_out);

/* Connects to `name`; -1 if nobody listens. */
int af_channel_connect(const char *name);

/* False when the other side is gone. Receiving blocks. */
bool af_channel_send(int fd, const struct af_message *message);
bool af_channel_receive(int fd, struct af_message *message);

/* Appends a string and its NUL to the text; false if it does not fit. */
bool af_message_add(struct af_message *message, const char *word);

/* The next string of the text; NULL at its end. *at starts as 0. */
const char *af_message_word(const struct af_message *message, size_t *at);

#endif
