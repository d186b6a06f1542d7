/* A leash: starts one command, and holds everything it starts until nobody is left. */
#define _GNU_SOURCE
#include "keeper.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STUCK_MAX = 32, STOP_ROUNDS = 10 };

static int control; /* the socket to the server */

/* Says it all or nothing and never waits: a server that does not read must not stop us. */
bool say(int to, const char *format, ...) {
    char line[64 + STUCK_MAX * 12];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    return send(to, line, length, MSG_DONTWAIT | MSG_NOSIGNAL) == length;
}

long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECOND + time.tv_nsec / 1000000;
}

/* Takes all signals that have come; says whether `wanted` was among them. */
bool took(int wanted) {
    struct signalfd_siginfo info;
    bool found = false;
    while (read(signals, &info, sizeof info) == sizeof info)
        /* In a pid namespace of our own, who has a number there is a command: it may not end us. */
        found |= (int)info.ssi_signo == wanted
                 && (wanted != SIGTERM || getpid() != 1 || info.ssi_pid == 0);
    return found;
}

/* ---- Starting the command ---- */

struct order {
    const char *flags, *cwd, *limits;
    char **argv, **env;
};

static volatile struct { /* written by the vfork()ed child, which shares our memory */
    const char *step;
    int error;
} failure;

static pid_t command; /* 0 once it is reaped, or if it never ran */
static char exited[64]; /* what is said of its end together with the last word */

static _Noreturn void give_up(const char *step) {
    failure.error = errno;
    failure.step = step;
    _exit(127);
}

/* Soft and hard alike. Above the hard limit only root could go, and the hard limit holds anyway. */
static int limit(const char *text) {
    static const char letters[] = "ncuvt";
    static const int resources[] = {RLIMIT_NOFILE, RLIMIT_CORE, RLIMIT_NPROC, RLIMIT_AS,
                                    RLIMIT_CPU};
    for (char *end; *text; text = end + (*end == ' ')) {
        const char *letter = strchr(letters, *text);
        rlim_t wanted = strtoull(text + 1, &end, 10);
        if (!letter || end == text + 1 || text[1] == '-') return errno = EINVAL, -1;
        int resource = resources[letter - letters];
        struct rlimit limit;
        if (getrlimit(resource, &limit)) return -1;
        limit.rlim_cur = limit.rlim_max = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        if (setrlimit(resource, &limit)) return -1;
    }
    return 0;
}

/* Whether we are in the directory that `flags` name as dDEVICE.INODE, if they name one. */
static bool is_expected(const char *flags) {
    char *end = strchr(flags, 'd');
    if (!end) return true;
    struct stat here;
    unsigned long long device = strtoull(end + 1, &end, 10), inode = strtoull(end + 1, NULL, 10);
    return !stat(".", &here) && here.st_dev == device && here.st_ino == inode;
}

static _Noreturn void become(const struct order *order, const int *stdio) {
    setsid();
    for (int i = 0; i < STDIO; i++)
        if (dup2(stdio[i], i) < 0) give_up("fork");
    if (strchr(order->flags, 't') && ioctl(0, TIOCSCTTY, 0)) give_up("tty");
    if (limit(order->limits)) give_up("limit");
    if (*order->cwd && chdir(order->cwd)) give_up("chdir");
    if (!is_expected(order->flags)) errno = ESTALE, give_up("chdir");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    environ = order->env; /* execvp() looks for PATH here */
    execvp(order->argv[0], order->argv);
    give_up("exec");
}

/* id flags cwd limits argc argv… env…, each ended by NUL. False, with errno, if it is not so. */
static bool parse(char *body, size_t length, struct order *order) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += !body[i];
    char **fields = malloc((count + 2) * sizeof *fields);
    if (!fields) return false;
    for (size_t i = 0; i < count; body += strlen(body) + 1) fields[i++] = body;
    errno = EINVAL;
    if (count < 6) return false;
    size_t argc = strtoul(fields[4], NULL, 10);
    if (argc < 1 || argc > count - 5) return false;
    *order = (struct order){fields[1], fields[2], fields[3], fields + 5, fields + 5 + argc + 1};
    memmove(order->env, order->env - 1, (count - 5 - argc) * sizeof *fields);
    order->argv[argc] = fields[count + 1] = NULL;
    return true;
}

static void start(const struct order *order, const int *stdio) {
    command = vfork(); /* the leash sleeps until the command has been exec'ed, or could not be */
    if (command == 0) become(order, stdio);
    if (command < 0)
        say(control, "failed fork %d\n", errno);
    else if (failure.step)
        say(control, "failed %s %d\n", failure.step, failure.error);
    else
        say(control, "started %d %d\n", command, getpid());
    if (failure.step) command = 0;
}

/* ---- Holding the tree ---- */

/* Whether there is an order to kill that we have not taken yet. */
static bool hurried(void) {
    uint8_t orders[64];
    ssize_t count = recv(control, orders, sizeof orders, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count > 0 && memchr(orders, SIGKILL, count));
}

static void signal_everybody(int number) {
    int sent = 0, refused = 0;
    bool ends = number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
    find_descendants(hurried);
    for (size_t i = 0; i < found.count; i++) {
        int error = kill(found.at[i], number) ? errno : 0;
        sent += !error;
        refused += error == EPERM;
    }
    for (size_t i = 0; ends && i < found.count; i++)
        kill(found.at[i], SIGCONT); /* who is stopped would die only when continued */
    say(control, "signalled %d %d %d\n", number, sent, refused);
}

/* True when there is no child left. If nobody is left beside the command, `gone` follows at once: it
 * is said together with `exited`, and the server wakes up once. */
static bool reap(void) {
    int status, command_status = 0;
    pid_t pid;
    bool ended = false;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
        if (pid == command) {
            command_status = status;
            command = 0;
            ended = true;
        }
    if (ended && pid == 0) {
        find_descendants(hurried);
        say(control, "exited %d %zu\n", command_status, found.count);
    } else if (ended) {
        snprintf(exited, sizeof exited, "exited %d 0\n", command_status);
    }
    return pid < 0;
}

/* False when everybody is to be killed: by order, or because the server is gone. */
static bool obey(void) {
    uint8_t orders[64];
    ssize_t count = recv(control, orders, sizeof orders, MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    for (ssize_t i = 0; i < count; i++) {
        if (orders[i] == SIGKILL) return false;
        signal_everybody(orders[i]);
    }
    return count > 0;
}

static void hold(void) {
    while (!reap()) {
        struct pollfd either[] = {{control, POLLIN, 0}, {signals, POLLIN, 0}};
        poll(either, 2, -1);
        if (either[1].revents && took(END)) return;
        if (either[0].revents && !obey()) return;
    }
}

/* A bomb refills the table of pids faster than we empty it, one death at a time. Who is stopped
 * keeps his place in it, so before long nobody is left who could fork. */
static void stop_everybody(void) {
    size_t before = 0;
    find_descendants(NULL);
    for (int round = 0; found.count > before && round < STOP_ROUNDS; round++) {
        before = found.count;
        for (size_t i = 0; i < found.count; i++) kill(found.at[i], SIGSTOP);
        find_descendants(NULL);
    }
}

/* Somebody resists: a bomb, asleep in the kernel, or another user's. The children of those may still
 * be ours to kill (sudo ends when its command does), so for once we look deeper than our own. */
static void report_stuck(void) {
    char pids[STUCK_MAX * 12] = "";
    int length = 0;
    stop_everybody();
    for (size_t i = 0; i < found.count; i++) {
        kill(found.at[i], SIGKILL);
        if (i < STUCK_MAX)
            length += snprintf(pids + length, sizeof pids - length, " %d", found.at[i]);
    }
    if (found.count) say(control, "stuck%s\n", pids);
}

static int kill_everybody(void) {
    int rounds = 0;
    for (long report = now() + SECOND; !reap(); rounds++) {
        find_children();
        for (size_t i = 0; i < found.count; i++) kill_child(found.at[i]);
        /* Wait for a death, do not spin: a few hundred spinning leashes starve those who die. */
        poll(&(struct pollfd){signals, POLLIN, 0}, 1, TICK);
        took(SIGCHLD);
        if (now() >= report) {
            report_stuck();
            report += SECOND;
        }
    }
    return rounds;
}

static long cpu_used(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * SECOND
           + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

/* The kernel takes 0 for whoever writes it. */
static bool join(const int *groups, int count) {
    bool joined = true;
    for (int i = 0; i < count; i++) {
        joined = joined && write(groups[i], "0", 1) == 1;
        close(groups[i]);
    }
    return joined;
}

_Noreturn void leash(char *body, size_t length, const int *descriptors, int count) {
    struct order order;
    close(server); /* or the server would not see the keeper die */
    control = descriptors[CONTROL];
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0); /* as the keeper; a fork does not inherit it */
    prctl(PR_SET_NAME, "shelltie-leash");
    struct pollfd wanted = {control, POLLRDHUP, 0};
    if (!parse(body, length, &order))
        say(control, "failed fork %d\n", errno);
    else if (!join(descriptors + DESCRIPTORS, count - DESCRIPTORS))
        say(control, "failed join %d\n", errno);
    else if (poll(&wanted, 1, 0) == 0) /* nothing starts for a server that is gone */
        start(&order, descriptors);
    for (int i = 0; i < STDIO; i++) close(descriptors[i]);
    free(body); /* up to BODY_MAX, for as long as the command runs */
    hold();
    int rounds = kill_everybody();
    /* If this cannot be said, the keeper says "swept" for us: see bury(). */
    _exit(say(control, "%sgone %d %ld\n", exited, rounds, cpu_used()) ? 0 : 1);
}
