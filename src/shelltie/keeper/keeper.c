/* shelltie-keeper: starts commands, and ends everything they started.
 *
 *   shelltie-keeper FD               serve on an inherited stream socket; protocol.py has the words
 *   shelltie-keeper --connect PATH   the same, where nothing can be inherited: the server listens
 *   shelltie-keeper --enter ...     run a program in a living sandbox; enter.c has the words
 *   shelltie-keeper --stay ...      outlive whoever started it; stay.c has the words
 *   shelltie-keeper --bridge ...    reach one of these by stdin and stdout; see bridge.c
 *   shelltie-keeper --version        say which source this was built from
 *
 * The keeper forks, without exec, one leash per command. A leash is a child subreaper: whatever its
 * command leaves behind becomes a child of the leash and of nobody else. So it kills its children
 * until waitpid() says ECHILD. That is a proof that nobody is left, and as only a parent frees the
 * pid of its child, no stranger is ever hit. The keeper is a subreaper too, for the leash that is
 * shot: its orphans arrive here, and every child that is not a leash is killed.
 */
#define _GNU_SOURCE
#include "keeper.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST "unknown"
#endif

enum { RUN = 1, SHOOT = 2, SOCKET = 3, BODY_MAX = 8 * 1024 * 1024 };

int server, signals;

static struct leash {
    long id;
    pid_t pid; /* 0: it ended without its last word, and "swept" is to be said */
} *leashes;
static size_t leash_count, leash_room;
static long ending; /* when patience with the leashes ends; 0 while we serve */

static struct { /* the frame that is arriving */
    uint32_t head[2];
    size_t got;
    char *body; /* NULL if it is too long to be kept: then it is skipped */
    int descriptors[DESCRIPTORS_MAX], count;
} frame;

static struct leash *leash_of(pid_t pid) {
    for (size_t i = 0; i < leash_count; i++)
        if (leashes[i].pid == pid) return &leashes[i];
    return NULL;
}

/* True when there is no child left. */
static bool bury(void) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        struct leash *leash = leash_of(pid);
        if (leash && status)
            leash->pid = 0;
        else if (leash)
            *leash = leashes[--leash_count];
    }
    return pid < 0;
}

/* Any process of the same user may stop a leash, which then hears neither its server nor its command
 * end. One a round: who stops it again and again shall not keep us from everything else. To
 * continue it brings another SIGCHLD, so the next one is not forgotten. */
static void continue_stopped(void) {
    siginfo_t stopped = {.si_pid = 0};
    /* ECHILD is no mistake: the kernel says it also when all our children are zombies. */
    waitid(P_ALL, 0, &stopped, WSTOPPED | WNOHANG | __WALL);
    if (stopped.si_pid && leash_of(stopped.si_pid)) kill(stopped.si_pid, SIGCONT);
}

/* A leash's orphans are ours before we can reap it, so with no stranger left its tree is gone. */
static void sweep(void) {
    bool clean = true;
    if (!ending && !leash_of(0)) return;
    find_children();
    for (size_t i = 0; i < found.count; i++)
        if (!leash_of(found.at[i])) {
            kill_child(found.at[i]);
            clean = false;
        }
    for (struct leash *dead; clean && (dead = leash_of(0)); *dead = leashes[--leash_count])
        if (!say(server, "swept %ld\n", dead->id))
            return; /* the server does not read; we try again at the next tick */
}

static void kill_leashes(int number) {
    for (size_t i = 0; i < leash_count; i++)
        if (leashes[i].pid) {
            kill(leashes[i].pid, number);
            kill(leashes[i].pid, SIGCONT); /* its command may have stopped it */
        }
}

static void refuse(int error) {
    say(frame.descriptors[CONTROL], "failed fork %d\ngone 0 0\n", error);
}

static void run(long id) {
    struct leash *larger = grown(leashes, leash_count, &leash_room, sizeof *larger);
    if (larger) leashes = larger;
    pid_t pid = larger ? fork() : -1;
    if (pid == 0) leash(frame.body, frame.got - sizeof frame.head, frame.descriptors, frame.count);
    if (pid > 0) leashes[leash_count++] = (struct leash){id, pid};
    else refuse(errno);
}

static void shoot(long id) {
    for (size_t i = 0; i < leash_count; i++)
        if (leashes[i].id == id && leashes[i].pid) kill(leashes[i].pid, SIGKILL);
}

/* Sends a descriptor beside one byte; -1 if it could not be sent. */
static int pass(int to, int descriptor) {
    char space[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec one = {.iov_base = "", .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *carried = CMSG_FIRSTHDR(&message);
    carried->cmsg_level = SOL_SOCKET;
    carried->cmsg_type = SCM_RIGHTS;
    carried->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(carried), &descriptor, sizeof descriptor);
    return sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -1;
}

/* A socket stays in the network namespace in which it was made, whoever connects it then. */
static void lend_socket(long version) {
    int made = socket(version == 6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return; /* whoever asked sees the end of file */
    pass(frame.descriptors[0], made);
    close(made);
}

static void serve_frame(void) {
    uint32_t length = le32toh(frame.head[0]), kind = le32toh(frame.head[1]);
    bool sound = frame.body && !frame.body[length - 1], complete = frame.count >= DESCRIPTORS;
    long id = sound ? strtol(frame.body, NULL, 10) : 0;
    if (!sound && complete) refuse(length > BODY_MAX ? E2BIG : EINVAL);
    if (sound && kind == SHOOT) shoot(id);
    if (sound && kind == SOCKET && frame.count) lend_socket(id);
    if (sound && kind == RUN && complete) run(id);
    /* When we have too many descriptors these do not arrive: only this socket can tell then. */
    if (sound && kind == RUN && !complete) say(server, "swept %ld\n", id);
}

static void drop_frame(void) {
    for (int i = 0; i < frame.count; i++) close(frame.descriptors[i]);
    free(frame.body);
    memset(&frame, 0, sizeof frame);
}

/* Where the next bytes go. The header is read alone, or descriptors would arrive with bytes of the
 * frame before theirs. */
static struct iovec wanted_part(void) {
    static char skipped[4096];
    if (frame.got < sizeof frame.head)
        return (struct iovec){(char *)frame.head + frame.got, sizeof frame.head - frame.got};
    size_t at = frame.got - sizeof frame.head, left = le32toh(frame.head[0]) - at;
    if (frame.body) return (struct iovec){frame.body + at, left};
    return (struct iovec){skipped, left < sizeof skipped ? left : sizeof skipped};
}

static ssize_t receive_part(void) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof frame.descriptors)];
    } room;
    struct iovec part = wanted_part();
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room};
    message.msg_controllen = frame.got ? 0 : sizeof room; /* without room the kernel closes them */
    ssize_t count = recvmsg(server, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *carried = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (carried && carried->cmsg_level == SOL_SOCKET && carried->cmsg_type == SCM_RIGHTS) {
        frame.count = (carried->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(frame.descriptors, CMSG_DATA(carried), frame.count * sizeof(int));
    }
    return count;
}

/* False at the end of file. */
static bool receive(void) {
    bool in_head = frame.got < sizeof frame.head;
    ssize_t count = receive_part();
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    frame.got += count;
    size_t length = le32toh(frame.head[0]);
    if (frame.got < sizeof frame.head) return true;
    if (in_head && length && length <= BODY_MAX) frame.body = malloc(length);
    if (frame.got == sizeof frame.head + length) {
        serve_frame();
        drop_frame();
    }
    return true;
}

static void end(void) {
    drop_frame();
    kill_leashes(END);
    ending = now() + SECOND;
}

static int serve(void) {
    while (!bury() || !ending) {
        continue_stopped();
        sweep();
        struct pollfd either[] = {{signals, POLLIN, 0}, {ending ? -1 : server, POLLIN, 0}};
        poll(either, 2, ending || leash_of(0) ? TICK : -1);
        bool asked = either[0].revents && took(SIGTERM);
        bool left = either[1].revents && !receive();
        if (asked && !ending) say(server, "ending\n"); /* before any of its leashes has ended */
        if ((asked || left) && !ending) end();
        if (ending && now() >= ending)
            kill_leashes(SIGKILL); /* stopped, or holding somebody who resists: we go on instead */
    }
    sweep();
    return 0;
}

/* A /proc of another pid namespace would have us kill by wrong numbers. */
static bool proc_is_ours(void) {
    char pid[16] = "";
    return readlink("/proc/self", pid, sizeof pid - 1) > 0 && atoi(pid) == getpid();
}

/* Such a /proc does not show processes that cannot be looked into, and the server must see ours. */
static bool proc_hides(void) {
    char line[4096];
    bool hides = false;
    FILE *mounts = fopen("/proc/self/mounts", "re");
    while (mounts && fgets(line, sizeof line, mounts))
        hides |= strstr(line, " /proc proc ") && strstr(line, "hidepid=");
    if (mounts) fclose(mounts);
    return hides;
}

/* What arrives must not be 0, 1 or 2: dup2() would overwrite it. */
static void occupy_stdio(void) {
    int null;
    while ((null = open("/dev/null", O_RDWR)) >= 0 && null < STDIO)
        ;
    close(null);
}

/* Whoever listens may look whether our root is the one that was ordered. */
static int show_root(int listener) {
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int shown = pass(listener, root);
    close(root);
    return shown;
}

/* -1, with errno, if nobody listens there. */
static int reach(const char *path) {
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof place.sun_path) return errno = ENAMETOOLONG, -1;
    strcpy(place.sun_path, path);
    int reached = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(reached, (struct sockaddr *)&place, sizeof place)) return -1;
    return show_root(reached) ? -1 : reached;
}

/* What holds for every keeper: a session of its own, a subreaper, and signals only by signalfd. */
void prepare_signals(void) {
    syscall(SYS_close_range, 3, ~0U, 1 << 2 /* CLOSE_RANGE_CLOEXEC */);
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* No command of the same user may look into keeper or leash, or take their descriptors. */
    if (!proc_hides()) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* Keeper and leash block every signal; so the command needs only an empty mask. */
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, END);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void prepare(void) {
    fcntl(server, F_SETFD, FD_CLOEXEC); /* for kernels before 5.11 */
    prctl(PR_SET_NAME, "shelltie-keeper");
    /* Who is stopped sees no end of file: when the server dies, the kernel continues us. In a
       sandbox it kills us then, because bwrap has said so before. */
    int at_its_death = 0;
    prctl(PR_GET_PDEATHSIG, &at_its_death, 0, 0, 0);
    if (!at_its_death) prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
    prepare_signals();
}

/* A keeper whose server is the one that stays. */
int serve_as_child(int descriptor) {
    server = descriptor;
    prepare();
    return serve();
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--version"))
        return puts("shelltie-keeper " SOURCE_DIGEST) < 0;
    if (argc > 1 && !strcmp(argv[1], "--enter")) return enter(argc, argv);
    if (argc == 3 && !strcmp(argv[1], "--bridge")) return bridge(argv[2]);
    bool stays = argc > 1 && !strcmp(argv[1], "--stay");
    bool reaches = argc == 3 && !strcmp(argv[1], "--connect");
    if (!stays && !reaches && (argc != 2 || (server = atoi(argv[1])) < STDIO))
        return fputs("usage: shelltie-keeper FD | --connect PATH | --stay … | --bridge DIRECTORY | --version\n", stderr), 2;
    if (!proc_is_ours())
        return fputs("shelltie-keeper: /proc is missing, or of another pid namespace\n", stderr), 3;
    occupy_stdio();
    if (stays) return stay(argc, argv);
    if (reaches && (server = reach(argv[2])) < 0) return perror("shelltie-keeper"), 4;
    prepare();
    return serve();
}
