/*
 * gate.c: the compiler's stand-in.
 *
 * The compiler dies with its gate (PR_SET_PDEATHSIG); what the compiler itself
 * started is killed by the gate, or by the governor when the gate was killed:
 * both are subreapers, so what left the compiler's group and session is theirs.
 */
#include "kit/build/governor/gate.h"

#include "kit/build/governor/channel.h"
#include "kit/build/governor/done.h"
#include "kit/build/governor/tree.h"

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
#define SWEEPS 100
#define OOM_SCORE "500" /* the kernel takes a compiler before the user's programs */

struct gate {
    const char *const *argv;
    int socket;
    int signals;
    sigset_t before;
    pid_t group;                /* of the running compiler; 0: none */
    bool started;               /* once at least */
    bool again;                 /* and more than once */
    struct af_message *message; /* for sending and receiving */
};

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* Asks; false when the governor is gone or the command too long. */
static bool ask(struct gate *gate)
{
    char folder[4096];
    *gate->message = (struct af_message){.say = AF_SAY_ASK};
    if (getcwd(folder, sizeof folder) == NULL || !af_message_add(gate->message, folder))
        return false;
    for (const char *const *word = gate->argv; *word != NULL; word++) {
        if (!af_message_add(gate->message, *word))
            return false;
    }
    return af_channel_send(gate->socket, gate->message);
}

/* Becomes the compiler. Only calls that are safe after fork(). */
static void become(const struct gate *gate, pid_t parent)
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
    sigprocmask(SIG_SETMASK, &gate->before, NULL);
    if (getppid() != parent)
        _exit(127);
    execv(gate->argv[0], (char *const *)(uintptr_t)gate->argv);
    say("anyflash: cannot start the compiler ");
    say(gate->argv[0]);
    say("\n");
    _exit(127);
}

static bool start(struct gate *gate)
{
    pid_t parent = getpid();
    gate->again = gate->started;
    gate->started = true;
    if (gate->again)
        say("\n" AF_GATE_AGAIN "\n");
    af_done_reserve(gate->argv);
    pid_t pid = fork();
    if (pid == 0)
        become(gate, parent);
    if (pid < 0)
        return false;
    setpgid(pid, pid); /* whoever is first */
    gate->group = pid;
    *gate->message = (struct af_message){.say = AF_SAY_STARTED, .group = (int32_t)pid};
    return af_channel_send(gate->socket, gate->message);
}

/* Keeps in mind what the compiler finished, by its status. */
static void note(const struct gate *gate, int status)
{
    bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (well)
        af_done_note(gate->argv);
    else
        af_done_give_up(gate->argv);
    if (well && gate->again)
        say("\n" AF_GATE_WELL "\n");
}

/* Kills what the compiler left behind, in its group or out of it. */
static void sweep(pid_t group)
{
    af_tree_kill(group);
    for (int i = 0; i < SWEEPS && waitpid(-1, NULL, WNOHANG) >= 0; i++) {
        af_tree_kill_strays(0);
        poll(NULL, 0, 5); /* the dead hand on their children */
    }
}

/* Ends the compiler and all of its group; one that has just ended well is noted. */
static void stop(struct gate *gate)
{
    int status = 0;
    if (gate->group == 0)
        return;
    if (waitpid(gate->group, &status, WNOHANG) != gate->group) {
        af_tree_kill(gate->group);
        waitpid(gate->group, &status, 0);
    }
    note(gate, status);
    sweep(gate->group);
    gate->group = 0;
}

/* After the compiler's end: tells it. False when it runs still, or nobody hears. */
static bool report(struct gate *gate)
{
    struct rusage usage;
    int status = 0;
    pid_t pid = wait4(gate->group, &status, WNOHANG, &usage);
    if (pid != gate->group)
        return pid == 0;
    sweep(gate->group);
    gate->group = 0;
    note(gate, status);
    *gate->message = (struct af_message){
        .say = AF_SAY_ENDED,
        .status = status,
        .peak_bytes = (uint64_t)usage.ru_maxrss * 1024,
        .cpu_seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                       1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)};
    return af_channel_send(gate->socket, gate->message);
}

/* A signal: the compiler's end, or ours. -1 to go on, else the exit code. */
static int take_signal(struct gate *gate)
{
    struct signalfd_siginfo info;
    if (read(gate->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return -1;
    if (info.ssi_signo != SIGCHLD) {
        stop(gate);
        return 128 + (int)info.ssi_signo;
    }
    return gate->group == 0 || report(gate) ? -1 : AF_GATE_EXIT_ALONE;
}

/* A word of the governor's. -1 to go on, else the exit code. */
static int take_word(struct gate *gate)
{
    if (!af_channel_receive(gate->socket, gate->message))
        return AF_GATE_EXIT_ALONE;
    if (gate->message->say == AF_SAY_OVER)
        return gate->message->status;
    if (gate->message->say == AF_SAY_GO && gate->group == 0)
        return start(gate) ? -1 : AF_GATE_EXIT_ALONE;
    return AF_GATE_EXIT_ALONE;
}

static int serve(struct gate *gate)
{
    int code = -1;
    if (!ask(gate))
        return AF_GATE_EXIT_ALONE;
    while (code < 0) {
        struct pollfd waits[] = {{gate->signals, POLLIN, 0}, {gate->socket, POLLIN, 0}};
        if (poll(waits, AF_COUNT(waits), -1) < 0 && errno != EINTR)
            return AF_GATE_EXIT_ALONE;
        if (waits[0].revents != 0)
            code = take_signal(gate);
        else if (waits[1].revents != 0)
            code = take_word(gate);
    }
    return code;
}

int af_gate_run(const char *const *argv)
{
    struct af_message message;
    struct gate gate = {.argv = argv, .message = &message};
    const char *name = getenv(AF_GATE_VARIABLE);
    sigset_t set;
    gate.socket = name == NULL ? -1 : af_channel_connect(name);
    if (gate.socket < 0) {
        say("anyflash: this compiler runs under `anyflash build` only, which is not there\n");
        return AF_GATE_EXIT_ALONE;
    }
    if (af_done_is(argv)) {
        close(gate.socket);
        return 0;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &gate.before);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* who asked for it is gone */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    gate.signals = signalfd(-1, &set, SFD_CLOEXEC);
    int code = gate.signals < 0 ? AF_GATE_EXIT_ALONE : serve(&gate);
    stop(&gate);
    close(gate.signals);
    close(gate.socket);
    return code;
}
