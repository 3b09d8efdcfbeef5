/*
 * govern.c: the governor's loop: compilers that end, signals, and a sample of memory
 * twice a second.
 */
#include "kit/compile/governor/govern.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/compile/governor/jobs.h"

#define SAMPLE_SECONDS 0.5
#define TICK_SECONDS 0.9
#define LOCKED_STACK_BYTES (512 * 1024)
#define LOCKED_HEAP_BYTES (4 * 1024 * 1024)
#define PAGE_BYTES 4096
#define TEXT_BYTES 512

struct run {
    struct af_governor governor;
    struct af_arena arena;
    int signals;
    pid_t guard;
    int guard_pipe; /* its end tells the guard that we have ended */
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

/*
 * A process that only waits for the end of this one, even by SIGKILL, and then kills all
 * compilers. It keeps our open files, so the lock of the build's folder is held until they
 * have ended. Without it a killed build leaves compilers behind.
 */
static void start_guard(struct run *run)
{
    pid_t governor = getpid();
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        return;
    run->guard = fork();
    if (run->guard == 0) {
        close(ends[1]);
        setsid();
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
            continue;
        af_tree_kill_all(governor);
        af_govern_build_cgroup_remove(&run->governor.cgroup);
        _exit(0);
    }
    close(ends[0]);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    run->guard_pipe = ends[1];
}

static void end_guard(struct run *run)
{
    if (run->guard_pipe >= 0)
        close(run->guard_pipe);
    if (run->guard > 0)
        waitpid(run->guard, NULL, 0);
}

static enum anyflash_status open_signals(struct run *run, struct anyflash_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &run->governor.before);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals >= 0
               ? ANYFLASH_OK
               : af_fail(err, ANYFLASH_E_IO, "cannot wait for signals: %s", strerror(errno));
}

/* Handles compilers that have ended. Their groups are killed before their numbers are free. */
static void reap(struct run *run)
{
    siginfo_t info = {.si_pid = 0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        struct af_job *job = af_jobs_find(&run->governor, info.si_pid);
        struct rusage usage;
        int status = 0;
        if (job != NULL)
            af_tree_kill(info.si_pid);
        if (wait4(info.si_pid, &status, 0, &usage) == info.si_pid && job != NULL)
            af_jobs_end(&run->governor, job, status, &usage);
        info.si_pid = 0;
    }
}

static void handle_signals(struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD && run->governor.result.interrupted == 0)
            run->governor.result.interrupted = (int)info.ssi_signo;
    }
    if (run->governor.result.interrupted == 0)
        reap(run);
}

/* Waits for a signal, at most until the next sample. */
static void wait_once(struct run *run)
{
    double left = run->governor.sampled_at + SAMPLE_SECONDS - af_govern_now();
    struct pollfd wait = {run->signals, POLLIN, 0};
    if (poll(&wait, 1, left <= 0 ? 0 : (int)(left * 1000) + 1) > 0)
        handle_signals(run);
}

static bool is_over(const struct af_governor *governor)
{
    if (governor->result.interrupted != 0)
        return true;
    return !af_jobs_any(governor, AF_JOB_RUNNING) &&
           (governor->result.failed != NULL || !af_jobs_any(governor, AF_JOB_WAITING));
}

static void govern(struct run *run)
{
    struct af_governor *governor = &run->governor;
    double ticked_at = 0;
    char text[TEXT_BYTES];
    af_govern_build_cgroup_text(&governor->cgroup, governor->options->memory_bytes, text,
                                sizeof text);
    af_jobs_message(governor, "%s", text);
    while (!is_over(governor)) {
        if (af_govern_now() - governor->sampled_at >= SAMPLE_SECONDS) {
            af_jobs_watch(governor);
            if (governor->sampled_at - ticked_at >= TICK_SECONDS) {
                ticked_at = governor->sampled_at;
                af_jobs_report(governor, AF_GOVERN_TICK, NULL, 0);
            }
        }
        af_jobs_admit(governor);
        if (!is_over(governor))
            wait_once(run);
    }
}

/* Ends everything that this run started. */
static void end_all(struct run *run)
{
    af_jobs_kill(&run->governor);
    af_govern_build_cgroup_remove(&run->governor.cgroup);
    af_tree_kill_all(getpid());
    end_guard(run);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

static bool set_up(struct run *run, const struct af_govern_options *options)
{
    struct af_governor *governor = &run->governor;
    size_t count = options->job_count;
    governor->options = options;
    governor->cores_seen = cores_here();
    governor->cores = options->cores > 0 ? options->cores : governor->cores_seen;
    governor->stall.limit_seconds = options->stall_seconds;
    governor->jobs = af_arena_array(&run->arena, count + 1, sizeof *governor->jobs);
    governor->rows = af_arena_array(&run->arena, count + 1, sizeof *governor->rows);
    for (size_t i = 0; i < count && !run->arena.failed; i++)
        governor->jobs[i] = (struct af_job){.call = &options->jobs[i],
                                            .prediction = options->jobs[i].prediction};
    return !run->arena.failed;
}

enum anyflash_status af_govern_run(const struct af_govern_options *options,
                                   struct af_govern_result *result_out,
                                   struct anyflash_error *err)
{
    struct run run = {.signals = -1, .guard_pipe = -1};
    struct af_governor *governor = &run.governor;
    af_arena_init(&run.arena);
    if (!set_up(&run, options)) {
        af_arena_release(&run.arena);
        return af_fail_memory(err);
    }
    enum anyflash_status status = open_signals(&run, err);
    if (status == ANYFLASH_OK) {
        af_govern_build_cgroup_make(options->root, options->memory_bytes, &governor->cgroup);
        af_jobs_read_headroom(governor, &governor->headroom);
        governor->hits_seen = governor->headroom.limit_hits;
        start_guard(&run);
        lock_memory();
        govern(&run);
        end_all(&run);
        munlockall();
        close(run.signals);
        *result_out = governor->result;
    }
    sigprocmask(SIG_SETMASK, &governor->before, NULL);
    af_arena_release(&run.arena);
    return status;
}
