/*
 * govern.c: the governor's loop: the running build, wrappers that connect and leave,
 * signals, and a sample of memory twice a second.
 */
#include "kit/compile/governor/govern.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/compile/governor/jobs.h"
#include "kit/compile/governor/process_tree.h"

#define TICK_SECONDS 0.9
#define SHORTLY_MS 10
#define NICE 10
#define LOCKED_STACK_BYTES (512 * 1024)
#define LOCKED_HEAP_BYTES (4 * 1024 * 1024)
#define PAGE_BYTES 4096
#define GRACE_MS 3000 /* for the build to end by itself after SIGTERM */

struct run {
    struct af_governor governor;
    int listening;
    int signals;
    sigset_t before;
    bool ended;
    const char *const *argv; /* of the build, with systemd-run if it has a scope */
    struct af_arena arena;   /* for argv */
    char name[AF_CHANNEL_NAME_BYTES];
};

/*
 * At its group's memory limit the governor itself would have to wait for pages.
 * So it touches its heap and stack now, and locks them and its code into
 * memory.
 */
static void lock_memory(void)
{
    volatile char stack[LOCKED_STACK_BYTES];
    for (size_t i = 0; i < sizeof stack; i += PAGE_BYTES)
        stack[i] = 0;
#ifdef __GLIBC__ /* other C libraries cannot be told to keep this memory */
    mallopt(M_MMAP_THRESHOLD, 2 * LOCKED_HEAP_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * LOCKED_HEAP_BYTES);
#endif
    void *heap = af_mem_alloc(LOCKED_HEAP_BYTES);
    if (heap != NULL)
        memset(heap, 0, LOCKED_HEAP_BYTES);
    af_mem_free(heap);
    mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT); /* if that is allowed */
}

static unsigned cores_here(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

/* Becomes the build. Uses only calls that are safe after fork(). */
static void become(const struct run *run, pid_t parent)
{
    const struct af_govern_options *options = run->governor.options;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    af_govern_build_cgroup_enter(&run->governor.cgroup);
    setpriority(PRIO_PROCESS, 0, NICE);
    sigprocmask(SIG_SETMASK, &run->before, NULL);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(options->output, STDOUT_FILENO) < 0 ||
        dup2(options->output, STDERR_FILENO) < 0 ||
        (options->folder != NULL && chdir(options->folder) != 0) || getppid() != parent)
        _exit(126);
    execvp(run->argv[0], (char *const *)(uintptr_t)run->argv);
    _exit(127);
}

static enum anyflash_status start_build(struct run *run, struct anyflash_error *err)
{
    const char *const *variable = run->governor.options->environment;
    pid_t parent = getpid();
    run->governor.build = fork();
    if (run->governor.build == 0) {
        for (; variable != NULL && *variable != NULL; variable++)
            putenv((char *)(uintptr_t)*variable);
        setenv(AF_WRAPPER_VARIABLE, run->name, 1);
        become(run, parent);
    }
    if (run->governor.build < 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot start the build: %s", strerror(errno));
    setpgid(run->governor.build, run->governor.build);
    return ANYFLASH_OK;
}

static enum anyflash_status open_all(struct run *run, struct anyflash_error *err)
{
    sigset_t set;
    enum anyflash_status status = af_channel_open(&run->listening, run->name, err);
    if (status != ANYFLASH_OK)
        return status;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &run->before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signals < 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot wait for signals: %s", strerror(errno));
    return ANYFLASH_OK;
}

static void close_all(struct run *run)
{
    if (run->listening >= 0)
        close(run->listening);
    if (run->signals >= 0)
        close(run->signals);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    munlockall();
    sigprocmask(SIG_SETMASK, &run->before, NULL);
}

/* Reaps ended children; notes the end of the build. */
static void reap(struct run *run)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != run->governor.build)
            continue;
        run->ended = true;
        run->governor.result.exit_code =
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static void handle_signals(struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD && run->governor.result.interrupted == 0)
            run->governor.result.interrupted = (int)info.ssi_signo;
    }
    reap(run);
}

static void accept_wrappers(struct run *run)
{
    pid_t pid;
    int fd;
    while ((fd = af_channel_accept(run->listening, &pid)) >= 0)
        af_jobs_add(&run->governor, fd);
}

/* Waits for an event, at most until the next sample; with `shortly` a few milliseconds. */
static void wait_once(struct run *run, bool shortly)
{
    struct pollfd waits[AF_GOVERN_JOBS_MAX + 2];
    struct af_governor *governor = &run->governor;
    size_t count = governor->job_count;
    double left = governor->sampled_at + governor->sample_seconds - af_govern_now();
    left = shortly && left > SHORTLY_MS / 1000.0 ? SHORTLY_MS / 1000.0 : left;
    for (size_t i = 0; i < count; i++)
        waits[i] = (struct pollfd){governor->jobs[i].fd, POLLIN, 0};
    waits[count] = (struct pollfd){run->signals, POLLIN, 0};
    waits[count + 1] = (struct pollfd){run->listening, POLLIN, 0};
    if (poll(waits, (nfds_t)count + 2, left <= 0 ? 0 : (int)(left * 1000) + 1) <= 0)
        return;
    for (size_t i = count; i-- > 0;) { /* backwards: handling one may remove it */
        if (waits[i].revents != 0)
            af_jobs_receive(governor, i);
    }
    if (waits[count].revents != 0)
        handle_signals(run);
    if (waits[count + 1].revents != 0)
        accept_wrappers(run);
}

/* Makes a control group, else a scope. The build also works without either. */
static void choose_cgroup(struct run *run)
{
    struct af_govern_build_cgroup *cgroup = &run->governor.cgroup;
    const struct af_govern_options *options = run->governor.options;
    struct af_systemd_scope scope;
    af_govern_build_cgroup_make(options->root, options->memory_bytes, cgroup);
    run->argv = options->argv;
    if (cgroup->folder[0] != '\0' && (cgroup->limits || options->memory_bytes == 0))
        return;
    af_systemd_scope_find(&run->arena, options->argv, options->memory_bytes, &scope);
    af_govern_build_cgroup_use_scope(cgroup, &scope);
    if (cgroup->scope)
        run->argv = scope.argv;
}

/* The folder of the scope is known only after the build has started in it. */
static void find_scope(struct run *run)
{
    struct af_govern_build_cgroup *cgroup = &run->governor.cgroup;
    struct af_arena arena;
    if (!cgroup->scope || cgroup->folder[0] != '\0')
        return;
    af_arena_init(&arena);
    const char *folder =
        af_systemd_scope_folder(&arena, run->governor.options->root, run->governor.build);
    if (folder != NULL && strlen(folder) < sizeof cgroup->folder)
        memcpy(cgroup->folder, folder, strlen(folder) + 1);
    run->governor.headroom_previous.files = 0;
    af_arena_release(&arena);
}

static void govern(struct run *run)
{
    struct af_governor *governor = &run->governor;
    double ticked_at = 0;
    char text[AF_GOVERN_BUILD_CGROUP_BYTES];
    af_govern_build_cgroup_text(&governor->cgroup, governor->options->memory_bytes, text,
                                sizeof text);
    af_jobs_message(governor, "%s", text);
    while (!run->ended && governor->result.interrupted == 0) {
        if (af_govern_now() - governor->sampled_at >= governor->sample_seconds) {
            find_scope(run);
            af_jobs_watch(governor);
            if (governor->sampled_at - ticked_at >= TICK_SECONDS) {
                ticked_at = governor->sampled_at;
                af_jobs_report(governor, AF_GOVERN_TICK, NULL, 0);
            }
        }
        bool settled = af_jobs_admit(governor);
        af_costs_write(&governor->costs);
        wait_once(run, !settled);
    }
    af_costs_write(&governor->costs);
}

/* Ends everything that this run started. */
static void end_all(struct run *run)
{
    af_jobs_end(&run->governor);
    close(run->listening);
    run->listening = -1;
    if (!run->ended)
        kill(-run->governor.build, SIGTERM);
    for (int waited = 0; !run->ended && waited < GRACE_MS; waited += 20) {
        struct pollfd wait = {run->signals, POLLIN, 0};
        poll(&wait, 1, 20);
        handle_signals(run);
        af_tree_kill_orphans(run->governor.build);
    }
    af_tree_kill(run->governor.build); /* also processes that it left in its group */
    if (!run->ended) {
        waitpid(run->governor.build, NULL, 0);
        run->governor.result.exit_code = 128 + SIGKILL;
    }
    af_govern_build_cgroup_kill(&run->governor.cgroup);
    for (int i = 0; i < 50; i++) { /* when they die, their children become ours */
        af_tree_kill_orphans(0);
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            break;
        poll(NULL, 0, 20);
    }
}

enum anyflash_status af_govern_run(const struct af_govern_options *options,
                                   struct af_state *state, struct af_govern_result *result_out,
                                   struct anyflash_error *err)
{
    struct run *run = af_mem_alloc(sizeof *run);
    if (run == NULL)
        return af_fail_memory(err);
    memset(run, 0, sizeof *run);
    run->listening = run->signals = -1;
    run->governor.options = options;
    run->governor.costs.state = state;
    run->governor.cores_seen = cores_here();
    run->governor.cores = options->cores > 0 ? options->cores : run->governor.cores_seen;
    run->governor.stall.limit_seconds = options->stall_seconds;
    af_arena_init(&run->arena);
    choose_cgroup(run);
    af_jobs_read_headroom(&run->governor, &run->governor.headroom);
    run->governor.hits_seen = run->governor.headroom.limit_hits;
    sigprocmask(SIG_SETMASK, NULL, &run->before);
    enum anyflash_status status = open_all(run, err);
    if (status == ANYFLASH_OK)
        status = start_build(run, err);
    if (status == ANYFLASH_OK) {
        lock_memory();
        govern(run);
        end_all(run);
        *result_out = run->governor.result;
    }
    af_govern_build_cgroup_remove(&run->governor.cgroup);
    close_all(run);
    af_arena_release(&run->arena);
    af_mem_free(run);
    return status;
}
