/*
 * network.c: whether the host of the release wheels can be reached. Runs only with
 * --probe-network, in a child with a time limit, because name resolution has no time limit.
 */
#include "kit/probe/probes.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_MS 3000
#define RELEASE_HOST "github.com"

/* Exits with code 0 if a connection was made. Nothing is sent. */
static int try_connect(int out_fd, void *context)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    (void)out_fd;
    (void)context;
    if (getaddrinfo(RELEASE_HOST, "443", &hints, &found) != 0)
        return 1;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        int fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0)
            return 0;
        if (fd >= 0)
            close(fd);
    }
    return 2;
}

void af_probe_network(struct af_probe *probe)
{
    struct af_fact *fact = &probe->machine->network.releases_reachable;
    struct anyflash_error err = {0};
    struct af_child child = {0};
    struct af_span output;
    int exit_code = 1;
    if (!probe->options->probe_network) {
        af_fact_unknown(probe->arena, fact, "not tested; use --probe-network");
        return;
    }
    enum anyflash_status status = af_child_start_fork(try_connect, NULL, &child, &err);
    if (status == ANYFLASH_OK)
        status = af_child_collect(&child, LIMIT_MS, probe->arena, &output, &exit_code, &err);
    if (status == ANYFLASH_OK || status == ANYFLASH_E_TIMEOUT)
        af_fact_bool(probe->arena, fact, status == ANYFLASH_OK && exit_code == 0,
                     status == ANYFLASH_E_TIMEOUT ? "no connection to " RELEASE_HOST " in time"
                                                  : "connect(2) to " RELEASE_HOST);
    else
        af_fact_unknown(probe->arena, fact, "%s", err.message);
}
