/*
 * compiler_wrapper.c: the program that runs in place of the compiler.
 *
 * The compiler dies with its wrapper (PR_SET_PDEATHSIG). Processes that the
 * compiler started are killed by the wrapper, or by the governor if the wrapper
 * was killed. Both are subreapers, so they adopt processes that left the
 * compiler's group.
 */
#include "kit/compile/governor/compiler_wrapper.h"

#include "kit/compile/governor/channel.h"
#include "kit/compile/governor/object_stamp.h"
#include "kit/compile/governor/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_IDLE (3 << 13)
#define NICE 10
#define KILL_ATTEMPTS 100
#define OOM_SCORE "500" /* the kernel kills compilers before the user's programs */

struct wrapper {
    const char *const *argv;
    int socket;
    int signals;
    sigset_t before;
    pid_t group;                /* of the running compiler; 0: none runs */
    bool started;               /* at least once */
    bool again;                 /* more than once */
    struct af_message *message; /* for sending and receiving */
};

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* False if the governor is gone or the command too long. */
static bool send_request(struct wrapper *wrapper)
{
    char folder[4096];
    *wrapper->message = (struct af_message){.kind = AF_MESSAGE_REQUEST};
    if (getcwd(folder, sizeof folder) == NULL || !af_message_add(wrapper->message, folder))
        return false;
    for (const char *const *word = wrapper->argv; *word != NULL; word++) {
        if (!af_message_add(wrapper->message, *word))
            return false;
    }
    return af_channel_send(wrapper->socket, wrapper->message);
}

/* Becomes the compiler. Uses only calls that are safe after fork(). */
static void become(const struct wrapper *wrapper, pid_t parent)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd >= 0) {
        ssize_t ignored = write(fd, OOM_SCORE, strlen(OOM_SCORE));
        (void)ignored;
        close(fd);
    }
    setpriority(PRIO_PROCESS, 0, NICE);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE);
    sigprocmask(SIG_SETMASK, &wrapper->before, NULL);
    if (getppid() != parent)
        _exit(127);
    execv(wrapper->argv[0], (char *const *)(uintptr_t)wrapper->argv);
    say("anyflash: error: cannot start the compiler ");
    say(wrapper->argv[0]);
    say("\n");
    _exit(127);
}

static bool start(struct wrapper *wrapper)
{
    pid_t parent = getpid();
    wrapper->again = wrapper->started;
    wrapper->started = true;
    if (wrapper->again)
        say("\n" AF_WRAPPER_RESTARTED "\n");
    af_stamp_reserve(wrapper->argv);
    pid_t pid = fork();
    if (pid == 0)
        become(wrapper, parent);
    if (pid < 0)
        return false;
    setpgid(pid, pid); /* parent and child both call it, because either may run first */
    wrapper->group = pid;
    *wrapper->message = (struct af_message){.kind = AF_MESSAGE_STARTED, .group = (int32_t)pid};
    return af_channel_send(wrapper->socket, wrapper->message);
}

/* Writes the stamp of the object if the compiler succeeded. */
static void stamp(const struct wrapper *wrapper, int status)
{
    bool succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (succeeded)
        af_stamp_write(wrapper->argv);
    else
        af_stamp_discard(wrapper->argv);
    if (succeeded && wrapper->again)
        say("\n" AF_WRAPPER_SUCCEEDED "\n");
}

/* Kills processes that the compiler left behind, in its group or outside. */
static void kill_remaining(pid_t group)
{
    af_tree_kill(group);
    for (int i = 0; i < KILL_ATTEMPTS && waitpid(-1, NULL, WNOHANG) >= 0; i++) {
        af_tree_kill_orphans(0);
        poll(NULL, 0, 5); /* the children of those that die become ours */
    }
}

/* Kills the compiler and its group; if it has just succeeded, its object is stamped. */
static void stop(struct wrapper *wrapper)
{
    int status = 0;
    if (wrapper->group == 0)
        return;
    if (waitpid(wrapper->group, &status, WNOHANG) != wrapper->group) {
        af_tree_kill(wrapper->group);
        waitpid(wrapper->group, &status, 0);
    }
    stamp(wrapper, status);
    kill_remaining(wrapper->group);
    wrapper->group = 0;
}

/* Reports the compiler's end if it has ended. False if the governor is gone. */
static bool report(struct wrapper *wrapper)
{
    struct rusage usage;
    int status = 0;
    pid_t pid = wait4(wrapper->group, &status, WNOHANG, &usage);
    if (pid != wrapper->group)
        return pid == 0;
    kill_remaining(wrapper->group);
    wrapper->group = 0;
    stamp(wrapper, status);
    *wrapper->message = (struct af_message){
        .kind = AF_MESSAGE_ENDED,
        .status = status,
        .peak_bytes = (uint64_t)usage.ru_maxrss * 1024,
        .cpu_seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                       1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)};
    return af_channel_send(wrapper->socket, wrapper->message);
}

/* Handles a signal: the compiler ended, or this process must end. -1 to continue, else the
   exit code. */
static int handle_signal(struct wrapper *wrapper)
{
    struct signalfd_siginfo info;
    if (read(wrapper->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return -1;
    if (info.ssi_signo != SIGCHLD) {
        stop(wrapper);
        return 128 + (int)info.ssi_signo;
    }
    return wrapper->group == 0 || report(wrapper) ? -1 : AF_WRAPPER_EXIT_NO_GOVERNOR;
}

/* Handles a message of the governor. -1 to continue, else the exit code. */
static int handle_message(struct wrapper *wrapper)
{
    if (!af_channel_receive(wrapper->socket, wrapper->message))
        return AF_WRAPPER_EXIT_NO_GOVERNOR;
    if (wrapper->message->kind == AF_MESSAGE_EXIT)
        return wrapper->message->status;
    if (wrapper->message->kind == AF_MESSAGE_START && wrapper->group == 0)
        return start(wrapper) ? -1 : AF_WRAPPER_EXIT_NO_GOVERNOR;
    return AF_WRAPPER_EXIT_NO_GOVERNOR;
}

static int serve(struct wrapper *wrapper)
{
    int code = -1;
    if (!send_request(wrapper))
        return AF_WRAPPER_EXIT_NO_GOVERNOR;
    while (code < 0) {
        struct pollfd waits[] = {{wrapper->signals, POLLIN, 0}, {wrapper->socket, POLLIN, 0}};
        if (poll(waits, AF_COUNT(waits), -1) < 0 && errno != EINTR)
            return AF_WRAPPER_EXIT_NO_GOVERNOR;
        if (waits[0].revents != 0)
            code = handle_signal(wrapper);
        else if (waits[1].revents != 0)
            code = handle_message(wrapper);
    }
    return code;
}

int af_wrapper_run(const char *const *argv)
{
    struct af_message message;
    struct wrapper wrapper = {.argv = argv, .message = &message};
    const char *name = getenv(AF_WRAPPER_VARIABLE);
    sigset_t set;
    wrapper.socket = name == NULL ? -1 : af_channel_connect(name);
    if (wrapper.socket < 0) {
        say("anyflash: error: this compiler wrapper needs a running `anyflash build`\n");
        return AF_WRAPPER_EXIT_NO_GOVERNOR;
    }
    if (af_stamp_is_current(argv)) {
        close(wrapper.socket);
        return 0;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &wrapper.before);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* if ninja is gone */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    wrapper.signals = signalfd(-1, &set, SFD_CLOEXEC);
    int code = wrapper.signals < 0 ? AF_WRAPPER_EXIT_NO_GOVERNOR : serve(&wrapper);
    stop(&wrapper);
    close(wrapper.signals);
    close(wrapper.socket);
    return code;
}
