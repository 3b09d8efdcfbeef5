/*
 * channel.c: the socket between compiler wrappers and the governor.
 */
#include "kit/compile/governor/channel.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 512
#define HEAD_BYTES offsetof(struct af_message, text)

/* An address of the abstract namespace: a NUL, then the name. */
static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strnlen(name, AF_CHANNEL_NAME_BYTES - 1);
    memcpy(address->sun_path + 1, name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

enum anyflash_status af_channel_open(int *fd_out, char name_out[AF_CHANNEL_NAME_BYTES],
                                     struct anyflash_error *err)
{
    struct sockaddr_un address;
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return af_fail(err, ANYFLASH_E_IO, "cannot get random bytes from the system");
    snprintf(name_out, AF_CHANNEL_NAME_BYTES, "anyflash-governor-%016llx%016llx",
             (unsigned long long)random[0], (unsigned long long)random[1]);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = address_of(name_out, &address);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        return af_fail(err, ANYFLASH_E_IO, "cannot open the socket of the build scheduler: %s",
                       strerror(reason));
    }
    *fd_out = fd;
    return ANYFLASH_OK;
}

int af_channel_accept(int listening, pid_t *pid_out)
{
    for (;;) {
        struct ucred peer;
        socklen_t len = sizeof peer;
        int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return -1;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
            peer.uid == geteuid()) {
            *pid_out = peer.pid;
            return fd;
        }
        close(fd);
    }
}

int af_channel_connect(const char *name)
{
    struct sockaddr_un address;
    socklen_t len = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, len) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool af_channel_send(int fd, const struct af_message *message)
{
    size_t len = HEAD_BYTES + message->text_len;
    ssize_t sent;
    do
        sent = send(fd, message, len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)len;
}

bool af_channel_receive(int fd, struct af_message *message)
{
    ssize_t got;
    do
        got = recv(fd, message, sizeof *message, 0);
    while (got < 0 && errno == EINTR);
    return got >= (ssize_t)HEAD_BYTES && message->text_len <= AF_CHANNEL_TEXT_BYTES &&
           (size_t)got == HEAD_BYTES + message->text_len;
}

bool af_message_add(struct af_message *message, const char *word)
{
    size_t len = strlen(word) + 1;
    if (len > AF_CHANNEL_TEXT_BYTES - message->text_len)
        return false;
    memcpy(message->text + message->text_len, word, len);
    message->text_len += (uint32_t)len;
    return true;
}

const char *af_message_word(const struct af_message *message, size_t *at)
{
    if (*at >= message->text_len)
        return NULL;
    const char *word = message->text + *at;
    const char *end = memchr(word, '\0', message->text_len - *at);
    if (end == NULL)
        return NULL;
    *at += (size_t)(end - word) + 1;
    return word;
}
