/* evil WHAT SECONDS TAG: misbehaves in one way, for a bounded time and with bounded numbers.
 * The TAG does nothing: it is in the command line of everybody, so that a test can find them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 300, CHURN = 60, MOVERS = 8, CHAIN = 200 };

extern char **environ;
static double deadline;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static _Noreturn void linger(void) {
    while (now() < deadline) usleep(200000);
    _exit(0);
}

static void ready(void) {
    if (write(1, "ready\n", 6) < 0) _exit(1);
}

static void ignore_signals(void) {
    for (int number = 1; number < 32; number++)
        if (number != SIGCHLD && number != SIGSEGV) signal(number, SIG_IGN);
}

static void wipe_environment(void) {
    for (char **variable = environ; *variable; variable++) memset(*variable, 0, strlen(*variable));
}

static void close_everything(void) {
    for (int fd = 0; fd < 256; fd++) close(fd);
    if (open("/dev/null", O_RDWR) == 0) dup2(0, 1), dup2(0, 2);
}

/* The classic: orphaned, in a session of its own, holding nothing. */
static void start_daemon(void) {
    pid_t between = fork();
    if (between == 0) {
        setsid();
        if (fork()) _exit(0);
        wipe_environment();
        close_everything();
        linger();
    }
    waitpid(between, NULL, 0);
}

static void daemon_and_stay(void) {
    start_daemon();
    ready();
    linger();
}

static void daemon_and_exit(void) {
    start_daemon();
    ready();
}

static void ignore(void) {
    ignore_signals();
    if (fork() == 0 && fork() == 0) linger();
    ready();
    linger();
}

/* A new pid and a new session at each step: whoever reads /proc comes too late. */
static _Noreturn void move_for_ever(void) {
    while (now() < deadline) {
        pid_t child = fork();
        if (child > 0) _exit(0);
        if (child < 0) usleep(1000);
        setsid();
    }
    _exit(0);
}

static void mover(void) {
    if (fork() == 0) move_for_ever();
    ready();
    linger();
}

static void movers(void) {
    for (int i = 0; i < MOVERS; i++)
        if (fork() == 0) {
            wipe_environment();
            ignore_signals();
            close_everything();
            move_for_ever();
        }
    ready();
}

static int *shared_counter(void) {
    int *counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counter == MAP_FAILED) _exit(1);
    return counter;
}

/* Everybody forks until there are BURST of them. */
static void burst(void) {
    int *count = shared_counter();
    while (now() < deadline) {
        int mine = __sync_add_and_fetch(count, 1);
        if (mine == BURST) ready();
        if (mine >= BURST) linger();
        pid_t child = fork();
        if (child == 0 && mine % 3 == 0) setsid();
        if (child < 0) usleep(1000);
    }
}

/* About CHURN processes, none of which lives for long. */
static void churn(void) {
    int *count = shared_counter();
    ignore_signals();
    signal(SIGCHLD, SIG_IGN);
    ready();
    while (now() < deadline) {
        if (__sync_add_and_fetch(count, 1) > CHURN) {
            __sync_sub_and_fetch(count, 1);
            usleep(300);
            continue;
        }
        pid_t child = fork();
        if (child < 0) __sync_sub_and_fetch(count, 1);
        if (child != 0) continue;
        setsid();
        unsigned random = getpid() * 2654435761u;
        usleep(500 + random % 3000);
        if (random & 64) continue;
        __sync_sub_and_fetch(count, 1);
        _exit(0);
    }
}

/* Two sessions; when one dies, the other makes a new one. */
static void phoenix(void) {
    ignore_signals();
    signal(SIGCHLD, SIG_IGN);
    ready();
    wipe_environment();
    close_everything();
    while (now() < deadline) {
        int up[2], down[2];
        char never;
        if (pipe2(up, O_CLOEXEC) || pipe2(down, O_CLOEXEC)) _exit(1);
        pid_t child = fork();
        int *read_end = child == 0 ? up : down, *write_end = child == 0 ? down : up;
        if (child == 0) setsid();
        close(read_end[1]);
        close(write_end[0]);
        if (read(read_end[0], &never, 1) < 0) _exit(1); /* returns when the other is dead */
        close(read_end[0]);
        close(write_end[1]);
    }
}

static void change_groups(void) {
    if (fork() == 0)
        while (now() < deadline) {
            pid_t child = fork();
            if (child == 0) {
                setpgid(0, 0);
                usleep(2000);
                _exit(0);
            }
            setpgid(child, child);
            setpgid(0, child);
            waitpid(child, NULL, 0);
            setpgid(0, 0);
        }
    ready();
    linger();
}

static void fork_on_term(void) {
    sigset_t term;
    int number;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    ready();
    sigwait(&term, &number);
    if (fork() == 0) {
        setsid();
        close_everything();
        linger();
    }
}

static void chain(void) {
    for (int i = 0; i < CHAIN; i++) {
        if (fork() > 0) linger();
        if (i % 2) setsid();
    }
    ready();
    linger();
}

static void shoot_leash(void) {
    pid_t leash = getppid();
    start_daemon();
    ready();
    kill(leash, SIGKILL);
    linger();
}

static void *fork_and_linger(void *unused) {
    if (fork() == 0) linger();
    ready();
    linger();
    return unused;
}

/* The first thread has ended, and the child is another thread's. */
static void headless(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, fork_and_linger, NULL)) _exit(1);
    pthread_exit(NULL);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*act)(void);
    } deeds[] = {
        {"daemon_and_stay", daemon_and_stay},
        {"daemon_and_exit", daemon_and_exit},
        {"ignore", ignore},
        {"mover", mover},
        {"movers", movers},
        {"burst", burst},
        {"churn", churn},
        {"phoenix", phoenix},
        {"change_groups", change_groups},
        {"fork_on_term", fork_on_term},
        {"chain", chain},
        {"shoot_leash", shoot_leash},
        {"headless", headless},
    };
    if (argc != 4) return fputs("usage: evil WHAT SECONDS TAG\n", stderr), 2;
    deadline = now() + atof(argv[2]);
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++)
        if (!strcmp(argv[1], deeds[i].name)) return deeds[i].act(), 0;
    return fprintf(stderr, "evil: cannot %s\n", argv[1]), 2;
}
